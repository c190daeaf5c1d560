#include "reports/pdf.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace tare::reports {
namespace {

constexpr std::string_view kBegin = "/CreationDate (D:";
constexpr std::size_t kDigits = 14;  // YYYYMMDDhhmmss

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

std::string dated_pdf(std::string pdf, std::string_view utc) {
  std::string digits;
  std::copy_if(utc.begin(), utc.end(), std::back_inserter(digits), is_digit);
  if (digits.size() < kDigits) throw internal_error(fmt::format("date of a figure: '{}' is no time", utc));
  digits.resize(kDigits);
  const std::size_t begin = pdf.find(kBegin);
  const std::size_t end = begin == std::string::npos ? begin : pdf.find(')', begin);
  // What follows the digits is the zone: "Z", or "+01'00".
  if (end == std::string::npos || end - begin < kBegin.size() + kDigits + 1)
    throw internal_error("date of a figure: the PDF has none");
  std::string date = fmt::format("{}{}Z)", kBegin, digits);
  date.resize(end + 1 - begin, ' ');
  pdf.replace(begin, date.size(), date);
  return pdf;
}

}  // namespace tare::reports

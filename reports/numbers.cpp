#include "reports/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/text.h"

namespace tare::reports {
namespace {

constexpr int kMostDecimals = 6;        // a millionth of a percent: finer than any clock of ours
constexpr int kRaisedForZero = 2;       // decimals added at most so that an end does not read as zero
constexpr double kTwoDigitLead = 3.55;  // leading digits 100..354 keep two digits, 355..949 one, above: rounds to 1.0
constexpr double kRoundsUpLead = 9.5;

bool prints_as_zero(double value, int decimals) {
  return std::abs(value) < 0.5 * std::pow(10.0, -decimals);
}

std::string digits_of(double magnitude, int decimals) {
  return fmt::format("{:.{}f}", magnitude, decimals);
}

template <typename Integer>
std::string grouped(Integer value) {
  const std::string digits = fmt::format("{}", value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::size_t left = digits.size() - i;
    if (i > 0 && digits[i - 1] != '-' && left % 3 == 0) text += ',';
    digits[i] == '-' ? text.append(kMinus) : text.append(1, digits[i]);
  }
  return text;
}

}  // namespace

int decimals_of_interval(double low, double high) {
  const double half = std::abs(high - low) / 2.0;
  if (!std::isfinite(half)) return 2;
  if (half == 0.0) return std::min(kMostDecimals, decimals_of_value(low, 4));
  int exponent = static_cast<int>(std::floor(std::log10(half)));
  const double lead = half / std::pow(10.0, exponent);
  int digits = lead < kTwoDigitLead ? 2 : 1;
  if (lead >= kRoundsUpLead) {
    digits = 2;
    ++exponent;
  }
  int decimals = std::clamp(digits - 1 - exponent, 0, kMostDecimals);
  const auto hides_an_end = [&] {
    return (low != 0.0 && prints_as_zero(low, decimals)) || (high != 0.0 && prints_as_zero(high, decimals));
  };
  for (int raised = 0; raised < kRaisedForZero && decimals < kMostDecimals && hides_an_end(); ++raised) ++decimals;
  return decimals;
}

int decimals_of_value(double value, int digits) {
  if (!std::isfinite(value) || value == 0.0) return 0;
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(value))));
  return std::clamp(digits - 1 - exponent, 0, 9);
}

std::string fixed(double value, int decimals) {
  if (std::isnan(value)) return kNotAvailable;
  if (std::isinf(value)) return fmt::format("{}\u221E", value > 0 ? "" : kMinus);
  const bool minus = value < 0 && !prints_as_zero(value, decimals);
  return fmt::format("{}{}", minus ? kMinus : "", digits_of(std::abs(value), decimals));
}

std::string signed_fixed(double value, int decimals) {
  if (std::isnan(value)) return kNotAvailable;
  if (value == 0.0) return digits_of(0.0, decimals);
  return fmt::format("{}{}", value > 0 ? "+" : kMinus,
                     std::isinf(value) ? "\u221E" : digits_of(std::abs(value), decimals));
}

std::string plain(double value) {
  return fixed(value, decimals_of_value(value, 4));
}

std::string count_text(std::int64_t value) {
  return grouped(value);
}
std::string count_text(std::size_t value) {
  return grouped(value);
}

std::string p_text(double p) {
  if (std::isnan(p)) return kNotAvailable;
  if (p < 0.0001) return fmt::format("<{}0.0001", kNoBreakSpace);
  return digits_of(p, p < 0.995 ? std::clamp(decimals_of_value(p, 2), 2, 5) : 2);
}

std::string p_relation(double p) {
  return p < 0.0001 ? p_text(p) : fmt::format("={}{}", kNoBreakSpace, p_text(p));
}

std::string share_text(double share) {
  if (std::isnan(share)) return kNotAvailable;
  const double percent = 100.0 * share;
  return fixed(percent, std::abs(percent) >= 10.0 ? 0 : std::max(1, decimals_of_value(percent, 1))) + kNoBreakSpace +
         "%";
}

std::string bytes_text(double bytes) {
  if (!std::isfinite(bytes) || bytes < 0) return kNotAvailable;
  return human_bytes(static_cast<std::uint64_t>(std::llround(bytes)));
}

PercentTexts percent_texts(double estimate_log, double low_log, double high_log) {
  const double estimate = percent_of_log(estimate_log);
  const double low = percent_of_log(low_log);
  const double high = percent_of_log(high_log);
  const int decimals = std::isfinite(high - low) ? decimals_of_interval(low, high) : 2;
  return {signed_fixed(estimate, decimals), signed_fixed(low, decimals), signed_fixed(high, decimals)};
}

PercentTexts percent_texts(const Interval& interval) {
  return percent_texts(interval.estimate_log, interval.low_log, interval.high_log);
}

std::string percent_with_interval(const Interval& interval) {
  const PercentTexts texts = percent_texts(interval);
  if (std::isnan(interval.estimate_log)) return kNotAvailable;
  const std::string estimate = texts.estimate + kNoBreakSpace + "%";
  if (!is_known(interval)) return estimate + " (no interval)";
  return fmt::format("{} [{},{}{}]", estimate, texts.low, kNoBreakSpace, texts.high);
}

std::string size_with_interval(const Interval& interval) {
  const double sign = interval.estimate_log < 0 ? -1.0 : 1.0;
  const double low = sign * percent_of_log(sign > 0 ? interval.low_log : interval.high_log);
  const double high = sign * percent_of_log(sign > 0 ? interval.high_log : interval.low_log);
  const int decimals = decimals_of_interval(low, high);
  const std::string size = fixed(sign * percent_of_log(interval.estimate_log), decimals) + kNoBreakSpace + "%";
  if (!is_known(interval)) return size + " (no interval)";
  return fmt::format("{} [{},{}{}]", size, fixed(low, decimals), kNoBreakSpace, fixed(high, decimals));
}

}  // namespace tare::reports

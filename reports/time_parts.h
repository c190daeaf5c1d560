// The rows of several arms side by side: what works on the same part of the model is one part, whatever the arms launch
// there, so that a bar, a lane or a line means the same thing in every arm.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reports/findings.h"

namespace tare::reports {

struct TimePart {
  std::string name;              // the row's words when all arms have the one row, else the part's
  std::vector<double> us;        // one an arm of Times::arms: 0 where it has no such row, missing when not profiled
  std::vector<double> bytes;     // declared, likewise; missing where none are
  std::vector<double> bytes_us;  // of the rows that declare bytes
};

struct TimeParts {
  std::vector<TimePart> parts;     // the largest ones, by their time in the arm where they take most
  std::size_t summed = 0;          // how many more there are
  TimePart others;                 // their sum, named "N others"; only when summed > 0
  std::vector<bool> profiled;      // arms with rows
  [[nodiscard]] bool any() const;  // an arm has rows
  // Place of a row's part among the largest; parts.size() for one of the others.
  [[nodiscard]] std::size_t index_of(const std::string& what, const std::string& part) const;

  std::vector<std::string> keys;  // of `parts`: what rows are found by
};

// At most `most` parts by name.
[[nodiscard]] TimeParts time_parts(const Times& times, std::size_t most);

// Parts that have a colour of their own in figures.
inline constexpr std::size_t kColouredParts = 8;

// "1234.56": microseconds as tables and figures of this section print them.
[[nodiscard]] std::string micros_text(double us);
// Gigabytes a second of bytes over microseconds; missing where either is.
[[nodiscard]] double gb_per_s(double bytes, double us);
[[nodiscard]] std::string rate_text(double gb_per_s);

}  // namespace tare::reports

// Numbers as people read them. The number of decimals follows from what is known: from the width of the interval around
// a percent, from the spread of the runs around a value.
//
// Printed numbers use the minus sign U+2212 and a no-break space before a unit; kNotAvailable stands for NaN.
#pragma once

#include <cstdint>
#include <string>

#include "reports/findings.h"

namespace tare::reports {

inline constexpr const char* kNotAvailable = "n/a";
inline constexpr const char* kNoBreakSpace = "\u00A0";
inline constexpr const char* kMinus = "\u2212";

// Decimals that show an interval's half-width with two digits where its three leading digits are at most 354, else with
// one (the rounding rule of the Particle Data Group, "Review of Particle Physics", introduction 5.3), raised by up to
// two so that no end that differs from 0 is printed as 0. In [0, 6].
[[nodiscard]] int decimals_of_interval(double low, double high);

// Decimals that show `value` with `digits` significant digits. In [0, 9].
[[nodiscard]] int decimals_of_value(double value, int digits);

// "12.30", "\u2212" before negative values that are not printed as zero.
[[nodiscard]] std::string fixed(double value, int decimals);
// As fixed with "+" before positive values. A value that is printed as zero keeps its sign unless it is zero.
[[nodiscard]] std::string signed_fixed(double value, int decimals);
// fixed with four significant digits.
[[nodiscard]] std::string plain(double value);
// "12,288".
[[nodiscard]] std::string count_text(std::int64_t value);
[[nodiscard]] std::string count_text(std::size_t value);
// "< 0.0001", "= 0.012": with the relation, for use after "p ".
[[nodiscard]] std::string p_relation(double p);
// "0.012", "< 0.0001": for tables.
[[nodiscard]] std::string p_text(double p);
// "34.1 %": a share in [0, 1]; one decimal below 10 %, one significant digit below 0.1 %.
[[nodiscard]] std::string share_text(double share);
// "24.6 MB"; kNotAvailable for NaN and negative values.
[[nodiscard]] std::string bytes_text(double bytes);

// An effect and its interval, all with the same decimals, in percent without the sign of percent.
struct PercentTexts {
  std::string estimate;  // "+34.1"
  std::string low;       // "+33.6"
  std::string high;      // "+34.6"
};
[[nodiscard]] PercentTexts percent_texts(double estimate_log, double low_log, double high_log);
[[nodiscard]] PercentTexts percent_texts(const Interval& interval);
// "+34.1 % [+33.6, +34.6]"; "+34.1 % (no interval)" without ends.
[[nodiscard]] std::string percent_with_interval(const Interval& interval);
// The size of a decrease or increase without sign: "34.1 % [33.6, 34.6]" for speed_up and for its mirror image.
[[nodiscard]] std::string size_with_interval(const Interval& interval);

}  // namespace tare::reports

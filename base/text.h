// Small text functions used wherever names are read or printed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tare {

// The candidate nearest to `name` by Levenshtein distance, if it is near enough to be a likely misspelling
// (distance at most 1 + length/3); ties go to the earlier candidate.
[[nodiscard]] std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> candidates);

// "did you mean 'X'?", or "known: a, b, c" when nothing is near.
[[nodiscard]] std::string name_hint(std::string_view name, std::span<const std::string> candidates);

// A double in the fewest digits that read back to the same value; "nan", "inf", "-inf" for the others.
[[nodiscard]] std::string shortest(double value);

// "12.3 MB" (powers of 1000), "8.1 GB"; "842 B".
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);

// "3 min 12 s", "45 s", "2 h 05 min".
[[nodiscard]] std::string human_seconds(double seconds);

[[nodiscard]] std::string join(std::span<const std::string> parts, std::string_view separator);

}  // namespace tare

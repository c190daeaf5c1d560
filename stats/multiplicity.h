// p-values of several tests. Holm (1979) holds the chance of any false claim of a family at alpha, under any
// dependence: for verdicts. Benjamini-Hochberg (1995) holds the expected share of false claims: for screens.
#pragma once

#include <span>
#include <vector>

namespace tare::stats {

// What a family of tests holds at alpha.
enum class Multiplicity {
  kHolm,               // the chance of any false claim
  kBenjaminiHochberg,  // the expected share of false claims among all claims: a screen
};
[[nodiscard]] std::vector<double> adjust(Multiplicity multiplicity, std::span<const double> p_values);

// Adjusted p in the order given, monotone, at most 1. Throws Error (input) for a p outside [0, 1].
[[nodiscard]] std::vector<double> holm_adjust(std::span<const double> p_values);
[[nodiscard]] std::vector<double> benjamini_hochberg_adjust(std::span<const double> p_values);

}  // namespace tare::stats

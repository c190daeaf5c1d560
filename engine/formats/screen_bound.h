// How far the logit that a screen gives a token can lie from the one its head gives it: what proves, when it is small
// enough, that a screened choice is the head's own (docs/method/heads.md).
//
// With e = w - s, the head's weights less the screen's (both as represented), |w.h - s.h| = |e.h| is at most
//   steps:  sum over groups g of 64 along K of  max|e_g| * sum|h_g|
//   norms:  sum over groups g of               ||e_g|| * ||h_g||     (Cauchy-Schwarz, a group at a time)
// norms needs one number a group to be kept beside the screen, steps could be had from the group's scale alone (half of
// it, but for weights that the encoder clamps), and is what that would be worth at best.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tare::engine {

// Of a row, by groups: the largest |e| and the norm of e.
struct ScreenError {
  std::vector<double> steps;
  std::vector<double> norms;
};
[[nodiscard]] ScreenError screen_error(std::span<const float> head_row, std::span<const float> screen_row);

// The same of activations: sum |h| and the norm of h.
struct ActivationNorms {
  std::vector<double> sums;
  std::vector<double> norms;
};
[[nodiscard]] ActivationNorms activation_norms(std::span<const float> activations);

[[nodiscard]] double step_bound(const ScreenError& error, const ActivationNorms& activations);
[[nodiscard]] double norm_bound(const ScreenError& error, const ActivationNorms& activations);

// What FP32 sums of `columns` products add to either: the sum's relative rounding times ||w|| ||h||, of both logits.
[[nodiscard]] double rounding_bound(std::int64_t columns, double weight_norm, double activation_norm);

}  // namespace tare::engine

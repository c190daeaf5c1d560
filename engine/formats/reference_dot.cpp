#include "engine/formats/reference_dot.h"

#include <algorithm>

#include "base/error.h"
#include "engine/formats/activation_blocks.h"
#include "engine/formats/float_formats.h"

namespace tare::engine {
namespace {

void expect_same_size(std::size_t weights, std::size_t activations) {
  if (weights != activations) throw internal_error("reference_dot: weights and activations differ in length");
}

double dot_of_floats(std::span<const float> weights, std::span<const float> activations) {
  expect_same_size(weights.size(), activations.size());
  double sum = 0;
  for (std::size_t i = 0; i < activations.size(); ++i)
    sum += static_cast<double>(weights[i]) * static_cast<double>(activations[i]);
  return sum;
}

}  // namespace

EncodedActivations encode_activations(std::span<const float> values) {
  constexpr auto kBlock = static_cast<std::size_t>(kGroupSize);
  EncodedActivations result{std::vector<std::int8_t>(values.size()), {}};
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    const std::size_t size = std::min(kBlock, values.size() - begin);
    result.scales.push_back(
        encode_activation_block(values.subspan(begin, size), std::span(result.codes).subspan(begin, size)));
  }
  return result;
}

double reference_dot(std::span<const std::uint16_t> bfloat16_weights, std::span<const float> activations) {
  expect_same_size(bfloat16_weights.size(), activations.size());
  double sum = 0;
  for (std::size_t i = 0; i < activations.size(); ++i)
    sum += static_cast<double>(bfloat16_to_float(bfloat16_weights[i])) * static_cast<double>(activations[i]);
  return sum;
}

double reference_dot(const EncodedRow& weights, std::span<const float> activations) {
  return dot_of_floats(decode_row(weights), activations);
}

double reference_dot(const EncodedFP8Row& weights, std::span<const float> activations) {
  return dot_of_floats(decode_row(weights), activations);
}

double reference_dot(const EncodedRow& weights, const EncodedActivations& activations) {
  expect_same_size(weights.codes.size(), activations.codes.size());
  constexpr auto kBlock = static_cast<std::size_t>(kGroupSize);
  double sum = 0;
  for (std::size_t group = 0; group < weights.scales.size(); ++group) {
    std::int64_t products = 0;
    for (std::size_t i = group * kBlock; i < std::min((group + 1) * kBlock, weights.codes.size()); ++i)
      products += std::int64_t{weights.codes[i]} * activations.codes[i];
    sum += static_cast<double>(float16_to_float(weights.scales[group])) *
           static_cast<double>(activations.scales[group]) * static_cast<double>(products);
  }
  return sum;
}

}  // namespace tare::engine

// References of given logits, made in the plainest way, for tests of what is scored against them.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "engine/streamed/reference_file.h"

namespace tare::forced::test {

// The file's arrays of rows [W, T, V] of logits: log-softmax in long double, a whole stable sort, rounded to FP32.
inline engine::Reference reference_of(const std::vector<float>& logits, const std::vector<std::int32_t>& tokens,
                                      std::vector<engine::ReferenceWindow> windows, std::int64_t vocab) {
  const auto rows = static_cast<std::int64_t>(logits.size()) / vocab;
  const std::int64_t length = rows / static_cast<std::int64_t>(windows.size());
  engine::Reference reference = engine::make_reference(std::move(windows), length, vocab);
  reference.tokens = tokens;
  const auto count = static_cast<std::size_t>(reference.candidates());
  std::vector<std::int32_t> ids(static_cast<std::size_t>(vocab));
  std::size_t next = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* values = logits.data() + row * vocab;
    const long double largest = *std::max_element(values, values + vocab);
    long double total = 0;
    for (std::int64_t v = 0; v < vocab; ++v) total += std::exp(static_cast<long double>(values[v]) - largest);
    const long double log_total = largest + std::log(total);
    std::iota(ids.begin(), ids.end(), 0);
    std::stable_sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) { return values[a] > values[b]; });
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = static_cast<std::size_t>(row) * count + i;
      reference.top_ids[at] = ids[i];
      reference.top_log_probabilities[at] = static_cast<float>(values[ids[i]] - log_total);
    }
    reference.log_sum_exp[static_cast<std::size_t>(row)] = static_cast<float>(log_total);
    if (row % length != length - 1)
      reference.next_log_probability[next++] =
          static_cast<float>(values[tokens[static_cast<std::size_t>(row) + 1]] - log_total);
  }
  return reference;
}

}  // namespace tare::forced::test

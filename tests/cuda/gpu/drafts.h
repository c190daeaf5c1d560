// Drafts of a backend, and how far those of two go apart.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/backend/backend.h"

namespace tare::engine::test {

struct Draft {
  std::int64_t candidates = 0;  // a row
  std::vector<std::int32_t> tokens;
  std::vector<float> log_probabilities;
  bool operator==(const Draft&) const = default;
};
inline Draft copy_of(const DraftOutput& output) {
  return {output.candidates,
          {output.tokens.begin(), output.tokens.end()},
          {output.log_probabilities.begin(), output.log_probabilities.end()}};
}

struct DraftComparison {
  int rows = 0;
  int different = 0;      // first tokens
  double margin = 0;      // largest of ours where they differ
  double difference = 0;  // largest, of the first candidates' log-probabilities
};
enum class ComparedRows { kAll, kUntilTheyPart };
inline void compare(const Draft& a, const Draft& b, DraftComparison& total, ComparedRows rows = ComparedRows::kAll) {
  ASSERT_EQ(a.tokens.size(), b.tokens.size());
  ASSERT_EQ(a.candidates, b.candidates);
  ASSERT_GE(a.candidates, 2) << "no margin";
  for (std::size_t i = 0; i < a.tokens.size(); i += static_cast<std::size_t>(a.candidates)) {
    ++total.rows;
    const double difference = std::fabs(static_cast<double>(a.log_probabilities[i] - b.log_probabilities[i]));
    if (!(difference <= total.difference)) total.difference = difference;
    if (a.tokens[i] == b.tokens[i]) continue;
    ++total.different;
    total.margin = std::max(total.margin, static_cast<double>(a.log_probabilities[i] - a.log_probabilities[i + 1]));
    if (rows == ComparedRows::kUntilTheyPart) return;
  }
}

}  // namespace tare::engine::test

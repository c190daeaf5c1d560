#include "forced/position_score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/philox.h"
#include "forced/score_kernels.h"

namespace tare::forced {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The reference's row of some logits, in the plainest way: long double, whole sort, rounded to FP32 as in its file.
struct OwnedRow {
  std::vector<std::int32_t> ids;
  std::vector<float> log_probabilities;
  [[nodiscard]] ReferenceRow row() const { return {ids, log_probabilities}; }
};

OwnedRow reference_of(const std::vector<float>& logits, std::size_t count = 64) {
  long double total = 0;
  const long double largest = *std::max_element(logits.begin(), logits.end());
  for (const float logit : logits) total += std::exp(static_cast<long double>(logit) - largest);
  OwnedRow row;
  row.ids.resize(logits.size());
  std::iota(row.ids.begin(), row.ids.end(), 0);
  std::stable_sort(row.ids.begin(), row.ids.end(), [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  row.ids.resize(std::min(count, logits.size()));
  for (const std::int32_t id : row.ids)
    row.log_probabilities.push_back(
        static_cast<float>(logits[static_cast<std::size_t>(id)] - largest - std::log(total)));
  return row;
}

std::vector<float> random_logits(std::size_t size, double spread, std::uint64_t stream) {
  Philox random(11, stream);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = static_cast<float>(spread * random.normal());
  return logits;
}

std::vector<float> moved(std::vector<float> logits, double by, std::uint64_t stream) {
  Philox random(12, stream);
  for (float& logit : logits) logit += static_cast<float>(by * random.normal());
  return logits;
}

PositionScore score(const std::vector<float>& logits, const OwnedRow& reference, std::int32_t next = 0) {
  std::vector<float> scratch;
  return score_position(logits, reference.row(), next, "window w, position 5", scratch);
}

std::string fault(const std::vector<float>& logits, const OwnedRow& reference, ErrorKind kind) {
  try {
    (void)score(logits, reference);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

// p = (1/2, 1/4, 1/4), q = (1/4, 1/4, 1/2), by hand: KL = 1/2 ln 2 - 1/4 ln 2 = ln(2) / 4.
TEST(PositionScore, EqualsTheSumsByHand) {
  const std::vector<float> reference_logits = {std::log(2.0F), 0.0F, 0.0F};
  const std::vector<float> logits = {0.0F, 0.0F, std::log(2.0F)};
  const PositionScore whole = score(logits, reference_of(reference_logits), 2);
  EXPECT_NEAR(whole.kl64, std::log(2.0) / 4, 1e-7);
  EXPECT_EQ(whole.kl64_tail, whole.kl64) << "nothing is left for the tail";
  EXPECT_NEAR(whole.nll, std::log(2.0), 1e-7);
  EXPECT_EQ(whole.best, 2);
  EXPECT_FALSE(whole.agrees);
  // One candidate of three: 1/2 ln 2 without the tail, and the tails 1/2 and 3/4 beside it.
  const PositionScore one = score(logits, reference_of(reference_logits, 1));
  EXPECT_NEAR(one.kl64, std::log(2.0) / 2, 1e-7);
  EXPECT_NEAR(one.kl64_tail, std::log(2.0) / 2 + 0.5 * std::log(0.5 / 0.75), 1e-7);
}

TEST(PositionScore, BreaksTiesToTheLowestId) {
  const std::vector<float> logits = {1.0F, 3.0F, 3.0F, 0.0F};
  const PositionScore result = score(logits, reference_of(logits));
  EXPECT_EQ(result.best, 1);
  EXPECT_TRUE(result.agrees);
}

// The invariant on which the score may be gated, and that it is a coarse-graining: equal distributions give 0.
TEST(PositionScore, WithTheTailLiesBetweenZeroAndTheFullDivergence) {
  double largest_gap = 0;
  for (std::uint64_t stream = 0; stream < 200; ++stream) {
    const double spread = stream % 2 == 0 ? 1.0 : 6.0;
    const std::vector<float> reference_logits = random_logits(1000 + stream, spread, stream);
    const OwnedRow reference = reference_of(reference_logits);
    EXPECT_NEAR(score(reference_logits, reference).kl64_tail, 0, kReferenceRounding);
    for (const double by : {1e-3, 0.1, 1.0}) {
      const std::vector<float> logits = moved(reference_logits, by, stream);
      const PositionScore result = score(logits, reference);
      const double full = full_divergence(reference_logits, logits);
      EXPECT_GE(result.kl64_tail, -kReferenceRounding);
      EXPECT_LE(result.kl64_tail, full + kReferenceRounding) << "stream " << stream << " by " << by;
      largest_gap = std::max(largest_gap, full - result.kl64_tail);
    }
  }
  EXPECT_GT(largest_gap, 0.01) << "the bound was never tested";
}

// A head that takes mass from the tail: negative without the tail, and rightly not an error.
TEST(PositionScore, WithoutTheTailMayBeNegative) {
  std::vector<float> reference_logits(500, 0.0F);
  for (std::size_t i = 0; i < 64; ++i) reference_logits[i] = 1.0F;
  std::vector<float> logits = reference_logits;
  for (std::size_t i = 0; i < 64; ++i) logits[i] = 2.0F;
  const PositionScore result = score(logits, reference_of(reference_logits));
  EXPECT_LT(result.kl64, -0.05);
  EXPECT_GT(result.kl64_tail, 0);
}

// A tail of 1e-12: 1 - sum q would be 0 or negative.
TEST(PositionScore, KeepsASmallTail) {
  std::vector<float> reference_logits(1000, -34.0F);
  reference_logits[7] = 0.0F;
  std::vector<float> logits(1000, -30.0F);
  logits[7] = 0.0F;
  const PositionScore result = score(logits, reference_of(reference_logits));
  const double full = full_divergence(reference_logits, logits);
  EXPECT_GT(result.kl64_tail, 0.2 * full);
  EXPECT_LE(result.kl64_tail, full * (1 + 1e-6) + 1e-12);
}

TEST(PositionScore, NamesTheTokenOfALogitThatIsNone) {
  const OwnedRow reference = reference_of(random_logits(100, 1, 1));
  for (const std::size_t token : {std::size_t{3}, std::size_t{99}}) {
    std::vector<float> logits = random_logits(100, 1, 2);
    logits[token] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_THAT(
        fault(logits, reference, ErrorKind::kInvalid),
        AllOf(HasSubstr("window w, position 5"), HasSubstr("token " + std::to_string(token)), HasSubstr("NaN")));
    logits[token] = kInfinity;
    EXPECT_THAT(fault(logits, reference, ErrorKind::kInvalid), HasSubstr("+inf"));
  }
  EXPECT_THAT(fault(std::vector<float>(100, -kInfinity), reference, ErrorKind::kInvalid), HasSubstr("every logit"));
  EXPECT_THAT(fault(std::vector<float>(3, 0.0F), reference, ErrorKind::kInput), HasSubstr("3 logits"));
}

TEST(PositionScore, TakesATokenThatCannotFollow) {
  std::vector<float> reference_logits = random_logits(100, 1, 1);
  reference_logits[0] = -kInfinity;  // outside of the 64, in neither
  std::vector<float> logits = moved(reference_logits, 0.1, 3);
  const OwnedRow reference = reference_of(reference_logits);
  EXPECT_TRUE(std::isfinite(score(logits, reference, 1).kl64_tail));
  EXPECT_EQ(score(logits, reference, 0).nll, kInfinity);
  logits[static_cast<std::size_t>(reference.ids[5])] = -kInfinity;
  EXPECT_EQ(score(logits, reference, 1).kl64, kInfinity);
  EXPECT_EQ(score(logits, reference, 1).kl64_tail, kInfinity);
}

TEST(ScoreKernels, SumExponentialsToDoublePrecision) {
  for (const std::size_t size : {1U, 7U, 31U, 64U, 4096U, 4099U}) {
    const std::vector<float> x = random_logits(size, 20, size);
    const double shift = *std::max_element(x.begin(), x.end());
    long double wanted = 0;
    for (const float value : x) wanted += std::exp(static_cast<long double>(value) - shift);
    const double got = sum_of_exp(x.data(), static_cast<std::int64_t>(size), shift);
    EXPECT_NEAR(got / static_cast<double>(wanted), 1, 1e-13) << size;
  }
}

TEST(ScoreKernels, MultiplyBf16RoundsOnce) {
  constexpr std::int64_t kRows = 6;
  constexpr std::int64_t kCount = 11;
  constexpr std::int64_t kSize = 131;
  Philox random(5);
  std::vector<double> x(kRows * kSize);
  for (double& value : x) value = static_cast<float>(random.normal());
  std::vector<std::uint16_t> w(kCount * kSize);
  for (std::uint16_t& bits : w)
    bits = static_cast<std::uint16_t>(0x3D00 + random.below(0x400) + 0x8000 * random.below(2));
  std::vector<float> out(kRows * kCount);
  multiply_bf16(x.data(), kRows, w.data(), kCount, kSize, out.data(), kCount);
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t v = 0; v < kCount; ++v) {
      long double wanted = 0;
      for (std::int64_t k = 0; k < kSize; ++k) {
        const std::uint32_t bits = std::uint32_t{w[static_cast<std::size_t>(v * kSize + k)]} << 16;
        float weight = 0;
        std::memcpy(&weight, &bits, sizeof weight);
        wanted += static_cast<long double>(x[static_cast<std::size_t>(r * kSize + k)]) * weight;
      }
      EXPECT_FLOAT_EQ(out[static_cast<std::size_t>(r * kCount + v)], static_cast<float>(wanted)) << r << " " << v;
    }
  }
}

}  // namespace
}  // namespace tare::forced

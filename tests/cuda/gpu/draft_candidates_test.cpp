// The most likely tokens of a draft's rows against a sort in double precision.
#include <algorithm>
#include <limits>
#include <numeric>

#include "engine/cuda/device/mapped_host.h"
#include "engine/cuda/drafter/drafter_kernels.h"
#include "tests/cuda/gpu/gpu_test.h"
#include "tests/cuda/gpu/sanitized.h"

namespace tare::engine::test {
namespace {

using DraftCandidates = GpuTest;

constexpr std::int32_t kPoison = -1;

// Logits on a grid of 1/8 between -8 and 8: many ties, and sums of planes are exact.
class CandidatesCase {
 public:
  CandidatesCase(int vocab, int block, bool planes, std::uint64_t seed) : vocab_(vocab), block_(block) {
    logits_.resize(static_cast<std::size_t>(block) * static_cast<std::size_t>(vocab));
    Philox random(seed);
    for (float& logit : logits_) logit = static_cast<float>(random.below(129)) / 8 - 8;
    result_.rows = vocab;
    result_.planes = planes;
    result_.factor = 0.5F;
    if (planes) {
      result_.width = operand_width(block);
      result_.plan = cut_tiles(vocab, 5120, 264);
    }
  }
  void set(int row, int id, float logit) { logits_[at(row, id)] = logit; }

  void run(int candidates, double temperature) {
    upload();
    DraftControl control;
    control.candidates = candidates;
    control.inverse_temperature = static_cast<float>(1 / temperature);
    const DeviceBuffer device_control = on_device(std::vector<DraftControl>{control});
    const PoisonedBuffer largest(kMostRoundTokens * kMostLogitChunks * sizeof(std::uint32_t));
    const PoisonedBuffer ends(kMostRoundTokens * kMostLogitStretches * sizeof(float2));
    std::memset(outcome_.get(), 0xFF, sizeof(DraftOutcome));
    const DraftChunks chunks{largest.as<std::uint32_t>(), ends.as<float2>()};
    const DraftRows rows{.first = 1, .count = block_ - 1, .out = 1};
    launch_draft_chunks(result_, block_, rows, device_control.as<DraftControl>(), chunks, {});
    launch_draft_candidates(result_, rows, device_control.as<DraftControl>(), chunks, {}, outcome_.get(), {});
    synchronize();
    EXPECT_TRUE(largest.canaries_intact());
    EXPECT_TRUE(ends.canaries_intact());
  }

  [[nodiscard]] std::vector<std::int32_t> sorted(int row, int candidates, bool lowest_first = true) const {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(vocab_));
    std::iota(ids.begin(), ids.end(), 0);
    std::partial_sort(ids.begin(), ids.begin() + candidates, ids.end(), [&](std::int32_t a, std::int32_t b) {
      const float x = logits_[at(row, a)];
      const float y = logits_[at(row, b)];
      return x != y ? x > y : (lowest_first ? a < b : a > b);
    });
    ids.resize(static_cast<std::size_t>(candidates));
    return ids;
  }
  [[nodiscard]] double log_sum_exp(int row, double temperature) const {
    double most = -std::numeric_limits<double>::infinity();
    for (int id = 0; id < vocab_; ++id) most = std::max(most, static_cast<double>(logits_[at(row, id)]));
    double sum = 0;
    for (int id = 0; id < vocab_; ++id)
      sum += std::exp((static_cast<double>(logits_[at(row, id)]) - most) / temperature);
    return most / temperature + std::log(sum);
  }
  [[nodiscard]] std::vector<std::int32_t> got(int row, int candidates) const {
    return {outcome_->tokens[row], outcome_->tokens[row] + candidates};
  }
  [[nodiscard]] const DraftOutcome& outcome() const { return *outcome_.get(); }

  void expect(int candidates, double temperature) {
    run(candidates, temperature);
    for (int row = 0; row < kMostRoundTokens; ++row) {
      const bool real = row >= 1 && row < block_;
      ASSERT_EQ(outcome_->fault[row], real ? 0 : kPoison) << "row " << row;
      for (int i = real ? candidates : 0; i < kMostCandidates; ++i)
        ASSERT_EQ(outcome_->tokens[row][i], kPoison) << "row " << row << ", candidate " << i;
      if (!real) continue;
      const std::vector<std::int32_t> want = sorted(row, candidates);
      ASSERT_EQ(got(row, candidates), want) << "vocabulary " << vocab_ << ", row " << row << " of " << block_;
      const double normalizer = log_sum_exp(row, temperature);
      for (int i = 0; i < candidates; ++i) {
        const double logit = static_cast<double>(logits_[at(row, want[static_cast<std::size_t>(i)])]);
        ASSERT_NEAR(static_cast<double>(outcome_->log_probabilities[row][i]), logit / temperature - normalizer, 2e-5)
            << "vocabulary " << vocab_ << ", row " << row << ", candidate " << i;
      }
    }
  }

 private:
  int vocab_;
  int block_;
  std::vector<float> logits_;  // [block][vocab]
  ProductResult result_;
  std::unique_ptr<PoisonedBuffer> data_;
  MappedHost<DraftOutcome> outcome_;

  [[nodiscard]] std::size_t at(int row, int id) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(vocab_) + static_cast<std::size_t>(id);
  }
  // As a product leaves them: a logit is factor times the sum of its planes. Rows past the vocabulary and tokens past
  // the block stay poisoned.
  void upload() {
    const auto divided = [&](int row, int id) { return logits_[at(row, id)] / result_.factor; };
    if (!result_.planes) {
      std::vector<float> rows(logits_.size());
      for (int row = 0; row < block_; ++row)
        for (int id = 0; id < vocab_; ++id) rows[at(row, id)] = divided(row, id);
      data_ = std::make_unique<PoisonedBuffer>(rows.size() * sizeof(float));
      copy_to_device(data_->data(), std::as_bytes(std::span<const float>(rows)));
      result_.data = data_->as<float>();
      return;
    }
    const std::int64_t stride = plane_floats(result_.plan, result_.width);
    std::vector<float> planes(static_cast<std::size_t>(stride * result_.plan.most_planes()),
                              std::numeric_limits<float>::quiet_NaN());
    for (int row = 0; row < block_; ++row) {
      for (int id = 0; id < vocab_; ++id) {
        const int count = result_.plan.planes(id / 256);
        for (int plane = 0; plane < count; ++plane) {
          const float share = plane == 0 ? divided(row, id) - 0.25F * static_cast<float>(count - 1) : 0.25F;
          planes[static_cast<std::size_t>(plane * stride + plane_place(result_.width, id, row))] = share;
        }
      }
    }
    data_ = std::make_unique<PoisonedBuffer>(planes.size() * sizeof(float));
    copy_to_device(data_->data(), std::as_bytes(std::span<const float>(planes)));
    result_.data = data_->as<float>();
  }
};

TEST_F(DraftCandidates, EqualASortWithTies) {
  for (const bool planes : {true, false}) {
    std::size_t turn = 0;
    for (const int vocab : {33, 320, 999, 4096, 20001}) {
      for (const int block : in_turn("blocks", {2, 9, 16, 32}, 4, turn++)) {
        CandidatesCase a_case(vocab, block, planes, static_cast<std::uint64_t>(vocab + block));
        for (const int candidates : {1, 8, 32}) a_case.expect(candidates, 1);
        a_case.expect(5, 0.7);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(DraftCandidates, LargeVocabularies) {
  for (const int vocab : {248320, 300001}) {  // one row block a chunk, and two
    CandidatesCase a_case(vocab, 3, true, 5);
    a_case.expect(8, 1);
    a_case.expect(32, 1.5);
    if (HasFatalFailure()) return;
  }
}

// All candidates in one chunk, and each in another.
TEST_F(DraftCandidates, WhereverTheLargestLie) {
  CandidatesCase crowded(20000, 4, true, 3);
  for (int i = 0; i < 40; ++i) crowded.set(2, 7 * 256 + 5 * i, 9 + static_cast<float>(i % 7) / 8);
  crowded.expect(32, 1);
  CandidatesCase apart(20000, 4, true, 4);
  for (int i = 0; i < 40; ++i) apart.set(3, 256 * i + 17 * i % 256, 9 + static_cast<float>(i) / 8);
  apart.expect(32, 1);
}

TEST_F(DraftCandidates, WrongOrdersOfTiesAreCaught) {
  CandidatesCase a_case(4096, 4, true, 6);
  a_case.run(8, 1);
  EXPECT_EQ(a_case.got(2, 8), a_case.sorted(2, 8));
  EXPECT_NE(a_case.got(2, 8), a_case.sorted(2, 8, false));
}

TEST_F(DraftCandidates, WhatIsNotFiniteIsAFaultOfItsRow) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
    CandidatesCase a_case(999, 6, false, 8);
    a_case.set(3, 777, wrong);
    a_case.set(0, 5, wrong);  // the anchor's row is nobody's business
    a_case.run(4, 1);
    for (int row = 1; row < 6; ++row) EXPECT_EQ(a_case.outcome().fault[row], row == 3 ? 1 : 0) << wrong << ", " << row;
  }
}

}  // namespace
}  // namespace tare::engine::test

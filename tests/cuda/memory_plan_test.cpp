// What the backend says it will allocate, before anything is there.
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "engine/checkpoint/synthetic.h"
#include "engine/cuda/cuda_forward.h"
#include "engine/cuda/head/screened_head.h"

namespace tare::engine {
namespace {

constexpr std::int64_t kContext = 8192;
constexpr std::int64_t kTile = 64;  // positions; one more holds the nodes of a tree that stand beside its deepest path

CudaDevice h200() {
  CudaDevice device;
  device.major = 9;
  device.multiprocessors = 132;
  return device;
}

std::map<std::string, std::uint64_t> plan_of(const EngineOptions& options, std::int64_t capacity) {
  const SyntheticCheckpoint checkpoint("synthetic:27b?seed=1");
  std::map<std::string, std::uint64_t> parts;
  for (const MemoryPart& part : CudaForward::plan(checkpoint.config(), options, capacity, h200()))
    parts[part.name] = part.bytes;
  return parts;
}

EngineOptions rounds_in_bf16() {
  EngineOptions options;
  options.activations.format = ActivationFormat::kBF16;
  options.weights.format = WeightFormat::kQ4;
  options.prefill.chunk = 4096;
  return options;
}

TEST(MemoryPlan, CachesOfThe27BAreWhatTheModelSpecificationCounts) {
  const auto parts = plan_of(rounds_in_bf16(), kContext);
  EXPECT_EQ(parts.at("key-value cache"), 65'536U * (kContext + kTile));  // 64 KiB a position in BF16
  EXPECT_GE(parts.at("recurrent state"), 150'994'944U);                  // 144 MiB of FP32 state, and records, columns
  EXPECT_LE(parts.at("recurrent state"), 4 * 150'994'944U);
}

// The state after each of 16 nodes, 2.4 GB.
TEST(MemoryPlan, SnapshotsAreCounted) {
  EngineOptions snapshots = rounds_in_bf16();
  snapshots.rollback = Rollback::kSnapshot;
  const std::uint64_t more =
      plan_of(snapshots, kContext).at("recurrent state") - plan_of(rounds_in_bf16(), kContext).at("recurrent state");
  EXPECT_GE(more, 16 * 150'994'944U);
  EXPECT_LE(more, 16 * 151'100'000U);
}

TEST(MemoryPlan, FollowsTheOptions) {
  const auto base = plan_of(rounds_in_bf16(), kContext);
  EngineOptions fp8 = rounds_in_bf16();
  fp8.kv.key = fp8.kv.value = CacheFormat::kFP8;
  EXPECT_EQ(2 * plan_of(fp8, kContext).at("key-value cache"), base.at("key-value cache"));
  EXPECT_EQ(plan_of(rounds_in_bf16(), 2 * kContext).at("key-value cache") - base.at("key-value cache"),
            65'536U * kContext);
  // docs/method/codecs.md: bytes a token of keys and values with their scales.
  EngineOptions scaled = rounds_in_bf16();
  scaled.kv.key = scaled.kv.value = CacheFormat::kInt8;
  EXPECT_EQ(plan_of(scaled, kContext).at("key-value cache"), 33'792U * (kContext + kTile));
  scaled.kv.key = scaled.kv.value = CacheFormat::kNVFP4;
  EXPECT_EQ(plan_of(scaled, kContext).at("key-value cache"), 18'432U * (kContext + kTile));
  EngineOptions half_state = rounds_in_bf16();
  half_state.state.recurrent = StateFormat::kFP16;
  EXPECT_EQ(base.at("recurrent state") - plan_of(half_state, kContext).at("recurrent state"), 150'994'944U / 2);
  // 48 layers of 48 states of 128 x 128: a byte an element, and a scale of two bytes for every 64.
  half_state.state.recurrent = StateFormat::kInt8;
  EXPECT_EQ(base.at("recurrent state") - plan_of(half_state, kContext).at("recurrent state"),
            150'994'944U - 48U * 48U * 16'896U);
  EngineOptions longer_chunk = rounds_in_bf16();
  longer_chunk.prefill.chunk = 8192;
  EXPECT_GT(plan_of(longer_chunk, kContext).at("work space"), base.at("work space"));
}

TEST(MemoryPlan, WeightsCountTheirTiles) {
  const SyntheticCheckpoint checkpoint("synthetic:27b?seed=1");
  const auto total = [&](WeightFormat format) {
    EngineOptions options = rounds_in_bf16();
    options.weights.format = format;
    std::uint64_t bytes = 0;
    for (const MemoryPart& part : plan_cuda_weights(checkpoint.config(), options)) bytes += part.bytes;
    return bytes;
  };
  // 24.3 G weights of layers and 1.27 G of the head, at 0.53125 bytes; the embedding in BF16; staging at most 128 MiB.
  EXPECT_GT(total(WeightFormat::kQ4), 13'600'000'000U + 2'542'000'000U);
  EXPECT_LT(total(WeightFormat::kQ4), 13'800'000'000U + 2'700'000'000U);
  EXPECT_GT(total(WeightFormat::kBF16), 51'200'000'000U);
  EXPECT_LT(total(WeightFormat::kQ3), total(WeightFormat::kQ4));
}

// Every class of matrix and format: E4M3 scales take a byte of each group's two, and four a row for its tensor's.
TEST(MemoryPlan, ScalesOfOneByteCountAsSuch) {
  const SyntheticCheckpoint checkpoint("synthetic:27b?seed=1");
  const auto head = [&](WeightFormat format, ScaleFormat scales) {
    EngineOptions options = rounds_in_bf16();
    options.weights.format = format;
    options.weights.scales = scales;
    for (const MemoryPart& part : plan_cuda_weights(checkpoint.config(), options))
      if (part.name == "head") return part.bytes;
    return std::uint64_t{0};
  };
  const std::uint64_t rows = 248'320;
  const std::uint64_t weights = rows * 5120;
  const std::uint64_t norm = 5120 * 4;
  EXPECT_EQ(head(WeightFormat::kQ5, ScaleFormat::kFP16), weights * 5 / 8 + weights / 64 * 2 + norm);
  EXPECT_EQ(head(WeightFormat::kQ5, ScaleFormat::kE4M3), weights * 5 / 8 + weights / 64 + rows * 4 + norm);
  for (const ScaleFormat scales : {ScaleFormat::kFP16, ScaleFormat::kE4M3})  // NVFP4's are E4M3 whatever is said
    EXPECT_EQ(head(WeightFormat::kNVFP4, scales), weights / 2 + weights / 16 + rows * 4 + norm);
}

TEST(MemoryPlan, AScreenRefusesHeadsWhoseRowsItCannotRead) {
  const SyntheticCheckpoint checkpoint("synthetic:27b?seed=1");
  EngineOptions options = rounds_in_bf16();
  options.head.screen = HeadScreen::kQ3;
  EXPECT_NO_THROW(CudaScreenedHead::check(checkpoint.config(), options));
  const auto why = [&] {
    try {
      CudaScreenedHead::check(checkpoint.config(), options);
    } catch (const Error& error) {
      return error.parts().where + ": " + error.parts().what;
    }
    return std::string();
  };
  options.weights.scales = ScaleFormat::kE4M3;
  EXPECT_EQ(why(), "head.screen: backend cuda scores candidates with no head of q4 and E4M3 scales");
  options.weights.overrides = {{TensorClass::kHead, 0, 0, WeightFormat::kBF16}};
  EXPECT_EQ(why(), "");
  options.weights.scales = ScaleFormat::kFP16;
  options.weights.overrides.front().format = WeightFormat::kQ5;
  EXPECT_EQ(why(), "head.screen: backend cuda scores candidates with no head of q5");
}

// A copy of the head in groups of 64: half a byte a weight and two bytes a group.
TEST(MemoryPlan, AScreenAddsItsTilesToTheHead) {
  const SyntheticCheckpoint checkpoint("synthetic:27b?seed=1");
  const auto head = [&](HeadScreen screen) {
    EngineOptions options = rounds_in_bf16();
    options.head.screen = screen;
    for (const MemoryPart& part : plan_cuda_weights(checkpoint.config(), options))
      if (part.name == "head") return part.bytes;
    return std::uint64_t{0};
  };
  const std::uint64_t weights = 248'320ULL * 5120;
  EXPECT_EQ(head(HeadScreen::kQ4) - head(HeadScreen::kNone), weights / 2 + weights / 64 * 2);
  EXPECT_EQ(head(HeadScreen::kQ3) - head(HeadScreen::kNone), weights * 3 / 8 + weights / 64 * 2);
}

// What a plan calls its parts decides what they are held against once they are allocated.
TEST(MemoryPlan, EveryPartIsOfAnInventoryOrBesideIt) {
  const SyntheticCheckpoint checkpoint("synthetic:27b?seed=1");
  std::vector<MemoryPart> parts = plan_cuda_weights(checkpoint.config(), rounds_in_bf16());
  for (MemoryPart& part : CudaForward::plan(checkpoint.config(), rounds_in_bf16(), kContext, h200()))
    parts.push_back(std::move(part));
  std::map<std::string, std::uint64_t> sums;
  for (const MemoryPart& part : parts) sums[std::string(inventory_part(part.name))] += part.bytes;
  EXPECT_EQ(sums.size(), 4U);
  EXPECT_EQ(sums.at(kKeyValuePart), 65'536U * (kContext + kTile));
  EXPECT_GT(sums.at(kWeightsPart), 16'000'000'000U);
  EXPECT_GE(sums.at(kStatePart), 150'994'944U);
  std::uint64_t beside = 0;
  for (const MemoryPart& part : parts) beside += part.name == "staging" || part.name == "work space" ? part.bytes : 0;
  EXPECT_EQ(sums.at(""), beside) << "a part that nobody knows";
}

}  // namespace
}  // namespace tare::engine

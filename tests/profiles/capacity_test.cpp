#include "profiles/capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/backends/make_backend.h"
#include "tests/engine/decode_fake_backend.h"

namespace tare::profiles {
namespace {

using engine::CacheFormat;
using testing::HasSubstr;
using Formats = engine::EngineOptions::KeyValue;

constexpr std::uint64_t kGb = 1'000'000'000;

std::unique_ptr<engine::Backend> embedded(Formats formats, std::int64_t context) {
  engine::EngineOptions options;
  options.cpu.threads = 1;
  options.context = context;
  options.kv = formats;
  options.weights.format = engine::WeightFormat::kQ4;
  return engine::make_backend(*engine::open_checkpoint(std::string(TARE_SOURCE_DIR) + "/models/embedded"), options);
}

// A backend whose plan says `error` bytes more of keys and values than its inventory holds.
class PlanningBackend final : public engine::FakeBackend {
 public:
  explicit PlanningBackend(std::uint64_t error) : FakeBackend(200, 64), error_(error) { claim_bytes(1000); }
  std::vector<engine::MemoryPart> memory_plan(const Formats& formats, std::int64_t capacity) const override {
    const std::uint64_t bytes = formats.key == CacheFormat::kFP32 ? 8 : 4;
    return {{engine::kWeightsPart, 1000},
            {engine::kStatePart, 0},
            {engine::kKeyValuePart, bytes * static_cast<std::uint64_t>(capacity) + error_},
            {"work space", 300}};
  }
  engine::WeightInventory inventory(std::int64_t context, std::int64_t width) const override {
    engine::WeightInventory inventory = FakeBackend::inventory(context, width);
    inventory.entries.push_back({"kv cache", "bf16", engine::AccessPattern::kCache, 4 * 64, 0, 64});
    return inventory;
  }

 private:
  std::uint64_t error_;
};

TEST(Capacity, PlansOfTheCpuAreWhatItHoldsInEveryFormat) {
  for (const Formats& formats :
       {Formats{CacheFormat::kFP32, CacheFormat::kFP32}, Formats{CacheFormat::kBF16, CacheFormat::kBF16},
        Formats{CacheFormat::kFP32, CacheFormat::kBF16}, Formats{CacheFormat::kNVFP4, CacheFormat::kInt8},
        Formats{CacheFormat::kInt8, CacheFormat::kFP8}}) {
    for (const std::int64_t context : {1, 100, 1000}) {  // no multiples of a block
      const auto backend = embedded(formats, context);
      const Capacity capacity = measure_capacity(*backend, kGb, "named");
      for (const CapacityPart& part : capacity.parts)
        EXPECT_EQ(part.held.value_or(part.planned), part.planned) << part.name;
      const std::vector<engine::MemoryPart> held = backend->inventory(0, 1).resident_parts();
      std::uint64_t sum = 0;
      for (const engine::MemoryPart& part : held) sum += part.bytes;
      EXPECT_EQ(sum, backend->inventory(0, 1).resident_bytes()) << "no entry is in two parts or in none";
      EXPECT_EQ(capacity.planned_bytes(), sum + capacity.beside_planned);
    }
  }
}

TEST(Capacity, WhatItSaysFitsIsAllocatedAndAStepMoreIsTooMuch) {
  const auto small = embedded({}, 64);
  const auto planned = [&](const Formats& formats, std::int64_t tokens) {
    std::uint64_t sum = 0;
    for (const engine::MemoryPart& part : small->memory_plan(formats, tokens)) sum += part.bytes;
    return sum;
  };
  const std::uint64_t memory =
      planned({CacheFormat::kFP32, CacheFormat::kFP32}, 1000) + 1;  // NVFP4: seven times as many
  const Capacity capacity = measure_capacity(*small, memory, "named");
  for (const CapacityRow& row : capacity.rows) {
    ASSERT_GT(row.tokens, 0);
    EXPECT_EQ(row.tokens % kCapacityStep, 0);
    EXPECT_LE(planned(row.formats, row.tokens), memory) << to_text(row.formats);
    EXPECT_GT(planned(row.formats, row.tokens + kCapacityStep), memory) << to_text(row.formats);
    // A backend of that length holds the bytes that were said.
    const auto full = embedded(row.formats, row.tokens);
    EXPECT_EQ(full->inventory(0, 1).resident_parts()[2].bytes, row.cache_bytes);
  }
  ASSERT_EQ(capacity.rows.size(), 5U);
  EXPECT_EQ(to_text(capacity.rows[0].formats), "fp32");
  EXPECT_EQ(capacity.rows[0].tokens, 960);
  EXPECT_EQ(capacity.rows[0].bytes_a_token, 2 * capacity.rows[1].bytes_a_token);
  EXPECT_TRUE(capacity.rows[1].now);
  EXPECT_GT(capacity.rows[1].tokens, capacity.rows[0].tokens);
  EXPECT_EQ(to_text(capacity.rows[4].formats), "nvfp4");
  EXPECT_EQ(64 * capacity.rows[4].bytes_a_token, 18 * capacity.rows[1].bytes_a_token);
}

TEST(Capacity, AWrongByteCountIsCaught) {
  EXPECT_NO_THROW((void)measure_capacity(PlanningBackend(0), 10'000, "named"));
  try {
    (void)measure_capacity(PlanningBackend(16), 10'000, "named");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.parts().what, HasSubstr("key-value cache: 256 bytes are held, the plan says 272"));
  }
}

TEST(Capacity, CountsWhatIsLeft) {
  const Capacity capacity = measure_capacity(PlanningBackend(0), 10'000, "named");
  EXPECT_EQ(capacity.left_bytes, 10'000U - 1000 - 300);
  EXPECT_EQ(capacity.beside_planned, 300U);
  EXPECT_FALSE(capacity.beside_held.has_value()) << "the host does not say";
  EXPECT_EQ(capacity.rows[1].tokens, 8700 / 4 / 64 * 64);
  const Capacity none = measure_capacity(PlanningBackend(0), 1200, "named");
  EXPECT_EQ(none.left_bytes, 0U);
  EXPECT_EQ(none.rows[0].tokens, 0);
}

TEST(Capacity, NeedsAMemoryAndABackendThatTells) {
  EXPECT_THROW((void)measure_capacity(PlanningBackend(0), 0, ""), Error);
  EXPECT_THROW((void)measure_capacity(engine::FakeBackend(200, 64), 1000, "named"), Error);
}

}  // namespace
}  // namespace tare::profiles

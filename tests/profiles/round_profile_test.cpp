#include "profiles/round_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "profiles/decode_rounds.h"
#include "profiles/layer_names.h"
#include "tests/engine/decode_fake_backend.h"

namespace tare::profiles {
namespace {

using testing::HasSubstr;

// Three kernels a round: the second starts within the first, 2 us pass before the third. Times in ns: the first has
// 10 us, the second completes 5 us after it, the third takes 8 us; the span is 25 us.
class MadeUpCollector final : public KernelCollector {
 public:
  explicit MadeUpCollector(const engine::FakeBackend& backend) : backend_(&backend) {}
  void start() override { seen_ = backend_->verifies(); }
  KernelRecords take() override {
    KernelRecords records;
    records.names = {"product<16>", "norm"};
    for (; seen_ < backend_->verifies(); ++seen_) {
      const std::int64_t at = 1'000'000 * seen_;
      records.records.push_back({0, 1, 11, at, at + 10'000});
      records.records.push_back({1, 1, 12, at + 3'000, at + 15'000});
      records.records.push_back({0, 1, 13, at + 17'000, at + 25'000});
    }
    return records;
  }

 private:
  const engine::FakeBackend* backend_;
  std::int64_t seen_ = 0;
};

RoundProfile profile(engine::FakeBackend& backend, const RoundProfileSettings& settings) {
  return profile_rounds(backend, settings, [&] { return std::make_unique<MadeUpCollector>(backend); });
}

TEST(RoundProfile, GivesEveryKernelItsTimeAndTheLaunchesTheirBytes) {
  engine::FakeBackend backend(50, 200);
  backend.declare_launches({{"q4_gemm", "layers.0.mlp.down_proj.weight", 3000},
                            {"residual_norm", "layers.0.input_layernorm.weight", 100},
                            {"q4_gemm", "layers.1.mlp.down_proj.weight", 5000}});
  const RoundProfile result = profile(backend, {10, 2, 6, 1});
  EXPECT_EQ(result.timed_us.size(), 6U);
  EXPECT_EQ(result.profiled_us.size(), 6U);
  EXPECT_EQ(result.kernels, 3);
  EXPECT_EQ(result.records, 18U);
  EXPECT_EQ(result.first_context, 10 + 2 * (4 + 6 + 4));  // warm, timed, warm again
  EXPECT_NEAR(result.span_us, 25, 1e-9);
  EXPECT_NEAR(result.idle_us, 2, 1e-9);
  EXPECT_EQ(result.unmatched, "");
  ASSERT_EQ(result.rows.size(), 2U);
  EXPECT_EQ(result.rows[0].kernel, "product<16>");
  EXPECT_EQ(result.rows[0].launch, "q4_gemm");
  EXPECT_EQ(result.rows[0].part, "layers.*.mlp.down_proj.weight");
  EXPECT_NEAR(result.rows[0].calls, 2, 1e-9);
  EXPECT_NEAR(result.rows[0].us, 10 + 8, 1e-9);
  EXPECT_NEAR(result.rows[0].declared_bytes, 8000, 1e-6);
  EXPECT_NEAR(result.rows[1].us, 5, 1e-9);
  EXPECT_NEAR(result.rows[1].duration_us, 12, 1e-9);
  EXPECT_FALSE(backend.last_request().logits);
}

TEST(RoundProfile, DraftsInEveryRoundWhereThereIsADrafter) {
  engine::EngineOptions options;
  options.speculate.draft_tokens = 3;
  engine::FakeBackend backend(50, 40, options);
  backend.draft_well_but_every(4);
  (void)profile(backend, {10, 1, 4, 1});
  EXPECT_EQ(backend.drafts(), backend.verifies());
  EXPECT_EQ(backend.drafts(), 4 + 4 + 4 + 4);  // warm and timed, without and with the collector
}

TEST(RoundProfile, SaysWhyKernelsCarryNoBytes) {
  engine::FakeBackend backend(50, 200);
  EXPECT_EQ(profile(backend, {10, 1, 4, 1}).unmatched, "the backend declares no launches");
  backend.declare_launches({{"q4_gemm", "x", 3000}});
  const RoundProfile result = profile(backend, {10, 1, 4, 1});
  EXPECT_EQ(result.unmatched, "the backend declares 1 launches a round, round 0 has 3 kernels");
  ASSERT_EQ(result.rows.size(), 2U);
  EXPECT_EQ(result.rows[0].launch, "");
  EXPECT_EQ(result.rows[0].declared_bytes, 0);
}

TEST(RoundProfile, IsDrawnWithItsLaunches) {
  engine::FakeBackend backend(50, 200);
  EXPECT_FALSE(profile_tracks(profile(backend, {10, 1, 4, 1}), 1).at(1).slices.at(0).details.contains("launch"));
  backend.declare_launches(
      {{"q4_gemm", "layers.0.mlp", 3000}, {"norm", "layers.0", 100}, {"q4_gemm", "layers.1.mlp", 8000}});
  const std::vector<TraceTrack> tracks = profile_tracks(profile(backend, {10, 1, 4, 1}), 3);
  ASSERT_EQ(tracks.size(), 2U);
  EXPECT_EQ(tracks[0].slices.size(), 3U);  // rounds
  ASSERT_EQ(tracks[1].slices.size(), 9U);  // kernels of the one stream
  EXPECT_EQ(tracks[1].slices[2].details.at("part"), "layers.1.mlp");
  EXPECT_NEAR(tracks[1].slices[2].details.at("gb_per_s").get<double>(), 1, 1e-9);
}

TEST(RoundProfile, TimesBeforeTheCollectorIsThere) {
  engine::FakeBackend backend(50, 200);
  std::int64_t rounds_before = 0;
  (void)profile_rounds(backend, {10, 1, 5, 1}, [&] {
    rounds_before = backend.verifies();
    return std::make_unique<MadeUpCollector>(backend);
  });
  EXPECT_EQ(rounds_before, 4 + 5);
}

TEST(RoundProfile, RefusesMoreRoundsThanTheCachesHold) {
  engine::FakeBackend backend(50, 40);
  try {
    (void)profile(backend, {10, 2, 6, 1});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("50 tokens do not fit the 40"));
  }
  EXPECT_THROW((void)profile(backend, {0, 1, 1, 1}), Error);
  EXPECT_THROW((void)profile(backend, {1, 0, 1, 1}), Error);
  EXPECT_THROW((void)profile(backend, {1, kMostWidth + 1, 1, 1}), Error);
  EXPECT_THROW((void)profile(backend, {1, 1, 0, 1}), Error);
}

TEST(RoundProfile, WritesLayersAsOne) {
  EXPECT_EQ(without_layer_number("layers.63.mlp.up_proj.weight"), "layers.*.mlp.up_proj.weight");
  EXPECT_EQ(without_layer_number("lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(without_layer_number("layers.x"), "layers.x");
  EXPECT_EQ(without_layer_number("mtp.layers.0.mlp + layers.12.mlp"), "mtp.layers.*.mlp + layers.*.mlp");
}

}  // namespace
}  // namespace tare::profiles

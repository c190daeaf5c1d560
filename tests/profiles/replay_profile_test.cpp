#include "profiles/replay_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/backends/make_backend.h"
#include "engine/decode/session.h"
#include "tests/error_of.h"

namespace tare::profiles {
namespace {

using testing::HasSubstr;

// Prefill at 0 to 100, rounds at 200 to 300 and 400 to 500.
const std::vector<RoundMark> kMarks = {{200, 300, 11}, {400, 500, 12}};

KernelRecords kernels() {
  KernelRecords records;
  records.names = {"product", "norm"};
  records.records = {
      {0, 0, 0, 10, 90}, {0, 0, 0, 210, 250}, {1, 0, 0, 260, 290}, {0, 0, 0, 410, 470}, {1, 0, 0, 470, 490}};
  return records;
}
DeclaredLaunches always(std::vector<engine::LaunchRecord> launches) {
  return [launches = std::move(launches)](int, bool) { return launches; };
}
const std::vector<engine::LaunchRecord> kDeclared = {{"product q4", "layers.3.mlp.down_proj.weight", 1000, 10},
                                                     {"norm", "norm.weight", 0, 0}};
DeclaredLaunches declared() {
  return always(kDeclared);
}

TEST(ReplayProfile, SumsUpWhatLiesWithinTheRounds) {
  const ReplayProfile profile = make_replay_profile(kernels(), kMarks, declared());
  EXPECT_EQ(profile.unmatched, "");
  EXPECT_EQ(profile.rounds, 2);
  EXPECT_EQ(profile.records, 4U) << "the prefill's kernel is not of a round";
  ASSERT_EQ(profile.rows.size(), 2U);
  EXPECT_EQ(profile.rows[0].launch, "product q4");
  EXPECT_EQ(profile.rows[0].part, "layers.*.mlp.down_proj.weight");
  EXPECT_DOUBLE_EQ(profile.rows[0].us, 1e-3 * (40 + 60) / 2);
  EXPECT_DOUBLE_EQ(profile.rows[1].us, 1e-3 * (30 + 20) / 2);
  EXPECT_DOUBLE_EQ(profile.rows[0].declared_bytes, 1000 + 10 * (11 + 12) / 2.0);
  EXPECT_DOUBLE_EQ(profile.span_us, 1e-3 * (80 + 80) / 2);
  EXPECT_NEAR(profile.rows[0].us + profile.rows[1].us + profile.idle_us, profile.span_us, 1e-12);
}

TEST(ReplayProfile, SaysWhyKernelsCarryNoLaunch) {
  const ReplayProfile fewer = make_replay_profile(kernels(), kMarks, always({kDeclared.front()}));
  EXPECT_THAT(fewer.unmatched, HasSubstr("declares 1 launches a round, round 0 has 2 kernels"));
  EXPECT_EQ(fewer.rows[0].launch, "");
  EXPECT_EQ(fewer.rows[0].kernel, "product");
  KernelRecords other = kernels();
  other.records[3].name = 1;
  EXPECT_THAT(make_replay_profile(other, kMarks, declared()).unmatched, HasSubstr("kernel 0 of round 1"));
}

TEST(ReplayProfile, RoundsOfSeveralKindsHaveTheirOwnLaunches) {
  // The second round verifies one node without a draft, the first 16 after one.
  std::vector<RoundMark> marks = kMarks;
  marks[0].nodes = 16;
  marks[0].drafted = true;
  KernelRecords records = kernels();
  records.names.emplace_back("draft");
  records.records.insert(records.records.begin() + 1, {2, 0, 0, 202, 206});
  const auto of_kind = [](int nodes, bool drafted) {
    std::vector<engine::LaunchRecord> launches = kDeclared;
    launches[0].part = nodes == 16 ? "wide" : "narrow";
    if (drafted) launches.insert(launches.begin(), {"draft", "drafter", 0, 0});
    return launches;
  };
  const ReplayProfile profile = make_replay_profile(records, marks, of_kind);
  EXPECT_EQ(profile.unmatched, "");
  std::map<std::string, double> calls;
  for (const KernelRow& row : profile.rows) calls[row.launch + " " + row.part] = row.calls;
  const std::map<std::string, double> expected = {
      {"draft drafter", 0.5}, {"product q4 wide", 0.5}, {"product q4 narrow", 0.5}, {"norm norm.weight", 1}};
  EXPECT_EQ(calls, expected);

  // Told nothing of the draft, the first round does not fit.
  EXPECT_THAT(make_replay_profile(records, marks, declared()).unmatched, HasSubstr("round 0 has 3 kernels"));
}

TEST(ReplayProfile, CopiesHaveRowsAndTheKernelsBesideThemTheirLaunches) {
  KernelRecords records = kernels();
  records.names.emplace_back("[memcpy DtoH]");
  const auto copy = [](std::int64_t start_ns, std::int64_t end_ns, std::uint64_t bytes) {
    KernelRecord record{2, 0, 0, start_ns, end_ns};
    record.copy = true;
    record.copied_bytes = bytes;
    return record;
  };
  // One between the kernels of a round, one after them.
  records.records.insert(records.records.begin() + 2, copy(250, 258, 4000));
  records.records.push_back(copy(492, 497, 6000));
  const ReplayProfile profile = make_replay_profile(records, kMarks, declared());
  EXPECT_EQ(profile.unmatched, "");
  ASSERT_EQ(profile.rows.size(), 3U);
  EXPECT_EQ(profile.rows[1].launch, "norm") << "the kernel after the copy is the second launch";
  EXPECT_EQ(profile.rows[2].kernel, "[memcpy DtoH]");
  EXPECT_EQ(profile.rows[2].launch, "");
  EXPECT_DOUBLE_EQ(profile.rows[2].calls, 1);
  EXPECT_DOUBLE_EQ(profile.rows[2].us, 1e-3 * (8 + 5) / 2);
  EXPECT_DOUBLE_EQ(profile.rows[2].declared_bytes, (4000 + 6000) / 2.0);
  records.records[2].copy = false;
  EXPECT_THAT(make_replay_profile(records, kMarks, declared()).unmatched, HasSubstr("round 0 has 3 kernels"));
}

TEST(ReplayProfile, LeavesRoundsOutThatDoNotCount) {
  const ReplayProfile second = make_replay_profile(kernels(), kMarks, declared(), {true, false});
  EXPECT_EQ(second.rounds, 1);
  EXPECT_EQ(second.records, 2U);
  EXPECT_DOUBLE_EQ(second.rows[0].us, 1e-3 * 60);
  EXPECT_DOUBLE_EQ(second.rows[0].declared_bytes, 1000 + 10 * 12) << "at the second round's context";
  EXPECT_THROW((void)make_replay_profile(kernels(), kMarks, declared(), {true}), Error);
}

TEST(ReplayProfile, CountsWhatTheCollectorLost) {
  KernelRecords lost = kernels();
  lost.dropped = 3;
  lost.invalid = 2;
  const ReplayProfile profile = make_replay_profile(lost, kMarks, declared());
  EXPECT_EQ(profile.dropped, 3U);
  EXPECT_EQ(profile.invalid, 2U);
  EXPECT_EQ(make_replay_profile(kernels(), kMarks, declared()).dropped, 0U);
}

TEST(ReplayProfile, RefusesWhatIsNotWhole) {
  EXPECT_THAT(error_of([&] { (void)make_replay_profile(kernels(), {}, declared()); }).what(), HasSubstr("no rounds"));
  const std::vector<RoundMark> three = {kMarks[0], {320, 380, 0}, kMarks[1]};
  EXPECT_THAT(error_of([&] { (void)make_replay_profile(kernels(), three, declared()); }).what(),
              HasSubstr("round 2 of 3 has no records"));
}

TEST(ReplayProfile, WatchesTheRoundsOfAReplayOnTheCpu) {
  engine::EngineOptions options;
  options.cpu.threads = 1;
  options.context = 128;
  const auto checkpoint = engine::open_checkpoint(std::string(TARE_SOURCE_DIR) + "/models/embedded");
  ReplayProfiler profiler(engine::make_backend(*checkpoint, options), make_collector_of);
  const std::vector<std::int32_t> prompt = {5, 6, 7, 8};
  constexpr int kTokens = 12;
  for (int again = 0; again < 2; ++again) {
    profiler.begin();
    const auto policy = engine::make_greedy_policy();
    const engine::Generation generation = engine::generate(profiler.backend(), prompt, *policy, {kTokens, {}});
    const ReplayProfile profile = profiler.end();
    EXPECT_TRUE(profile.of_ops);
    EXPECT_EQ(profile.rounds, static_cast<std::int64_t>(generation.rounds.size()));
    double sum = profile.idle_us;
    for (const KernelRow& row : profile.rows) sum += row.us;
    EXPECT_NEAR(sum, profile.span_us, 1e-6 * profile.span_us);
    double rounds_us = 0;
    for (const engine::Round& round : generation.rounds) rounds_us += 1e-3 * static_cast<double>(round.duration_ns);
    const double round_us = rounds_us / static_cast<double>(profile.rounds);
    EXPECT_LE(profile.span_us, round_us) << "ops lie within the rounds";
    EXPECT_GE(profile.span_us, 0.5 * round_us) << "and are most of them";
    const double bytes = static_cast<double>(profiler.backend().inventory(0, 1).bytes_per_round());
    double declared = 0;
    for (const KernelRow& row : profile.rows) declared += row.declared_bytes;
    EXPECT_GE(declared, bytes) << "all that a round reads at an empty context, and the caches";
  }
}

}  // namespace
}  // namespace tare::profiles

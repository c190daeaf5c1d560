#include "harness/ledger/ledger.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "harness/ledger/packing.h"
#include "harness/ledger/run_lock.h"
#include "tests/harness/ledger_fixture.h"

namespace tare::harness {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(LedgerTest, KeepsTheExperimentItWasMadeFor) {
  { const Ledger ledger = open(); }
  const Ledger ledger = Ledger::open_for_reading(file_);
  EXPECT_EQ(ledger.identity().digest, "aaaa");
  EXPECT_EQ(ledger.identity().name, "small");
  EXPECT_EQ(ledger.identity().experiment["name"], "small");
  EXPECT_GT(ledger.created_utc_ns(), 0);
}

TEST_F(LedgerTest, ReadsBackWhatWasWritten) {
  {
    Ledger ledger = open_with_texts();
    EXPECT_EQ(ledger.begin_sitting({0, 5, {{"cpu", "x"}}, {{"commit", "c"}}, "pd"}), 1);
    const std::int64_t launch = begin_launch(ledger, "a");
    ledger.describe_launch(launch, {{"threads", 2}}, {{"commit", "c"}}, "digest", "model");
    ledger.store_validation({9, "own texts", false, 2, 1, TextDifference{"2", 3, "natural", 17, 18}});
    const std::int64_t run = ledger.begin_run({0, 3, false}, "a", launch, 20);
    EnvironmentSample sample;
    sample.utc_ns = 21;
    sample.load_1min = 0.5;
    ledger.finish_run(run, {30, {result_of("2", 0), result_of("1", 1)}, {{std::nullopt, "after", sample}}});
    ledger.end_launch(launch, 40, 137, 1 << 20, "last \"words\"");
  }
  const Ledger ledger = Ledger::open_for_reading(file_);
  ASSERT_EQ(ledger.texts().size(), 2U);
  const TextRecord text = ledger.texts()[1];
  EXPECT_EQ(text.prompt_id, "2");
  EXPECT_EQ(text.tokens, text_of("2").tokens);
  EXPECT_EQ(text.prompt_tokens, text_of("2").prompt_tokens);
  EXPECT_EQ(text.round_tokens, text_of("2").round_tokens);
  EXPECT_EQ(text.distinct_4gram_share, 0.75);
  EXPECT_TRUE(text.repetitive);
  EXPECT_EQ(text.digest, digest_tokens(text.tokens));
  const SittingRecord sitting = ledger.sittings().at(0);
  EXPECT_EQ(sitting.machine["cpu"], "x");
  EXPECT_EQ(sitting.prompts_digest, "pd");
  const LaunchRecord launch = ledger.launches().at(0);
  EXPECT_EQ(launch.options["threads"], 2);
  EXPECT_EQ(launch.checkpoint_digest, "digest");
  EXPECT_EQ(launch.exit_status, 137);
  EXPECT_EQ(launch.peak_memory_bytes, 1 << 20);
  EXPECT_EQ(launch.last_words, "last \"words\"");
  EXPECT_THAT(launch.program, ElementsAre("tare", "worker"));
  const ValidationRecord validation = ledger.validations().at(0);
  EXPECT_FALSE(validation.passed());
  ASSERT_TRUE(validation.first_difference);
  EXPECT_EQ(validation.first_difference->prompt_id, "2");
  EXPECT_EQ(validation.first_difference->got, 18);
  const RunRecord run = ledger.runs().at(0);
  EXPECT_EQ(run.state, RunState::kFinished);
  EXPECT_EQ(run.slot, 3);
  EXPECT_EQ(run.ended_utc_ns, 30);
  const std::vector<PromptResult> results = ledger.prompt_results(run.id);
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].prompt_id, "2");
  EXPECT_EQ(results[0].rounds.duration_ns, result_of("2", 0).rounds.duration_ns);
  EXPECT_EQ(results[0].rounds.spun_ns, result_of("2", 0).rounds.spun_ns);
  EXPECT_EQ(results[0].decode_ns, 600);
  EXPECT_EQ(results[0].agreed_tokens, 4);
  const StoredSample sample = ledger.samples().at(0);
  EXPECT_EQ(sample.run_id, run.id);
  EXPECT_EQ(sample.sample.load_1min, 0.5);
  EXPECT_FALSE(sample.sample.frequency_mhz);
}

TEST_F(LedgerTest, AnotherExperimentIsRefusedWithBothDigests) {
  { const Ledger ledger = open(); }
  const Error error = error_of([&] { (void)Ledger::open_for_writing(file_, identity_of("bbbb")); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("aaaa"), HasSubstr("bbbb"), HasSubstr(kLedgerFile)));
}

TEST_F(LedgerTest, AFileOfAnotherProgramIsRefused) {
  execute("CREATE TABLE notes (text)");
  const Error error = error_of([&] { (void)open(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_THAT(error.what(), HasSubstr("no ledger"));
}

TEST_F(LedgerTest, KeepsEveryReadingOfTheMachineAndItsGpu) {
  EnvironmentSample sample;
  sample.utc_ns = 21;
  sample.memory_pressure_us = 1;
  sample.io_pressure_us = 2;
  sample.cgroup_throttled_us = 3;
  sample.cgroup_throttled_periods = 4;
  sample.own_cpu_ticks = 5;
  sample.builds = "";
  sample.cost_ns = 6;
  GpuSample gpu;
  gpu.pci_bus_id = "0000:01:00.0";
  gpu.sm_clock_mhz = 1980;
  gpu.memory_clock_mhz = 3201;
  gpu.temperature_c = 40;
  gpu.power_w = 500.5;
  gpu.event_reasons = kReasonPowerCap | kReasonIdle;
  gpu.power_limit_w = 700;
  gpu.energy_mj = std::int64_t{1} << 50;
  gpu.other_processes = 2;
  sample.gpu = gpu;
  EnvironmentSample bare;  // nothing could be read, and there is no GPU
  bare.utc_ns = 22;
  EnvironmentSample blind = bare;  // a GPU that gives nothing
  blind.gpu = GpuSample{};
  blind.gpu->pci_bus_id = "0000:02:00.0";
  GpuFacts facts;
  facts.pci_bus_id = "0000:01:00.0";
  facts.name = "GPU";
  facts.default_power_limit_w = 700;
  facts.persistence = false;
  facts.missing = {{"energy counter", "not supported"}};
  {
    Ledger ledger = open();
    const std::int64_t sitting = ledger.begin_sitting({0, 5, Json::object(), Json::object(), "p"});
    ledger.store_gpu(sitting, facts);
    ledger.store_gpu(sitting, {});  // of another id: the worker named none that NVML knows
    GpuFacts again = facts;
    again.name = "another name";
    ledger.store_gpu(sitting, again);  // known already
    for (const EnvironmentSample& each : {sample, bare, blind}) ledger.store_sample({std::nullopt, "before", each});
  }
  const Ledger ledger = Ledger::open_for_reading(file_);
  ASSERT_EQ(ledger.samples().size(), 3U);
  const EnvironmentSample read = ledger.samples()[0].sample;
  EXPECT_EQ(read.memory_pressure_us, 1);
  EXPECT_EQ(read.io_pressure_us, 2);
  EXPECT_EQ(read.cgroup_throttled_us, 3);
  EXPECT_EQ(read.cgroup_throttled_periods, 4);
  EXPECT_EQ(read.own_cpu_ticks, 5);
  EXPECT_EQ(read.builds, "");
  EXPECT_EQ(read.cost_ns, 6);
  ASSERT_TRUE(read.gpu);
  EXPECT_EQ(read.gpu->pci_bus_id, gpu.pci_bus_id);
  EXPECT_EQ(read.gpu->sm_clock_mhz, 1980);
  EXPECT_EQ(read.gpu->memory_clock_mhz, 3201);
  EXPECT_EQ(read.gpu->temperature_c, 40);
  EXPECT_EQ(read.gpu->power_w, 500.5);
  EXPECT_EQ(read.gpu->event_reasons, gpu.event_reasons);
  EXPECT_EQ(read.gpu->power_limit_w, 700);
  EXPECT_EQ(read.gpu->energy_mj, gpu.energy_mj);
  EXPECT_EQ(read.gpu->other_processes, 2);
  EXPECT_FALSE(ledger.samples()[1].sample.gpu);
  EXPECT_FALSE(ledger.samples()[1].sample.builds);
  EXPECT_FALSE(ledger.samples()[1].sample.own_cpu_ticks);
  const std::optional<GpuSample> nothing = ledger.samples()[2].sample.gpu;
  ASSERT_TRUE(nothing);
  EXPECT_FALSE(nothing->sm_clock_mhz);
  EXPECT_FALSE(nothing->event_reasons);
  EXPECT_FALSE(nothing->other_processes);
  const std::vector<GpuRecord> gpus = ledger.gpus();
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[1].facts.name, "GPU");
  EXPECT_EQ(gpus[1].facts.default_power_limit_w, 700);
  EXPECT_FALSE(gpus[1].facts.max_sm_clock_mhz);
  EXPECT_EQ(gpus[1].facts.persistence, false);
  EXPECT_FALSE(gpus[0].facts.persistence);
  ASSERT_EQ(gpus[1].facts.missing.size(), 1U);
  EXPECT_EQ(gpus[1].facts.missing[0].reading, "energy counter");
  EXPECT_EQ(gpus[1].facts.missing[0].why, "not supported");
}

TEST_F(LedgerTest, KeepsTheDraftsOfRoundsAndTheRoundsOfTexts) {
  std::int64_t run = 0;
  PromptResult drafted = result_of("1", 0);
  drafted.rounds.nodes = {16, 16, 3};
  drafted.rounds.drafted = {15, 15, 2};
  drafted.rounds.cut = {0, 0, 1};
  for (std::size_t phase = 0; phase < drafted.rounds.phase_ns.size(); ++phase)
    drafted.rounds.phase_ns[phase] = {1, 2, static_cast<std::int64_t>(phase)};
  {
    Ledger ledger = open_with_texts();
    run = ledger.begin_run({0, 0, false}, "a", begin_launch(ledger, "a"), 20);
    ledger.finish_run(run, {30, {drafted, result_of("2", 1)}, {}});
  }
  const Ledger ledger = Ledger::open_for_reading(file_);
  const std::vector<PromptResult> results = ledger.prompt_results(run);
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0].rounds.nodes, drafted.rounds.nodes);
  EXPECT_EQ(results[0].rounds.drafted, drafted.rounds.drafted);
  EXPECT_EQ(results[0].rounds.cut, drafted.rounds.cut);
  EXPECT_EQ(results[0].rounds.phase_ns, drafted.rounds.phase_ns);
  EXPECT_TRUE(results[1].rounds.nodes.empty());
  EXPECT_TRUE(results[1].rounds.phase_ns[0].empty());
  EXPECT_TRUE(ledger.texts()[0].rounds.is_null());
}

TEST_F(LedgerTest, TextsKeepTheRoundsThatArmsWalk) {
  {
    Ledger ledger = open();
    TextRecord text;
    text.prompt_id = "1";
    text.prompt_tokens = {1};
    text.tokens = {2, 3};
    text.outcome = "given";
    text.rounds = Json::parse(R"([{"parents": [-1, 0], "path": [0]}])");
    ledger.store_texts({text});
  }
  EXPECT_EQ(Ledger::open_for_reading(file_).texts().at(0).rounds.dump(), R"([{"parents":[-1,0],"path":[0]}])");
}

TEST_F(LedgerTest, ProfilesComeBackAsTheyWere) {
  ProfileRecord profile;
  {
    Ledger ledger = open_with_texts();
    profile.launch_id = begin_launch(ledger, "a");
    profile.prompt_id = ledger.texts().front().prompt_id;
    profile.source = "ops";
    profile.rounds = 3;
    profile.records = 30;
    profile.span_us = 10.5;
    profile.idle_us = 0.5;
    profile.round_us = 12;
    profile.rows = {{{"kernel", "norm"}, {"us", 10}}};
    profile.started_utc_ns = 77;
    profile.dropped = 2;
    profile.invalid = 1;
    profile.natural_digest = "abc";
    profile.round = Json::array({{{"what", "norm"}, {"begin_us", 0}, {"end_us", 10}}});
    ProfileRecord failed = profile;
    failed.position = 1;
    failed.fault = "no CUPTI here";
    failed.started_utc_ns.reset();
    failed.natural_digest.clear();
    failed.round = nullptr;
    ledger.store_profiles({profile, failed});
    ProfileRecord third = profile;
    third.position = 2;
    EXPECT_THROW(ledger.store_profiles({third, failed}), Error) << "one a launch and place";
  }
  const std::vector<ProfileRecord> read = Ledger::open_for_reading(file_).profiles();
  ASSERT_EQ(read.size(), 2U) << "all that are stored together or none";
  EXPECT_EQ(read[0].started_utc_ns, 77);
  EXPECT_EQ(read[0].dropped, 2);
  EXPECT_EQ(read[0].invalid, 1);
  EXPECT_EQ(read[0].natural_digest, "abc");
  EXPECT_EQ(read[0].round, profile.round);
  EXPECT_FALSE(read[1].started_utc_ns);
  EXPECT_EQ(read[1].natural_digest, "");
  EXPECT_TRUE(read[1].round.is_null());
  EXPECT_EQ(read[0].prompt_id, profile.prompt_id);
  EXPECT_EQ(read[0].source, "ops");
  EXPECT_EQ(read[0].rounds, 3);
  EXPECT_EQ(read[0].records, 30);
  EXPECT_EQ(read[0].span_us, 10.5);
  EXPECT_EQ(read[0].idle_us, 0.5);
  EXPECT_EQ(read[0].round_us, 12);
  EXPECT_EQ(read[0].rows, profile.rows);
  EXPECT_EQ(read[0].fault, "");
  EXPECT_EQ(read[1].fault, "no CUPTI here");
}

TEST_F(LedgerTest, AMissingLedgerIsInput) {
  EXPECT_EQ(error_of([&] { (void)Ledger::open_for_reading(folder_ / "none.sqlite"); }).kind(), ErrorKind::kInput);
}

TEST_F(LedgerTest, AFolderThatCannotBeWrittenIsTheEnvironment) {
  // Nobody can make a file in /proc, whoever runs the test.
  const Error error = error_of([&] { (void)Ledger::open_for_writing("/proc/ledger.sqlite", identity_of("a")); });
  EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
  EXPECT_THAT(error.what(), HasSubstr("/proc/ledger.sqlite"));
  EXPECT_EQ(error_of([&] { (void)RunLock("/proc"); }).kind(), ErrorKind::kEnvironment);
}

TEST_F(LedgerTest, AReaderCannotWrite) {
  { Ledger ledger = open_with_texts(); }
  Ledger ledger = Ledger::open_for_reading(file_);
  EXPECT_THROW(ledger.store_validation({}), Error);
}

TEST_F(LedgerTest, ARunIsStoredAsAWholeOrNotAtAll) {
  Ledger ledger = open_with_texts();
  const std::int64_t run = ledger.begin_run({0, 0, false}, "a", begin_launch(ledger, "a"), 20);
  // The second result is of a prompt that has no text: the whole run is refused.
  EXPECT_THROW(ledger.finish_run(run, {30, {result_of("1", 0), result_of("none", 1)}, {}}), Error);
  EXPECT_EQ(ledger.runs().at(0).state, RunState::kRunning);
  EXPECT_THAT(ledger.prompt_results(run), IsEmpty());
  ledger.finish_run(run, {30, {result_of("1", 0), result_of("2", 1)}, {}});
  EXPECT_EQ(ledger.prompt_results(run).size(), 2U);
}

TEST_F(LedgerTest, AFinishedSlotCannotBeMeasuredTwice) {
  Ledger ledger = open_with_texts();
  const std::int64_t launch = begin_launch(ledger, "a");
  finished_run(ledger, {0, 0, false}, launch);
  EXPECT_THROW((void)ledger.begin_run({0, 0, false}, "a", launch, 50), Error);
  // Two runs of one slot that were begun together: only one can end.
  const std::int64_t first = ledger.begin_run({0, 1, false}, "a", launch, 50);
  const std::int64_t second = ledger.begin_run({0, 1, false}, "a", launch, 50);
  ledger.finish_run(first, {60, {result_of("1", 0)}, {}});
  EXPECT_THROW(ledger.finish_run(second, {60, {result_of("1", 0)}, {}}), Error);
  EXPECT_THAT(ledger.finished_runs(), ElementsAre(RunKey{0, 0, false}, RunKey{0, 1, false}));
}

TEST_F(LedgerTest, AWarmUpHasAKeyOfItsOwn) {
  Ledger ledger = open_with_texts();
  const std::int64_t launch = begin_launch(ledger, "a");
  finished_run(ledger, {0, 0, true}, launch);
  finished_run(ledger, {0, 0, false}, launch);
  EXPECT_THAT(ledger.finished_runs(), ElementsAre(RunKey{0, 0, true}, RunKey{0, 0, false}));
  EXPECT_THAT(ledger.complete_blocks(2), IsEmpty());
  EXPECT_THAT(ledger.complete_blocks(1), ElementsAre(0));
}

TEST_F(LedgerTest, AnInterruptedBlockIsMarkedAndMeasuredAgainUnderAnotherAttempt) {
  Ledger ledger = open_with_texts();
  const std::int64_t launch = begin_launch(ledger, "a");
  for (std::int64_t slot = 0; slot < 2; ++slot) finished_run(ledger, {0, slot, false}, launch);
  finished_run(ledger, {1, 0, true}, launch);
  finished_run(ledger, {1, 0, false}, launch);
  (void)ledger.begin_run({1, 1, false}, "a", launch, 50);
  EXPECT_THAT(ledger.interrupt_incomplete_blocks(2, "stopped"), ElementsAre(1));
  EXPECT_THAT(ledger.finished_runs(), ElementsAre(RunKey{0, 0, false}, RunKey{0, 1, false}));
  EXPECT_THAT(ledger.complete_blocks(2), ElementsAre(0));
  for (const RunRecord& run : ledger.runs()) {
    if (run.block == 0) continue;
    EXPECT_EQ(run.state, RunState::kInterrupted);
    EXPECT_EQ(run.reason, "stopped");
    const std::size_t kept = run.slot == 0 ? 2 : 0;
    EXPECT_EQ(ledger.prompt_results(run.id).size(), kept) << "what was measured is kept";
  }
  EXPECT_THAT(ledger.interrupt_incomplete_blocks(2, "again"), IsEmpty());
  for (std::int64_t slot = 0; slot < 2; ++slot) finished_run(ledger, {1, slot, false}, launch);
  EXPECT_EQ(ledger.runs().back().attempt, 2);
  EXPECT_THAT(ledger.complete_blocks(2), ElementsAre(0, 1));
}

TEST_F(LedgerTest, AFailedRunKeepsItsReasonAndLeavesTheSlotFree) {
  Ledger ledger = open_with_texts();
  const std::int64_t launch = begin_launch(ledger, "a");
  const std::int64_t run = ledger.begin_run({0, 0, false}, "a", launch, 20);
  ledger.fail_run(run, 30, "worker died");
  EXPECT_EQ(ledger.runs().at(0).state, RunState::kFailed);
  EXPECT_EQ(ledger.runs().at(0).reason, "worker died");
  finished_run(ledger, {0, 0, false}, launch);
  EXPECT_THROW(ledger.fail_run(run, 40, "twice"), Error);
}

TEST_F(LedgerTest, AnExcludedRunStaysInItsCompleteBlock) {
  Ledger ledger = open_with_texts();
  const std::int64_t launch = begin_launch(ledger, "a");
  const std::int64_t run = finished_run(ledger, {0, 0, false}, launch);
  ledger.exclude_run(run, "another daemon was running");
  EXPECT_EQ(ledger.runs().at(0).state, RunState::kExcluded);
  EXPECT_THAT(ledger.complete_blocks(1), ElementsAre(0));
  EXPECT_THROW((void)ledger.begin_run({0, 0, false}, "a", launch, 50), Error);
}

TEST_F(LedgerTest, TextsAreWrittenOnce) {
  Ledger ledger = open_with_texts();
  EXPECT_NO_THROW(ledger.store_texts({text_of("1"), text_of("2")}));
  TextRecord other = text_of("2");
  other.tokens.back() = 6;
  const Error error = error_of([&] { ledger.store_texts({text_of("1"), other}); });
  EXPECT_THAT(error.what(), HasSubstr("prompt '2'"));
  EXPECT_THROW(ledger.store_texts({text_of("1")}), Error);
}

TEST_F(LedgerTest, ASecondRunOnOneDirectoryIsRefusedNamingTheFirst) {
  const RunLock lock(folder_);
  const Error error = error_of([&] { (void)RunLock(folder_); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_THAT(error.what(), HasSubstr(std::to_string(::getpid())));
}

TEST_F(LedgerTest, TheLockIsFreeAgainAfterwards) {
  { const RunLock lock(folder_); }
  EXPECT_NO_THROW((void)RunLock(folder_));
  RunLock first(folder_);
  const RunLock moved = std::move(first);
  EXPECT_THROW((void)RunLock(folder_), Error);
}

TEST_F(LedgerTest, ARecordedRoundCostsFewBytes) {
  constexpr std::size_t kRounds = 100;
  {
    Ledger ledger = open_with_texts();
    const std::int64_t launch = begin_launch(ledger, "a");
    for (std::int64_t slot = 0; slot < 50; ++slot) {
      PromptResult result = result_of("1", 0);
      result.rounds = {std::vector<std::int64_t>(kRounds, 1'500'000), std::vector<std::int64_t>(kRounds, 1),
                       std::vector<std::int64_t>(kRounds, 0)};
      const std::int64_t run = ledger.begin_run({0, slot, false}, "a", launch, 20);
      ledger.finish_run(run, {30, {result}, {}});
    }
  }
  EXPECT_LT(std::filesystem::file_size(file_), 50U * kRounds * 6 + 200'000);
}

TEST(Packing, CountsSurvive) {
  const std::vector<std::int64_t> values = {0, 1, 127, 128, 16383, 16384, 1'500'000, INT64_MAX};
  EXPECT_EQ(unpack_counts(pack_counts(values)), values);
  EXPECT_EQ(pack_counts(std::vector<std::int64_t>{127}).size(), 1U);
  EXPECT_EQ(pack_counts(std::vector<std::int64_t>{128}), std::string("\x80\x01"));
  EXPECT_THAT(unpack_counts(""), IsEmpty());
  EXPECT_THROW((void)pack_counts(std::vector<std::int64_t>{-1}), Error);
}

TEST(Packing, BrokenBytesAreRefused) {
  EXPECT_THROW((void)unpack_counts("\x80"), Error);
  EXPECT_THROW((void)unpack_counts(std::string(10, '\xff')), Error);
  EXPECT_THROW((void)unpack_tokens("abc"), Error);
}

TEST(Packing, TokensAreLittleEndianInt32) {
  EXPECT_EQ(pack_tokens(std::vector<std::int32_t>{1, -1}), std::string("\x01\0\0\0\xff\xff\xff\xff", 8));
  const std::vector<std::int32_t> tokens = {INT32_MIN, -1, 0, 4095, INT32_MAX};
  EXPECT_EQ(unpack_tokens(pack_tokens(tokens)), tokens);
}

}  // namespace
}  // namespace tare::harness

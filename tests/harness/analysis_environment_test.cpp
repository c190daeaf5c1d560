// What the analysis makes of readings of the machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/analysed.h"

namespace tare::harness {
namespace {

TEST(Analysis, ARunInCompanyIsWarnedOf) {
  SimulatedRun run;
  run.arms = {"a", "b"};
  run.clock = restless_clock({});
  run.change_run = [](const RunRecord& record, RunEnd& end) {
    if (record.slot != 2) return;
    EnvironmentSample& after = end.samples.back().sample;
    *after.cpu_pressure_us += (after.utc_ns - end.samples.front().sample.utc_ns) / 1000 / 5;
    *after.cpu_steal_ticks += 1000;
  };
  const auto [findings, truth] = analysed(run);
  EXPECT_TRUE(has_warning(findings.warnings, "cpu_contended"));
  EXPECT_TRUE(has_warning(findings.warnings, "cpu_stolen"));
  EXPECT_FALSE(has_warning(findings.warnings, "clocks_disagree"));
}

TEST(Analysis, RunsCarryTheirReadingsAndTheGpuItsFactsAndItsEnergy) {
  SimulatedRun run;
  run.arms = {"a", "b"};
  run.clock = restless_clock({});
  run.gpus = {"0000:01:00.0"};
  run.patch = {{"measures", {"decode_speed", "energy_per_token"}}};
  run.change_run = [](const RunRecord& record, RunEnd& end) {
    std::int64_t millijoules = 0;
    for (StoredSample& stored : end.samples) {
      GpuSample gpu;
      gpu.pci_bus_id = "0000:01:00.0";
      gpu.sm_clock_mhz = record.arm == "a" ? 1980 : 1900;
      gpu.power_w = 500;
      // 24 prompts of 9 tokens: 1 J a token for a, a tenth less for b.
      gpu.energy_mj = millijoules += record.arm == "a" ? 216'000 : 194'400;
      gpu.event_reasons = kReasonIdle;
      gpu.power_limit_w = 400;
      stored.sample.gpu = gpu;
    }
    EnvironmentSample during = end.samples.front().sample;
    during.gpu->event_reasons = kReasonPowerCap;
    during.gpu->sm_clock_mhz = *during.gpu->sm_clock_mhz + 15;
    during.cost_ns = 50'000;
    end.samples.insert(end.samples.begin() + 1, {end.samples.front().run_id, "sampler", during});
  };
  const auto [findings, truth] = analysed(run);
  for (const char* code : {"gpu_power_capped", "gpu_slowed", "gpu_clock_moved", "gpu_clock_differs_between_arms"})
    EXPECT_TRUE(has_warning(findings.warnings, code)) << code;
  const reports::Conditions& conditions = findings.conditions;
  EXPECT_EQ(conditions.clock_name, "GPU SM clock");
  ASSERT_EQ(conditions.runs.size(), 8U);
  for (const reports::RunConditions& each : conditions.runs) {
    EXPECT_EQ(findings.runs.at(each.run).state, reports::RunState::kCounted);
    EXPECT_EQ(each.clock_mhz, findings.runs.at(each.run).arm == 0 ? 1995 : 1915);
    EXPECT_EQ(each.samples, 1U);
    EXPECT_EQ(each.energy_j, findings.runs.at(each.run).arm == 0 ? 216 : 194.4);
    EXPECT_TRUE(std::isnan(each.temperature_c)) << "it was not read";
  }
  const auto fact = [&](const std::string& name) {
    for (const reports::Fact& each : conditions.facts)
      if (each.name == name) return each.value;
    return std::string("no such fact");
  };
  EXPECT_THAT(fact("GPU energy a token, a"), testing::StartsWith("1000.0 mJ"));
  EXPECT_EQ(fact("GPU 0000:01:00.0"), "Simulated GPU");
  ASSERT_EQ(findings.measures.size(), 2U);
  const reports::Effect* energy = reports::find_effect(findings, 1, 1);
  ASSERT_NE(energy, nullptr);
  EXPECT_NEAR(energy->estimate_log, std::log(0.9), 1e-9);
  EXPECT_THAT(fact("could not be read"),
              testing::AllOf(testing::HasSubstr("clock governor"), testing::HasSubstr("CPU clock"),
                             testing::HasSubstr("GPU 0000:01:00.0: energy (not supported)")));
  EXPECT_THAT(fact("sampler during runs"), testing::HasSubstr("8 samples"));
}

TEST(Analysis, EnergyThatNothingCountedIsMissingNotZero) {
  for (const Granularity granularity : {Granularity::kRun, Granularity::kPrompt}) {
    SimulatedRun run;
    run.arms = {"a", "b"};
    run.granularity = granularity;
    run.blocks = granularity == Granularity::kRun ? 1 : 5;
    run.clock = restless_clock({});
    run.patch = {{"measures", {"decode_speed", "energy_per_token"}}};
    const auto [findings, truth] = analysed(run);
    ASSERT_TRUE(findings.validity.valid) << findings.validity.why_invalid;
    for (const reports::MeasureValue& value : findings.values)
      EXPECT_EQ(std::isnan(value.value), value.measure == 1) << findings.measures[value.measure].key;
  }
}

TEST(Analysis, ALedgerOfVersion1IsStillAnalysed) {
  const FreshFolder folder;
  write_version_1_ledger(folder.path() / kLedgerFile);
  const reports::Findings findings = analyse(Ledger::open_for_reading(folder.path() / kLedgerFile));
  EXPECT_TRUE(findings.validity.valid) << findings.validity.why_invalid;
  ASSERT_EQ(findings.conditions.runs.size(), 8U);
  EXPECT_TRUE(std::isnan(findings.conditions.runs[0].others_cores));
  EXPECT_FALSE(has_warning(findings.warnings, "neighbour_busy"));
}

}  // namespace
}  // namespace tare::harness

// Each rule is caused on purpose and caught; the same readings without the cause trip none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <ostream>
#include <sstream>

#include "base/file.h"
#include "harness/environment/rules.h"

namespace tare::harness {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kRunSeconds = 10;

EnvironmentSample quiet_sample(std::int64_t second) {
  EnvironmentSample sample;
  sample.utc_ns = second * kSecond;
  sample.uptime_s = static_cast<double>(second);
  sample.load_1min = 2.0;
  sample.cpu_pressure_us = second * 10'000;  // a hundredth of the time
  sample.cpu_busy_ticks = second * 203;
  sample.cpu_steal_ticks = second;
  sample.own_cpu_ticks = second * 200;
  sample.memory_pressure_us = 0;
  sample.io_pressure_us = 0;
  sample.cgroup_throttled_us = 7;
  sample.cgroup_throttled_periods = 1;
  sample.frequency_mhz = 2600;
  sample.builds = "";
  GpuSample gpu;
  gpu.pci_bus_id = "0000:01:00.0";
  gpu.sm_clock_mhz = 1980;
  gpu.memory_clock_mhz = 3201;
  gpu.temperature_c = 45;
  gpu.power_w = 480;
  gpu.event_reasons = kReasonIdle | kReasonApplicationClocks;
  gpu.power_limit_w = 700;
  gpu.energy_mj = second * 480'000;
  gpu.other_processes = 0;
  sample.gpu = gpu;
  return sample;
}

RunReadings quiet_run(std::int64_t start, std::size_t arm) {
  RunReadings run;
  run.name = "run at " + std::to_string(start);
  run.arm = arm;
  run.before = quiet_sample(start);
  run.after = quiet_sample(start + kRunSeconds);
  for (std::int64_t second = 1; second < kRunSeconds; ++second) {
    EnvironmentSample sample = quiet_sample(start + second);
    // GPU clocks move by one step of 15 MHz, CPU clocks by a percent: neither is news.
    sample.gpu->sm_clock_mhz = 1980 - (second % 2 == 0 ? 15 : 0);
    sample.frequency_mhz = 2600 + 26 * static_cast<double>(second % 2);
    run.during.push_back(sample);
  }
  return run;
}

std::vector<RunReadings> quiet_runs() {
  std::vector<RunReadings> runs;
  for (std::size_t i = 0; i < 4; ++i) runs.push_back(quiet_run(static_cast<std::int64_t>(100 * (i + 1)), i % 2));
  return runs;
}

struct Scene {
  std::vector<RunReadings> runs = quiet_runs();
  Machine machine;
  GpuFacts gpu;

  Scene() {
    machine.usable_cores = {0, 1};
    machine.governor = "performance";
    gpu.pci_bus_id = "0000:01:00.0";
    gpu.name = "GPU";
    gpu.default_power_limit_w = 700;
  }
  [[nodiscard]] std::vector<EnvironmentWarning> judged() const {
    return judge_environment(runs, {"plain", "other"}, machine, {{gpu}});
  }
  [[nodiscard]] std::vector<std::string> codes() const {
    std::vector<std::string> codes;
    for (const EnvironmentWarning& warning : judged()) codes.push_back(warning.code);
    return codes;
  }
};

TEST(Rules, AQuietMachineTripsNone) {
  EXPECT_THAT(Scene().codes(), IsEmpty());
}

TEST(Rules, ReadingsThatCouldNotBeHadTripNone) {
  Scene scene;
  for (RunReadings& run : scene.runs) {
    for (EnvironmentSample* sample : {&run.before, &run.after}) {
      const std::int64_t utc_ns = sample->utc_ns;
      *sample = {};
      sample->utc_ns = utc_ns;
    }
    run.during.clear();
  }
  scene.machine = {};
  scene.gpu = {};
  EXPECT_THAT(scene.codes(), IsEmpty());
  EXPECT_FALSE(pressure_share(scene.runs[0]));
  EXPECT_FALSE(others_cores(scene.runs[0]));
  EXPECT_FALSE(energy_j(scene.runs[0]));
  EXPECT_FALSE(event_reasons(scene.runs[0]));
  EXPECT_FALSE(clock_of(scene.runs[0], Clock::kGpuSm));
}

struct Cause {
  std::string code;
  std::string words;  // that the warning must have
  std::function<void(Scene&)> cause;
};
std::ostream& operator<<(std::ostream& out, const Cause& cause) {
  return out << cause.code;
}

class Rule : public testing::TestWithParam<Cause> {};

TEST_P(Rule, IsTrippedByItsCauseAlone) {
  Scene scene;
  GetParam().cause(scene);
  const std::vector<EnvironmentWarning> warnings = scene.judged();
  ASSERT_THAT(scene.codes(), ElementsAre(GetParam().code));
  EXPECT_THAT(warnings[0].text, HasSubstr(GetParam().words));
  EXPECT_FALSE(warnings[0].mend.empty());
}

void set_clock(EnvironmentSample& sample, Clock clock, double mhz) {
  if (clock == Clock::kCpu) sample.frequency_mhz = mhz;
  if (clock == Clock::kGpuSm) sample.gpu->sm_clock_mhz = mhz;
  if (clock == Clock::kGpuMemory) sample.gpu->memory_clock_mhz = mhz;
}

// Both before and during.
void set_clock(RunReadings& run, Clock clock, double mhz) {
  set_clock(run.before, clock, mhz);
  for (EnvironmentSample& sample : run.during) set_clock(sample, clock, mhz);
}

// Late in one run, so that the run's median and the comparisons between runs and arms stay.
auto step(Clock clock, double first, double then) {
  return [=](Scene& scene) {
    RunReadings& run = scene.runs[1];
    const EnvironmentSample sample = run.during.front();
    run.during.assign(12, sample);
    for (std::size_t i = 0; i < 12; ++i) set_clock(run.during[i], clock, i < 8 ? first : then);
  };
}

// One run of each arm, so that the arms stay alike.
auto moved(Clock clock, double mhz) {
  return [=](Scene& scene) {
    for (const std::size_t run : {0, 1}) set_clock(scene.runs[run], clock, mhz);
  };
}

// Less than what runs may differ by, but all of one arm's.
auto of_one_arm(Clock clock, double mhz) {
  return [=](Scene& scene) {
    for (RunReadings& run : scene.runs)
      if (run.arm == 1) set_clock(run, clock, mhz);
  };
}

const std::vector<Cause>& causes() {
  static const std::vector<Cause> all = {
      {"clock_jumped", "by up to +7.0 s",
       [](Scene& s) {
         for (std::size_t run = 2; run < s.runs.size(); ++run)
           for (EnvironmentSample* sample : {&s.runs[run].before, &s.runs[run].after}) sample->utc_ns += 7 * kSecond;
       }},
      {"cpu_contended", "in 1 of 4 runs", [](Scene& s) { *s.runs[2].after.cpu_pressure_us += kRunSeconds * 60'000; }},
      {"cpu_stolen", "in 1 of 4 runs", [](Scene& s) { *s.runs[0].after.cpu_steal_ticks += 30; }},
      {"load_above_cores", "up to 3.0 on 2 usable cores", [](Scene& s) { s.runs[1].during[3].load_1min = 3; }},
      {"neighbour_busy", "at most 0.23", [](Scene& s) { *s.runs[3].after.cpu_busy_ticks += 20 * kRunSeconds; }},
      {"cgroup_throttled", "up to 0.2 %", [](Scene& s) { *s.runs[3].after.cgroup_throttled_us += 20'000; }},
      {"memory_short", "up to 5.0 %", [](Scene& s) { *s.runs[3].after.memory_pressure_us += 500'000; }},
      {"build_running", "around 2 of 4 runs: as, cc1plus, ninja",
       [](Scene& s) {
         s.runs[0].before.builds = "2 cc1plus, ninja";
         s.runs[1].after.builds = "as, 4 cc1plus";
       }},
      {"governor", "powersave", [](Scene& s) { s.machine.governor = "powersave"; }},
      {"cpu_clock_step", "in 1 of 4 runs the CPU clock stepped by more than 2 %", step(Clock::kCpu, 2626, 2500)},
      {"cpu_clock_moved", "2340 to 2626 MHz", moved(Clock::kCpu, 2340)},
      {"cpu_clock_differs_between_arms", "2600 against 2626 MHz", of_one_arm(Clock::kCpu, 2600)},
      {"gpu_clock_step", "in 1 of 4 runs the GPU SM clock stepped by more than 1 %", step(Clock::kGpuSm, 1980, 1900)},
      {"gpu_clock_moved", "1900 to 1980 MHz", moved(Clock::kGpuSm, 1900)},
      {"gpu_clock_differs_between_arms", "other ran at another GPU SM clock than plain: 1965 against 1980 MHz",
       of_one_arm(Clock::kGpuSm, 1965)},
      {"gpu_clock_cold", "17 % of the run's own", [](Scene& s) { s.runs[2].before.gpu->sm_clock_mhz = 345; }},
      {"gpu_memory_clock_step", "the GPU memory clock stepped", step(Clock::kGpuMemory, 3201, 2619)},
      {"gpu_memory_clock_moved", "2619 to 3201 MHz", moved(Clock::kGpuMemory, 2619)},
      {"gpu_memory_clock_differs_between_arms", "3177 against 3201 MHz", of_one_arm(Clock::kGpuMemory, 3177)},
      {"gpu_memory_clock_cold", "13 % of the run's own",
       [](Scene& s) { s.runs[2].before.gpu->memory_clock_mhz = 405; }},
      {"gpu_slowed", "in 1 of 4 runs the GPU was held back: power cap",
       // Seen by the sampler only: before and after, the GPU rests.
       [](Scene& s) { *s.runs[1].during[4].gpu->event_reasons |= kReasonPowerCap; }},
      {"gpu_neighbour", "1 other process had", [](Scene& s) { s.runs[1].before.gpu->other_processes = 1; }},
      {"several_gpus", "0000:01:00.0, 0000:02:00.0",
       [](Scene& s) {
         for (RunReadings& run : s.runs)
           if (run.arm == 1) run.before.gpu->pci_bus_id = "0000:02:00.0";
       }},
      {"gpu_power_capped", "400 W, its default 700 W",
       [](Scene& s) {
         for (RunReadings& run : s.runs) run.before.gpu->power_limit_w = run.after.gpu->power_limit_w = 400;
       }},
  };
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Rule, testing::ValuesIn(causes()),
                         [](const testing::TestParamInfo<Cause>& info) { return info.param.code; });

TEST(Rules, EachIsCausedOnPurposeAbove) {
  std::vector<std::string> caused;
  for (const Cause& cause : causes()) caused.push_back(cause.code);
  EXPECT_THAT(caused, testing::UnorderedElementsAreArray(rule_codes()));
}

// Rows of its tables: | `code` | ...
TEST(Rules, EachHasItsRowInTheGuide) {
  std::istringstream page(read_text_file(std::filesystem::path(TARE_SOURCE_DIR) / "docs/guide/environment.md"));
  std::vector<std::string> rows;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) inside = line == "## Warnings";
    if (inside && line.starts_with("| `")) rows.push_back(line.substr(3, line.find('`', 3) - 3));
  }
  EXPECT_THAT(rows, testing::UnorderedElementsAreArray(rule_codes()));
}

TEST(Rules, ACpuThatRestsBetweenRunsIsNotCalledCold) {
  Scene scene;
  for (RunReadings& run : scene.runs) run.before.frequency_mhz = 800;
  EXPECT_THAT(scene.codes(), IsEmpty());
}

TEST(Rules, WithoutASamplerTheReadingsAroundARunStandForItsClock) {
  Scene scene;
  for (RunReadings& run : scene.runs) run.during.clear();
  for (auto* sample : {&scene.runs[0].before, &scene.runs[0].after}) sample->gpu->sm_clock_mhz = 1500;
  const auto clock = clock_of(scene.runs[0], Clock::kGpuSm);
  ASSERT_TRUE(clock);
  EXPECT_EQ(clock->median_mhz, 1500);
  EXPECT_EQ(clock->samples, 2U);
  EXPECT_THAT(scene.codes(), testing::Contains("gpu_clock_moved"));
}

TEST(Rules, ACounterThatWasSetBackSaysNothing) {
  Scene scene;
  scene.runs[0].after.cpu_pressure_us = 0;
  EXPECT_FALSE(pressure_share(scene.runs[0]));
}

TEST(Rules, OthersAreNotCountedInRunsShorterThanTheKernelsTicks) {
  RunReadings run = quiet_run(100, 0);
  run.after.utc_ns = run.before.utc_ns + kSecond / 2;
  run.after.uptime_s = *run.before.uptime_s + 0.5;
  *run.after.cpu_busy_ticks += 1000;
  EXPECT_FALSE(others_cores(run));
}

// As if the clock had been set back an hour within the second run.
TEST(Rules, ATimeOfDayThatWasSetChangesNoDuration) {
  Scene scene;
  const double pressure = *pressure_share(scene.runs[1]);
  scene.runs[1].after.utc_ns -= 3600 * kSecond;
  for (std::size_t run = 2; run < scene.runs.size(); ++run)
    for (EnvironmentSample* sample : {&scene.runs[run].before, &scene.runs[run].after})
      sample->utc_ns -= 3600 * kSecond;
  EXPECT_EQ(duration_s(scene.runs[1]), kRunSeconds);
  EXPECT_EQ(pressure_share(scene.runs[1]), pressure);
  ASSERT_THAT(scene.codes(), ElementsAre("clock_jumped"));
  EXPECT_THAT(scene.judged()[0].text, HasSubstr("jumped 1 time within a sitting, by up to -3600.0 s"));
}

TEST(Rules, SlewingAndAnotherBootAreNoJumps) {
  Scene scene;
  for (std::size_t i = 0; i < scene.runs.size(); ++i)  // 5 parts in 10,000, over 400 s
    for (EnvironmentSample* sample : {&scene.runs[i].before, &scene.runs[i].after})
      sample->utc_ns += static_cast<std::int64_t>(*sample->uptime_s * 0.0005 * kSecond);
  for (EnvironmentSample* sample : {&scene.runs[3].before, &scene.runs[3].after}) *sample->uptime_s += 1e6;
  EXPECT_THAT(scene.codes(), ElementsAre("clock_jumped"));
  scene.runs[3].sitting = 2;
  EXPECT_THAT(scene.codes(), IsEmpty());
}

TEST(Rules, EnergyIsTheCountersDifference) {
  EXPECT_EQ(energy_j(quiet_run(100, 0)), 4800);
}

TEST(Rules, SlowingReasonsLeaveOutWhatIsNormal) {
  EXPECT_EQ(slowing_reasons(kReasonIdle | kReasonApplicationClocks | kReasonSyncBoost | kReasonDisplayClocks), 0U);
  EXPECT_EQ(slowing_reasons(kReasonIdle | kReasonThermalSlowdown), kReasonThermalSlowdown);
}

}  // namespace
}  // namespace tare::harness

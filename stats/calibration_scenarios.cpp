#include <fmt/format.h>

#include "stats/calibration.h"

namespace tare::stats {
namespace {

constexpr double kOnePercent = 0.01;  // one percent, in ln rate

ClockModel clock_of(double launch_sd, double reaction_sd, double noise_sd) {
  ClockModel clock;
  clock.log_effects = {0, 0};
  clock.base_spread = 0.5;
  clock.launch_sd = launch_sd;
  clock.reaction_sd = reaction_sd;
  clock.noise_sd = noise_sd;
  return clock;
}

struct DriftCase {
  const char* name;
  DriftKind kind;
  double size;  // in launch standard deviations
  const char* outside_one_block;
  const char* outside_two_blocks;
};

const char* const kNotSmooth = "not a smooth drift: heavy tails make the interval a little wide, never narrow";

// Sizes of 5 to 12 launch standard deviations: a machine that moves far more than launches differ.
constexpr DriftCase kDrifts[] = {
    {"no drift", DriftKind::kNone, 0, "", ""},
    {"linear drift, 8 sd", DriftKind::kLinear, 8, "", ""},
    {"quadratic drift, 8 sd", DriftKind::kQuadratic, 8, "", ""},
    {"cubic drift, 12 sd", DriftKind::kCubic, 12, "eight slots are not orthogonal to the third power", ""},
    {"exponential start-up, 8 sd", DriftKind::kExponential, 8, "", ""},
    {"random walk, 5 sd", DriftKind::kRandomWalk, 5, "", ""},
    {"AR(1) 0.7, 2 sd", DriftKind::kAutoregressive, 2, "", ""},
    {"step at a random slot, 8 sd", DriftKind::kStep, 8, "*", "*"},
    {"one slow run in half, 8 sd", DriftKind::kOneSlowRun, 8, "*", "*"},
};

void add_drifts(std::vector<CalibrationScenario>& scenarios) {
  for (const int blocks : {1, 2}) {
    for (const DriftCase& drift : kDrifts) {
      const std::string outside = blocks == 1 ? drift.outside_one_block : drift.outside_two_blocks;
      CalibrationScenario scenario;
      scenario.name = fmt::format("{}, {} block{}", drift.name, blocks, blocks == 1 ? "" : "s");
      scenario.group = "drift";
      scenario.clock = clock_of(0.1 * kOnePercent, 0, 0.1 * kOnePercent);
      scenario.clock.drift = drift.kind;
      scenario.clock.drift_size = drift.size * scenario.clock.launch_sd;
      scenario.blocks = blocks;
      scenario.prompts = 8;  // the drift is what is looked at: more prompts would change nothing
      scenario.outside = outside == "*" ? kNotSmooth : outside;
      scenarios.push_back(std::move(scenario));
    }
  }
}

// One block, 80 prompts, noise of 0.5 % a cell.
void add_spreads(std::vector<CalibrationScenario>& scenarios) {
  for (const double launch_percent : {0.0, 0.05, 0.1, 0.3}) {
    for (const double prompt_percent : {0.0, 0.3, 1.0}) {
      CalibrationScenario scenario;
      scenario.name = fmt::format("launches {} %, prompts {} %", launch_percent, prompt_percent);
      scenario.group = "launches and prompts";
      scenario.clock = clock_of(launch_percent * kOnePercent, prompt_percent * kOnePercent, 0.5 * kOnePercent);
      scenarios.push_back(std::move(scenario));
    }
  }
}

void add_residents(std::vector<CalibrationScenario>& scenarios) {
  for (const int blocks : {5, 6, 12}) {
    CalibrationScenario scenario;
    scenario.name = fmt::format("resident, {} blocks", blocks);
    scenario.group = "resident workers";
    scenario.clock = clock_of(0.1 * kOnePercent, 0.3 * kOnePercent, 0.5 * kOnePercent);
    scenario.clock.drift = DriftKind::kRandomWalk;
    scenario.clock.drift_size = 2 * kOnePercent;
    // From six blocks on the order of starting is fitted.
    scenario.clock.start_order = blocks >= kBlocksForStartOrderTerm ? 0.5 * kOnePercent : 0;
    scenario.granularity = Granularity::kPrompt;
    scenario.blocks = blocks;
    scenario.prompts = 24;
    scenarios.push_back(std::move(scenario));
  }
}

void add_arms_and_effects(std::vector<CalibrationScenario>& scenarios) {
  for (const int arms : {3, 4}) {
    CalibrationScenario scenario;
    scenario.name = fmt::format("{} null arms, quadratic drift", arms - 1);
    scenario.group = "several arms";
    scenario.clock = clock_of(0.1 * kOnePercent, 0, 0.1 * kOnePercent);
    scenario.clock.log_effects.assign(static_cast<std::size_t>(arms), 0);
    scenario.clock.drift = DriftKind::kQuadratic;
    scenario.clock.drift_size = 0.8 * kOnePercent;
    scenario.prompts = 8;
    scenarios.push_back(std::move(scenario));
  }
  for (const double effect_percent : {0.1, 0.3, 1.0}) {
    CalibrationScenario scenario;
    scenario.name = fmt::format("injected {} %, 2 blocks, linear drift", effect_percent);
    scenario.group = "injected effects";
    scenario.clock = clock_of(0.1 * kOnePercent, 0, 0.5 * kOnePercent);
    scenario.clock.log_effects = {0, log_effect_of_percent(-effect_percent)};
    scenario.clock.drift = DriftKind::kLinear;
    scenario.clock.drift_size = 2 * kOnePercent;
    scenario.blocks = 2;
    scenarios.push_back(std::move(scenario));
  }
}

}  // namespace

std::vector<CalibrationScenario> calibration_scenarios() {
  std::vector<CalibrationScenario> scenarios;
  add_drifts(scenarios);
  add_spreads(scenarios);
  add_residents(scenarios);
  add_arms_and_effects(scenarios);
  return scenarios;
}

}  // namespace tare::stats

// Intervals against simulated clocks with known truth: does a 95 % interval hold it in about 95 % of experiments? Seeds
// are fixed, so each test is a constant of the code. Bounds are the nominal share -+ three binomial standard deviations
// and more.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "stats/bootstrap.h"
#include "stats/simulation.h"
#include "stats/two_way.h"

namespace tare::stats {
namespace {

constexpr int kRepetitions = 2000;  // one standard deviation of a 95 % share: 0.5 %

struct Shares {
  double run_holds_suite = 0;
  double run_holds_population = 0;
  double two_way_holds_population = 0;
  double difference_shown = 0;  // share of experiments with any arm shown to differ
};

// Run level and two-way only; the bootstrap has its own test, as it takes longer.
Shares repeat(const ClockModel& model, int blocks, Granularity granularity, std::size_t prompts,
              int repetitions = kRepetitions) {
  Shares shares;
  const int arms = static_cast<int>(model.log_effects.size());
  const double each = 1.0 / repetitions;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const auto seed = static_cast<std::uint64_t>(repetition) + 1000;
    const bool by_run = granularity == Granularity::kRun;
    const Schedule schedule = by_run ? make_schedule(arms, blocks, seed) : make_resident_schedule(arms, blocks, seed);
    const SimulatedExperiment experiment = simulate(model, schedule, granularity, prompts, seed);
    const Observations& observations = experiment.observations;
    std::vector<Estimate> family;
    if (by_run) {
      family = regress_runs(observations.runs, run_log_rates(observations), arms, drift_degree_rule(blocks)).estimates;
    } else {
      for (int arm = 1; arm < arms; ++arm) family.push_back(block_effects(observations, arm).estimate);
    }
    bool any = false;
    for (const VerdictResult& verdict : decide(family, DecisionRule{})) any = any || verdict.difference_shown;
    shares.difference_shown += any ? each : 0;
    const Estimate two_way = two_way_estimate(observations, 1, family[0], !by_run);
    shares.run_holds_suite += family[0].interval->holds(experiment.suite_truth[1]) ? each : 0;
    shares.run_holds_population += family[0].interval->holds(experiment.population_truth[1]) ? each : 0;
    shares.two_way_holds_population += two_way.interval->holds(experiment.population_truth[1]) ? each : 0;
  }
  return shares;
}

void record(const std::string& name, double share) {
  testing::Test::RecordProperty(name, fmt::format("{:.4f}", share));
}

ClockModel launch_noise(double launch_sd, double reaction_sd = 0) {
  ClockModel model;
  model.log_effects = {0, 0};
  model.base_spread = 0;
  model.launch_sd = launch_sd;
  model.reaction_sd = reaction_sd;
  return model;
}

struct DriftCase {
  const char* name;
  DriftKind kind;
  double size;  // in units of the launch sd
  int blocks;
};

class DriftCoverage : public testing::TestWithParam<DriftCase> {};

TEST_P(DriftCoverage, RunLevelIntervalHoldsTheSuiteTruth) {
  ClockModel model = launch_noise(0.001);
  model.noise_sd = 0.001;
  model.drift = GetParam().kind;
  model.drift_size = GetParam().size * model.launch_sd;
  const Shares shares = repeat(model, GetParam().blocks, Granularity::kRun, 8);
  record("run_holds_suite", shares.run_holds_suite);
  EXPECT_GT(shares.run_holds_suite, 0.930);
  EXPECT_LT(shares.run_holds_suite, 0.978);  // a slow run or a step in half of the experiments makes it a little wide
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, DriftCoverage,
    testing::Values(
        DriftCase{"none_1", DriftKind::kNone, 0, 1}, DriftCase{"linear_1", DriftKind::kLinear, 8, 1},
        DriftCase{"quadratic_1", DriftKind::kQuadratic, 8, 1},
        DriftCase{"exponential_1", DriftKind::kExponential, 8, 1}, DriftCase{"step_1", DriftKind::kStep, 8, 1},
        DriftCase{"walk_1", DriftKind::kRandomWalk, 5, 1},
        DriftCase{"autoregressive_1", DriftKind::kAutoregressive, 2, 1},
        DriftCase{"slow_run_1", DriftKind::kOneSlowRun, 8, 1}, DriftCase{"linear_2", DriftKind::kLinear, 8, 2},
        DriftCase{"quadratic_2", DriftKind::kQuadratic, 8, 2}, DriftCase{"cubic_2", DriftKind::kCubic, 8, 2},
        DriftCase{"exponential_2", DriftKind::kExponential, 8, 2}, DriftCase{"step_2", DriftKind::kStep, 8, 2},
        DriftCase{"walk_2", DriftKind::kRandomWalk, 5, 2}, DriftCase{"slow_run_2", DriftKind::kOneSlowRun, 8, 2}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Coverage, ThreeArmsInTheirOwnOrderHoldUnderDrift) {
  ClockModel model = launch_noise(0.001);
  model.log_effects = {0, 0.02, -0.01};
  model.noise_sd = 0.001;
  for (const auto& [kind, blocks] : {std::pair{DriftKind::kQuadratic, 1}, std::pair{DriftKind::kCubic, 2}}) {
    model.drift = kind;
    model.drift_size = 0.008;
    const Shares shares = repeat(model, blocks, Granularity::kRun, 8);
    record(fmt::format("blocks_{}", blocks), shares.run_holds_suite);
    EXPECT_NEAR(shares.run_holds_suite, 0.95, 0.016) << blocks;
  }
}

TEST(Coverage, StrongCubicDriftOnOneBlockIsOutsideTheMethod) {
  // Named beforehand: eight slots are not orthogonal to the third power. Two blocks are (cubic_2 above).
  ClockModel model = launch_noise(0.001);
  model.noise_sd = 0.001;
  model.drift = DriftKind::kCubic;
  model.drift_size = 12 * model.launch_sd;
  const double one_block = repeat(model, 1, Granularity::kRun, 8).run_holds_suite;
  const double two_blocks = repeat(model, 2, Granularity::kRun, 8).run_holds_suite;
  record("one_block", one_block);
  record("two_blocks", two_blocks);
  EXPECT_NEAR(one_block, 0.875, 0.025);
  EXPECT_GT(two_blocks, 0.935);
}

TEST(Coverage, PerPromptIntervalFailsAsSoonAsLaunchesDiffer) {
  // The reason for run-level verdicts: 95 % per-prompt intervals hold the truth 62 % of the time at a launch sd of 0.1
  // %, and 25 % at 0.3 % (80 prompts, one block). Without launch noise they are right.
  const auto share = [](double launch_sd) {
    const ClockModel model = launch_noise(launch_sd);
    int held = 0;
    const int repetitions = 300;
    for (int repetition = 0; repetition < repetitions; ++repetition) {
      const auto seed = static_cast<std::uint64_t>(repetition);
      const SimulatedExperiment experiment = simulate(model, make_schedule(2, 1, seed), Granularity::kRun, 80, seed);
      const BootstrapResult result =
          bootstrap_ratio(prompt_totals(experiment.observations, 0), prompt_totals(experiment.observations, 1),
                          {.resamples = 400, .seed = seed});
      held += result.estimate.interval->holds(0) ? 1 : 0;
    }
    const double of_all = static_cast<double>(held) / repetitions;
    record(fmt::format("launch_sd_{}", launch_sd), of_all);
    return of_all;
  };
  EXPECT_GT(share(0), 0.90);
  EXPECT_NEAR(share(0.001), 0.62, 0.09);
  EXPECT_NEAR(share(0.003), 0.25, 0.08);
}

TEST(Coverage, RunLevelIsAboutThisSuiteAndTwoWayAboutPromptsLikeThese) {
  // Prompts react with an sd of 1 %: the run-level interval holds the suite's truth, hardly the population's.
  const Shares shares = repeat(launch_noise(0, 0.01), 1, Granularity::kRun, 80, 500);
  record("run_holds_suite", shares.run_holds_suite);
  record("run_holds_population", shares.run_holds_population);
  record("two_way_holds_population", shares.two_way_holds_population);
  EXPECT_GT(shares.run_holds_suite, 0.925);
  EXPECT_LT(shares.run_holds_suite, 0.980);
  EXPECT_LT(shares.run_holds_population, 0.70);
  EXPECT_GT(shares.two_way_holds_population, 0.92);
  EXPECT_LT(shares.two_way_holds_population, 0.985);
}

TEST(Coverage, TwoWayHoldsWhateverDominates) {
  for (const auto& [launch_sd, reaction_sd] :
       {std::pair{0.0, 0.0}, std::pair{0.0005, 0.003}, std::pair{0.001, 0.003}, std::pair{0.003, 0.0}}) {
    const Shares shares = repeat(launch_noise(launch_sd, reaction_sd), 2, Granularity::kRun, 40, 1000);
    record(fmt::format("launch_sd_{}_reaction_sd_{}", launch_sd, reaction_sd), shares.two_way_holds_population);
    EXPECT_GT(shares.two_way_holds_population, 0.925) << launch_sd << " " << reaction_sd;
    EXPECT_LT(shares.two_way_holds_population, 0.985) << launch_sd << " " << reaction_sd;
  }
}

TEST(Coverage, BlocksHoldWithAStartOrderEffectAndDriftBetweenBlocks) {
  for (const int blocks : {5, 6, 8}) {
    ClockModel model = launch_noise(0.001);
    model.start_order = blocks == 5 ? 0 : 0.005;
    model.drift = DriftKind::kRandomWalk;
    model.drift_size = 0.02;
    const Shares shares = repeat(model, blocks, Granularity::kPrompt, 10);
    record(fmt::format("blocks_{}", blocks), shares.run_holds_suite);
    EXPECT_GT(shares.run_holds_suite, 0.925) << blocks;
    EXPECT_LT(shares.run_holds_suite, 0.975) << blocks;
  }
}

TEST(Verdicts, FalseClaimsOfAFamilyOfNullArmsStayAtAlpha) {
  ClockModel model = launch_noise(0.001);
  model.log_effects = {0, 0, 0, 0};
  const double shown = repeat(model, 1, Granularity::kRun, 8).difference_shown;
  record("false_claims", shown);
  EXPECT_LT(shown, 0.05 + 0.021);  // three arms; unadjusted it would be about 0.12
  EXPECT_GT(shown, 0.01);
}

TEST(Verdicts, OnePercentIsFoundAndNoDifferenceIsNotInvented) {
  ClockModel model = launch_noise(0.002);
  model.log_effects = {0, -0.01};
  model.drift = DriftKind::kLinear;
  model.drift_size = 0.02;
  const double found = repeat(model, 2, Granularity::kRun, 20, 300).difference_shown;
  record("one_percent_found", found);
  EXPECT_GT(found, 0.99);
  model.log_effects = {0, 0};
  const double shown = repeat(model, 2, Granularity::kRun, 20).difference_shown;
  record("no_difference_claimed", shown);
  EXPECT_NEAR(shown, 0.05, 0.021);
}

TEST(Simulation, SameSeedSameClockAndMidTimesAscend) {
  const ClockModel model = launch_noise(0.001, 0.003);
  const auto once = simulate(model, make_schedule(2, 2, 1), Granularity::kRun, 5, 77);
  const auto again = simulate(model, make_schedule(2, 2, 1), Granularity::kRun, 5, 77);
  EXPECT_EQ(once.observations.denominator, again.observations.denominator);
  for (std::size_t r = 1; r < once.observations.runs.size(); ++r) {
    EXPECT_GT(once.observations.runs[r].mid_time_s, once.observations.runs[r - 1].mid_time_s);
  }
  EXPECT_NE(once.observations.denominator,
            simulate(model, make_schedule(2, 2, 1), Granularity::kRun, 5, 78).observations.denominator);
}

TEST(Simulation, AColdFirstSlotBiasesEveryOrderByTheKnownShare) {
  // No order cancels it (0.25 of its amplitude without drift terms on eight slots): the warm-up run is left out
  // instead.
  ClockModel model = launch_noise(0);
  model.noise_sd = 0;
  model.cold_first_slot = 0.01;
  const SimulatedExperiment experiment = simulate(model, make_schedule(2, 1, 1), Granularity::kRun, 4, 1);
  const Estimate estimate =
      regress_runs(experiment.observations.runs, run_log_rates(experiment.observations), 2, 0).estimates[0];
  EXPECT_NEAR(std::abs(estimate.log_effect), 0.0025, 1e-9);
}

}  // namespace
}  // namespace tare::stats

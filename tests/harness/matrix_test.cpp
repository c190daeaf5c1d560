// Matrices on simulated clocks: from an experiment with factors to what they do, with the truth known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "reports/findings_json.h"
#include "tests/harness/analysed.h"

namespace tare::harness {
namespace {

using testing::ElementsAre;

// q8, q4 and q3 with one and two threads; q4 is 5 % faster, q3 8 %, two threads 50 %, and q3 gains 4 % less from them.
SimulatedRun matrix_run(Granularity granularity, int blocks) {
  SimulatedRun run;
  run.arms = {"q8_1t", "q8_2t", "q4_1t", "q4_2t", "q3_1t", "q3_2t"};
  run.granularity = granularity;
  run.blocks = blocks;
  run.seed = 5;
  run.clock = restless_clock({0, 0.50, 0.05, 0.55, 0.08, 0.54});
  run.clock.reaction_sd = 0;
  run.patch = Json::parse(R"({
    "factors": {"weights": [{"name": "q8"}, {"name": "q4"}, {"name": "q3"}], "threads": [{"name": "1t"}, {"name": "2t"}]},
    "design": {"kind": "full"},
    "arms": [{"name": "q8_1t", "levels": {"weights": "q8", "threads": "1t"}},
             {"name": "q8_2t", "levels": {"weights": "q8", "threads": "2t"}},
             {"name": "q4_1t", "levels": {"weights": "q4", "threads": "1t"}},
             {"name": "q4_2t", "levels": {"weights": "q4", "threads": "2t"}},
             {"name": "q3_1t", "levels": {"weights": "q3", "threads": "1t"}},
             {"name": "q3_2t", "levels": {"weights": "q3", "threads": "2t"}}]})");
  return run;
}

TEST(MatrixFindings, HaveTheLevelsOfEveryArmAndRecoverWhatTheFactorsDo) {
  for (const auto& [granularity, blocks] : {std::pair(Granularity::kRun, 4), std::pair(Granularity::kPrompt, 10)}) {
    const reports::Findings findings = analysed(matrix_run(granularity, blocks)).findings;
    ASSERT_TRUE(findings.validity.valid) << findings.validity.why_invalid;
    const reports::Matrix& matrix = findings.matrix;
    EXPECT_EQ(matrix.design, "full");
    ASSERT_EQ(matrix.factors.size(), 2U);
    EXPECT_THAT(matrix.factors[0].levels, ElementsAre("q8", "q4", "q3"));
    EXPECT_THAT(findings.arms[3].levels, ElementsAre(1, 1));
    EXPECT_EQ(reports::levels_text(findings, findings.arms[3]), "weights q4, threads 2t");
    ASSERT_EQ(matrix.effects.size(), 3U);
    const double truth[] = {0.05, 0.06, 0.50 - 0.04 / 3};
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_LE(matrix.effects[i].interval.low_log, truth[i]) << i;
      EXPECT_GE(matrix.effects[i].interval.high_log, truth[i]) << i;
      EXPECT_TRUE(matrix.effects[i].shown) << i;
    }
    EXPECT_EQ(matrix.effects[0].combinations, 2U);
    EXPECT_EQ(matrix.effects[2].combinations, 3U);
    ASSERT_EQ(matrix.interactions.size(), 2U);
    EXPECT_FALSE(matrix.interactions[0].shown);  // q4: none
    EXPECT_TRUE(matrix.interactions[1].shown);   // q3: 4 % less
    EXPECT_LE(matrix.interactions[1].interval.low_log, -0.04);
    EXPECT_GE(matrix.interactions[1].interval.high_log, -0.04);
    EXPECT_TRUE(has_warning(findings.warnings, "factors_interact"));
  }
}

TEST(MatrixFindings, AreInTheJson) {
  const Json json = reports::findings_json(analysed(matrix_run(Granularity::kRun, 2)).findings);
  EXPECT_EQ(json["arms"][5]["levels"].dump(), R"({"weights":"q3","threads":"2t"})");
  EXPECT_EQ(json["matrix"]["effects"].size(), 3U);
  EXPECT_EQ(json["matrix"]["interactions"][1]["other_level"], "2t");
  EXPECT_TRUE(json["matrix"]["effects"][0]["interval"]["low"]["log"].is_number());
  EXPECT_GE(json["drift"]["width_inflation"], 1.0 - 1e-9);
  SimulatedRun without;
  without.arms = {"a", "b"};
  without.clock = restless_clock({0, 0.01});
  const Json plain = reports::findings_json(analysed(without).findings);
  EXPECT_TRUE(plain["matrix"].is_null());
}

// Five arms that do nothing and one with p between its screen's and Holm's bound would differ; here only that the word
// reaches the verdicts and both adjustments are reported.
TEST(MatrixFindings, AScreenDecidesByTheOtherAdjustment) {
  SimulatedRun run = matrix_run(Granularity::kRun, 2);
  run.clock.log_effects = {0, 0.0035, 0.0035, 0.0035, 0.0035, 0.0035};
  run.patch["analysis"] = {{"multiplicity", "screen"}};
  const reports::Findings screen = analysed(run).findings;
  EXPECT_EQ(screen.methods.multiplicity, "screen");
  bool differ = false;
  for (const reports::Effect& effect : screen.effects) {
    if (!effect.in_family) continue;
    EXPECT_EQ(effect.p_adjusted, effect.p_benjamini_hochberg);
    EXPECT_LE(effect.p_benjamini_hochberg, effect.p_holm);
    EXPECT_EQ(effect.difference_shown, effect.p_benjamini_hochberg < screen.methods.alpha);
    differ = differ || effect.p_benjamini_hochberg < effect.p_holm;
  }
  EXPECT_TRUE(differ);
}

// After one palindrome nothing is concluded, and the report can still be written.
TEST(MatrixFindings, OfOneBlockOfManyArmsAreInconclusive) {
  SimulatedRun run = matrix_run(Granularity::kRun, 2);
  run.blocks_measured = 1;
  const reports::Findings findings = analysed(run).findings;
  EXPECT_TRUE(findings.validity.valid) << findings.validity.why_invalid;
  for (const reports::Effect& effect : findings.effects) {
    if (effect.in_family) {
      EXPECT_EQ(effect.verdict, "inconclusive");
    }
  }
  for (const reports::FactorEffect& effect : findings.matrix.effects) EXPECT_FALSE(effect.shown);
}

}  // namespace
}  // namespace tare::harness

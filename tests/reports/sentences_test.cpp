#include "reports/sentences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sample_findings.h"

namespace tare::reports {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// The only effect on decode speed of sample::handicap, with these percents.
Findings with_effect(double estimate, double low, double high, double p_adjusted, const std::string& verdict) {
  Findings findings = sample::handicap();
  Effect& effect = findings.effects[0];
  effect.truth.reset();
  effect.estimate_log = std::log1p(estimate / 100);
  for (Interval& interval : effect.intervals) {
    if (!interval.of_verdict) continue;
    interval.estimate_log = effect.estimate_log;
    interval.low_log = std::log1p(low / 100);
    interval.high_log = std::log1p(high / 100);
  }
  effect.p = effect.p_adjusted = p_adjusted;
  effect.difference_shown = p_adjusted < 0.05;
  effect.verdict = verdict;
  return findings;
}

VerdictLine line_of(const Findings& findings) {
  return verdict_line(findings, findings.effects[0]);
}

TEST(VerdictLine, SaysFasterWithSizeAndP) {
  const VerdictLine line = line_of(with_effect(34.1, 33.6, 34.6, 1e-9, "better"));
  EXPECT_EQ(line.sentence,
            "slowed is faster than plain by 34.1\u00A0% [33.6,\u00A034.6]: difference shown (Holm-adjusted p "
            "<\u00A00.0001).");
  EXPECT_EQ(line.word, "better");
  EXPECT_EQ(line.tone, Tone::kGood);
}

TEST(VerdictLine, SaysSlower) {
  const VerdictLine line = line_of(with_effect(-0.98, -1.04, -0.92, 0.012, "worse"));
  EXPECT_THAT(line.sentence, HasSubstr("slowed is slower than plain by 0.98\u00A0% [0.92,\u00A01.04]: difference shown "
                                       "(Holm-adjusted p =\u00A00.012)."));
  EXPECT_EQ(line.estimate, "\u22120.98\u00A0%");
  EXPECT_EQ(line.tone, Tone::kBad);
}

TEST(VerdictLine, SaysThatNoDifferenceIsShown) {
  const VerdictLine line = line_of(with_effect(0.02, -0.11, 0.15, 0.74, "inconclusive"));
  EXPECT_EQ(line.sentence,
            "slowed: no difference shown: +0.02\u00A0% [\u22120.11,\u00A0+0.15] (Holm-adjusted p =\u00A00.74).");
  EXPECT_EQ(line.word, "no difference shown");
  EXPECT_EQ(line.tone, Tone::kNeutral);
}

TEST(VerdictLine, SaysWhenTheFamilyTookASingleFindingBack) {
  Findings findings = with_effect(0.2, 0.01, 0.39, 0.08, "inconclusive");
  findings.methods.family_size = 2;
  EXPECT_THAT(line_of(findings).sentence, HasSubstr("Alone the interval leaves 0 out; among 2 verdicts"));
}

TEST(VerdictLine, AllowsEquivalentAndDifferent) {
  Findings findings = with_effect(-0.2, -0.25, -0.15, 0.001, "equivalent");
  findings.methods.equivalence_margin_log = -std::log1p(-0.005);
  const VerdictLine line = line_of(findings);
  EXPECT_THAT(line.sentence, HasSubstr("difference shown"));
  EXPECT_THAT(line.sentence, HasSubstr("Equivalent within \u00B10.5\u00A0%."));
  EXPECT_EQ(line.word, "equivalent");
  EXPECT_EQ(line.tone, Tone::kNeutral);
}

TEST(VerdictLine, NamesTheMarginOfNonInferiority) {
  Findings findings = with_effect(-0.02, -0.11, 0.07, 0.6, "non_inferior");
  findings.methods.non_inferiority_margin_log = -std::log1p(-0.01);
  const VerdictLine line = line_of(findings);
  EXPECT_THAT(line.sentence, HasSubstr("Non-inferior: worse by less than 1\u00A0%."));
  EXPECT_EQ(line.word, "non-inferior");
}

TEST(VerdictLine, FollowsTheDirectionOfTheMeasure) {
  Findings findings = with_effect(3.1, 2.9, 3.3, 1e-6, "worse");
  findings.effect_measure = findings.effects[0].measure = 1;  // time to first token
  const VerdictLine line = line_of(findings);
  EXPECT_THAT(line.sentence, HasSubstr("slowed: time to first token is higher than with plain by 3.10\u00A0%"));
  EXPECT_EQ(line.tone, Tone::kBad);
}

TEST(VerdictLine, GivesNoNumberWhenInvalid) {
  Findings findings = with_effect(34.1, 33.6, 34.6, 1e-9, "better");
  findings.validity.valid = false;
  const VerdictLine line = line_of(findings);
  EXPECT_THAT(line.estimate, IsEmpty());
  EXPECT_THAT(line.sentence, Not(HasSubstr("34")));
  EXPECT_EQ(line.tone, Tone::kInvalid);
}

TEST(VerdictLine, AMissedControlIsAsBadAsAFailedValidation) {
  Findings findings = with_effect(34.1, 33.6, 34.6, 1e-9, "better");
  findings.validity.controls[1].caught = false;
  EXPECT_EQ(line_of(findings).tone, Tone::kInvalid);
  EXPECT_THAT(validity_sentence(findings.validity), HasSubstr("Positive controls MISSED: one flipped token."));
  EXPECT_THAT(validity_sentence(findings.validity), Not(HasSubstr("instrument is valid")));
}

TEST(VerdictLine, SaysWhyThereIsNoInterval) {
  Findings findings = with_effect(1, kMissing, kMissing, kMissing, "inconclusive");
  for (Interval& interval : findings.effects[0].intervals) interval.why_missing = "fewer than 5 blocks";
  findings.effects[0].difference_shown = false;
  EXPECT_EQ(line_of(findings).sentence, "slowed: no interval, so nothing is shown (fewer than 5 blocks).");
}

TEST(VerdictLine, SaysWhetherTheKnownTruthIsHeld) {
  Findings findings = sample::handicap();
  EXPECT_THAT(line_of(findings).truth, HasSubstr("Known truth \u22120.99\u00A0%: the interval holds it"));
  findings.effects[0].truth->effect_log = -0.02;
  EXPECT_THAT(line_of(findings).truth, HasSubstr("the interval does NOT hold it"));
}

TEST(Validity, CountsAndNamesTheControls) {
  const std::string sentence = validity_sentence(sample::three_arms().validity);
  EXPECT_THAT(sentence, HasSubstr("The instrument is valid: 64 of 64 replays"));
  EXPECT_THAT(sentence, HasSubstr("3 of 3: off-by-one forcing, one flipped token and text of another model."));
}

TEST(Validity, SaysWhenNoControlWasRun) {
  Validity validity = sample::three_arms().validity;
  validity.controls.clear();
  EXPECT_THAT(validity_sentence(validity), HasSubstr("No positive control was run."));
}

TEST(Validity, NamesTheFirstDifference) {
  EXPECT_THAT(validity_sentence(sample::invalid().validity),
              HasSubstr("11 of 64 replays gave back their text, token by token and round by round. First difference: "
                        "prompt 12, position 37: wanted 417, got 88."));
}

TEST(Warnings, GravestFirstAndOnce) {
  Findings findings = sample::three_arms();
  findings.warnings.push_back({Severity::kInvalid, "mixed", "rows are mixed", ""});
  findings.effects[1].warnings.push_back(findings.effects[1].warnings[0]);
  const std::vector<WarningLine> lines = warning_lines(findings);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0].word, "invalid");
  EXPECT_EQ(lines[1].code, "one_block");
  EXPECT_EQ(lines[2].about, "q8-null");
  EXPECT_EQ(lines[3].word, "note");
}

TEST(Warnings, NameTheArmOnce) {
  Findings findings = sample::three_arms();
  findings.warnings.clear();
  findings.effects[1].warnings = {{Severity::kWarning, "a", "a", "q8-null"},
                                  {Severity::kWarning, "b", "b", "prompt 3"}};
  const std::vector<WarningLine> lines = warning_lines(findings);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].about, "q8-null");
  EXPECT_EQ(lines[1].about, "q8-null, prompt 3");
}

TEST(Warnings, WhatIsSaidOfSeveralIsOneLine) {
  Findings findings = sample::three_arms();
  findings.warnings.clear();
  for (Effect& effect : findings.effects) effect.warnings = {{Severity::kWarning, "few", "12 prompts", ""}};
  findings.effects[0].warnings.push_back({Severity::kWarning, "few", "13 prompts", ""});
  const std::vector<WarningLine> lines = warning_lines(findings);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0].about, testing::StartsWith("q4; q8-null"));
  EXPECT_EQ(lines[1].about, "q4");
}

TEST(Compared, CountsTheTextsWhenNoPromptWasAnalysed) {
  EXPECT_THAT(compared_sentence(sample::invalid()), HasSubstr("over 64 forced texts of"));
  EXPECT_THAT(compared_sentence(sample::three_arms()), HasSubstr("over 64 prompts and"));
}

TEST(Drift, IsSaidWithItsInterval) {
  EXPECT_EQ(drift_sentence(sample::three_arms()),
            "Fitted with a quadratic drift in slot: \u22120.040\u00A0% [\u22120.057,\u00A0\u22120.023] a slot; runs "
            "scatter by 0.11\u00A0% around the fit; largest correlation of an arm with a drift term 0.004.");
  EXPECT_EQ(drift_sentence(sample::handicap()), "No drift term was fitted.");
}

TEST(Methods, NameWhatWasDone) {
  std::string all;
  for (const std::string& paragraph : methods_paragraphs(sample::three_arms())) all += paragraph;
  for (const char* said :
       {"sampled once by the baseline (temperature 0.8, seed 7)", "64 of 64", "ABCABCCCBBAABAACCB",
        "A = q8, B = q4, C = q8-null", "first letter from seed 7", "the unit of replication is the launch",
        "10,000 times (seed 1)", "Holm over the 2 verdicts", "below 0.05", "BCa bootstrap", "Not claimed."})
    EXPECT_THAT(all, HasSubstr(said));
}

}  // namespace
}  // namespace tare::reports

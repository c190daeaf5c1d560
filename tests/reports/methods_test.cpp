#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/sentences.h"
#include "sample_findings.h"

namespace tare::reports {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Methods, SayDesignOrderStopExclusionsAndMultiplicity) {
  const std::string text = methods_text(sample::three_arms());
  for (const char* said :
       {"3 arms were compared, each against q8.", "The stop rule, set beforehand: the scheduled number of blocks.",
        "One block of ABCABCCCBBAABAACCB (A = q8, B = q4, C = q8-null; first letter from seed 7)",
        "Excluded. 18 runs were counted. Stored and not counted: 3 warm-up and 1 interrupted (ended by SIGINT; "
        "measured "
        "again). No run was left out for its speed.",
        "adjusted by Holm over the 2 verdicts of this experiment, is below 0.05."})
    EXPECT_THAT(text, HasSubstr(said));
  EXPECT_THAT(text, Not(HasSubstr("Benjamini")));
  EXPECT_THAT(text, Not(HasSubstr("sittings")));
}

TEST(Methods, SayWhatAMatrixIsMadeOf) {
  const std::string text = methods_text(sample::matrix());
  EXPECT_THAT(text,
              HasSubstr("10 arms were made of 3 factors (weights: q8 (baseline), q4, q3; kv: bf16 (baseline), int8; "
                        "threads: 1t (baseline), 2t): every combination of levels; each was compared with "
                        "q8_bf16_1t. Left out beforehand: weights q3, kv int8. Effects of levels and interactions are "
                        "contrasts of logarithms by least squares."));
  EXPECT_THAT(text, HasSubstr("The margin of equivalence, set beforehand, is 1\u00A0%."));
  EXPECT_THAT(methods_text(sample::one_at_a_time()), HasSubstr("Nothing is said of levels together."));
}

TEST(Methods, SayWhichRuleEndedIt) {
  Findings findings = sample::three_arms();
  findings.stop.rule = "precision";
  findings.stop.most_blocks = 12;
  findings.stop.half_width_percent = 0.2;
  EXPECT_THAT(methods_text(findings),
              HasSubstr("when the interval of every verdict is within \u00B10.2\u00A0%, after two "
                        "blocks at least and 12 blocks at most. It looks at the width of intervals, "
                        "never at whether a difference is shown."));
  EXPECT_THAT(methods_text(findings), Not(HasSubstr("It ended")));
  findings.stop.ended_by = "precision";
  findings.stop.ended_blocks = 5;
  findings.stop.ended_half_width_percent = 0.184;
  findings.stop.ended_seconds = 312;
  EXPECT_THAT(methods_text(findings),
              HasSubstr("It ended after 5 blocks, with the widest interval at \u00B10.184\u00A0% "
                        "(5 min 12 s of measurement)."));
  findings.stop.rule = findings.stop.ended_by = "time";
  findings.stop.budget_s = 600;
  EXPECT_THAT(methods_text(findings),
              HasSubstr("as many whole blocks as fit into 10 min 00 s, 12 blocks at most. It ended after "
                        "5 blocks, when the next one would not have fitted"));
}

TEST(Methods, SayThatAScreenIsOneAndHowManySittings) {
  Findings findings = sample::three_arms();
  findings.methods.multiplicity = "screen";
  findings.sittings = {{"sitting 1", "", 1}, {"sitting 2", "", 1}};
  findings.pooled.resize(1);
  findings.drift.width_inflation = 1.042;
  const std::string text = methods_text(findings);
  EXPECT_THAT(text, HasSubstr("adjusted by Benjamini and Hochberg"));
  EXPECT_THAT(text, HasSubstr("what it shows is to be measured again"));
  EXPECT_THAT(text, HasSubstr("Blocks were measured in 2 sittings."));
  EXPECT_THAT(text, HasSubstr("widen an arm\u2019s interval by a factor of 1.042 at most"));
}

}  // namespace
}  // namespace tare::reports

#include "reports/gate.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/reports/markup.h"

namespace tare::reports {
namespace {

using stats::Verdict;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

GateCheck check_of(Verdict verdict, GateOutcome outcome, const std::string& text = "+0.1 %") {
  return {.section = "speed",
          .name = "decode_speed of q4",
          .verdict = verdict,
          .outcome = outcome,
          .text = text,
          .numbers = {{"effect_percent", "0.1"}}};
}

GateFindings findings_of(std::vector<GateCheck> checks) {
  GateFindings findings;
  findings.experiment = "small";
  findings.created_utc = "2026-11-29T15:04:05Z";
  findings.harness_version = "tare 0.1.0 (abc)";
  findings.policy = "policy.json";
  findings.policy_digest = "0123";
  findings.against = "arm q8 of the same run";
  findings.checks = std::move(checks);
  return findings;
}

const GateCheck kPassed = check_of(Verdict::kNonInferior, GateOutcome::kPass);
const GateCheck kFailed = check_of(Verdict::kWorse, GateOutcome::kFail);
const GateCheck kUndecided = check_of(Verdict::kInconclusive, GateOutcome::kInconclusive);
const GateCheck kNotComparable = check_of(Verdict::kInvalid, GateOutcome::kInvalid);

std::size_t times(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(Gate, TheWorstCheckDecides) {
  EXPECT_EQ(exit_code_of(findings_of({kPassed, kPassed})), 0);
  EXPECT_EQ(exit_code_of(findings_of({kPassed, kUndecided})), 3);
  EXPECT_EQ(exit_code_of(findings_of({kUndecided, kFailed, kPassed})), 1);
  EXPECT_EQ(exit_code_of(findings_of({kNotComparable, kFailed})), 2);
  EXPECT_EQ(exit_code_of(findings_of({})), 2);
}

TEST(Gate, JunitMapsEachOutcomeToItsElement) {
  const std::string xml = junit_of(findings_of({kPassed, kFailed, kUndecided, kNotComparable}));
  EXPECT_EQ(times(xml, "<testcase "), 4U);
  EXPECT_EQ(times(xml, "<failure "), 1U);
  EXPECT_EQ(times(xml, "<error "), 1U);
  EXPECT_EQ(times(xml, "<skipped "), 1U);
  EXPECT_THAT(xml, HasSubstr("<testsuites name=\"tare gate\" tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\""));
  EXPECT_THAT(xml, HasSubstr("timestamp=\"2026-11-29T15:04:05\""));  // without the zone, as the schema has it
  EXPECT_EQ(markup::read(xml).fault, "");
}

TEST(Gate, APolicyMayMakeNoEvidenceAFailure) {
  GateFindings findings = findings_of({kUndecided});
  findings.inconclusive_fails = true;
  const std::string xml = junit_of(findings);
  EXPECT_EQ(times(xml, "<failure "), 1U);
  EXPECT_EQ(times(xml, "<skipped "), 0U);
  EXPECT_EQ(exit_code_of(findings), 1);
  EXPECT_THAT(annotations_of(findings).at(0), StartsWith("::error "));
}

TEST(Gate, NamesFromOutsideCannotBreakAnyOfTheFiles) {
  GateCheck hostile = kFailed;
  hostile.name = "a\x01<b>&\"c\n::error::stolen";
  hostile.text = "x|y\n::set-output name=a::b %0A,";
  const GateFindings findings = findings_of({hostile});
  const std::string xml = junit_of(findings);
  EXPECT_EQ(markup::read(xml).fault, "");
  EXPECT_EQ(xml.find('\x01'), std::string::npos);
  const std::vector<std::string> lines = annotations_of(findings);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].find('\n'), std::string::npos);
  EXPECT_THAT(lines[0], HasSubstr("%0A%3A%3Aerror%3A%3Astolen::"));  // of the title
  EXPECT_THAT(lines[0], HasSubstr("%250A,"));                        // of the message: a percent sign is a percent sign
  EXPECT_THAT(gate_summary(findings), HasSubstr("x\\|y"));
}

TEST(Gate, AnnotationsStayWithinWhatIsShownAndCountTheRest) {
  std::vector<GateCheck> many(25, kFailed);
  many.insert(many.end(), 12, kUndecided);
  many.push_back(kNotComparable);
  const std::vector<std::string> lines = annotations_of(findings_of(many));
  const auto of_type = [&](const std::string& type) {
    return std::count_if(lines.begin(), lines.end(), [&](const auto& line) { return line.starts_with("::" + type); });
  };
  EXPECT_EQ(of_type("error"), 10);
  EXPECT_EQ(of_type("warning"), 10);
  EXPECT_THAT(lines[0], HasSubstr("invalid"));      // the worst comes first
  EXPECT_THAT(lines[9], HasSubstr("and 17 more"));  // 26 of them, 9 shown
  EXPECT_THAT(lines[19], HasSubstr("and 3 more"));
  EXPECT_TRUE(annotations_of(findings_of({kPassed})).empty());
}

TEST(Gate, TheSummaryStaysBelowItsLimitAndCountsTheRest) {
  std::vector<GateCheck> many(3000, kPassed);
  many.push_back(kFailed);
  const std::string all = gate_summary(findings_of(many));
  EXPECT_EQ(times(all, "decode\\_speed"), 3001U);
  const std::string cut = gate_summary(findings_of(many), 10'000);
  EXPECT_LE(cut.size(), 10'000U);
  EXPECT_THAT(cut, Not(HasSubstr("and 3001 more")));
  EXPECT_THAT(cut, EndsWith(fmt::format("and {} more checks\n", 3001 - times(cut, "decode\\_speed"))));
  EXPECT_LT(cut.find("| fail |"), cut.find("| pass |"));
  EXPECT_THAT(gate_summary(findings_of({})), HasSubstr("Nothing was compared"));
}

}  // namespace
}  // namespace tare::reports

#include "forced/fidelity_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "forced/fidelity_budget.h"

namespace tare::forced {
namespace {

using stats::Verdict;
using testing::HasSubstr;

FidelityPolicy policy_of(const std::string& text) {
  const Json json = parse_json(text, "policy");
  return read_fidelity_policy(JsonReader(json, "policy: fidelity"));
}

std::string fault(const std::string& text) {
  try {
    (void)policy_of(text);
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error for " << text;
  return {};
}

Json score(double mean, double low, double high) {
  return {{"mean", mean}, {"lower_bound", low}, {"upper_bound", high}};
}

// A file with one row of arm "q4" whose difference of kl64_tail and top1 is given.
Json fidelity(const Json& kl, const Json& top1, std::int64_t windows = 22) {
  return {{"version", 1},
          {"baseline", "bf16"},
          {"arms", {{{"name", "bf16"}}, {{"name", "q4"}}}},
          {"rows",
           {{{"arm", "q4"},
             {"path", "decode"},
             {"nodes", 1},
             {"head", "own"},
             {"kind", "prose"},
             {"windows", windows},
             {"difference", {{"kl64_tail", kl}, {"top1", top1}}}}}}};
}

constexpr const char* kPolicy = R"({"kinds": ["prose"], "margins": {"kl64_tail": 0.01, "top1": 0.02}})";

Verdict verdict_of(const Json& kl, const Json& top1, const std::string& metric, const SpentMargins& spent = {},
                   std::int64_t windows = 22) {
  for (const FidelityVerdict& verdict : judge_fidelity(fidelity(kl, top1, windows), policy_of(kPolicy), "f", spent))
    if (verdict.metric == metric) return verdict.verdict;
  ADD_FAILURE() << metric << " was not judged";
  return Verdict::kInvalid;
}

TEST(FidelityPolicy, NamesWhatItDoesNotKnow) {
  EXPECT_THAT(fault(R"({"margins": {"kl": 0.1}})"), HasSubstr("kl"));
  EXPECT_THAT(fault(R"({"margins": {"nll": 0}})"), HasSubstr("above 0"));
  EXPECT_THAT(fault(R"({"margins": {}})"), HasSubstr("empty"));
  EXPECT_THAT(fault(R"({"margins": {"nll": 0.1}, "path": "both"})"), HasSubstr("path"));
  EXPECT_THAT(fault(R"({"margins": {"nll": 0.1}, "margin": 1})"), HasSubstr("margin"));
}

TEST(FidelityPolicy, JudgesTheBoundsNotTheMeans) {
  const Json same = score(0, -0.001, 0.001);
  EXPECT_EQ(verdict_of(score(0.005, 0.002, 0.009), same, "kl64_tail"), Verdict::kNonInferior);
  EXPECT_EQ(verdict_of(score(0.005, 0.002, 0.011), same, "kl64_tail"), Verdict::kInconclusive);
  EXPECT_EQ(verdict_of(score(0.015, 0.010, 0.020), same, "kl64_tail"), Verdict::kWorse);
  EXPECT_EQ(verdict_of(score(-0.005, -0.009, -0.001), same, "kl64_tail"), Verdict::kBetter);
}

// For top1 a loss is a smaller share.
TEST(FidelityPolicy, TurnsTheSignOfAgreement) {
  const Json same = score(0, -0.001, 0.001);
  EXPECT_EQ(verdict_of(same, score(-0.01, -0.015, -0.005), "top1"), Verdict::kNonInferior);
  EXPECT_EQ(verdict_of(same, score(-0.05, -0.06, -0.04), "top1"), Verdict::kWorse);
  EXPECT_EQ(verdict_of(same, score(0.05, 0.04, 0.06), "top1"), Verdict::kBetter);
}

TEST(FidelityPolicy, WhatIsMissingIsNeverAPass) {
  const Json same = score(0, -0.001, 0.001);
  EXPECT_EQ(verdict_of(same, same, "top1", {}, 19), Verdict::kInconclusive);
  EXPECT_EQ(verdict_of({{"mean", nullptr}, {"independent_standard_error", 0}}, same, "kl64_tail"), Verdict::kInvalid);
  const FidelityPolicy code = policy_of(R"({"kinds": ["code"], "margins": {"top1": 0.02}})");
  const std::vector<FidelityVerdict> verdicts = judge_fidelity(fidelity(same, same), code, "f");
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_EQ(verdicts[0].verdict, Verdict::kInvalid);
  EXPECT_EQ(overall_verdict(verdicts), Verdict::kInvalid);
  EXPECT_EQ(overall_verdict({}), Verdict::kInvalid);
  Json alone = fidelity(same, same);
  alone["arms"] = {{{"name", "bf16"}}};
  EXPECT_THROW((void)judge_fidelity(alone, code, "f"), Error);
}

TEST(FidelityPolicy, TheWorstDecides) {
  const Json same = score(0, -0.001, 0.001);
  EXPECT_EQ(overall_verdict(judge_fidelity(fidelity(same, score(-0.05, -0.06, -0.04)), policy_of(kPolicy), "f")),
            Verdict::kWorse);
  EXPECT_EQ(overall_verdict(judge_fidelity(fidelity(same, same), policy_of(kPolicy), "f")), Verdict::kNonInferior);
}

TEST(FidelityBudget, AChangeHasWhatTheOthersLeft) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "fidelity_budget_test.jsonl";
  std::filesystem::remove(file);
  EXPECT_TRUE(read_budget(file, "r").empty());
  const Json same = score(0, -0.001, 0.001);
  const Json loss = score(0.005, 0.002, 0.006);
  const std::vector<FidelityVerdict> accepted = judge_fidelity(fidelity(loss, same), policy_of(kPolicy), "f");
  const FidelityExpense expense{"2026-01-01T00:00:00Z", "q4", "q4", "p", "r", expense_of(accepted, "q4")};
  EXPECT_NEAR(expense.spent.at("kl64_tail"), 0.006, 1e-15);
  EXPECT_NEAR(expense.spent.at("top1"), 0.001, 1e-15);
  record_expense(file, expense);
  EXPECT_EQ(verdict_of(loss, same, "kl64_tail"), Verdict::kNonInferior);
  EXPECT_NE(verdict_of(loss, same, "kl64_tail", total(read_budget(file, "r"))), Verdict::kNonInferior)
      << "0.006 of 0.010 is spent: 0.006 more is too much";
  record_expense(file, expense);
  EXPECT_NEAR(total(read_budget(file, "r")).at("kl64_tail"), 0.012, 1e-15);
  EXPECT_THROW((void)read_budget(file, "another"), Error);
  std::ofstream(file, std::ios::app) << "{}\n";
  EXPECT_THROW((void)read_budget(file, "r"), Error);
  std::filesystem::remove(file);
}

TEST(FidelityBudget, WhatFailedCannotBeAccepted) {
  const Json same = score(0, -0.001, 0.001);
  const auto verdicts = judge_fidelity(fidelity(score(0.015, 0.010, 0.020), same), policy_of(kPolicy), "f");
  EXPECT_THROW((void)expense_of(verdicts, "q4"), Error);
  EXPECT_THROW((void)expense_of(verdicts, "another"), Error);
}

}  // namespace
}  // namespace tare::forced

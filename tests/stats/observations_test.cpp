#include "stats/observations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"

namespace tare::stats {
namespace {

using testing::HasSubstr;

const double kMissing = std::numeric_limits<double>::quiet_NaN();

Observations two_by_two() {
  return speed_observations(2, 2, {{.arm = 0, .block = 0, .slot = 0}, {.arm = 1, .block = 0, .slot = 1}},
                            {100, 100, 300, 300}, {1, 2, 4, 3});
}

std::string complaint(const Observations& observations) {
  try {
    check_observations(observations);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    return error.parts().where + ": " + error.parts().what;
  }
  return "";
}

TEST(Observations, RunRateIsTheRatioOfTotals) {
  const std::vector<double> rates = run_log_rates(two_by_two());
  EXPECT_DOUBLE_EQ(rates[0], std::log(400.0 / 5));
  EXPECT_DOUBLE_EQ(rates[1], std::log(400.0 / 5));  // the mean of the prompts' ratios would differ
}

TEST(Observations, PromptRatioIsOfItsTotalsOverTheRunsOfAnArm) {
  const std::vector<double> ratios = prompt_log_ratios(two_by_two(), 1);
  EXPECT_NEAR(ratios[0], std::log(0.5), 1e-14);
  EXPECT_NEAR(ratios[1], std::log(4.0 / 3), 1e-14);
}

TEST(Observations, AmountsAreMeansOverPrompts) {
  const Observations amounts = amount_observations(2, 2, two_by_two().runs, {1, 2, 3, 6});
  EXPECT_DOUBLE_EQ(run_log_rates(amounts)[1], std::log(4.0));
}

TEST(Observations, WhatCannotBeComparedIsNamed) {
  EXPECT_EQ(complaint(two_by_two()), "");
  Observations bad = two_by_two();
  bad.denominator[bad.at(1, 0)] = 0;
  EXPECT_THAT(complaint(bad), HasSubstr("prompt 1, run 0"));
  bad = two_by_two();
  bad.denominator[bad.at(0, 1)] = kMissing;
  EXPECT_THAT(complaint(bad), HasSubstr("prompt 0, run 1"));
  bad = two_by_two();
  bad.runs[1].arm = 0;
  EXPECT_THAT(complaint(bad), HasSubstr("arm 1: no run"));
  bad = two_by_two();
  bad.runs[1].slot = 0;
  EXPECT_THAT(complaint(bad), HasSubstr("measured twice"));
  bad = two_by_two();
  bad.numerator.pop_back();
  EXPECT_THAT(complaint(bad), HasSubstr("cells"));
  EXPECT_THAT(complaint(Observations{.arms = 2, .prompts = 0, .runs = {}, .numerator = {}, .denominator = {}}),
              HasSubstr("no prompt"));
}

TEST(Observations, APromptThatFailedInOneRunIsLeftOutOfAll) {
  Observations holed = two_by_two();
  holed.denominator[holed.at(0, 1)] = kMissing;
  const CompletePrompts complete = complete_prompts(holed);
  EXPECT_EQ(complete.dropped, std::vector<std::size_t>{0});
  EXPECT_EQ(complete.observations.prompts, 1U);
  EXPECT_EQ(complete.observations.denominator, (std::vector<double>{4, 3}));
  EXPECT_EQ(complaint(complete.observations), "");
}

}  // namespace
}  // namespace tare::stats

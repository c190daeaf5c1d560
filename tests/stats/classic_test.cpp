// Distributions, proportions, exact tests, quantiles, planning, handicap: golden numbers of the reference tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "stats/distributions.h"
#include "stats/handicap.h"
#include "stats/planning.h"
#include "stats/proportions.h"
#include "stats/quantiles.h"
#include "stats/rank_tests.h"

namespace tare::stats {
namespace {

const std::vector<double> kDifferences = {.31, .12, -.05, .44, .27, .09, -.02, .18};

TEST(Distributions, StudentTQuantiles) {
  const std::vector<std::pair<double, double>> two_sided = {
      {1, 12.706205}, {2, 4.302653},  {3, 3.182446},  {4, 2.776445},  {5, 2.570582}, {6, 2.446912},
      {7, 2.364624},  {10, 2.228139}, {13, 2.160369}, {15, 2.131450}, {30, 2.042272}};
  for (const auto& [df, t] : two_sided) EXPECT_NEAR(student_t_quantile(0.975, df), t, 5.1e-7) << df;
  const std::vector<std::pair<double, double>> one_sided = {{1, 6.313752}, {3, 2.353363}, {4, 2.131847}, {5, 2.015048},
                                                            {6, 1.943180}, {7, 1.894579}, {15, 1.753050}};
  for (const auto& [df, t] : one_sided) EXPECT_NEAR(student_t_quantile(0.95, df), t, 5.1e-7) << df;
  EXPECT_NEAR(student_t_quantile(0.975, 2.5), 3.574654842, 1e-8);  // Satterthwaite degrees need not be whole
}

TEST(Distributions, TailsAndQuantilesAreInverse) {
  for (const double df : {1.0, 4.0, 13.0, 200.5}) {
    EXPECT_NEAR(student_t_two_sided(student_t_quantile(0.975, df), df), 0.05, 1e-12);
    EXPECT_NEAR(student_t_upper_tail(-1.5, df) + student_t_upper_tail(1.5, df), 1, 1e-12);
  }
  EXPECT_NEAR(normal_cdf(normal_quantile(0.3)), 0.3, 1e-14);
  EXPECT_EQ(student_t_upper_tail(HUGE_VAL, 3), 0);
  EXPECT_THROW((void)student_t_quantile(1.0, 3), Error);
  EXPECT_THROW((void)student_t_quantile(0.5, 0), Error);
}

TEST(Proportions, ExactBinomialGoldenVectors) {
  // By quantiles of the beta distribution, computed elsewhere.
  struct Case {
    std::uint64_t successes, trials;
    double low, high;
  };
  for (const Case& expected :
       {Case{0, 10, 0, 0.30849710781876083}, Case{10, 10, 0.6915028921812392, 1},
        Case{1, 6, 0.00421074451448947, 0.6412345789976748}, Case{19, 20, 0.7512672372279722, 0.9987349105020502},
        Case{98, 100, 0.9296160675289299, 0.9975686631760574}}) {
    const Interval interval = exact_binomial_interval(expected.successes, expected.trials);
    EXPECT_NEAR(interval.low, expected.low, 1e-10) << expected.successes;
    EXPECT_NEAR(interval.high, expected.high, 1e-10) << expected.successes;
    // Never narrower than the score interval where that is known to be too narrow.
    EXPECT_LE(interval.low, wilson_interval(expected.successes, expected.trials).low + 1e-12);
  }
  EXPECT_THROW((void)exact_binomial_interval(1, 0), Error);
}

TEST(Proportions, WilsonGoldenVectors) {
  struct Golden {
    std::uint64_t successes, trials;
    double low, high;
  };
  for (const Golden& g : {Golden{0, 10, 0, 0.277532800}, Golden{10, 10, 0.722467200, 1},
                          Golden{98, 100, 0.929988209, 0.994498032}, Golden{9870, 10000, 0.984585426, 0.989040560},
                          Golden{1, 3, 0.061491945, 0.792340399}, Golden{490, 512, 0.935800198, 0.971455301}}) {
    const Interval interval = wilson_interval(g.successes, g.trials);
    EXPECT_NEAR(interval.low, g.low, 5.1e-10) << g.successes << "/" << g.trials;
    EXPECT_NEAR(interval.high, g.high, 5.1e-10) << g.successes << "/" << g.trials;
  }
  EXPECT_THROW((void)wilson_interval(0, 0), Error);
  EXPECT_THROW((void)wilson_interval(4, 3), Error);
}

TEST(RankTests, GoldenVector) {
  const ExactTest wilcoxon = wilcoxon_signed_rank(kDifferences);
  EXPECT_EQ(wilcoxon.statistic, 33);
  EXPECT_NEAR(wilcoxon.p_value, 10.0 / 256, 1e-15);
  const ExactTest sign = sign_test(kDifferences);
  EXPECT_EQ(sign.statistic, 6);
  EXPECT_NEAR(sign.p_value, 0.2890625, 1e-12);
  const ExactTest flip = sign_flip_test(kDifferences);
  EXPECT_NEAR(flip.p_value, 8.0 / 256, 1e-15);
}

TEST(RankTests, SmallestAttainableSignFlipP) {
  for (int n = 3; n <= 8; ++n) {
    std::vector<double> all_positive(static_cast<std::size_t>(n), 1.0);
    for (std::size_t i = 0; i < all_positive.size(); ++i) all_positive[i] += 0.1 * static_cast<double>(i);
    const ExactTest test = sign_flip_test(all_positive);
    EXPECT_NEAR(test.p_value, std::ldexp(1, 1 - n), 1e-15);
    EXPECT_EQ(test.p_value, test.smallest_p_value);
    EXPECT_NEAR(wilcoxon_signed_rank(all_positive).p_value, test.p_value, 1e-15);
  }
}

TEST(RankTests, TiesShareRanksAndZerosAreDroppedAloud) {
  // |d| = 1 1 2: ranks 1.5 1.5 3; W+ = 4.5 of 6. Sums over sign patterns: 0 1.5 1.5 3 3 4.5 4.5 6, so P(W >= 4.5) =
  // 3/8.
  const ExactTest test = wilcoxon_signed_rank(std::vector<double>{1, -1, 2, 0});
  EXPECT_EQ(test.statistic, 4.5);
  EXPECT_NEAR(test.p_value, 0.75, 1e-15);
  EXPECT_EQ(test.used, 3U);
  ASSERT_EQ(test.warnings.size(), 1U);
  EXPECT_EQ(test.warnings[0].code, WarningCode::kZerosDropped);
}

TEST(RankTests, AllEqualGivesOneNotNan) {
  const std::vector<double> zeros(6, 0.0);
  EXPECT_EQ(wilcoxon_signed_rank(zeros).p_value, 1);
  EXPECT_EQ(sign_test(zeros).p_value, 1);
  EXPECT_EQ(sign_flip_test(zeros).p_value, 1);
  EXPECT_THROW((void)sign_flip_test(std::vector<double>(25, 1.0)), Error);
}

TEST(RankTests, LargeWilcoxonAgreesWithItsNormalLimit) {
  std::vector<double> differences;
  for (int i = 1; i <= 480; ++i) differences.push_back(i % 9 < 4 ? i : -i - 0.5);
  const ExactTest test = wilcoxon_signed_rank(differences);
  const double n = 480;
  const double z = (std::abs(test.statistic - n * (n + 1) / 4) - 0.5) / std::sqrt(n * (n + 1) * (2 * n + 1) / 24);
  EXPECT_NEAR(test.p_value, 2 * (1 - normal_cdf(z)), 1e-3);
}

TEST(Quantiles, TypeSeven) {
  std::vector<double> tens;
  for (int i = 10; i >= 1; --i) tens.push_back(10.0 * i);
  EXPECT_DOUBLE_EQ(quantile(tens, 0.5), 55);
  EXPECT_DOUBLE_EQ(quantile(tens, 0.9), 91);
  EXPECT_DOUBLE_EQ(quantile(tens, 0.99), 99.1);
  EXPECT_DOUBLE_EQ(quantile(tens, 0), 10);
  EXPECT_DOUBLE_EQ(quantile(tens, 1), 100);
  EXPECT_THROW((void)quantile(std::vector<double>{}, 0.5), Error);
  EXPECT_EQ(fewest_values_for_quantile(0.99), 100U);
  EXPECT_EQ(fewest_values_for_quantile(0.999), 1000U);
}

TEST(Quantiles, MedianRanks) {
  EXPECT_FALSE(median_interval_ranks(5).has_value());
  struct Golden {
    std::size_t count, low, high;
    double coverage;
  };
  for (const Golden& g : {Golden{6, 1, 6, .96875}, Golden{8, 1, 8, .992188}, Golden{10, 2, 9, .978516},
                          Golden{16, 4, 13, .978729}, Golden{80, 31, 50, .967007}, Golden{480, 219, 262, .950429}}) {
    const auto ranks = median_interval_ranks(g.count);
    ASSERT_TRUE(ranks.has_value()) << g.count;
    EXPECT_EQ(ranks->low, g.low) << g.count;
    EXPECT_EQ(ranks->high, g.high) << g.count;
    EXPECT_NEAR(ranks->coverage, g.coverage, 5.1e-7) << g.count;
  }
}

TEST(Planning, MinimumDetectableEffectTable) {
  const std::vector<int> pairs = {4, 6, 8, 12, 16, 24, 32};
  const std::vector<std::pair<double, std::vector<double>>> table = {
      {0.05, {.104, .071, .058, .044, .037, .030, .026}},  {0.10, {.208, .142, .115, .089, .075, .060, .051}},
      {0.20, {.416, .285, .231, .178, .150, .119, .102}},  {0.30, {.624, .427, .346, .266, .225, .179, .153}},
      {0.50, {1.040, .712, .576, .444, .375, .299, .256}}, {1.00, {2.080, 1.425, 1.153, .888, .749, .597, .511}}};
  for (const auto& [sd, row] : table) {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      EXPECT_NEAR(minimum_detectable_effect(sd, pairs[i]), row[i], 5.1e-4) << sd << " " << pairs[i];
    }
  }
}

TEST(Planning, PairsForEffectIsTheFirstThatSuffices) {
  for (const double effect : {0.05, 0.1, 0.3, 1.0}) {
    const int pairs = pairs_for_effect(effect, 0.3);
    EXPECT_LE(minimum_detectable_effect(0.3, pairs), effect);
    if (pairs > 5) {
      EXPECT_GT(minimum_detectable_effect(0.3, pairs - 1), effect);
    }
  }
  EXPECT_EQ(pairs_for_effect(100, 0.3), 5);
  EXPECT_THROW((void)pairs_for_effect(1e-9, 1.0), Error);
}

TEST(Handicap, TruthIsTheLogOfWhatIsLeft) {
  const std::vector<HandicapRun> runs = {{.spun_ns = 10'000'000, .total_ns = 1'010'000'000},
                                         {.spun_ns = 20'000'000, .total_ns = 1'020'000'000}};
  EXPECT_NEAR(handicap_truth(runs), -(std::log(1.01) + std::log(1.02)) / 2, 1e-15);
  EXPECT_EQ(handicap_truth(std::vector<HandicapRun>{{.spun_ns = 0, .total_ns = 5}}), 0);
  EXPECT_THROW((void)handicap_truth(std::vector<HandicapRun>{{.spun_ns = 5, .total_ns = 5}}), Error);
  EXPECT_THROW((void)handicap_truth(std::vector<HandicapRun>{}), Error);
}

}  // namespace
}  // namespace tare::stats

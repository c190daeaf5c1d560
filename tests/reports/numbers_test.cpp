#include "reports/numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reports/html.h"

namespace tare::reports {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Interval of_percents(double estimate, double low, double high) {
  Interval interval;
  interval.estimate_log = std::log1p(estimate / 100.0);
  interval.low_log = std::log1p(low / 100.0);
  interval.high_log = std::log1p(high / 100.0);
  return interval;
}

TEST(Decimals, FollowTheHalfWidth) {
  EXPECT_EQ(decimals_of_interval(33.6, 34.6), 1);   // 0.5: one digit
  EXPECT_EQ(decimals_of_interval(-0.11, 0.15), 2);  // 0.13: two digits
  EXPECT_EQ(decimals_of_interval(10.0, 10.7), 2);   // 0.35: two digits
  EXPECT_EQ(decimals_of_interval(10.0, 10.72), 1);  // 0.36: one digit
  EXPECT_EQ(decimals_of_interval(10.0, 11.91), 1);  // 0.955 rounds to 1.0: two digits
  EXPECT_EQ(decimals_of_interval(-500.0, 500.0), 0);
  EXPECT_EQ(decimals_of_interval(1.0, 1.0 + 1e-12), 6);  // never more than six
}

TEST(Decimals, NoEndThatDiffersFromZeroReadsAsZero) {
  EXPECT_EQ(decimals_of_interval(0.04, 0.84), 2);  // half-width 0.4 asks for one decimal, which would print 0.0
  EXPECT_EQ(decimals_of_interval(-0.84, -0.04), 2);
  EXPECT_EQ(decimals_of_interval(0.0, 0.8), 1);   // this end is zero
  EXPECT_EQ(decimals_of_interval(1e-9, 0.8), 3);  // given up after two more
}

TEST(Fixed, PrintsSigns) {
  EXPECT_EQ(fixed(-1.25, 1), "\u22121.2");
  EXPECT_EQ(fixed(-0.001, 2), "0.00");
  EXPECT_EQ(signed_fixed(0.001, 2), "+0.00");
  EXPECT_EQ(signed_fixed(-0.001, 2), "\u22120.00");
  EXPECT_EQ(signed_fixed(0.0, 2), "0.00");
  EXPECT_EQ(fixed(kMissing, 2), kNotAvailable);
  EXPECT_EQ(signed_fixed(-kInfinity, 2), "\u2212\u221E");
}

TEST(Counts, AreGrouped) {
  EXPECT_EQ(count_text(std::int64_t{0}), "0");
  EXPECT_EQ(count_text(std::int64_t{999}), "999");
  EXPECT_EQ(count_text(std::int64_t{1000}), "1,000");
  EXPECT_EQ(count_text(std::int64_t{-1234567}), "\u22121,234,567");
  EXPECT_EQ(count_text(std::int64_t{-123}), "\u2212123");
}

TEST(PValues, AreShortAndNeverZero) {
  EXPECT_EQ(p_text(3e-9), "<\u00A00.0001");
  EXPECT_EQ(p_text(0.0123), "0.012");
  EXPECT_EQ(p_text(0.74), "0.74");
  EXPECT_EQ(p_text(1.0), "1.00");
  EXPECT_EQ(p_text(kMissing), kNotAvailable);
  EXPECT_EQ(p_relation(0.012), "=\u00A00.012");
}

TEST(Shares, KeepADigit) {
  EXPECT_EQ(share_text(0.95), "95\u00A0%");
  EXPECT_EQ(share_text(0.063), "6.3\u00A0%");
  EXPECT_EQ(share_text(0.00061), "0.06\u00A0%");  // one significant digit
  EXPECT_EQ(share_text(0.0), "0.0\u00A0%");
}

TEST(Percents, OfAnInterval) {
  EXPECT_EQ(percent_with_interval(of_percents(34.1, 33.6, 34.6)), "+34.1\u00A0% [+33.6,\u00A0+34.6]");
  EXPECT_EQ(percent_with_interval(of_percents(0.02, -0.11, 0.15)), "+0.02\u00A0% [\u22120.11,\u00A0+0.15]");
}

TEST(Percents, SizeOfALossHasNoSign) {
  EXPECT_EQ(size_with_interval(of_percents(-0.98, -1.04, -0.92)), "0.98\u00A0% [0.92,\u00A01.04]");
  EXPECT_EQ(size_with_interval(of_percents(34.1, 33.6, 34.6)), "34.1\u00A0% [33.6,\u00A034.6]");
}

TEST(Percents, WithoutEndsOrEstimate) {
  Interval interval;
  EXPECT_EQ(percent_with_interval(interval), kNotAvailable);
  interval.estimate_log = std::log1p(0.01);
  EXPECT_EQ(percent_with_interval(interval), "+1.00\u00A0% (no interval)");
}

TEST(Percents, AreExactForSmallLogs) {
  EXPECT_NEAR(percent_of_log(1e-12), 1e-10, 1e-21);
}

TEST(AlignDecimals, PutsPointsUnderEachOther) {
  std::vector<std::string> texts = {"+34.1", "\u22120.022", "7", "n/a", "<\u00A00.0001"};
  align_decimals(texts);
  EXPECT_EQ(texts[0], "+34.1\u2007\u2007\u2007");
  EXPECT_EQ(texts[1], "\u22120.022\u2007");
  EXPECT_EQ(texts[2], "7\u2008\u2007\u2007\u2007\u2007");
  EXPECT_EQ(texts[3], "n/a");
  EXPECT_EQ(texts[4], "<\u00A00.0001");
}

}  // namespace
}  // namespace tare::reports

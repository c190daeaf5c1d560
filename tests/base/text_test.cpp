#include "base/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tare {
namespace {

TEST(NearestName, FindsAMisspellingAndNothingFarAway) {
  const std::vector<std::string> names = {"threads", "chunk", "format"};
  EXPECT_EQ(nearest_name("treads", names), "threads");
  EXPECT_EQ(nearest_name("formt", names), "format");
  EXPECT_EQ(nearest_name("temperature", names), std::nullopt);
  EXPECT_EQ(name_hint("zz", names), "known: threads, chunk, format");
}

TEST(Shortest, ReadsBackToTheSameDouble) {
  for (const double value : {0.1, 1.0 / 3.0, 1e300, -0.0, 123456789.0}) EXPECT_EQ(std::stod(shortest(value)), value);
  EXPECT_EQ(shortest(std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(HumanBytes, ChoosesUnitsByPowersOfThousand) {
  EXPECT_EQ(human_bytes(842), "842 B");
  EXPECT_EQ(human_bytes(12'300'000), "12.3 MB");
  EXPECT_EQ(human_bytes(999'999), "1.0 MB");
}

TEST(HumanSeconds, SplitsMinutesAndHours) {
  EXPECT_EQ(human_seconds(45.2), "45 s");
  EXPECT_EQ(human_seconds(192), "3 min 12 s");
  EXPECT_EQ(human_seconds(7500), "2 h 05 min");
}

}  // namespace
}  // namespace tare

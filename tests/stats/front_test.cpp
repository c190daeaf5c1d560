#include "stats/front.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace tare::stats {
namespace {

using testing::ElementsAre;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Front, HoldsWhatNothingBeatsInBoth) {
  const std::vector<double> gain = {0, 10, 20, 15, 5};
  const std::vector<double> loss = {0.0, 0.1, 0.5, 0.6, 0.1};
  EXPECT_THAT(non_dominated(gain, loss), ElementsAre(true, true, true, false, false));
}

TEST(Front, EqualsStandTogetherAndNaNBeatsNothing) {
  const std::vector<double> gain = {1, 1, kNaN, 0.5};
  const std::vector<double> loss = {2, 2, 0, kNaN};
  EXPECT_THAT(non_dominated(gain, loss), ElementsAre(true, true, false, false));
  EXPECT_THROW(static_cast<void>(non_dominated(gain, std::vector<double>{1})), Error);
}

}  // namespace
}  // namespace tare::stats

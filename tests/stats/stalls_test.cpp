#include "stats/stalls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tare::stats {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Stalls, AreRoundsFarBeyondTheMedianOfTheirWalk) {
  EXPECT_THAT(stalled_rounds(std::vector<std::int64_t>{100, 110, 90, 5000, 316, 100, 314, 105, 95}),
              ElementsAre(false, false, false, true, true, false, false, false, false));
}

TEST(Stalls, AWalkThatIsSlowThroughoutHasNone) {
  EXPECT_THAT(stalled_rounds(std::vector<std::int64_t>{5000, 5100, 4900}), ElementsAre(false, false, false));
}

TEST(Stalls, DoNotMoveTheLimitWhileTheyAreFewerThanHalf) {
  EXPECT_THAT(stalled_rounds(std::vector<std::int64_t>{100, 100, 100, 9000, 9000}),
              ElementsAre(false, false, false, true, true));
}

TEST(Stalls, NoneOfNoRounds) {
  EXPECT_THAT(stalled_rounds({}), IsEmpty());
}

}  // namespace
}  // namespace tare::stats

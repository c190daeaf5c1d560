#include "reports/figure_fidelity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/file.h"
#include "reports/report.h"
#include "temporary_directory.h"

namespace tare::reports {
namespace {

using testing::HasSubstr;
using testing::Not;

FidelityFigure figure() {
  return {"model: divergence",
          "speed of these walks",
          {{"bf16", "prose", 25.5, 900, 1e-5, 0.8e-5, 1.3e-5},
           {"bf16", "code", 25.5, 900, 1.4e-5, 1e-5, 2e-5},
           {"q4", "prose", 11, 1500, 0.09, 0.08, 0.1},
           {"q4", "code", 11, 1500, 0.08, 0.07, 0.09},
           {"exact", "prose", 27, 800, -1e-9, kMissing, kMissing}}};
}

TEST(FidelityFigure, HasABlockAKindAndANumberAnArm) {
  const Plot plot = fidelity_plot(figure());
  EXPECT_THAT(plot.data, HasSubstr("# prose\n# megabytes tokens_per_second divergence low high arm\n25.5 900"));
  EXPECT_THAT(plot.data, HasSubstr("27 800 1e-07 1e-07 1e-07 3"));  // below 0: drawn at the least
  EXPECT_THAT(plot.data, HasSubstr("\n11 1500 0.08 0.07 0.09 2\n"));
  EXPECT_THAT(plot.script, HasSubstr("2  q4"));
  EXPECT_THAT(plot.description, HasSubstr("q4, prose: 0.09 nats"));
}

TEST(FidelityFigure, DrawsWithAndWithoutSpeeds) {
  const TemporaryDirectory directory;
  write_figure(fidelity_plot(figure()), directory.path() / "with.svg");
  EXPECT_THAT(read_text_file(directory.path() / "with.svg"), HasSubstr("tokens a second"));
  FidelityFigure without = figure();
  for (FidelityPoint& point : without.points) point.tokens_per_second = 0;
  write_figure(fidelity_plot(without), directory.path() / "without.svg");
  EXPECT_THAT(read_text_file(directory.path() / "without.svg"), Not(HasSubstr("tokens a second")));
}

TEST(FidelityFigure, SaysWhenThereIsNothing) {
  EXPECT_NE(fidelity_plot({}).nothing, "");
  FidelityFigure infinite = figure();
  for (FidelityPoint& point : infinite.points) point.divergence = std::numeric_limits<double>::infinity();
  EXPECT_NE(fidelity_plot(infinite).nothing, "");
}

}  // namespace
}  // namespace tare::reports

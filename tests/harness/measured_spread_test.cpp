// What a run says about the scatter of the next one, on simulated ledgers.
#include "harness/analysis/measured_spread.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "tests/harness/analysed.h"

namespace tare::harness {
namespace {

MeasuredSpread spread_of(const SimulatedRun& run) {
  const FreshFolder fresh;
  (void)write_simulated_ledger(run, fresh.path());
  return measured_spread(gather(Ledger::open_for_reading(fresh.path() / kLedgerFile)));
}

TEST(MeasuredSpread, FindsWhatTheClockWasMadeOf) {
  SimulatedRun run;
  run.arms = {"a", "b", "c"};
  run.blocks = 4;
  run.clock = restless_clock({});  // launches 0.2 %, reactions 0.2 %, noise 0.5 %
  const MeasuredSpread spread = spread_of(run);
  EXPECT_EQ(spread.arms, 3);
  EXPECT_EQ(spread.blocks, 4);
  EXPECT_EQ(spread.split.prompts, 24U);
  EXPECT_NEAR(spread.split.launch_sd, 0.002, 0.0007);
  EXPECT_NEAR(spread.split.residual_sd, 0.005, 0.0005);
  EXPECT_GT(spread.block_seconds, 18 * 24 * 0.05 * 0.5);
  EXPECT_LT(spread.block_seconds, 18 * 24 * 0.05 * 2.5);
}

TEST(MeasuredSpread, OfResidentWorkersItIsOfDifferences) {
  SimulatedRun run;
  run.arms = {"a", "b"};
  run.granularity = Granularity::kPrompt;
  run.blocks = 24;
  run.clock = restless_clock({});
  const MeasuredSpread spread = spread_of(run);
  EXPECT_NEAR(spread.split.unit_sd, std::sqrt(2 * (0.002 * 0.002 + 0.005 * 0.005 / 24)), 0.0012);
}

TEST(MeasuredSpread, AnInvalidRunHasNone) {
  SimulatedRun run;
  run.arms = {"a", "b"};
  run.clock = restless_clock({});
  run.change_validations = [](auto& records) { records[0].prompts_equal -= 1; };
  EXPECT_THROW((void)spread_of(run), Error);
}

}  // namespace
}  // namespace tare::harness

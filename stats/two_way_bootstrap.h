// Prompts and launches drawn together (the pigeonhole bootstrap, Owen 2007): the resampling counterpart of two_way.h,
// for "prompts like these, any launch".
//
// A resample draws P prompts (the same for all arms) and, for each arm, as many of its runs as it has, all with
// replacement; at granularity `prompt` blocks are drawn, with both of their runs. theta* is the log ratio of totals of
// what was drawn. It counts the cell noise about twice more than there is, so it is a little wide where that noise
// dominates; and a bootstrap over few launches is too narrow (four draws know no t correction): below kFewDrawnUnits
// runs an arm it is not conclusive and says so. Use two_way.h for verdicts, this one to see whether its normal theory
// is to be trusted for skewed prompts.
#pragma once

#include "stats/effect.h"
#include "stats/observations.h"
#include "stats/resampling.h"

namespace tare::stats {

inline constexpr int kFewDrawnUnits = 6;  // runs an arm, or blocks

// Throws Error (invalid) as check_observations does, Error (input) for options out of range or no such arm.
[[nodiscard]] Estimate two_way_bootstrap(const Observations& observations, int arm, bool paired_by_block,
                                         const BootstrapOptions& options = {});

}  // namespace tare::stats

// Two-way interval for "prompts like these, any launch" (Cameron, Gelbach, Miller 2011, two-way clustering):
//   V = V_prompt + V_run - V_cell,  df = V^2 / (V_prompt^2/(P-1) + V_run^2/df_run + V_cell^2/(df_run (P-1)))
//   (Satterthwaite)
// V_prompt: variance over prompts of the arm difference averaged over runs, / P. V_run: squared standard error of the
// run-level estimate (with its drift terms) and its df. V_cell: the prompt x run residual, which both others contain.
// Cells are the linearised ratio of totals: c_ir = ln rate_r + P (N_ir / N_r - D_ir / D_r), whose mean over prompts is
// ln rate_r, so long prompts weigh as much as they do in the effect. V <= 0: the larger of V_prompt and V_run. As an
// interval for this suite alone it over-covers: it answers the other question.
#pragma once

#include "stats/effect.h"
#include "stats/observations.h"

namespace tare::stats {

// `run_level` is the arm's run-level estimate: its effect is the centre, its standard error and df the run part.
// `paired_by_block`: granularity prompt, where cells are differences within a block. Throws Error (invalid) when
// run_level has no df.
[[nodiscard]] Estimate two_way_estimate(const Observations& observations, int arm, const Estimate& run_level,
                                        bool paired_by_block, double level = 0.95);

}  // namespace tare::stats

// What was measured, as plain numbers: one measure, prompts x runs.
//
// A run's rate is a ratio of totals over prompts: sum of numerators / sum of denominators. Decode speed: numerator
// tokens, denominator seconds. Time to first token: numerator seconds, denominator 1. Peak memory: one row, numerator
// bytes, denominator 1. With forced text the tokens are equal in all runs and cancel.
#pragma once

#include <cstddef>
#include <vector>

namespace tare::stats {

// Granularity `run`: one launch, one arm over all prompts. Granularity `prompt`: one arm's launch of one block.
struct Run {
  int arm = 0;            // 0 is the baseline
  int block = 0;          // any numbering; blocks with equal numbers belong together
  int slot = 0;           // place within the block; granularity `prompt`: place in the order of starting
  double mid_time_s = 0;  // middle of the run on any common clock; read only when drift is fitted over time
};

struct Observations {
  int arms = 0;
  std::size_t prompts = 0;
  std::vector<Run> runs = {};  // warm-up, interrupted and excluded runs are not in here
  // Both prompts x runs, row-major: element of (prompt, run) at [prompt * runs.size() + run].
  std::vector<double> numerator = {};
  std::vector<double> denominator = {};

  [[nodiscard]] std::size_t at(std::size_t prompt, std::size_t run) const { return prompt * runs.size() + run; }
};

// Speeds: tokens / seconds. Both vectors prompts x runs.
[[nodiscard]] Observations speed_observations(int arms, std::size_t prompts, std::vector<Run> runs,
                                              std::vector<double> tokens, std::vector<double> seconds);

// Amounts (seconds, bytes, joules): the mean over prompts, denominator 1.
[[nodiscard]] Observations amount_observations(int arms, std::size_t prompts, std::vector<Run> runs,
                                               std::vector<double> amounts);

// Throws Error (invalid) naming prompt and run unless: at least two arms and one prompt, every arm has a run, arms in
// range, sizes agree, every number finite, denominators and numerators positive, no (block, slot) twice.
void check_observations(const Observations& observations);

// Prompts that have a finite, positive cell in every run; a prompt that failed anywhere is left out everywhere, because
// totals over different prompts do not compare. Mark a failed cell with NaN.
struct CompletePrompts {
  Observations observations = {};
  std::vector<std::size_t> dropped = {};  // rows of the input that were left out
};
[[nodiscard]] CompletePrompts complete_prompts(const Observations& observations);

// Only some runs (indices into observations.runs, in this order), all prompts: one sitting of several.
[[nodiscard]] Observations runs_of(const Observations& observations, const std::vector<std::size_t>& runs);

// ln(sum of numerators / sum of denominators) of each run.
[[nodiscard]] std::vector<double> run_log_rates(const Observations& observations);

// Per prompt, totals over the runs of one arm.
struct PromptTotals {
  std::vector<double> numerator = {};
  std::vector<double> denominator = {};
};
[[nodiscard]] PromptTotals prompt_totals(const Observations& observations, int arm);

// Per prompt: ln of the arm's rate over the baseline's, each over the totals of its runs. For pictures.
[[nodiscard]] std::vector<double> prompt_log_ratios(const Observations& observations, int arm);

}  // namespace tare::stats

// What a result says against itself. A warning is data: a code to branch on, a sentence to show, the numbers behind it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tare::stats {

enum class WarningCode {
  kFewPrompts,             // fewer than 20 prompts: percentile intervals are too narrow
  kFewDegreesOfFreedom,    // the run-level interval has less than the required degrees of freedom
  kFewBlocks,              // granularity prompt with fewer blocks than required
  kOneBlock,               // one block: cubic drift is not covered (87.6 % instead of 95 %)
  kDriftLarge,             // fitted drift beyond the range in which coverage was checked
  kDriftConfounded,        // treatment and drift columns overlap: the interval is widened by more than a quarter
  kSlotOrderUnbalanced,    // the order alone does not cancel linear drift (missing runs, unequal counts)
  kStartOrderUnbalanced,   // the arm was not started first as often as second
  kStartOrderConfounded,   // the start order never changed: it cannot be told from the effect
  kOutlierRun,             // one run lies far from the fit
  kLaunchSpreadDominates,  // launches differ by more than the prompts explain: the per-prompt interval is too narrow
  kPromptSpreadDominates,  // prompts react differently: the run-level interval is no statement about other prompts
  kTokensDiffer,           // runs of one prompt did not produce the same token counts: the text was not forced
  kDegenerate,             // no variation where there must be some: a point instead of an interval
  kBcaFellBack,            // BCa level outside (0, 1), or no acceleration: percentile bounds are given
  kHolmChangedVerdict,     // significant alone, not in the family
  kTwoWayFloor,            // the two-way variance came out below one of its parts; the larger part is used
  kZerosDropped,           // zero differences were left out of a rank test
};

struct Warning {
  WarningCode code = WarningCode::kDegenerate;
  std::string text = {};                                     // one sentence, no full stop
  std::vector<std::pair<std::string, double>> numbers = {};  // named figures behind the sentence
};

// Stable snake_case name of a code, for files and tables: kFewPrompts -> "few_prompts".
[[nodiscard]] std::string_view warning_name(WarningCode code);

}  // namespace tare::stats

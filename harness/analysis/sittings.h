// One effect over several sittings: each sitting by itself, and all of them pooled (stats/pooling.h).
#pragma once

#include <string>
#include <vector>

#include "harness/analysis/gathered.h"
#include "reports/findings.h"
#include "stats/effect.h"
#include "stats/observations.h"
#include "stats/pooling.h"

namespace tare::harness {

// The runs of one call of `tare run`, analysed without the others.
struct SittingEstimates {
  std::int64_t sitting = 0;  // id in the ledger
  std::int64_t started_utc_ns = 0;
  std::size_t blocks = 0;
  std::vector<stats::Estimate> arms;  // per arm but the baseline: this suite, any launch; as the verdict's
};

// Sittings that have counted runs, in their order. `observations` are those of gathered.counted, in the same order.
[[nodiscard]] std::vector<SittingEstimates> estimate_sittings(const Gathered& gathered,
                                                              const stats::Observations& observations, double level);
// An effect with a spread can be pooled; one from too few blocks, or of one palindrome of many arms, cannot.
[[nodiscard]] bool can_be_pooled(const stats::Estimate& estimate);

// Fills findings.sittings and, from two sittings on, findings.pooled.
void add_sittings(const Gathered& gathered, const stats::Observations& observations, double level,
                  reports::Findings& findings);

}  // namespace tare::harness

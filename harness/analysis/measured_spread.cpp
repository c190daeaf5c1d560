#include "harness/analysis/measured_spread.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.h"
#include "harness/analysis/comparability.h"
#include "harness/analysis/measured_values.h"

namespace tare::harness {
namespace {

struct Span {
  std::int64_t begin_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t end_ns = std::numeric_limits<std::int64_t>::min();
};

double mean_block_seconds(const Gathered& gathered) {
  std::map<std::int64_t, Span> blocks;
  for (const CountedRun& run : gathered.counted) {
    Span& span = blocks[run.record.block];
    span.begin_ns = std::min(span.begin_ns, gathered.launches[run.launch].started_utc_ns);
    span.end_ns = std::max(span.end_ns, run.record.ended_utc_ns.value_or(run.record.started_utc_ns));
  }
  double seconds = 0;
  for (const auto& [block, span] : blocks)
    seconds += static_cast<double>(span.end_ns - span.begin_ns) * 1e-9 / static_cast<double>(blocks.size());
  return seconds;
}

}  // namespace

MeasuredSpread measured_spread(const Gathered& gathered) {
  std::vector<reports::Warning> reasons;
  const reports::Validity validity = judge(gathered, reasons);
  if (!validity.valid) throw Error(ErrorKind::kInvalid, validity.why_invalid, "plan");
  const stats::Observations observations = measured_values(gathered, Measure::kDecodeSpeed).observations;
  MeasuredSpread spread;
  spread.arms = observations.arms;
  spread.blocks = static_cast<int>(gathered.complete_blocks.size());
  spread.block_seconds = mean_block_seconds(gathered);
  for (int arm = 1; arm < observations.arms; ++arm) {
    stats::VarianceSplit split = stats::split_variance(observations, arm, granularity_of(gathered.experiment));
    if (!spread.arm.empty() && split.unit_sd <= spread.split.unit_sd) continue;
    spread.arm = gathered.experiment.arms[static_cast<std::size_t>(arm)].name;
    spread.split = std::move(split);
  }
  return spread;
}

}  // namespace tare::harness

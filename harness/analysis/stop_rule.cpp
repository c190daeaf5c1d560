#include "harness/analysis/stop_rule.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "harness/analysis/gathered.h"
#include "harness/analysis/measured_values.h"
#include "stats/analysis.h"

namespace tare::harness {
namespace {

constexpr std::int64_t kFewestBlocksOfPrecision = 2;  // one look at one block would stop on a lucky spread

struct BlockTimes {
  double seconds = 0;  // of all complete blocks
  double longest = 0;
  std::int64_t ended_utc_ns = 0;
};

struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// The wall clock spans launches and waits; should it have been set back in between, the time that the replays took by
// the monotonic clock is still there.
BlockTimes block_times(const Gathered& gathered) {
  std::map<std::int64_t, Span> spans;
  std::map<std::int64_t, std::int64_t> sitting;
  std::map<std::int64_t, std::int64_t> replayed_ns;
  BlockTimes times;
  for (const CountedRun& run : gathered.counted) {
    sitting[run.record.block] = gathered.launches[run.launch].sitting;
    for (const PromptResult& result : run.results) replayed_ns[run.record.block] += result.outer_ns;
    times.ended_utc_ns = std::max(times.ended_utc_ns, run.record.ended_utc_ns.value_or(0));
    const Span of_run{run.record.started_utc_ns, run.record.ended_utc_ns.value_or(run.record.started_utc_ns)};
    Span& span = spans.try_emplace(run.record.block, of_run).first->second;
    span = {std::min(span.begin, of_run.begin), std::max(span.end, of_run.end)};
  }
  for (const LaunchRecord& launch : gathered.launches) {
    const auto counted = sitting.find(launch.block);
    if (counted == sitting.end() || counted->second != launch.sitting) continue;  // of an attempt that was interrupted
    Span& span = spans.at(launch.block);
    span.begin = std::min(span.begin, launch.started_utc_ns);
    span.end = std::max(span.end, launch.ended_utc_ns.value_or(launch.started_utc_ns));
  }
  for (const auto& [block, span] : spans) {
    const double seconds = 1e-9 * static_cast<double>(std::max(span.end - span.begin, replayed_ns.at(block)));
    times.seconds += seconds;
    times.longest = std::max(times.longest, seconds);
  }
  return times;
}

// Nothing where the runs cannot be compared: the report says why, and the blocks go on to their most.
std::optional<double> half_width_percent(const Gathered& gathered) {
  if (!gathered.misfits.empty() || gathered.counted.empty()) return std::nullopt;
  const MeasuredValues values = measured_values(gathered, Measure::kDecodeSpeed);
  if (!values.why_missing.empty()) return std::nullopt;
  try {
    stats::check_observations(values.observations);
  } catch (const Error&) {
    return std::nullopt;
  }
  const auto half_width = stats::widest_half_width(stats::verdict_estimates(
      values.observations, granularity_of(gathered.experiment), 1 - gathered.experiment.analysis.alpha));
  if (!half_width) return std::nullopt;
  return stats::percent(*half_width);
}

}  // namespace

std::optional<StopRecord> stop_now(const Experiment& experiment, const Ledger& ledger) {
  // Reading all rounds after every block of a long experiment would take time for nothing.
  const auto slots = static_cast<std::int64_t>(plan(experiment).blocks.front().runs.size());
  const auto complete = static_cast<std::int64_t>(ledger.complete_blocks(slots).size());
  if (experiment.schedule.stop.rule == StopRule::kFixed && complete < experiment.schedule.blocks) return std::nullopt;
  const Gathered gathered = gather(ledger);
  const BlockTimes times = block_times(gathered);
  const StopSettings& settings = experiment.schedule.stop;
  StopRecord stop;
  stop.blocks = static_cast<std::int64_t>(gathered.complete_blocks.size());
  if (stop.blocks == 0) return std::nullopt;
  stop.utc_ns = times.ended_utc_ns;
  stop.rule = to_text(settings.rule);
  stop.seconds = times.seconds;
  stop.half_width_percent = half_width_percent(gathered);
  const bool precise = settings.rule == StopRule::kPrecision && stop.blocks >= kFewestBlocksOfPrecision &&
                       stop.half_width_percent && *stop.half_width_percent <= settings.half_width_percent;
  const bool spent = settings.rule == StopRule::kTime && times.seconds + times.longest > settings.budget_s;
  if (precise) {
    stop.ended_by = "precision";
  } else if (spent && stop.blocks < experiment.schedule.blocks) {
    stop.ended_by = "time";
  } else if (stop.blocks >= experiment.schedule.blocks) {
    stop.ended_by = "blocks";
  } else {
    return std::nullopt;
  }
  return stop;
}

}  // namespace tare::harness

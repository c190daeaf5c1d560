#include "harness/analysis/run_readings.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace tare::harness {
namespace {

std::string name_of(const RunRecord& run) {
  return fmt::format("block {}, slot {} ({})", run.block + 1, run.slot + 1, run.arm);
}

}  // namespace

ReadingsOfRuns readings_of_runs(const Gathered& gathered) {
  struct Around {
    RunReadings readings;
    bool has_before = false;
    bool has_after = false;
  };
  std::map<std::int64_t, Around> by_run;
  for (const CountedRun& run : gathered.counted) {
    by_run[run.record.id].readings.name = name_of(run.record);
    by_run[run.record.id].readings.arm = run.arm;
    by_run[run.record.id].readings.sitting = gathered.launches[run.launch].sitting;
  }
  for (const StoredSample& stored : gathered.samples) {
    const auto found = stored.run_id ? by_run.find(*stored.run_id) : by_run.end();
    if (found == by_run.end()) continue;
    Around& around = found->second;
    if (stored.kind == "sampler") around.readings.during.push_back(stored.sample);
    if (stored.kind == "before") {
      around.readings.before = stored.sample;
      around.has_before = true;
    }
    if (stored.kind == "after") {
      around.readings.after = stored.sample;
      around.has_after = true;
    }
  }
  ReadingsOfRuns result;
  for (std::size_t row = 0; row < gathered.runs.size(); ++row) {
    const auto found = by_run.find(gathered.runs[row].id);
    if (found == by_run.end() || !found->second.has_before || !found->second.has_after) continue;
    result.runs.push_back(std::move(found->second.readings));
    result.rows.push_back(row);
  }
  return result;
}

}  // namespace tare::harness

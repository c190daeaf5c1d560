// A reconciliation as the report and scripts read it.
#include <vector>

#include "harness/analysis/reconciliation.h"

namespace tare::harness {
namespace {

Json row_json(const ReconciledRow& row) {
  Json json = {{"what", row.what},
               {"baseline_us", row.baseline_us},
               {"arm_us", row.arm_us},
               {"difference_us", row.difference_us},
               {"baseline_bytes", row.baseline_bytes},
               {"arm_bytes", row.arm_bytes}};
  if (row.interval) json["interval_us"] = {row.interval->low, row.interval->high};
  return json;
}

}  // namespace

reports::Times times_of(const Reconciliation& reconciliation) {
  const auto row_of = [](const ReconciledRow& row) {
    reports::TimeRow result{
        .what = row.what, .baseline_us = row.baseline_us, .arm_us = row.arm_us, .difference_us = row.difference_us};
    if (row.interval) {
      result.low_us = row.interval->low;
      result.high_us = row.interval->high;
    }
    return result;
  };
  reports::Times times;
  for (const ReconciledArm& arm : reconciliation.arms) {
    reports::ArmTimes& next = times.arms.emplace_back();
    next.arm = arm.arm;
    next.fault = arm.fault;
    next.source = arm.source;
    next.prompts = arm.prompts;
    if (!arm.fault.empty()) continue;
    next.timed_us = arm.timed_us;
    next.busy_us = arm.span_us - arm.idle_us;
    next.idle_us = arm.idle_us;
    next.host_us = arm.host_us + arm.stalls_us + arm.residual_us;
    next.profiled_us = arm.profiled_us;
    for (const ReconciledRow& row : arm.rows)
      next.rows.push_back({row.what, row.part, row.arm_us, row.arm_bytes > 0 ? row.arm_bytes : reports::kMissing});
  }
  for (const ReconciledDifference& difference : reconciliation.differences) {
    reports::TimeDifference& next = times.differences.emplace_back();
    next.arm = difference.arm;
    next.prompts = difference.prompts;
    for (const ReconciledRow& row : difference.rows) next.rows.push_back(row_of(row));
    next.idle = row_of(difference.idle);
    next.host = row_of(difference.host);
    next.stalls = row_of(difference.stalls);
    next.residual = row_of(difference.residual);
    next.timed = row_of(difference.timed);
    next.explained_share = difference.explained_share;
    next.adds_up = difference.adds_up;
    next.stalled = difference.stalled;
    next.only_baseline = difference.only_baseline;
    next.only_arm = difference.only_arm;
    next.outputs_equal = difference.outputs_equal;
    next.outputs_compared = difference.outputs_compared;
  }
  return times;
}

Json to_json(const Reconciliation& reconciliation) {
  Json arms = Json::array();
  for (const ReconciledArm& arm : reconciliation.arms) {
    Json rows = Json::array();
    for (const ReconciledRow& row : arm.rows)
      rows.push_back({{"what", row.what}, {"us", row.arm_us}, {"bytes", row.arm_bytes}});
    arms.push_back({{"arm", arm.arm},
                    {"fault", arm.fault},
                    {"source", arm.source},
                    {"prompts", arm.prompts},
                    {"cells", arm.cells},
                    {"timed_us", arm.timed_us},
                    {"span_us", arm.span_us},
                    {"idle_us", arm.idle_us},
                    {"host_us", arm.host_us},
                    {"stalls_us", arm.stalls_us},
                    {"residual_us", arm.residual_us},
                    {"profiled_us", arm.profiled_us},
                    {"records", arm.records},
                    {"dropped", arm.dropped},
                    {"invalid", arm.invalid},
                    {"unmatched", arm.unmatched},
                    {"outputs_unsteady", arm.outputs_unsteady},
                    {"rows", rows}});
  }
  Json differences = Json::array();
  for (const ReconciledDifference& difference : reconciliation.differences) {
    Json rows = Json::array();
    for (const ReconciledRow& row : difference.rows) rows.push_back(row_json(row));
    differences.push_back({{"arm", difference.arm},
                           {"prompts", difference.prompts},
                           {"cells", difference.cells},
                           {"timed", row_json(difference.timed)},
                           {"idle", row_json(difference.idle)},
                           {"host", row_json(difference.host)},
                           {"stalls", row_json(difference.stalls)},
                           {"residual", row_json(difference.residual)},
                           {"explained_share", difference.explained_share},
                           {"adds_up", difference.adds_up},
                           {"stalled", difference.stalled},
                           {"only_baseline", difference.only_baseline},
                           {"only_arm", difference.only_arm},
                           {"outputs_equal", difference.outputs_equal},
                           {"outputs_compared", difference.outputs_compared},
                           {"rows", rows}});
  }
  return {{"baseline", reconciliation.baseline}, {"arms", arms}, {"differences", differences}};
}

}  // namespace tare::harness

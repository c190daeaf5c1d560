#include "harness/analysis/profiled_rounds.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/json_reader.h"
#include "harness/analysis/reconciliation.h"

namespace tare::harness {
namespace {

// A lane a row of the profile, in the order of the rows.
std::vector<reports::RoundLane> lanes_of(const ProfileRecord& profile) {
  std::vector<reports::RoundLane> lanes;
  for (const Json& element : profile.rows) {
    JsonReader row(element, "profiles.rows");
    const std::string launch = row.has("launch") ? row.text("launch") : "";
    const std::string part = row.has("part") ? row.text("part") : "";
    lanes.push_back({name_of_row(launch.empty() ? row.text("kernel") : launch, part), part, {}});
  }
  for (const Json& element : profile.round) {
    JsonReader entry(element, "profiles.round");
    const auto row = entry.integer("row", 0, static_cast<std::int64_t>(lanes.size()) - 1);
    reports::RoundSpan span;
    span.begin_us = entry.number("begin_us", 0);
    span.alone_us = entry.number("alone_us", span.begin_us);
    span.end_us = entry.number("end_us", span.alone_us);
    lanes[static_cast<std::size_t>(row)].spans.push_back(span);
  }
  std::erase_if(lanes, [](const reports::RoundLane& lane) { return lane.spans.empty(); });
  return lanes;
}

}  // namespace

void add_profiled_rounds(reports::Times& times, const Gathered& gathered) {
  std::map<std::int64_t, std::string> arm_of;
  for (const LaunchRecord& launch : gathered.launches) arm_of[launch.id] = launch.arm;
  for (reports::ArmTimes& arm : times.arms) {
    if (!arm.fault.empty()) continue;
    const ProfileRecord* first = nullptr;
    for (const ProfileRecord& profile : gathered.profiles) {
      if (!profile.fault.empty() || profile.round.empty() || arm_of[profile.launch_id] != arm.arm) continue;
      if (first == nullptr || profile.position < first->position) first = &profile;
    }
    if (first == nullptr) continue;
    arm.round = lanes_of(*first);
    arm.round_of = first->prompt_id;
  }
}

}  // namespace tare::harness

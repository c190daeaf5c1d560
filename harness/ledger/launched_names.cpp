#include "harness/ledger/launched_names.h"

#include <algorithm>

#include "base/json_reader.h"

namespace tare::harness {

std::vector<LaunchedNames> launched_names(const std::vector<LaunchRecord>& launches,
                                          const std::vector<ProfileRecord>& profiles) {
  std::vector<LaunchedNames> result;
  for (const ProfileRecord& profile : profiles) {
    const auto launch = std::find_if(launches.begin(), launches.end(),
                                     [&](const LaunchRecord& record) { return record.id == profile.launch_id; });
    if (launch == launches.end()) continue;
    if (result.empty() || result.back().launch_id != profile.launch_id)
      result.push_back({launch->arm, profile.launch_id, {}, {}});
    LaunchedNames& entry = result.back();
    if (entry.fault.empty()) entry.fault = profile.fault;
    for (const Json& element : profile.rows) {
      JsonReader row(element, "profiles.rows");
      for (const char* key : {"kernel", "launch"})
        if (row.has(key) && !row.text(key).empty()) entry.names.insert(row.text(key));
    }
  }
  return result;
}

}  // namespace tare::harness

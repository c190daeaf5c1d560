// What twin launches launched, by name: the launch audit's raw material.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "harness/ledger/records.h"

namespace tare::harness {

struct LaunchedNames {
  std::string arm;
  std::int64_t launch_id = 0;
  std::string fault;            // why it could not be profiled; there are no names then
  std::set<std::string> names;  // of kernels or ops, and of launches as the engine declares them
};

// One entry a launch that has profiles, in the order of `profiles`.
[[nodiscard]] std::vector<LaunchedNames> launched_names(const std::vector<LaunchRecord>& launches,
                                                        const std::vector<ProfileRecord>& profiles);

}  // namespace tare::harness

// Whether another profiler holds this process already, by what profilers leave in the environment of what they start.
// CUPTI has one subscriber a process; what it says then (or does not: records may just be missing) helps nobody.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/file.h"

namespace tare::profiles {

using EnvironmentLookup = std::function<std::optional<std::string>(const std::string& name)>;

// "Nsight Systems (NSYS_PROFILING_SESSION_ID is set)"; empty: no sign of one.
[[nodiscard]] std::string profiler_present(const EnvironmentLookup& variable = environment_variable);
// Throws Error (environment) that names it and says what to do instead.
void refuse_second_profiler(const EnvironmentLookup& variable = environment_variable);

}  // namespace tare::profiles

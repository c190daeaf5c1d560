#include "profiles/timeline/profiler_present.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"

namespace tare::profiles {
namespace {

// Set by nsys in every process of a session.
constexpr const char* kNsysSession = "NSYS_PROFILING_SESSION_ID";
// The driver loads what this names into every process that uses CUDA: how nsys, ncu and compute-sanitizer come in.
constexpr const char* kInjection = "CUDA_INJECTION64_PATH";

}  // namespace

std::string profiler_present(const EnvironmentLookup& variable) {
  if (variable(kNsysSession)) return fmt::format("Nsight Systems ({} is set)", kNsysSession);
  const std::optional<std::string> injected = variable(kInjection);
  if (injected && !injected->empty())
    return fmt::format("a tool that the driver loads ({} is {})", kInjection,
                       std::filesystem::path(*injected).filename().string());
  return {};
}

void refuse_second_profiler(const EnvironmentLookup& variable) {
  const std::string found = profiler_present(variable);
  if (found.empty()) return;
  throw Error(ErrorKind::kEnvironment, fmt::format("this process runs under {} already", found), "profile",
              "CUPTI has one subscriber a process: profile without it, or read its own records with `tare nsys`");
}

}  // namespace tare::profiles

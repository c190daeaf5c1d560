// What a reading means: rules that turn readings into warnings. Every threshold has its one home at the top of
// rules.cpp, with its reason; the report, and `tare doctor` before anything is measured, ask here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/environment/environment.h"

namespace tare::harness {

// The readings of one run.
struct RunReadings {
  std::string name;  // "block 1, slot 3 (q4)"
  std::size_t arm = 0;
  std::int64_t sitting = 1;  // within one, the machine was not booted anew
  EnvironmentSample before;
  EnvironmentSample after;
  std::vector<EnvironmentSample> during;  // the sampler's, in the order of time; empty: none was on
};

struct EnvironmentWarning {
  bool weakens = true;  // the numbers; false: worth knowing
  std::string code;     // stable word: "gpu_power_capped"
  std::string text;     // one sentence with its numbers
  std::string mend;     // what to do about it
};

// Quantities of one run that rules and the report share. Absent when a reading they need is.
// By the time of day; by the time since boot where the time of day was set meanwhile.
[[nodiscard]] std::optional<double> duration_s(const RunReadings& run);
// Share of the run's time in which some task waited for a core.
[[nodiscard]] std::optional<double> pressure_share(const RunReadings& run);
// Ticks that the hypervisor took, as a share of those and the busy ones.
[[nodiscard]] std::optional<double> steal_share(const RunReadings& run);
// Cores' worth of time that others used: not this program and not its workers. Absent in runs of less than a second:
// the kernel counts in hundredths.
[[nodiscard]] std::optional<double> others_cores(const RunReadings& run);
// Share of the run's time in which the control group's quota stopped a task.
[[nodiscard]] std::optional<double> throttled_share(const RunReadings& run);
// By the energy counter, from before to after.
[[nodiscard]] std::optional<double> energy_j(const RunReadings& run);
// Event reasons seen in any sample of the run, or-ed.
[[nodiscard]] std::optional<std::uint64_t> event_reasons(const RunReadings& run);

// A clock over one run: the sampler's values, or those before and after where there was no sampler.
struct ClockOfRun {
  double median_mhz = 0;
  double lowest_mhz = 0;
  double highest_mhz = 0;
  std::size_t samples = 0;
};
enum class Clock { kCpu, kGpuSm, kGpuMemory };
[[nodiscard]] std::optional<ClockOfRun> clock_of(const RunReadings& run, Clock clock);
[[nodiscard]] std::string to_text(Clock clock);  // "CPU clock", "GPU SM clock", "GPU memory clock"

// The code of every warning that the rules can give. A test holds docs/guide/environment.md to it, and asks for each
// one that it was caused on purpose and caught.
[[nodiscard]] std::vector<std::string> rule_codes();

// All rules over all counted runs. `arms` names them; `gpus` are those that runs used.
[[nodiscard]] std::vector<EnvironmentWarning> judge_environment(std::span<const RunReadings> runs,
                                                                const std::vector<std::string>& arms,
                                                                const Machine& machine, std::span<const GpuFacts> gpus);

// Rules about a GPU as it is set up; part of judge_environment too.
[[nodiscard]] std::vector<EnvironmentWarning> judge_gpu_setting(const GpuFacts& facts, const GpuSample& sample);
// Event reasons that say that the GPU was held back, out of all that were seen.
[[nodiscard]] std::uint64_t slowing_reasons(std::uint64_t reasons);

// Limits that `tare doctor` holds its own readings against.
[[nodiscard]] bool is_contended(double pressure_share);
[[nodiscard]] bool is_stolen(double steal_share);
[[nodiscard]] bool is_loaded(double load_1min, std::size_t usable_cores);
[[nodiscard]] bool is_busy_neighbour(double cores);
[[nodiscard]] bool is_unsteady(double lost_share);  // of equal pieces of work: their mean time over the median, less 1

}  // namespace tare::harness

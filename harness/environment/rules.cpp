#include "harness/environment/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "base/text.h"
#include "harness/environment/processes.h"

namespace tare::harness {
namespace {

// ---- thresholds, each with its reason ----

// A run in which tasks waited for a core during more than a twentieth of its time had company: the effect sought may be
// a hundredth of that.
constexpr double kPressureShare = 0.05;
// A hypervisor that took more than a hundredth of the busy time was serving others.
constexpr double kStealShare = 0.01;
// A worker with a thread a core makes a load of 1 a core by itself; a quarter above it is somebody else.
constexpr double kLoadPerCore = 1.25;
// A tenth of a core used by others is more than an idle system's services use, and enough memory traffic to matter to a
// worker that streams weights even when cores are left over.
constexpr double kOthersCores = 0.1;
// The kernel counts processor time in hundredths of a second: in shorter runs a tick is more than the threshold.
constexpr double kShortestCountedS = 1;
// A quota that bites at all distorts the rounds it falls on; a thousandth of the run's time is the effect sought.
constexpr double kThrottledShare = 0.001;
// Waiting for memory means reclaim or swap: round times of another machine.
constexpr double kMemoryPressureShare = 0.01;
// CPU drivers report each core's clock at an instant, so even a steady machine shows some spread between runs.
constexpr double kCpuClockShare = 0.02;
// GPU clocks move in steps of 15 MHz in about 2,000: a step of more than one is a change of state.
constexpr double kGpuClockShare = 0.01;
// Half a percent of clock is an effect of up to half a percent of speed.
constexpr double kArmClockShare = 0.005;
// A GPU that has not left its idle clock (345 of 1,980 MHz on an H200) lies far below; a normal step does not.
constexpr double kColdClockShare = 0.9;
// Power limits are given in watts; anything more than rounding below the default was set by somebody.
constexpr double kPowerLimitShare = 0.99;
// To call it a step, so many samples on either side: two could be a hiccup of the reading.
constexpr std::size_t kFewestStepSamples = 3;
// Equal pieces of work whose mean lies a hundredth above their median lose time to others in lumps; on a quiet machine
// timer interrupts and the steps of a turbo clock cost a few thousandths.
constexpr double kLostShare = 0.01;
// The kernel tells the time since boot in hundredths of a second, and reading it takes its turn on a busy core; a
// daemon that slews moves the time of day by a thousandth at most. What is more was set, or happened while a virtual
// machine stood still.
constexpr double kClockJumpS = 0.5;
constexpr double kClockSlewShare = 0.001;
constexpr double kPercent = 100;
constexpr double kSecondsPerNs = 1e-9;
constexpr double kSecondsPerUs = 1e-6;

constexpr std::uint64_t kSlowing = kReasonPowerCap | kReasonHardwareSlowdown | kReasonThermalSlowdown |
                                   kReasonHardwareThermalSlowdown | kReasonPowerBrake;

// ---- quantities ----

std::optional<double> difference(const std::optional<std::int64_t>& before, const std::optional<std::int64_t>& after) {
  if (!before || !after || *after < *before) return std::nullopt;  // a counter that was set back says nothing
  return static_cast<double>(*after - *before);
}

std::optional<double> share_of_time(const RunReadings& run, const std::optional<std::int64_t>& before_us,
                                    const std::optional<std::int64_t>& after_us) {
  const auto waited_us = difference(before_us, after_us);
  const auto duration = duration_s(run);
  if (!waited_us || !duration) return std::nullopt;
  return kSecondsPerUs * *waited_us / *duration;
}

// By how much the time of day went ahead of the time since boot; 0 when that is no more than slewing.
std::optional<double> clock_jump_s(const EnvironmentSample& from, const EnvironmentSample& to) {
  if (!from.uptime_s || !to.uptime_s) return std::nullopt;
  const double since_boot = *to.uptime_s - *from.uptime_s;
  const double jump = kSecondsPerNs * static_cast<double>(to.utc_ns - from.utc_ns) - since_boot;
  return std::abs(jump) > kClockJumpS + kClockSlewShare * std::abs(since_boot) ? jump : 0;
}

std::optional<double> clock_in(const EnvironmentSample& sample, Clock clock) {
  if (clock == Clock::kCpu) return sample.frequency_mhz;
  if (!sample.gpu) return std::nullopt;
  return clock == Clock::kGpuSm ? sample.gpu->sm_clock_mhz : sample.gpu->memory_clock_mhz;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

std::vector<double> clocks_during(const RunReadings& run, Clock clock) {
  std::vector<double> values;
  for (const EnvironmentSample& sample : run.during)
    if (const auto value = clock_in(sample, clock)) values.push_back(*value);
  return values;
}

// Largest change between what lies before and behind any cut of the series, as a share of the whole's median.
double largest_step(const std::vector<double>& values) {
  double largest = 0;
  const double whole = values.empty() ? 0 : median(values);
  for (std::size_t cut = kFewestStepSamples; cut + kFewestStepSamples <= values.size(); ++cut) {
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(cut);
    const double change = median({values.begin(), at}) - median({at, values.end()});
    if (whole > 0) largest = std::max(largest, std::abs(change) / whole);
  }
  return largest;
}

std::vector<const EnvironmentSample*> all_samples(const RunReadings& run) {
  std::vector<const EnvironmentSample*> samples = {&run.before};
  for (const EnvironmentSample& sample : run.during) samples.push_back(&sample);
  samples.push_back(&run.after);
  return samples;
}

// ---- rules ----

class Judgement {
 public:
  explicit Judgement(std::span<const RunReadings> runs) : runs_(runs) {}

  void warn(std::string code, std::string text, std::string mend) {
    warnings_.push_back({true, std::move(code), std::move(text), std::move(mend)});
  }
  // Warns when the quantity lies above the limit in some run. `say` gets how many of how many runs, and the largest.
  void limit(const char* code, const std::function<std::optional<double>(const RunReadings&)>& quantity, double limit,
             const std::function<std::string(const std::string& runs, double largest)>& say, const std::string& mend) {
    std::size_t known = 0;
    std::size_t above = 0;
    double largest = 0;
    for (const RunReadings& run : runs_) {
      const auto value = quantity(run);
      if (!value) continue;
      ++known;
      if (*value > limit) ++above;
      largest = std::max(largest, *value);
    }
    if (above > 0) warn(code, say(fmt::format("in {} of {} runs", above, known), largest), mend);
  }
  [[nodiscard]] std::vector<EnvironmentWarning> take() { return std::move(warnings_); }
  [[nodiscard]] std::span<const RunReadings> runs() const { return runs_; }

 private:
  std::span<const RunReadings> runs_;
  std::vector<EnvironmentWarning> warnings_;
};

// From each run's beginning to its end, and on to the next run's beginning.
void judge_time_of_day(Judgement& judgement) {
  std::size_t jumps = 0;
  double largest = 0;
  const EnvironmentSample* last = nullptr;
  std::int64_t sitting = 0;
  const auto look = [&](const EnvironmentSample& from, const EnvironmentSample& to) {
    const double jump = clock_jump_s(from, to).value_or(0);
    if (jump == 0) return;
    ++jumps;
    if (std::abs(jump) > std::abs(largest)) largest = jump;
  };
  for (const RunReadings& run : judgement.runs()) {
    if (last != nullptr && run.sitting == sitting) look(*last, run.before);
    look(run.before, run.after);
    last = &run.after;
    sitting = run.sitting;
  }
  if (jumps > 0)
    judgement.warn("clock_jumped",
                   fmt::format("the time of day jumped {} time{} within a sitting, by up to {:+.1f} s against the time "
                               "since boot; durations and places in time are of clocks that nobody sets",
                               jumps, jumps == 1 ? "" : "s", largest),
                   "find what set the clock (a time daemon is to slew it), or what paused the virtual machine");
}

void judge_cores(Judgement& judgement, std::size_t usable_cores) {
  judgement.limit(
      "cpu_contended", pressure_share, kPressureShare,
      [](const std::string& runs, double largest) {
        return fmt::format(
            "{} tasks waited for a core during more than {:.0f} % of the time (at most {:.1f} %): something else was "
            "running",
            runs, kPressureShare * kPercent, largest * kPercent);
      },
      "stop what else runs here (tare doctor names it), or give the workers cores of their own");
  judgement.limit(
      "cpu_stolen", steal_share, kStealShare,
      [](const std::string& runs, double largest) {
        return fmt::format(
            "{} the hypervisor took more than {:.0f} % of the busy time (at most {:.1f} %): the host serves others",
            runs, kStealShare * kPercent, largest * kPercent);
      },
      "measure on a machine, or an instance type, of its own");
  if (usable_cores > 0)
    judgement.limit(
        "load_above_cores",
        [](const RunReadings& run) {
          std::optional<double> highest;
          for (const EnvironmentSample* sample : all_samples(run))
            if (sample->load_1min) highest = std::max(*sample->load_1min, highest.value_or(0));
          return highest;
        },
        kLoadPerCore * static_cast<double>(usable_cores),
        [&](const std::string& runs, double largest) {
          return fmt::format("{} the load average was up to {:.1f} on {} usable core{}", runs, largest, usable_cores,
                             usable_cores == 1 ? "" : "s");
        },
        "wait until the machine is quiet, or use fewer threads than cores");
  judgement.limit(
      "neighbour_busy", others_cores, kOthersCores,
      [](const std::string& runs, double largest) {
        return fmt::format("{} other processes used more than {} cores (at most {:.2f})", runs, kOthersCores, largest);
      },
      "stop them; they take memory bandwidth even where cores are left over");
  judgement.limit(
      "cgroup_throttled", throttled_share, kThrottledShare,
      [](const std::string& runs, double largest) {
        return fmt::format("{} the control group's CPU quota stopped the workers (up to {:.1f} % of the time)", runs,
                           largest * kPercent);
      },
      "raise the quota above the threads that run, or remove it");
  judgement.limit(
      "memory_short",
      [](const RunReadings& run) {
        return share_of_time(run, run.before.memory_pressure_us, run.after.memory_pressure_us);
      },
      kMemoryPressureShare,
      [](const std::string& runs, double largest) {
        return fmt::format("{} tasks waited for memory during up to {:.1f} % of the time", runs, largest * kPercent);
      },
      "free memory or use a smaller model: what is measured is reclaim and swap");
}

// "2 cc1plus, ninja" -> cc1plus, ninja
void take_names(const std::string& builds, std::set<std::string>& names) {
  for (std::size_t begin = 0; begin < builds.size();) {
    const std::size_t end = std::min(builds.find(", ", begin), builds.size());
    const std::string part = builds.substr(begin, end - begin);
    const std::size_t space = part.find(' ');
    names.insert(space == std::string::npos ? part : part.substr(space + 1));
    begin = end + 2;
  }
}

void judge_builds(Judgement& judgement) {
  std::size_t runs = 0;
  std::set<std::string> names;
  for (const RunReadings& run : judgement.runs()) {
    bool building = false;
    for (const auto* sample : {&run.before, &run.after}) {
      if (!sample->builds || sample->builds->empty()) continue;
      building = true;
      take_names(*sample->builds, names);
    }
    if (building) ++runs;
  }
  if (runs == 0) return;
  judgement.warn("build_running",
                 fmt::format("a build was going on around {} of {} runs: {}", runs, judgement.runs().size(),
                             join(std::vector<std::string>(names.begin(), names.end()), ", ")),
                 "let the build end first");
}

double clock_limit(Clock clock) {
  return clock == Clock::kCpu ? kCpuClockShare : kGpuClockShare;
}

std::string clock_word(Clock clock) {
  switch (clock) {
    case Clock::kCpu:
      return "cpu_clock";
    case Clock::kGpuSm:
      return "gpu_clock";
    case Clock::kGpuMemory:
      return "gpu_memory_clock";
  }
  return "clock";
}

std::string clock_mend(Clock clock) {
  return clock == Clock::kCpu
             ? "set the governor to performance and switch turbo off"
             : "lock the clock below what the power limit can hold (nvidia-smi -lgc), and let it warm up";
}

// Within a run: cold at its beginning, or a step in its middle.
void judge_clock_within_runs(Judgement& judgement, Clock clock) {
  std::size_t known = 0;
  std::size_t cold = 0;
  std::size_t stepped = 0;
  double coldest = 1;
  double largest = 0;
  for (const RunReadings& run : judgement.runs()) {
    const std::vector<double> values = clocks_during(run, clock);
    if (values.empty()) continue;
    ++known;
    const double step = largest_step(values);
    if (step > clock_limit(clock)) ++stepped;
    largest = std::max(largest, step);
    const auto first = clock_in(run.before, clock);
    const double share = first ? *first / median(values) : 1;
    if (share < kColdClockShare) ++cold;
    coldest = std::min(coldest, share);
  }
  // A CPU at rest between replays is allowed to clock down: only GPUs, which were at work just before, are called cold.
  if (cold > 0 && clock != Clock::kCpu)
    judgement.warn(clock_word(clock) + "_cold",
                   fmt::format("{} of {} runs began with a cold {}: {:.0f} % of the run's own", cold, known,
                               to_text(clock), coldest * kPercent),
                   "warm up longer, or keep the GPU's clock up (persistence mode, nvidia-smi -lgc)");
  if (stepped > 0)
    judgement.warn(clock_word(clock) + "_step",
                   fmt::format("in {} of {} runs the {} stepped by more than {:.0f} % (at most {:.1f} %)", stepped,
                               known, to_text(clock), clock_limit(clock) * kPercent, largest * kPercent),
                   clock_mend(clock));
}

// Between runs, and between the arms' means.
void judge_clock_between_runs(Judgement& judgement, Clock clock, const std::vector<std::string>& arms) {
  std::vector<double> medians;
  std::vector<std::vector<double>> by_arm(arms.size());
  for (const RunReadings& run : judgement.runs()) {
    const auto of_run = clock_of(run, clock);
    if (!of_run) continue;
    medians.push_back(of_run->median_mhz);
    by_arm.at(run.arm).push_back(of_run->median_mhz);
  }
  if (medians.empty()) return;
  const auto [lowest, highest] = std::minmax_element(medians.begin(), medians.end());
  const double spread = (*highest - *lowest) / median(medians);
  if (spread > clock_limit(clock))
    judgement.warn(clock_word(clock) + "_moved",
                   fmt::format("the {} moved between runs: {:.0f} to {:.0f} MHz ({:.1f} %)", to_text(clock), *lowest,
                               *highest, spread * kPercent),
                   clock_mend(clock));
  const auto mean = [](const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  };
  for (std::size_t arm = 1; arm < arms.size(); ++arm) {
    if (by_arm[arm].empty() || by_arm[0].empty()) continue;
    const double ratio = mean(by_arm[arm]) / mean(by_arm[0]) - 1;
    if (std::abs(ratio) <= kArmClockShare) continue;
    judgement.warn(
        clock_word(clock) + "_differs_between_arms",
        fmt::format("{} ran at another {} than {}: {:.0f} against {:.0f} MHz ({:+.2f} %); the effect holds "
                    "that too",
                    arms[arm], to_text(clock), arms[0], mean(by_arm[arm]), mean(by_arm[0]), ratio * kPercent),
        clock_mend(clock));
  }
}

void judge_gpu(Judgement& judgement) {
  std::size_t known = 0;
  std::size_t slowed = 0;
  std::uint64_t seen = 0;
  std::size_t with_company = 0;
  std::int64_t most_company = 0;
  std::set<std::string> gpus;
  for (const RunReadings& run : judgement.runs()) {
    if (const auto reasons = event_reasons(run)) {
      ++known;
      if (slowing_reasons(*reasons) != 0) ++slowed;
      seen |= slowing_reasons(*reasons);
    }
    std::int64_t company = 0;
    for (const auto* sample : {&run.before, &run.after})
      if (sample->gpu) company = std::max(company, sample->gpu->other_processes.value_or(0));
    if (run.before.gpu) gpus.insert(run.before.gpu->pci_bus_id);
    if (company > 0) ++with_company;
    most_company = std::max(most_company, company);
  }
  if (slowed > 0)
    judgement.warn("gpu_slowed",
                   fmt::format("in {} of {} runs the GPU was held back: {}", slowed, known, event_reasons_text(seen)),
                   "lock a clock that power and cooling can hold (nvidia-smi -lgc)");
  if (gpus.size() > 1)
    judgement.warn(
        "several_gpus",
        fmt::format("runs were on different GPUs: {}", join(std::vector<std::string>(gpus.begin(), gpus.end()), ", ")),
        "give every arm the same cuda.device: two GPUs of one kind differ by more than what is sought");
  if (with_company > 0)
    judgement.warn("gpu_neighbour",
                   fmt::format("around {} of {} runs {} other process{} had the GPU open", with_company,
                               judgement.runs().size(), most_company, most_company == 1 ? "" : "es"),
                   "nvidia-smi names them; end them, or take another GPU");
}

// The sample of this GPU at which its power limit was lowest; null when there is none.
const GpuSample* lowest_power_limit(std::span<const RunReadings> runs, const std::string& pci_bus_id) {
  const GpuSample* lowest = nullptr;
  for (const RunReadings& run : runs)
    for (const auto* sample : {&run.before, &run.after})
      if (sample->gpu && sample->gpu->pci_bus_id == pci_bus_id && sample->gpu->power_limit_w &&
          (lowest == nullptr || *sample->gpu->power_limit_w < *lowest->power_limit_w))
        lowest = &*sample->gpu;
  return lowest;
}

}  // namespace

std::optional<double> duration_s(const RunReadings& run) {
  if (clock_jump_s(run.before, run.after).value_or(0) != 0) {
    const double since_boot = *run.after.uptime_s - *run.before.uptime_s;
    return since_boot > 0 ? std::optional(since_boot) : std::nullopt;
  }
  const std::int64_t ns = run.after.utc_ns - run.before.utc_ns;
  if (ns <= 0) return std::nullopt;
  return kSecondsPerNs * static_cast<double>(ns);
}

std::optional<double> pressure_share(const RunReadings& run) {
  return share_of_time(run, run.before.cpu_pressure_us, run.after.cpu_pressure_us);
}

std::optional<double> steal_share(const RunReadings& run) {
  const auto steal = difference(run.before.cpu_steal_ticks, run.after.cpu_steal_ticks);
  const auto busy = difference(run.before.cpu_busy_ticks, run.after.cpu_busy_ticks);
  if (!steal || !busy) return std::nullopt;
  if (*steal == 0) return 0;  // nothing was taken, busy or not
  return *steal / (*steal + *busy);
}

std::optional<double> others_cores(const RunReadings& run) {
  const auto busy = difference(run.before.cpu_busy_ticks, run.after.cpu_busy_ticks);
  const auto own = difference(run.before.own_cpu_ticks, run.after.own_cpu_ticks);
  const auto duration = duration_s(run);
  if (!busy || !own || !duration || *duration < kShortestCountedS) return std::nullopt;
  return std::max(0.0, *busy - *own) / ticks_per_second() / *duration;
}

std::optional<double> throttled_share(const RunReadings& run) {
  return share_of_time(run, run.before.cgroup_throttled_us, run.after.cgroup_throttled_us);
}

std::optional<double> energy_j(const RunReadings& run) {
  if (!run.before.gpu || !run.after.gpu) return std::nullopt;
  const auto millijoules = difference(run.before.gpu->energy_mj, run.after.gpu->energy_mj);
  if (!millijoules) return std::nullopt;
  return *millijoules * 1e-3;
}

std::optional<std::uint64_t> event_reasons(const RunReadings& run) {
  std::optional<std::uint64_t> seen;
  for (const EnvironmentSample* sample : all_samples(run))
    if (sample->gpu && sample->gpu->event_reasons) seen = seen.value_or(0) | *sample->gpu->event_reasons;
  return seen;
}

std::optional<ClockOfRun> clock_of(const RunReadings& run, Clock clock) {
  std::vector<double> values = clocks_during(run, clock);
  if (values.empty())
    for (const auto* sample : {&run.before, &run.after})
      if (const auto value = clock_in(*sample, clock)) values.push_back(*value);
  if (values.empty()) return std::nullopt;
  const auto [lowest, highest] = std::minmax_element(values.begin(), values.end());
  return ClockOfRun{median(values), *lowest, *highest, values.size()};
}

std::string to_text(Clock clock) {
  switch (clock) {
    case Clock::kCpu:
      return "CPU clock";
    case Clock::kGpuSm:
      return "GPU SM clock";
    case Clock::kGpuMemory:
      return "GPU memory clock";
  }
  return "clock";
}

std::vector<std::string> rule_codes() {
  std::vector<std::string> codes = {"clock_jumped",    "cpu_contended",    "cpu_stolen",    "load_above_cores",
                                    "neighbour_busy",  "cgroup_throttled", "memory_short",  "build_running",
                                    "governor",        "gpu_slowed",       "gpu_neighbour", "several_gpus",
                                    "gpu_power_capped"};
  for (const Clock clock : {Clock::kCpu, Clock::kGpuSm, Clock::kGpuMemory}) {
    for (const char* what : {"_step", "_moved", "_differs_between_arms"}) codes.push_back(clock_word(clock) + what);
    if (clock != Clock::kCpu) codes.push_back(clock_word(clock) + "_cold");
  }
  return codes;
}

std::vector<EnvironmentWarning> judge_environment(std::span<const RunReadings> runs,
                                                  const std::vector<std::string>& arms, const Machine& machine,
                                                  std::span<const GpuFacts> gpus) {
  Judgement judgement(runs);
  judge_time_of_day(judgement);
  judge_cores(judgement, machine.usable_cores.size());
  judge_builds(judgement);
  for (const Clock clock : {Clock::kCpu, Clock::kGpuSm, Clock::kGpuMemory}) {
    judge_clock_within_runs(judgement, clock);
    judge_clock_between_runs(judgement, clock, arms);
  }
  judge_gpu(judgement);
  std::vector<EnvironmentWarning> warnings = judgement.take();
  for (const GpuFacts& facts : gpus)
    if (const GpuSample* sample = lowest_power_limit(runs, facts.pci_bus_id))
      for (EnvironmentWarning& warning : judge_gpu_setting(facts, *sample)) warnings.push_back(std::move(warning));
  if (machine.governor && *machine.governor != "performance")
    warnings.push_back({false, "governor", fmt::format("the clock governor is '{}'", *machine.governor),
                        "cpupower frequency-set -g performance"});
  return warnings;
}

std::vector<EnvironmentWarning> judge_gpu_setting(const GpuFacts& facts, const GpuSample& sample) {
  std::vector<EnvironmentWarning> warnings;
  if (facts.default_power_limit_w && sample.power_limit_w &&
      *sample.power_limit_w < kPowerLimitShare * *facts.default_power_limit_w)
    warnings.push_back({true, "gpu_power_capped",
                        fmt::format("the power limit of {} is {:.0f} W, its default {:.0f} W: a cap changes effects, "
                                    "not only speeds",
                                    facts.name.empty() ? facts.pci_bus_id : facts.name, *sample.power_limit_w,
                                    *facts.default_power_limit_w),
                        fmt::format("nvidia-smi -i {} -pl {:.0f}", facts.pci_bus_id, *facts.default_power_limit_w)});
  return warnings;
}

std::uint64_t slowing_reasons(std::uint64_t reasons) {
  return reasons & kSlowing;
}

bool is_contended(double share) {
  return share > kPressureShare;
}

bool is_stolen(double share) {
  return share > kStealShare;
}

bool is_loaded(double load_1min, std::size_t usable_cores) {
  return usable_cores > 0 && load_1min > kLoadPerCore * static_cast<double>(usable_cores);
}

bool is_busy_neighbour(double cores) {
  return cores > kOthersCores;
}

bool is_unsteady(double lost_share) {
  return lost_share > kLostShare;
}

}  // namespace tare::harness

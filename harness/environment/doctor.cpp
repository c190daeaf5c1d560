#include "harness/environment/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "harness/environment/cgroup.h"
#include "harness/environment/proc_text.h"
#include "harness/environment/processes.h"
#include "harness/environment/rules.h"

namespace tare::harness {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kNamedNeighbours = 3;
constexpr double kNamedCores = 0.01;  // a neighbour below a hundredth of a core is not worth a name
constexpr double kPercent = 100;
constexpr double kLittleMemoryShare = 0.1;
// One piece of the steadiness work takes about a millisecond: long beside the clock's own cost, short beside a time
// slice.
constexpr int kPieceSteps = 1'000'000;

class Findings {
 public:
  void good(std::string name, std::string found, std::string about = {}) {
    checks_.push_back({std::move(name), std::move(about), CheckState::kGood, std::move(found), ""});
  }
  void unknown(std::string name, std::string why, std::string mend = {}, std::string about = {}) {
    checks_.push_back({std::move(name), std::move(about), CheckState::kUnknown, std::move(why), std::move(mend)});
  }
  // Good, or in the given state with something to do about it.
  void judge(std::string name, bool bad, std::string found, std::string mend, std::string about = {},
             CheckState state = CheckState::kSpoils) {
    if (bad) {
      checks_.push_back({std::move(name), std::move(about), state, std::move(found), std::move(mend)});
    } else {
      good(std::move(name), std::move(found), std::move(about));
    }
  }
  [[nodiscard]] std::vector<Check> take() { return std::move(checks_); }

 private:
  std::vector<Check> checks_;
};

// Seconds of each piece of one fixed computation, repeated for `seconds`. A chain of dependent multiplications: it
// lives in registers, so it sees the clock and whoever takes the core, nothing else.
std::vector<double> time_fixed_work(double seconds) {
  std::vector<double> pieces;
  std::uint64_t state = 1;
  const SteadyClock::time_point end =
      SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(std::chrono::duration<double>(seconds));
  for (SteadyClock::time_point start = SteadyClock::now(); start < end;) {
    for (int step = 0; step < kPieceSteps; ++step) state = state * 6364136223846793005U + 1442695040888963407U;
    const volatile std::uint64_t kept = state;  // or the work would be no work
    (void)kept;
    const SteadyClock::time_point now = SteadyClock::now();
    pieces.push_back(std::chrono::duration<double>(now - start).count());
    start = now;
  }
  return pieces;
}

void check_settings(const SystemFiles& files, const Machine& machine, Findings& findings) {
  if (machine.governor) {
    findings.judge("governor", *machine.governor != "performance",
                   fmt::format("clock governor '{}'", *machine.governor), "cpupower frequency-set -g performance");
  } else {
    findings.unknown("governor", "no clock governor is visible (usual in virtual machines): the host decides");
  }
  const auto cpu = files.sys / "devices/system/cpu";
  auto turbo = number_of<int>(cpu / "cpufreq/boost");
  if (const auto off = number_of<int>(cpu / "intel_pstate/no_turbo")) turbo = *off == 0 ? 1 : 0;
  if (turbo) {
    findings.judge("turbo", *turbo != 0,
                   *turbo != 0 ? "turbo is on: the clock follows temperature and neighbours" : "turbo is off",
                   "echo 0 > /sys/devices/system/cpu/cpufreq/boost (or 1 > intel_pstate/no_turbo)", "",
                   CheckState::kNote);
  } else {
    findings.unknown("turbo", "whether the clock is boosted is not visible");
  }
  if (const auto source = line_of(files.sys / "devices/system/clocksource/clocksource0/current_clocksource")) {
    const bool slow = *source == "hpet" || *source == "acpi_pm" || *source == "jiffies";
    findings.judge("clock_source", slow, fmt::format("time comes from {}", *source),
                   "boot with clocksource=tsc: reading this one costs microseconds", "", CheckState::kNote);
  } else {
    findings.unknown("clock_source", "where time comes from is not visible");
  }
}

void check_memory(const Machine& machine, const EnvironmentSample& after, Findings& findings) {
  if (!machine.memory_bytes || !after.memory_available_bytes) {
    findings.unknown("memory", "the memory that is available is not visible");
    return;
  }
  const double share = static_cast<double>(*after.memory_available_bytes) / static_cast<double>(*machine.memory_bytes);
  findings.judge(
      "memory", share < kLittleMemoryShare,
      fmt::format("{} of {} available", human_bytes(static_cast<std::uint64_t>(*after.memory_available_bytes)),
                  human_bytes(*machine.memory_bytes)),
      "free memory: below a tenth the kernel reclaims while you measure");
}

void check_quota(const SystemFiles& files, std::size_t usable_cores, const RunReadings& watched, Findings& findings) {
  const CgroupCpu group = read_cgroup_cpu(files);
  if (!group.quota_cores && !group.throttled_us) {
    findings.unknown("cpu_quota", "no control group's quota is visible");
    return;
  }
  const double throttled = throttled_share(watched).value_or(0);
  const bool tight = group.quota_cores && *group.quota_cores < static_cast<double>(usable_cores);
  findings.judge("cpu_quota", tight || throttled > 0,
                 group.quota_cores
                     ? fmt::format("quota of {:.2f} cores on {} usable ones", *group.quota_cores, usable_cores)
                     : "no quota",
                 "raise it, or use fewer threads than it allows");
}

std::string neighbours_text(const std::vector<BusyProcess>& busy) {
  std::vector<std::string> names;
  for (const BusyProcess& process : busy) {
    if (process.cores < kNamedCores || names.size() == kNamedNeighbours) break;
    names.push_back(fmt::format("{} (pid {}, {:.2f})", process.name, process.pid, process.cores));
  }
  return names.empty() ? "" : ": " + join(names, ", ");
}

void check_company(const RunReadings& watched, const std::vector<BusyProcess>& busy, std::size_t usable_cores,
                   Findings& findings) {
  if (const auto load = watched.before.load_1min) {
    findings.judge("load", is_loaded(*load, usable_cores),
                   fmt::format("load average {:.2f} on {} cores", *load, usable_cores),
                   "wait until the machine is quiet");
  } else {
    findings.unknown("load", "the load average is not visible");
  }
  if (const auto cores = others_cores(watched)) {
    findings.judge("neighbours", is_busy_neighbour(*cores),
                   fmt::format("others use {:.2f} cores{}", *cores, neighbours_text(busy)),
                   "stop them; they take memory bandwidth even where cores are left over");
  } else {
    findings.unknown("neighbours", "what others use cannot be told: /proc/stat or the processes are not visible");
  }
  if (watched.after.builds) {
    std::vector<std::string> builds;
    for (const auto* sample : {&watched.before, &watched.after})
      if (sample->builds && !sample->builds->empty()) builds.push_back(*sample->builds);
    findings.judge("build", !builds.empty(),
                   builds.empty() ? "no build is going on" : "a build is going on: " + builds.back(),
                   "let the build end first");
  } else {
    findings.unknown("build", "processes are not visible");
  }
  if (const auto share = pressure_share(watched)) {
    findings.judge("cpu_pressure", is_contended(*share),
                   fmt::format("some task waited for a core during {:.1f} % of the time", *share * kPercent),
                   "fewer things at once, or cores of the workers' own");
  } else {
    findings.unknown("cpu_pressure", "the kernel does not tell pressure (/proc/pressure)", "boot with psi=1");
  }
  if (const auto share = steal_share(watched)) {
    findings.judge("hypervisor", is_stolen(*share),
                   fmt::format("the hypervisor took {:.2f} % of the busy time", *share * kPercent),
                   "measure on a machine, or an instance type, of its own");
  } else {
    findings.unknown("hypervisor", "what the hypervisor takes is not visible");
  }
}

void check_steadiness(std::vector<double> pieces, Findings& findings) {
  if (pieces.empty()) return findings.unknown("steadiness", "there was no time to try");
  const std::size_t tried = pieces.size();
  std::sort(pieces.begin(), pieces.end());
  const double median = pieces[tried / 2];
  double sum = 0;
  for (const double piece : pieces) sum += piece;
  const double lost = sum / static_cast<double>(tried) / median - 1;
  findings.judge(
      "steadiness", is_unsteady(lost),
      fmt::format("{} equal pieces of work of {:.2f} ms took {:.2f} % longer in the mean than the median one "
                  "(the slowest {:.1f} times it)",
                  tried, median * 1e3, lost * kPercent, pieces.back() / median),
      "something takes the core or moves its clock: see the other checks, or use another machine");
}

void check_gpu(const GpuDevice& device, Findings& findings) {
  const GpuFacts& facts = device.facts();
  const GpuSample sample = device.sample({});
  const std::string about = facts.name.empty() ? facts.pci_bus_id : fmt::format("{} {}", facts.pci_bus_id, facts.name);
  const std::vector<EnvironmentWarning> setting = judge_gpu_setting(facts, sample);
  if (!setting.empty()) {
    findings.judge("gpu_power_limit", true, setting.front().text, setting.front().mend, about);
  } else if (sample.power_limit_w && facts.default_power_limit_w) {
    findings.good("gpu_power_limit", fmt::format("{:.0f} W, the default", *sample.power_limit_w), about);
  }
  if (sample.event_reasons) {
    const std::uint64_t slowing = slowing_reasons(*sample.event_reasons);
    findings.judge("gpu_slowed", slowing != 0,
                   slowing != 0 ? "held back right now: " + event_reasons_text(slowing)
                                : "not held back (" + event_reasons_text(*sample.event_reasons) + ")",
                   "cool it, or raise its power limit", about);
  }
  if (sample.other_processes)
    findings.judge(
        "gpu_neighbours", *sample.other_processes > 0,
        fmt::format("{} other process{} on it", *sample.other_processes, *sample.other_processes == 1 ? "" : "es"),
        "nvidia-smi names them; end them, or take another GPU", about);
  if (facts.persistence)
    findings.judge(
        "gpu_persistence", !*facts.persistence,
        *facts.persistence ? "persistence mode is on" : "persistence mode is off: each launch starts a cold driver",
        fmt::format("nvidia-smi -i {} -pm 1", facts.pci_bus_id), about, CheckState::kNote);
  for (const MissingReading& missing : facts.missing)
    findings.unknown("gpu_reading", fmt::format("{}: {}", missing.reading, missing.why), "", about);
}

void check_gpus(const std::string& library, Findings& findings) {
  try {
    const Nvml nvml(library);
    const std::vector<GpuDevice> devices = nvml.devices();
    if (devices.empty()) findings.unknown("gpu", "NVML sees no GPU");
    for (const GpuDevice& device : devices) check_gpu(device, findings);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kEnvironment) throw;
    findings.unknown("gpu", error.what(), error.parts().hint);
  }
}

}  // namespace

std::string to_text(CheckState state) {
  switch (state) {
    case CheckState::kGood:
      return "good";
    case CheckState::kNote:
      return "note";
    case CheckState::kSpoils:
      return "spoils";
    case CheckState::kUnknown:
      return "unknown";
  }
  throw internal_error("a state of a check has no name");
}

std::size_t Diagnosis::count(CheckState state) const {
  return static_cast<std::size_t>(
      std::count_if(checks.begin(), checks.end(), [&](const Check& check) { return check.state == state; }));
}

Diagnosis diagnose(const DoctorSettings& settings) {
  if (!(settings.seconds >= 1))
    throw input_error("seconds", fmt::format("{} is too short", settings.seconds), "at least 1");
  const SystemFiles& files = settings.files;
  Diagnosis diagnosis;
  diagnosis.machine = read_machine(files);
  const std::size_t usable_cores = diagnosis.machine.usable_cores.size();
  RunReadings watched;
  const auto processes_before = list_processes(files);
  watched.before = sample_fully({}, files);
  const std::vector<double> pieces = time_fixed_work(settings.seconds);
  watched.after = sample_fully({}, files);
  const auto processes_after = list_processes(files);
  std::vector<BusyProcess> busy;
  if (processes_before && processes_after)
    busy = busy_processes(*processes_before, *processes_after, duration_s(watched).value_or(settings.seconds), {});

  Findings findings;
  check_settings(files, diagnosis.machine, findings);
  check_company(watched, busy, usable_cores, findings);
  check_quota(files, usable_cores, watched, findings);
  check_memory(diagnosis.machine, watched.after, findings);
  check_steadiness(pieces, findings);
  check_gpus(settings.nvml_library, findings);
  diagnosis.checks = findings.take();
  return diagnosis;
}

Json to_json(const Diagnosis& diagnosis) {
  Json checks = Json::array();
  for (const Check& check : diagnosis.checks)
    checks.push_back({{"name", check.name},
                      {"about", check.about},
                      {"state", to_text(check.state)},
                      {"found", check.found},
                      {"mend", check.mend}});
  return {{"machine", to_json(diagnosis.machine)},
          {"checks", std::move(checks)},
          {"spoils", diagnosis.count(CheckState::kSpoils)},
          {"notes", diagnosis.count(CheckState::kNote)},
          {"unknown", diagnosis.count(CheckState::kUnknown)}};
}

}  // namespace tare::harness

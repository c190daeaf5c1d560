// Conditions of a measurement, read without privileges from /proc, /sys and the scheduler. What cannot be read is
// absent (nullopt), never zero: the report prints "unsupported".
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "harness/environment/gpu.h"
#include "harness/environment/proc_text.h"

namespace tare::harness {

// What does not change while an experiment runs.
struct Machine {
  std::optional<std::string> hostname;  // may be left out when results are published (anonymous())
  std::optional<std::string> product;   // of the firmware's tables: a product's name, or the kind of virtual machine
  std::optional<std::string> cpu_model;
  std::vector<int> usable_cores;              // sched_getaffinity of this process
  std::optional<std::int64_t> cores_online;   // of the machine
  std::optional<std::uint64_t> memory_bytes;  // MemTotal
  std::optional<std::string> kernel;          // "Linux 6.1.0-18-amd64 x86_64"
  std::optional<std::string> governor;      // of the first usable core: "performance"; absent in most virtual machines
  std::optional<double> max_frequency_mhz;  // cpuinfo_max_freq of the first usable core
};

// What moves: read before and after each run, and by the sampler. Running totals are the kernel's, so that differences
// of two samples can be taken.
struct EnvironmentSample {
  std::int64_t utc_ns = 0;                      // Unix time
  std::optional<double> load_1min;              // /proc/loadavg
  std::optional<std::int64_t> runnable;         // tasks running or runnable, this one included (/proc/loadavg)
  std::optional<double> cpu_pressure_avg10;     // percent of the last 10 s in which some task waited for a core
  std::optional<std::int64_t> cpu_pressure_us;  // the same as a running total
  std::optional<std::int64_t> cpu_steal_ticks;  // /proc/stat, all cores, running total in USER_HZ
  std::optional<std::int64_t> cpu_busy_ticks;   // user + nice + system + irq + softirq
  std::optional<double> frequency_mhz;          // mean over usable cores (scaling_cur_freq, else /proc/cpuinfo)
  std::optional<std::int64_t> memory_available_bytes;
  std::optional<double> uptime_s;
  std::optional<std::int64_t> memory_pressure_us;        // running total of time in which some task waited for memory
  std::optional<std::int64_t> io_pressure_us;            // ... for a disk
  std::optional<std::int64_t> cgroup_throttled_us;       // running total: stopped by the control group's quota
  std::optional<std::int64_t> cgroup_throttled_periods;  // in so many of its periods
  std::optional<std::int64_t> own_cpu_ticks;             // used by this program and the living workers, USER_HZ
  std::optional<std::string> builds;                     // build tools that run: "2 cc1plus, ninja"; empty: none
  std::optional<std::int64_t> cost_ns;                   // processor time that taking this sample cost
  std::optional<GpuSample> gpu;                          // of the GPU that the arm uses
};

// What the readings around a run are about.
struct Watched {
  std::vector<pid_t> worker_groups;  // process groups of the living workers: they are ours, not neighbours
  std::vector<int> cores;            // that the workers are pinned to; empty: all that this program may use
  const GpuDevice* gpu = nullptr;    // that the arm uses; null: none, or none that can be read
};

// Where the kernel's files are; tests point it at a folder of their own.
struct SystemFiles {
  std::filesystem::path proc = "/proc";
  std::filesystem::path sys = "/sys";
};

[[nodiscard]] Machine read_machine(const SystemFiles& files = {});
// The machine alone: everything but the processes and the GPU.
[[nodiscard]] EnvironmentSample sample_environment(const SystemFiles& files = {});
// Everything: some milliseconds, so before and after runs only.
[[nodiscard]] EnvironmentSample sample_fully(const Watched& watched, const SystemFiles& files = {});
// What the sampler reads while a worker is timed: load, CPU pressure, the clock by the frequency driver, and the GPU's
// clocks, temperature, power and event reasons. The rest is absent: a list of processes costs milliseconds, and
// /proc/cpuinfo interrupts every core on older kernels. Keeps its files open, for opening costs more than reading.
class QuickReader {
 public:
  explicit QuickReader(Watched watched, const SystemFiles& files = {});
  [[nodiscard]] EnvironmentSample sample() const;

 private:
  Watched watched_;
  OpenFile load_;
  OpenFile pressure_;
  std::vector<OpenFile> frequencies_;  // of every watched core, or none
};
// Largest resident set of a living process so far (VmHWM), bytes.
[[nodiscard]] std::optional<std::uint64_t> peak_resident_bytes(pid_t pid, const SystemFiles& files = {});

// "unsupported" stands for what could not be read.
[[nodiscard]] Json to_json(const Machine& machine);
[[nodiscard]] Machine machine_from_json(const Json& json, const std::string& where);
[[nodiscard]] Machine anonymous(Machine machine);

// The time of day, Unix time. It may be set while we run: differences of it are no durations.
[[nodiscard]] std::int64_t utc_now_ns();
// The time of day when this program first asked, gone on with by a clock that nobody sets (and that goes on while the
// machine sleeps): differences within one program are durations. For what the analysis takes as places in time.
[[nodiscard]] std::int64_t steady_utc_ns();
// "2026-11-29T14:41:46Z"
[[nodiscard]] std::string utc_text(std::int64_t utc_ns);
// "2026-11-29T14:41:46.123Z"
[[nodiscard]] std::string utc_text_ms(std::int64_t utc_ns);

}  // namespace tare::harness

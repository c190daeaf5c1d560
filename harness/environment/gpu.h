// A GPU's clocks, power, temperature and company, through NVML: the driver's own library, opened at run time, so that
// the same binary runs where there is none. What cannot be had is absent and named with its reason, never zero.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tare::harness {

constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

// Bits of GpuSample::event_reasons, why the clock is not higher (the values are NVML's).
enum GpuEventReason : std::uint64_t {
  kReasonIdle = 0x1,
  kReasonApplicationClocks = 0x2,
  kReasonPowerCap = 0x4,
  kReasonHardwareSlowdown = 0x8,
  kReasonSyncBoost = 0x10,
  kReasonThermalSlowdown = 0x20,
  kReasonHardwareThermalSlowdown = 0x40,
  kReasonPowerBrake = 0x80,
  kReasonDisplayClocks = 0x100,
};
// "power cap, hardware slowdown"; bits that have no name here are printed as a number.
[[nodiscard]] std::string event_reasons_text(std::uint64_t reasons);

struct MissingReading {
  std::string reading;  // "energy counter"
  std::string why;      // "not supported", "no permission", "the library lacks nvmlDeviceGetTotalEnergyConsumption"
};

// What does not change while an experiment runs.
struct GpuFacts {
  std::string pci_bus_id;  // as it was asked for
  std::string name;
  std::string uuid;
  std::string driver_version;
  std::optional<double> default_power_limit_w;
  std::optional<double> max_sm_clock_mhz;
  std::optional<double> max_memory_clock_mhz;
  std::optional<bool> persistence;
  std::vector<MissingReading> missing;  // every reading, of the facts and of the samples, that this GPU does not give
};

// What moves.
struct GpuSample {
  std::string pci_bus_id;
  std::optional<double> sm_clock_mhz;
  std::optional<double> memory_clock_mhz;
  std::optional<double> temperature_c;
  std::optional<double> power_w;
  std::optional<std::uint64_t> event_reasons;  // at this instant
  // Not in the sampler's rows, to keep them cheap:
  std::optional<double> power_limit_w;          // in force
  std::optional<std::int64_t> energy_mj;        // running total
  std::optional<std::int64_t> other_processes;  // with a context on it, ours left out
};

struct NvmlFunctions;  // the library and what was found in it

class GpuDevice {
 public:
  [[nodiscard]] const GpuFacts& facts() const { return facts_; }
  // Clocks, temperature, power, event reasons: what the sampler reads while a worker is timed.
  [[nodiscard]] GpuSample sample_quickly() const;
  // All of it. Processes are ours when their group is one of `worker_groups`. Where the driver's process ids mean
  // nothing here (another process namespace), none of ours is found, and as many entries as there are groups are taken
  // for ours.
  [[nodiscard]] GpuSample sample(std::span<const pid_t> worker_groups) const;

 private:
  friend class Nvml;
  GpuDevice(std::shared_ptr<const NvmlFunctions> functions, void* handle, std::string pci_bus_id);
  std::shared_ptr<const NvmlFunctions> functions_;
  void* handle_ = nullptr;
  GpuFacts facts_;
};

class Nvml {
 public:
  // Throws Error (environment): the library is not there, lacks what everything needs, or does not find a driver.
  explicit Nvml(const std::string& library = kNvmlLibrary);

  // The GPU that CUDA names "0000:01:00.0": NVML's own order is not CUDA's, which CUDA_VISIBLE_DEVICES changes. Throws
  // Error (environment) when there is none, or it may not be looked at.
  [[nodiscard]] GpuDevice device(const std::string& pci_bus_id) const;
  [[nodiscard]] std::string driver_version() const;  // empty when it does not say
  // Every GPU of the machine.
  [[nodiscard]] std::vector<GpuDevice> devices() const;

 private:
  std::shared_ptr<const NvmlFunctions> functions_;
};

// What `tare --version` says of it: "NVML of driver 580.1", or why there is none. Never throws an Error.
[[nodiscard]] std::string found_nvml(const std::string& library = kNvmlLibrary);

}  // namespace tare::harness

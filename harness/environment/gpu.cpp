#include "harness/environment/gpu.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace tare::harness {

namespace {

// NVML's calling convention, by hand: its header comes with the toolkit, not with the driver.
using Handle = void*;
using Code = int;
constexpr Code kSuccess = 0;
constexpr Code kInsufficientSize = 7;
constexpr Code kNoSuchFunction = -1;  // ours: the library does not have it
constexpr unsigned kSmClock = 1;
constexpr unsigned kMemoryClock = 2;
constexpr unsigned kGpuSensor = 0;
constexpr std::size_t kTextBytes = 96;  // NVML's own limits for names, UUIDs and versions
constexpr double kMilli = 1e-3;

struct ProcessInfo {  // of nvmlDeviceGetComputeRunningProcesses_v2 and _v3
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

struct PciInfo {  // of nvmlDeviceGetPciInfo_v3
  char legacy_bus_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_id;
  unsigned subsystem_id;
  char bus_id[32];
};

using PlainCall = Code();
using ErrorText = const char*(Code);
using TextOfSystem = Code(char*, unsigned);
using DeviceByPci = Code(const char*, Handle*);
using DeviceByIndex = Code(unsigned, Handle*);
using CountCall = Code(unsigned*);
using TextOfDevice = Code(Handle, char*, unsigned);
using NumberOfDevice = Code(Handle, unsigned*);
using KindOfDevice = Code(Handle, unsigned, unsigned*);
using LongOfDevice = Code(Handle, unsigned long long*);
using ProcessesOfDevice = Code(Handle, unsigned*, ProcessInfo*);
using PciOfDevice = Code(Handle, PciInfo*);

}  // namespace

struct NvmlFunctions {
  std::unique_ptr<void, int (*)(void*)> library{nullptr, &::dlclose};
  bool initialised = false;

  PlainCall* init = nullptr;
  PlainCall* shutdown = nullptr;
  ErrorText* error_string = nullptr;
  TextOfSystem* driver_version = nullptr;
  DeviceByPci* by_pci = nullptr;
  DeviceByIndex* by_index = nullptr;
  CountCall* count = nullptr;
  PciOfDevice* pci_info = nullptr;
  TextOfDevice* name = nullptr;
  TextOfDevice* uuid = nullptr;
  KindOfDevice* clock = nullptr;
  KindOfDevice* max_clock = nullptr;
  KindOfDevice* temperature = nullptr;
  NumberOfDevice* power = nullptr;
  NumberOfDevice* power_limit = nullptr;
  NumberOfDevice* default_power_limit = nullptr;
  NumberOfDevice* persistence = nullptr;
  LongOfDevice* energy = nullptr;
  LongOfDevice* event_reasons = nullptr;
  ProcessesOfDevice* compute_processes = nullptr;
  ProcessesOfDevice* graphics_processes = nullptr;

  NvmlFunctions() = default;
  NvmlFunctions(const NvmlFunctions&) = delete;
  NvmlFunctions& operator=(const NvmlFunctions&) = delete;
  ~NvmlFunctions() {
    if (initialised && shutdown != nullptr) (void)shutdown();
  }

  // The first of the names that the library has.
  template <class Function>
  void find(Function*& function, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      function = reinterpret_cast<Function*>(::dlsym(library.get(), name));
      if (function != nullptr) return;
    }
  }
  [[nodiscard]] std::string why(Code code) const;
};

namespace {

constexpr const char* kLacking = "this version of NVML does not have it";

// "Not Supported" as NVML writes it, in lower case.
std::string lower_case(std::string text) {
  for (char& character : text)
    if (character >= 'A' && character <= 'Z') character = static_cast<char>(character - 'A' + 'a');
  return text;
}

// Calls a function of a device that writes into its last argument; absent when it cannot be had.
template <class Value, class Function, class... Arguments>
std::optional<Value> ask(Code& code, Function* function, Arguments... arguments) {
  Value value{};
  code = function == nullptr ? kNoSuchFunction : function(arguments..., &value);
  if (code != kSuccess) return std::nullopt;
  return value;
}

template <class Function>
std::optional<std::string> ask_text(Code& code, Function* function, Handle handle) {
  std::array<char, kTextBytes> text{};
  code = function == nullptr ? kNoSuchFunction : function(handle, text.data(), static_cast<unsigned>(text.size()));
  if (code != kSuccess) return std::nullopt;
  return std::string(text.data());
}

std::string driver_version_of(const NvmlFunctions& nvml, Code& code) {
  std::array<char, kTextBytes> version{};
  code = nvml.driver_version == nullptr ? kNoSuchFunction
                                        : nvml.driver_version(version.data(), static_cast<unsigned>(version.size()));
  return code == kSuccess ? std::string(version.data()) : std::string();
}

std::optional<double> as_double(std::optional<unsigned> value, double scale = 1) {
  if (!value) return std::nullopt;
  return scale * static_cast<double>(*value);
}

// Process ids with a context on the device.
std::optional<std::set<unsigned>> pids_of(Code& code, ProcessesOfDevice* function, Handle handle) {
  if (function == nullptr) {
    code = kNoSuchFunction;
    return std::nullopt;
  }
  std::vector<ProcessInfo> infos(16);
  // Processes may come between two calls; a list that keeps growing is not worth waiting for.
  for (int attempt = 0; attempt < 4; ++attempt) {
    auto count = static_cast<unsigned>(infos.size());
    code = function(handle, &count, infos.data());
    if (code == kSuccess) {
      std::set<unsigned> pids;
      for (unsigned i = 0; i < std::min<std::size_t>(count, infos.size()); ++i) pids.insert(infos[i].pid);
      return pids;
    }
    if (code != kInsufficientSize) return std::nullopt;
    infos.resize(std::max<std::size_t>(2 * infos.size(), count + 8));
  }
  return std::nullopt;
}

std::int64_t without_ours(const std::set<unsigned>& pids, std::span<const pid_t> worker_groups) {
  std::int64_t ours = 0;
  for (const unsigned pid : pids) {
    const pid_t group = ::getpgid(static_cast<pid_t>(pid));  // -1 when there is no such process here
    const bool is_worker = std::find(worker_groups.begin(), worker_groups.end(), group) != worker_groups.end();
    if (is_worker || static_cast<pid_t>(pid) == ::getpid()) ++ours;
  }
  const auto all = static_cast<std::int64_t>(pids.size());
  if (ours == 0) ours = static_cast<std::int64_t>(worker_groups.size());
  return std::max<std::int64_t>(0, all - ours);
}

}  // namespace

std::string NvmlFunctions::why(Code code) const {
  if (code == kNoSuchFunction) return kLacking;
  const char* text = error_string == nullptr ? nullptr : error_string(code);
  return text == nullptr ? fmt::format("NVML error {}", code) : lower_case(text);
}

std::string event_reasons_text(std::uint64_t reasons) {
  constexpr std::array<std::pair<std::uint64_t, const char*>, 9> kNames = {
      {{kReasonIdle, "idle"},
       {kReasonApplicationClocks, "application clocks"},
       {kReasonPowerCap, "power cap"},
       {kReasonHardwareSlowdown, "hardware slowdown"},
       {kReasonSyncBoost, "sync boost"},
       {kReasonThermalSlowdown, "thermal slowdown"},
       {kReasonHardwareThermalSlowdown, "hardware thermal slowdown"},
       {kReasonPowerBrake, "power brake"},
       {kReasonDisplayClocks, "display clocks"}}};
  std::vector<std::string> words;
  for (const auto& [bit, name] : kNames) {
    if ((reasons & bit) != 0) words.emplace_back(name);
    reasons &= ~bit;
  }
  if (reasons != 0) words.push_back(fmt::format("{:#x}", reasons));
  return words.empty() ? "none" : join(words, ", ");
}

GpuDevice::GpuDevice(std::shared_ptr<const NvmlFunctions> functions, void* handle, std::string pci_bus_id)
    : functions_(std::move(functions)), handle_(handle) {
  const NvmlFunctions& nvml = *functions_;
  facts_.pci_bus_id = std::move(pci_bus_id);
  Code code = kSuccess;
  // Every reading is tried once, so that what is missing is known before anything is measured.
  const auto note = [&](const char* reading) {
    if (code != kSuccess) facts_.missing.push_back({reading, nvml.why(code)});
  };
  facts_.name = ask_text(code, nvml.name, handle_).value_or("");
  note("name");
  facts_.uuid = ask_text(code, nvml.uuid, handle_).value_or("");
  note("UUID");
  facts_.driver_version = driver_version_of(nvml, code);
  note("driver version");
  facts_.default_power_limit_w = as_double(ask<unsigned>(code, nvml.default_power_limit, handle_), kMilli);
  note("default power limit");
  facts_.max_sm_clock_mhz = as_double(ask<unsigned>(code, nvml.max_clock, handle_, kSmClock));
  note("highest SM clock");
  facts_.max_memory_clock_mhz = as_double(ask<unsigned>(code, nvml.max_clock, handle_, kMemoryClock));
  note("highest memory clock");
  if (const auto persistence = ask<unsigned>(code, nvml.persistence, handle_)) facts_.persistence = *persistence != 0;
  note("persistence mode");
  (void)ask<unsigned>(code, nvml.clock, handle_, kSmClock);
  note("SM clock");
  (void)ask<unsigned>(code, nvml.clock, handle_, kMemoryClock);
  note("memory clock");
  (void)ask<unsigned>(code, nvml.temperature, handle_, kGpuSensor);
  note("temperature");
  (void)ask<unsigned>(code, nvml.power, handle_);
  note("power");
  (void)ask<unsigned long long>(code, nvml.event_reasons, handle_);
  note("event reasons");
  (void)ask<unsigned>(code, nvml.power_limit, handle_);
  note("power limit in force");
  (void)ask<unsigned long long>(code, nvml.energy, handle_);
  note("energy counter");
  (void)pids_of(code, nvml.compute_processes, handle_);
  note("other processes");
}

GpuSample GpuDevice::sample_quickly() const {
  const NvmlFunctions& nvml = *functions_;
  Code code = kSuccess;
  GpuSample sample;
  sample.pci_bus_id = facts_.pci_bus_id;
  sample.sm_clock_mhz = as_double(ask<unsigned>(code, nvml.clock, handle_, kSmClock));
  sample.memory_clock_mhz = as_double(ask<unsigned>(code, nvml.clock, handle_, kMemoryClock));
  sample.temperature_c = as_double(ask<unsigned>(code, nvml.temperature, handle_, kGpuSensor));
  sample.power_w = as_double(ask<unsigned>(code, nvml.power, handle_), kMilli);
  if (const auto reasons = ask<unsigned long long>(code, nvml.event_reasons, handle_)) sample.event_reasons = *reasons;
  return sample;
}

GpuSample GpuDevice::sample(std::span<const pid_t> worker_groups) const {
  const NvmlFunctions& nvml = *functions_;
  Code code = kSuccess;
  GpuSample sample = sample_quickly();
  sample.power_limit_w = as_double(ask<unsigned>(code, nvml.power_limit, handle_), kMilli);
  if (const auto energy = ask<unsigned long long>(code, nvml.energy, handle_))
    sample.energy_mj = static_cast<std::int64_t>(*energy);
  auto pids = pids_of(code, nvml.compute_processes, handle_);
  if (pids) {
    // Data-centre drivers may not know graphics processes; compute processes are what competes.
    if (const auto graphics = pids_of(code, nvml.graphics_processes, handle_))
      pids->insert(graphics->begin(), graphics->end());
    sample.other_processes = without_ours(*pids, worker_groups);
  }
  return sample;
}

Nvml::Nvml(const std::string& library) {
  auto functions = std::make_shared<NvmlFunctions>();
  functions->library.reset(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!functions->library) {
    const char* fault = ::dlerror();
    throw Error(ErrorKind::kEnvironment, fault == nullptr ? "cannot be opened" : fault, "NVML",
                "it comes with the NVIDIA driver; without it GPU clocks, power and neighbours are not recorded");
  }
  NvmlFunctions& nvml = *functions;
  nvml.find(nvml.init, {"nvmlInit_v2"});
  nvml.find(nvml.shutdown, {"nvmlShutdown"});
  nvml.find(nvml.error_string, {"nvmlErrorString"});
  nvml.find(nvml.driver_version, {"nvmlSystemGetDriverVersion"});
  nvml.find(nvml.by_pci, {"nvmlDeviceGetHandleByPciBusId_v2"});
  nvml.find(nvml.by_index, {"nvmlDeviceGetHandleByIndex_v2"});
  nvml.find(nvml.count, {"nvmlDeviceGetCount_v2"});
  nvml.find(nvml.pci_info, {"nvmlDeviceGetPciInfo_v3"});
  nvml.find(nvml.name, {"nvmlDeviceGetName"});
  nvml.find(nvml.uuid, {"nvmlDeviceGetUUID"});
  nvml.find(nvml.clock, {"nvmlDeviceGetClockInfo"});
  nvml.find(nvml.max_clock, {"nvmlDeviceGetMaxClockInfo"});
  nvml.find(nvml.temperature, {"nvmlDeviceGetTemperature"});
  nvml.find(nvml.power, {"nvmlDeviceGetPowerUsage"});
  nvml.find(nvml.power_limit, {"nvmlDeviceGetEnforcedPowerLimit"});
  nvml.find(nvml.default_power_limit, {"nvmlDeviceGetPowerManagementDefaultLimit"});
  nvml.find(nvml.persistence, {"nvmlDeviceGetPersistenceMode"});
  nvml.find(nvml.energy, {"nvmlDeviceGetTotalEnergyConsumption"});
  // Drivers before 535 know the same bits as throttle reasons.
  nvml.find(nvml.event_reasons,
            {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  nvml.find(nvml.compute_processes,
            {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"});
  nvml.find(nvml.graphics_processes,
            {"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"});
  if (nvml.init == nullptr || nvml.by_pci == nullptr)
    throw Error(ErrorKind::kEnvironment, library + " lacks nvmlInit_v2 or nvmlDeviceGetHandleByPciBusId_v2", "NVML",
                "update the NVIDIA driver");
  const Code code = nvml.init();
  if (code != kSuccess)
    throw Error(ErrorKind::kEnvironment, "does not start: " + nvml.why(code), "NVML",
                "does nvidia-smi work, and as this user?");
  nvml.initialised = true;
  functions_ = std::move(functions);
}

GpuDevice Nvml::device(const std::string& pci_bus_id) const {
  Handle handle = nullptr;
  const Code code = functions_->by_pci(pci_bus_id.c_str(), &handle);
  if (code != kSuccess)
    throw Error(ErrorKind::kEnvironment, fmt::format("does not give GPU {}: {}", pci_bus_id, functions_->why(code)),
                "NVML");
  return {functions_, handle, pci_bus_id};
}

std::vector<GpuDevice> Nvml::devices() const {
  std::vector<GpuDevice> devices;
  Code code = kSuccess;
  const unsigned count = ask<unsigned>(code, functions_->count).value_or(0);
  if (code != kSuccess) throw Error(ErrorKind::kEnvironment, "does not count GPUs: " + functions_->why(code), "NVML");
  for (unsigned index = 0; index < count; ++index) {
    const auto handle = ask<Handle>(code, functions_->by_index, index);
    if (!handle)
      throw Error(ErrorKind::kEnvironment, fmt::format("does not give GPU {}: {}", index, functions_->why(code)),
                  "NVML", "GPUs that this user may not use are hidden by a container, or need a permission");
    const auto pci = ask<PciInfo>(code, functions_->pci_info, *handle);
    devices.push_back({functions_, *handle, pci ? pci->bus_id : fmt::format("GPU {}", index)});
  }
  return devices;
}

std::string Nvml::driver_version() const {
  Code code = kSuccess;
  return driver_version_of(*functions_, code);
}

std::string found_nvml(const std::string& library) {
  try {
    return "NVML of driver " + Nvml(library).driver_version();
  } catch (const Error& error) {
    return fmt::format("no NVML ({})", error.parts().what);
  }
}

}  // namespace tare::harness

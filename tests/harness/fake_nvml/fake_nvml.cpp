// A stand-in for NVIDIA's libnvidia-ml.so.1 with readings from a script: the file named by FAKE_NVML is read again at
// every call, so a test can change what the "GPU" says while something is running. Lines "key value":
//   gpus 0000:01:00.0 0000:02:00.0        the PCI bus ids, in NVML's order
//   0000:01:00.0 sm_clock 1980            a reading of one GPU; any number, or a word:
//                                         unsupported (code 3), denied (code 4)
//   init denied                           nvmlInit_v2 fails
// Readings: sm_clock memory_clock max_sm_clock max_memory_clock temperature power power_limit default_power_limit
// energy reasons persistence processes (a list of process ids). What is not in the script is unsupported.
//
// FAKE_NVML_OLD builds the library of an old driver: event reasons under their former name, no energy counter.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kSuccess = 0;
constexpr int kNotSupported = 3;
constexpr int kNoPermission = 4;
constexpr int kNotFound = 6;
constexpr int kInsufficientSize = 7;
constexpr unsigned kMemoryClock = 2;

struct Script {
  std::vector<std::string> gpus;
  std::map<std::string, std::string> readings;  // "0000:01:00.0 sm_clock" -> "1980"
};

Script read_script() {
  Script script;
  const char* name = std::getenv("FAKE_NVML");
  std::ifstream file(name == nullptr ? "" : name);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == "gpus") {
      for (std::string gpu; words >> gpu;) script.gpus.push_back(gpu);
      continue;
    }
    std::string key;
    std::string value;
    words >> key;
    std::getline(words >> std::ws, value);
    script.readings[first + " " + key] = value;
  }
  return script;
}

// A device's handle is a small number, one more than its place.
std::string gpu_of(const Script& script, void* handle) {
  const auto place = reinterpret_cast<std::size_t>(handle);
  return place >= 1 && place <= script.gpus.size() ? script.gpus[place - 1] : std::string("none");
}

int text_of(void* handle, const std::string& key, std::string& text) {
  const Script script = read_script();
  const auto found = script.readings.find(gpu_of(script, handle) + " " + key);
  if (found == script.readings.end() || found->second == "unsupported") return kNotSupported;
  if (found->second == "denied") return kNoPermission;
  text = found->second;
  return kSuccess;
}

template <class Number>
int number_of(void* handle, const std::string& key, Number* value) {
  std::string text;
  const int code = text_of(handle, key, text);
  if (code == kSuccess) *value = static_cast<Number>(std::stoull(text));
  return code;
}

int copy(const std::string& text, char* out, unsigned size) {
  std::snprintf(out, size, "%s", text.c_str());
  return kSuccess;
}

struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

struct PciInfo {
  char legacy_bus_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};

}  // namespace

extern "C" {

int nvmlInit_v2() {
  const Script script = read_script();
  const auto found = script.readings.find("init denied");
  return found == script.readings.end() ? kSuccess : kNoPermission;
}
int nvmlShutdown() {
  return kSuccess;
}
const char* nvmlErrorString(int code) {
  if (code == kNotSupported) return "Not Supported";
  if (code == kNoPermission) return "Insufficient Permissions";
  if (code == kNotFound) return "Not Found";
  return "Unknown Error";
}
int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  return copy("580.1", version, length);
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(read_script().gpus.size());
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  if (index >= read_script().gpus.size()) return kNotFound;
  *handle = reinterpret_cast<void*>(static_cast<std::size_t>(index) + 1);
  return kSuccess;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** handle) {
  const Script script = read_script();
  for (std::size_t i = 0; i < script.gpus.size(); ++i) {
    if (script.gpus[i] != id) continue;
    *handle = reinterpret_cast<void*>(i + 1);
    return kSuccess;
  }
  return kNotFound;
}
int nvmlDeviceGetPciInfo_v3(void* handle, PciInfo* info) {
  std::memset(info, 0, sizeof *info);
  return copy(gpu_of(read_script(), handle), info->bus_id, sizeof info->bus_id);
}
int nvmlDeviceGetName(void* handle, char* name, unsigned length) {
  return copy("Fake GPU " + gpu_of(read_script(), handle), name, length);
}
int nvmlDeviceGetUUID(void* handle, char* uuid, unsigned length) {
  return copy("GPU-" + gpu_of(read_script(), handle), uuid, length);
}
int nvmlDeviceGetClockInfo(void* handle, unsigned kind, unsigned* mhz) {
  return number_of(handle, kind == kMemoryClock ? "memory_clock" : "sm_clock", mhz);
}
int nvmlDeviceGetMaxClockInfo(void* handle, unsigned kind, unsigned* mhz) {
  return number_of(handle, kind == kMemoryClock ? "max_memory_clock" : "max_sm_clock", mhz);
}
int nvmlDeviceGetTemperature(void* handle, unsigned, unsigned* celsius) {
  return number_of(handle, "temperature", celsius);
}
int nvmlDeviceGetPowerUsage(void* handle, unsigned* milliwatts) {
  return number_of(handle, "power", milliwatts);
}
int nvmlDeviceGetEnforcedPowerLimit(void* handle, unsigned* milliwatts) {
  return number_of(handle, "power_limit", milliwatts);
}
int nvmlDeviceGetPowerManagementDefaultLimit(void* handle, unsigned* milliwatts) {
  return number_of(handle, "default_power_limit", milliwatts);
}
int nvmlDeviceGetPersistenceMode(void* handle, unsigned* mode) {
  return number_of(handle, "persistence", mode);
}
#ifdef FAKE_NVML_OLD
int nvmlDeviceGetCurrentClocksThrottleReasons(void* handle, unsigned long long* reasons) {
  return number_of(handle, "reasons", reasons);
}
#else
int nvmlDeviceGetTotalEnergyConsumption(void* handle, unsigned long long* millijoules) {
  return number_of(handle, "energy", millijoules);
}
int nvmlDeviceGetCurrentClocksEventReasons(void* handle, unsigned long long* reasons) {
  return number_of(handle, "reasons", reasons);
}
#endif
int nvmlDeviceGetComputeRunningProcesses_v3(void* handle, unsigned* count, ProcessInfo* infos) {
  std::string text;
  const int code = text_of(handle, "processes", text);
  if (code != kSuccess) return code;
  std::istringstream words(text);
  std::vector<unsigned> pids;
  for (unsigned pid = 0; words >> pid;) pids.push_back(pid);
  const unsigned room = *count;
  *count = static_cast<unsigned>(pids.size());
  if (pids.size() > room) return kInsufficientSize;
  for (std::size_t i = 0; i < pids.size(); ++i) infos[i] = {pids[i], 0, 0, 0};
  return kSuccess;
}

}  // extern "C"

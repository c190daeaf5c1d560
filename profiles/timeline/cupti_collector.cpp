#include "profiles/timeline/cupti_collector.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"

#ifdef TARE_WITH_CUPTI
#include <cuda_runtime_api.h>
#include <cupti.h>
#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "profiles/timeline/kernel_name.h"
#endif

namespace tare::profiles {

std::vector<std::filesystem::path> cupti_places() {
  std::vector<std::filesystem::path> places;
#ifdef TARE_WITH_CUPTI
  const std::string versioned = fmt::format("libcupti.so.{}", CUDART_VERSION / 1000);
  const std::string toolkit = TARE_CUDA_TOOLKIT;
  for (const std::string& name : {versioned, std::string("libcupti.so")}) places.emplace_back(name);
  for (const std::string& root : {toolkit, std::string("/usr/local/cuda"), std::string("/opt/cuda")})
    for (const char* folder : {"lib64", "extras/CUPTI/lib64", "targets/x86_64-linux/lib"})
      places.push_back(std::filesystem::path(root) / folder / versioned);
  places.push_back(std::filesystem::path("/usr/lib/x86_64-linux-gnu") / versioned);
#endif
  return places;
}

#ifdef TARE_WITH_CUPTI
namespace {

#if CUPTI_API_VERSION >= 130000
using KernelActivity = CUpti_ActivityKernel10;
static_assert(sizeof(KernelActivity) == 216);
#else
using KernelActivity = CUpti_ActivityKernel9;
static_assert(sizeof(KernelActivity) == 208);
#endif

constexpr std::size_t kBufferBytes = std::size_t{8} << 20;
constexpr std::size_t kBufferAlignment = 8;  // what CUPTI demands

// The functions that are used, under their own names.
struct Library {
  decltype(&cuptiGetVersion) get_version = nullptr;
  decltype(&cuptiGetResultString) get_result_string = nullptr;
  decltype(&cuptiActivityRegisterTimestampCallback) register_timestamp = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped_records = nullptr;
};

// What the callbacks write to. They come on a thread of CUPTI's and carry no argument: the one piece of state that
// cannot be a member.
struct Inbox {
  std::mutex mutex;
  Library library;
  KernelRecords records;  // names still mangled
  std::unordered_map<std::string, std::int32_t> name_indices;
  bool taken = false;  // a collector exists
};

Inbox& inbox() {
  static auto* const box = new Inbox;  // never destroyed: CUPTI may call back while the process ends
  return *box;
}

void note(Inbox& box, const KernelActivity& kernel) {
  // 0 and 0: not collected. CUPTI documents it, and ends before starts have been seen in the field.
  if (kernel.start == 0 || kernel.end < kernel.start) {
    ++box.records.invalid;
    return;
  }
  const std::string name = kernel.name != nullptr ? kernel.name : "(no name)";
  const auto [entry, fresh] = box.name_indices.try_emplace(name, static_cast<std::int32_t>(box.records.names.size()));
  if (fresh) box.records.names.push_back(name);
  box.records.records.push_back({entry->second, kernel.streamId, kernel.graphNodeId,
                                 static_cast<std::int64_t>(kernel.start), static_cast<std::int64_t>(kernel.end)});
}

void CUPTIAPI request_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *size = *buffer != nullptr ? kBufferBytes : 0;  // without a buffer CUPTI drops records and counts them
  *most_records = 0;                              // as many as fit
}

void CUPTIAPI buffer_completed(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                               std::size_t valid) {
  Inbox& box = inbox();
  const std::lock_guard lock(box.mutex);
  CUpti_Activity* record = nullptr;
  while (valid > 0 && box.library.next_record(buffer, valid, &record) == CUPTI_SUCCESS)
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || record->kind == CUPTI_ACTIVITY_KIND_KERNEL)
      note(box, *reinterpret_cast<const KernelActivity*>(record));
  std::size_t dropped = 0;
  if (box.library.dropped_records(context, stream, &dropped) == CUPTI_SUCCESS) box.records.dropped += dropped;
  std::free(buffer);
}

// The default clock of the records can step; with this one they share the rounds' clock.
std::uint64_t CUPTIAPI steady_now() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

template <class Function>
void resolve(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  if (function == nullptr)
    throw Error(ErrorKind::kEnvironment, fmt::format("libcupti has no function {}", name), "cupti");
}

Library open_library() {
  void* handle = nullptr;
  std::vector<std::string> places;
  for (const std::filesystem::path& place : cupti_places()) {
    places.push_back(place.string());
    handle = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) break;
  }
  if (handle == nullptr)
    throw Error(ErrorKind::kEnvironment, "libcupti was not found; looked for " + join(places, ", "), "cupti",
                "install the CUDA toolkit's CUPTI, or set LD_LIBRARY_PATH to its folder");
  Library library;
  resolve(handle, "cuptiGetVersion", library.get_version);
  resolve(handle, "cuptiGetResultString", library.get_result_string);
  resolve(handle, "cuptiActivityRegisterTimestampCallback", library.register_timestamp);
  resolve(handle, "cuptiActivityRegisterCallbacks", library.register_callbacks);
  resolve(handle, "cuptiActivityEnable", library.enable);
  resolve(handle, "cuptiActivityFlushAll", library.flush_all);
  resolve(handle, "cuptiActivityGetNextRecord", library.next_record);
  resolve(handle, "cuptiActivityGetNumDroppedRecords", library.dropped_records);
  return library;
}

void check(const Library& library, CUptiResult result, const char* call) {
  if (result == CUPTI_SUCCESS) return;
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
    throw Error(ErrorKind::kEnvironment, "another profiler holds this process", "cupti",
                "run without nsys, ncu, compute-sanitizer or cuda-gdb");
  const char* text = nullptr;
  (void)library.get_result_string(result, &text);
  throw Error(ErrorKind::kEnvironment, fmt::format("{} failed: {}", call, text != nullptr ? text : "unknown"), "cupti");
}

class CuptiCollector final : public KernelCollector {
 public:
  CuptiCollector() {
    Inbox& box = inbox();
    const std::lock_guard lock(box.mutex);
    if (box.taken) throw internal_error("a second CUPTI collector in one process");
    box.library = open_library();
    std::uint32_t version = 0;
    check(box.library, box.library.get_version(&version), "cuptiGetVersion");
    if (version < CUPTI_API_VERSION)
      throw Error(ErrorKind::kEnvironment,
                  fmt::format("libcupti has version {}, this program was built for {}", version, CUPTI_API_VERSION),
                  "cupti", "use the toolkit that this program was built with, or a newer one");
    box.taken = true;
  }

  void start() override {
    const Library& library = inbox().library;
    if (!started_) {
      check(library, library.register_timestamp(&steady_now), "cuptiActivityRegisterTimestampCallback");
      check(library, library.register_callbacks(&request_buffer, &buffer_completed), "cuptiActivityRegisterCallbacks");
      check(library, library.enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "cuptiActivityEnable");
      started_ = true;
    }
    (void)take();  // what came before is not asked for
  }

  KernelRecords take() override {
    Inbox& box = inbox();
    if (const cudaError_t result = cudaDeviceSynchronize(); result != cudaSuccess)
      throw Error(ErrorKind::kEnvironment, fmt::format("the device failed: {}", cudaGetErrorString(result)), "cupti");
    check(box.library, box.library.flush_all(0), "cuptiActivityFlushAll");  // calls back from here: no lock yet
    KernelRecords records;
    {
      const std::lock_guard lock(box.mutex);
      records = std::exchange(box.records, {});
      box.name_indices.clear();
    }
    for (std::string& name : records.names) name = short_kernel_name(name);
    return records;
  }

 private:
  bool started_ = false;
};

}  // namespace

std::unique_ptr<KernelCollector> make_cupti_collector() {
  return std::make_unique<CuptiCollector>();
}
#else
std::unique_ptr<KernelCollector> make_cupti_collector() {
  throw Error(ErrorKind::kEnvironment, "this program was built without CUPTI", "cupti",
              "build the preset release where the CUDA toolkit with CUPTI is installed");
}
#endif

}  // namespace tare::profiles

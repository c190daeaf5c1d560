#include "profiles/timeline/cupti_collector.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"

#ifdef TARE_WITH_CUPTI
#include <cuda_runtime_api.h>
#include <cupti.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
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
using CopyActivity = CUpti_ActivityMemcpy6;
static_assert(sizeof(KernelActivity) == 216);
static_assert(sizeof(CopyActivity) == 96);
#else
using KernelActivity = CUpti_ActivityKernel9;
using CopyActivity = CUpti_ActivityMemcpy5;
static_assert(sizeof(KernelActivity) == 208);
static_assert(sizeof(CopyActivity) == 88);
#endif
using FillActivity = CUpti_ActivityMemset4;
static_assert(sizeof(FillActivity) == 88);

// Copies between GPUs (MEMCPY2) are none of ours: the engine uses one.
constexpr std::array kKinds = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                               CUPTI_ACTIVITY_KIND_MEMSET};
constexpr std::size_t kBufferBytes = std::size_t{8} << 20;
constexpr std::size_t kBufferAlignment = 8;  // what CUPTI demands
constexpr int kFirstBuffers = 4;             // there before the first record; 38,000 kernels each

// The functions that are used, under their own names.
struct Library {
  decltype(&cuptiGetVersion) get_version = nullptr;
  decltype(&cuptiGetResultString) get_result_string = nullptr;
  decltype(&cuptiActivityRegisterTimestampCallback) register_timestamp = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivitySetAttribute) set_attribute = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped_records = nullptr;
};

// CUpti_ActivityMemcpyKind has 11; the last place is that of fills.
constexpr std::size_t kCopyKinds = 16;
constexpr std::size_t kFillPlace = kCopyKinds - 1;

constexpr std::array<std::int32_t, kCopyKinds> no_copy_names() {
  std::array<std::int32_t, kCopyKinds> none{};
  none.fill(-1);
  return none;
}

// What the callbacks write to. They come on a thread of CUPTI's and carry no argument: the one piece of state that
// cannot be a member.
struct Inbox {
  std::mutex mutex;
  Library library;
  KernelRecords records;  // names of kernels still mangled
  // CUPTI hands out one text a kernel, which stays as long as its module is loaded: the address tells names apart
  // without reading them, half a million times a second.
  std::unordered_map<const char*, std::int32_t> kernel_names;
  std::array<std::int32_t, kCopyKinds> copy_names = no_copy_names();
  bool taken = false;  // a collector exists
  // Buffers that CUPTI has not got, all zeros. It asks for one on the thread that launches kernels, and unless told
  // otherwise zeroes it there: fresh memory would hold a round up for milliseconds. The lock is one of its own, for
  // records are read under the other.
  std::mutex buffer_mutex;
  std::vector<std::uint8_t*> buffers;
};

Inbox& inbox() {
  static auto* const box = new Inbox;  // never destroyed: CUPTI may call back while the process ends
  return *box;
}

// Null when its times cannot be true: 0 and 0 is "not collected", as CUPTI documents it, and ends before starts have
// been seen in the field.
template <class Activity>
KernelRecord* note_times(Inbox& box, const Activity& activity) {
  if (activity.start == 0 || activity.end < activity.start) {
    ++box.records.invalid;
    return nullptr;
  }
  KernelRecord& record = box.records.records.emplace_back();
  record.stream = activity.streamId;
  record.graph_node = activity.graphNodeId;
  record.start_ns = static_cast<std::int64_t>(activity.start);
  record.end_ns = static_cast<std::int64_t>(activity.end);
  return &record;
}

std::int32_t next_name(Inbox& box, std::string name) {
  box.records.names.push_back(std::move(name));
  return static_cast<std::int32_t>(box.records.names.size() - 1);
}

void note(Inbox& box, const KernelActivity& kernel) {
  KernelRecord* const record = note_times(box, kernel);
  if (record == nullptr) return;
  const auto [entry, fresh] = box.kernel_names.try_emplace(kernel.name, 0);
  if (fresh) entry->second = next_name(box, kernel.name != nullptr ? kernel.name : "(no name)");
  record->name = entry->second;
}

template <class Activity>
void note_copy(Inbox& box, const Activity& copy, std::size_t place) {
  KernelRecord* const record = note_times(box, copy);
  if (record == nullptr) return;
  std::int32_t& name = box.copy_names[std::min(place, kFillPlace)];
  if (name < 0) name = next_name(box, place == kFillPlace ? kFillName : copy_name(static_cast<int>(place)));
  record->name = name;
  record->copy = true;
  record->copied_bytes = copy.bytes;
}

void note(Inbox& box, const CUpti_Activity& activity) {
  switch (activity.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL:
      note(box, reinterpret_cast<const KernelActivity&>(activity));
      break;
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = reinterpret_cast<const CopyActivity&>(activity);
      note_copy(box, copy, copy.copyKind);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET:
      note_copy(box, reinterpret_cast<const FillActivity&>(activity), kFillPlace);
      break;
    default:  // nothing else was asked for
      break;
  }
}

// Zeros, touched so that the memory is there. Null when there is none.
std::uint8_t* fresh_buffer() {
  auto* const buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  if (buffer != nullptr) std::fill_n(buffer, kBufferBytes, std::uint8_t{0});
  return buffer;
}

void keep_buffer(std::uint8_t* buffer) {
  Inbox& box = inbox();
  const std::lock_guard lock(box.buffer_mutex);
  box.buffers.push_back(buffer);
}

void CUPTIAPI request_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  Inbox& box = inbox();
  *buffer = nullptr;
  {
    const std::lock_guard lock(box.buffer_mutex);
    if (!box.buffers.empty()) {
      *buffer = box.buffers.back();
      box.buffers.pop_back();
    }
  }
  if (*buffer == nullptr) *buffer = fresh_buffer();
  *size = *buffer != nullptr ? kBufferBytes : 0;  // without a buffer CUPTI drops records and counts them
  *most_records = 0;                              // as many as fit
}

void CUPTIAPI buffer_completed(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                               std::size_t valid) {
  Inbox& box = inbox();
  const std::lock_guard lock(box.mutex);
  CUpti_Activity* record = nullptr;
  while (valid > 0 && box.library.next_record(buffer, valid, &record) == CUPTI_SUCCESS) note(box, *record);
  std::size_t dropped = 0;
  if (box.library.dropped_records(context, stream, &dropped) == CUPTI_SUCCESS) box.records.dropped += dropped;
  std::fill_n(buffer, kBufferBytes, std::uint8_t{0});
  keep_buffer(buffer);
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
  resolve(handle, "cuptiActivitySetAttribute", library.set_attribute);
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
      for (int i = 0; i < kFirstBuffers; ++i)
        if (std::uint8_t* const buffer = fresh_buffer(); buffer != nullptr) keep_buffer(buffer);
      std::uint8_t zeroed = 1;
      std::size_t size = sizeof(zeroed);
      check(library, library.set_attribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &zeroed),
            "cuptiActivitySetAttribute");
      check(library, library.register_timestamp(&steady_now), "cuptiActivityRegisterTimestampCallback");
      check(library, library.register_callbacks(&request_buffer, &buffer_completed), "cuptiActivityRegisterCallbacks");
      for (const CUpti_ActivityKind kind : kKinds) check(library, library.enable(kind), "cuptiActivityEnable");
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
      box.kernel_names.clear();
      box.copy_names = no_copy_names();
    }
    std::vector<bool> copies(records.names.size());
    for (const KernelRecord& record : records.records) copies[static_cast<std::size_t>(record.name)] = record.copy;
    for (std::size_t i = 0; i < records.names.size(); ++i)
      if (!copies[i]) records.names[i] = short_kernel_name(records.names[i]);
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

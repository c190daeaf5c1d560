#include "profiles/capacity.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace tare::profiles {
namespace {

using engine::CacheFormat;
using engine::MemoryPart;
using Formats = engine::EngineOptions::KeyValue;

constexpr const char* kWhere = "capacity";
constexpr std::int64_t kTokensCompared = 4096;  // bytes a token are of so many: rounding to blocks is then nothing

bool same(const Formats& a, const Formats& b) {
  return a.key == b.key && a.value == b.value;
}

// What a backend has kernels for, and what it was made with.
std::vector<Formats> formats_of(const engine::Backend& backend) {
  std::vector<Formats> formats = {{CacheFormat::kFP32, CacheFormat::kFP32}, {CacheFormat::kBF16, CacheFormat::kBF16}};
  if (backend.options().backend == engine::BackendKind::kCuda)
    formats.push_back({CacheFormat::kBF16, CacheFormat::kFP8});
  for (const CacheFormat format : {CacheFormat::kFP8, CacheFormat::kInt8, CacheFormat::kNVFP4})
    formats.push_back({format, format});
  const Formats now = backend.options().kv;
  if (std::none_of(formats.begin(), formats.end(), [&](const Formats& each) { return same(each, now); }))
    formats.push_back(now);
  return formats;
}

std::uint64_t total(const std::vector<MemoryPart>& parts) {
  std::uint64_t sum = 0;
  for (const MemoryPart& part : parts) sum += part.bytes;
  return sum;
}

std::uint64_t cache_bytes_of(const std::vector<MemoryPart>& parts) {
  std::uint64_t sum = 0;
  for (const MemoryPart& part : parts)
    sum += engine::inventory_part(part.name) == engine::kKeyValuePart ? part.bytes : 0;
  return sum;
}

// The most tokens whose plan fits, a multiple of the step. A plan grows with its tokens.
std::int64_t tokens_within(const engine::Backend& backend, const Formats& formats, std::uint64_t bytes_a_token,
                           std::uint64_t memory_bytes) {
  const auto fits = [&](std::int64_t steps) {
    return total(backend.memory_plan(formats, steps * kCapacityStep)) <= memory_bytes;
  };
  if (bytes_a_token == 0 || !fits(1)) return 0;
  std::int64_t low = 1;
  std::int64_t high = static_cast<std::int64_t>(memory_bytes / bytes_a_token) / kCapacityStep + 2;  // too many
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low * kCapacityStep;
}

void check(const CapacityPart& part) {
  if (!part.held || *part.held == part.planned) return;
  throw Error(ErrorKind::kInvalid,
              fmt::format("{}: {} bytes are held, the plan says {}", part.name, *part.held, part.planned), kWhere,
              "the backend allocates by other sizes than it plans by: its capacity cannot be computed from the plan");
}

}  // namespace

std::uint64_t Capacity::planned_bytes() const {
  std::uint64_t sum = 0;
  for (const CapacityPart& part : parts) sum += part.planned;
  return sum;
}

std::string to_text(const Formats& formats) {
  const std::string key = engine::to_text(formats.key);
  const std::string value = engine::to_text(formats.value);
  return key == value ? key : fmt::format("{} keys, {} values", key, value);
}

Capacity measure_capacity(const engine::Backend& backend, std::uint64_t memory_bytes, const std::string& memory) {
  const engine::DeviceMemory device = backend.device_memory();
  Capacity capacity;
  capacity.memory_bytes = memory_bytes > 0 ? memory_bytes : device.free_before;
  capacity.memory = memory_bytes > 0 ? memory : "free on the device before the model was loaded";
  if (capacity.memory_bytes == 0) throw input_error("--memory", "this backend's memory is not known; name its bytes");
  capacity.context = backend.capacity();
  capacity.model_tokens = backend.config().max_positions;
  const Formats now = backend.options().kv;
  const std::vector<MemoryPart> plan = backend.memory_plan(now, capacity.context);
  if (plan.empty()) throw internal_error("a backend says nothing of its memory");
  const std::vector<MemoryPart> held = backend.inventory(0, 1).resident_parts();

  std::uint64_t known = 0;
  for (const MemoryPart& part : held) {
    std::uint64_t planned = 0;
    for (const MemoryPart& each : plan) planned += engine::inventory_part(each.name) == part.name ? each.bytes : 0;
    capacity.parts.push_back({part.name, planned, part.bytes});
    known += part.bytes;
  }
  for (const MemoryPart& part : plan) {
    if (!engine::inventory_part(part.name).empty()) continue;
    capacity.parts.push_back({part.name, part.bytes, std::nullopt});
    capacity.beside_planned += part.bytes;
  }
  for (const CapacityPart& part : capacity.parts) check(part);
  if (device.total_bytes > 0 && device.free_before >= device.free_now + known)
    capacity.beside_held = device.free_before - device.free_now - known;

  const std::uint64_t others = total(plan) - cache_bytes_of(plan);
  capacity.left_bytes = capacity.memory_bytes > others ? capacity.memory_bytes - others : 0;
  for (const Formats& formats : formats_of(backend)) {
    CapacityRow row;
    row.formats = formats;
    row.now = same(formats, now);
    const auto cache_bytes = [&](std::int64_t tokens) { return cache_bytes_of(backend.memory_plan(formats, tokens)); };
    row.bytes_a_token =
        (cache_bytes(2 * kTokensCompared) - cache_bytes(kTokensCompared)) / static_cast<std::uint64_t>(kTokensCompared);
    row.tokens = tokens_within(backend, formats, row.bytes_a_token, capacity.memory_bytes);
    row.cache_bytes = row.tokens > 0 ? cache_bytes(row.tokens) : 0;
    capacity.rows.push_back(row);
  }
  std::stable_sort(capacity.rows.begin(), capacity.rows.end(),
                   [](const CapacityRow& a, const CapacityRow& b) { return a.bytes_a_token > b.bytes_a_token; });
  return capacity;
}

}  // namespace tare::profiles

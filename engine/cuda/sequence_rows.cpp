#include "engine/cuda/sequence_rows.h"

#include <fmt/format.h>

#include "base/error.h"
#include "engine/cuda/attention/attention_layout.h"
#include "engine/cuda/device/device_buffer.h"
#include "engine/cuda/gdn/gdn_layout.h"

namespace tare::engine {
namespace {

// Calls copy(a head's run from `first` on, bytes) for keys and then values: kTilePositions of them are whole pieces in
// every layout.
template <class Copy>
void for_runs(const CudaKeyValueCache& cache, std::int64_t first, std::int64_t last, Copy copy) {
  if (first % kTilePositions != 0 || last % kTilePositions != 0 || first >= last || last > cache_slots(cache.capacity))
    throw internal_error(fmt::format("rows {} to {} of a tiled cache of {}", first, last, cache.capacity));
  const auto each = [&](std::byte* memory, CacheFormat format) {
    const std::int64_t position = cache_row_bytes(format, cache.shape.head_dim);
    for (int head = 0; head < cache.shape.kv_heads; ++head)
      copy(memory + (head * cache_slots(cache.capacity) + first) * position,
           static_cast<std::size_t>((last - first) * position));
  };
  each(cache.keys(), cache.key_format);
  each(cache.values(), cache.value_format);
}

std::size_t scale_bytes(const CudaGdnCache& cache) {
  return static_cast<std::size_t>(cache.shape.value_heads) * kGdnScaleCopies * sizeof(float);
}

}  // namespace

void export_rows(const CudaKeyValueCache& cache, std::int64_t first, std::int64_t last, ByteWriter& bytes) {
  for_runs(cache, first, last, [&](std::byte* run, std::size_t count) {
    copy_to_host({bytes.grow(count), count}, run);
  });
}

void import_rows(const CudaKeyValueCache& cache, std::int64_t first, std::int64_t last, ByteReader& bytes) {
  for_runs(cache, first, last, [&](std::byte* run, std::size_t count) {
    copy_to_device(run, {bytes.take(count), count});
  });
}

std::size_t exported_elements(const CudaGdnCache& cache) {
  return static_cast<std::size_t>(gdn_state_elements(cache.shape));
}

void export_state(const CudaGdnCache& cache, std::vector<float>& state, ByteWriter& beside) {
  const GdnMemory memory = gdn_memory(cache);
  const std::vector<float> elements = read_state_elements(cache);
  state.insert(state.end(), elements.begin(), elements.end());
  copy_to_host({beside.grow(scale_bytes(cache)), scale_bytes(cache)},
               reinterpret_cast<const std::byte*>(memory.scales));
  copy_to_host({beside.grow(cache.column_bytes()), cache.column_bytes()}, cache.column_data());
}

void import_state(const CudaGdnCache& cache, std::span<const float> state, ByteReader& beside) {
  const GdnMemory memory = gdn_memory(cache);
  write_state_elements(cache, state);
  copy_to_device(reinterpret_cast<std::byte*>(memory.scales), {beside.take(scale_bytes(cache)), scale_bytes(cache)});
  copy_to_device(cache.column_data(), {beside.take(cache.column_bytes()), cache.column_bytes()});
}

}  // namespace tare::engine

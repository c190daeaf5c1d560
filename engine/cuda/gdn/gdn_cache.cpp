#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/gdn/gdn_layout.h"
#include "engine/formats/float_formats.h"

namespace tare::engine {
namespace {

constexpr int kSizeStep = 4;  // dk and dv are multiples: what a lane reads at once

std::size_t bytes_of(std::int64_t elements, std::size_t element_bytes) {
  return static_cast<std::size_t>(elements) * element_bytes;
}
std::size_t element_bytes(StateFormat format) {
  return format == StateFormat::kFP32 ? 4 : 2;
}
std::size_t state_bytes(const CudaGdnShape& shape, StateFormat format) {
  return bytes_of(gdn_state_elements(shape), element_bytes(format)) +
         bytes_of(static_cast<std::int64_t>(shape.value_heads) * kGdnScaleCopies, 4);
}
std::size_t column_element_bytes(CacheFormat format) {
  return format == CacheFormat::kBF16 ? 2 : 4;
}
std::size_t record_bytes(const CudaGdnShape& shape) {
  const std::int64_t half =
      gdn_key_elements(shape) + gdn_update_elements(shape) + gdn_decay_elements(shape) + gdn_projection_elements(shape);
  return bytes_of(2 * half + gdn_mixed_elements(shape), 4);
}
const CudaGdnShape& checked(const CudaGdnShape& shape) {
  check_gdn_shape(shape);
  return shape;
}
void check_head_size(const char* name, int size) {
  if (size >= kSizeStep && size <= kGdnHead && size % kSizeStep == 0) return;
  throw input_error(name, std::to_string(size) + " is not supported by the CUDA kernels of Gated DeltaNet",
                    "sizes are multiples of " + std::to_string(kSizeStep) + " up to " + std::to_string(kGdnHead));
}

template <class Element>
std::vector<Element> from_device(const Element* source, std::int64_t count) {
  std::vector<Element> values(static_cast<std::size_t>(count));
  copy_to_host(std::as_writable_bytes(std::span(values)), reinterpret_cast<const std::byte*>(source));
  return values;
}

}  // namespace

void check_gdn_shape(const CudaGdnShape& shape) {
  check_head_size("linear_key_head_dim", shape.dk);
  check_head_size("linear_value_head_dim", shape.dv);
  if (shape.taps != kGdnTaps) {
    throw input_error("linear_conv_kernel_dim",
                      std::to_string(shape.taps) + " is not supported by the CUDA kernels of Gated DeltaNet",
                      "it is " + std::to_string(kGdnTaps) + " there");
  }
  if (shape.key_heads <= 0) {
    throw input_error("linear_num_key_heads", std::to_string(shape.key_heads) + " heads");
  }
  if (shape.value_heads <= 0 || shape.value_heads % shape.key_heads != 0) {
    throw input_error("linear_num_value_heads", std::to_string(shape.value_heads) + " is no multiple of " +
                                                    std::to_string(shape.key_heads) + " key heads");
  }
}

CudaGdnBytes gdn_cache_bytes(const CudaGdnShape& shape, StateFormat state, CacheFormat columns, bool snapshots) {
  return {.state = state_bytes(shape, state),
          .columns = bytes_of(gdn_column_elements(shape), column_element_bytes(columns)),
          .records = record_bytes(shape),
          .snapshots = snapshots ? kMostTreeNodes * state_bytes(shape, StateFormat::kFP32) : 0};
}

CudaGdnCache::CudaGdnCache(const CudaGdnShape& shape_in, StateFormat state, CacheFormat columns, bool snapshots)
    : shape(checked(shape_in)),
      state_format(state),
      column_format(columns),
      keeps_snapshots(snapshots),
      state_(gdn_cache_bytes(shape_in, state, columns).state, "the recurrent state of a layer"),
      columns_(gdn_cache_bytes(shape_in, state, columns).columns, "the convolution columns of a layer"),
      records_(gdn_cache_bytes(shape_in, state, columns).records, "the recurrence records of a layer"),
      snapshots_(gdn_cache_bytes(shape_in, state, columns, snapshots).snapshots, "the snapshots of a layer") {
  if (columns == CacheFormat::kFP8) {
    throw input_error("state.convolution", "fp8 is no format of the convolution's columns", "fp32 or bf16");
  }
}

void CudaGdnCache::reset(cudaStream_t stream) {
  for (const DeviceBuffer* buffer : {&state_, &columns_, &records_, &snapshots_}) {
    if (buffer->bytes() == 0) continue;
    check_cuda(cudaMemsetAsync(buffer->data(), 0, buffer->bytes(), stream), "cudaMemsetAsync of a recurrent state");
  }
}

GdnMemory gdn_memory(const CudaGdnCache& cache) {
  GdnMemory memory;
  memory.state_format = cache.state_format;
  memory.narrow_columns = cache.column_format == CacheFormat::kBF16;
  memory.state = cache.state_data();
  memory.scales = reinterpret_cast<float*>(
      cache.state_data() + bytes_of(gdn_state_elements(cache.shape), element_bytes(cache.state_format)));
  memory.columns = cache.column_data();
  memory.keys = reinterpret_cast<float*>(cache.record_data());
  memory.updates = memory.keys + 2 * gdn_key_elements(cache.shape);
  memory.decays = memory.updates + 2 * gdn_update_elements(cache.shape);
  memory.mixed = memory.decays + 2 * gdn_decay_elements(cache.shape);
  memory.projections = memory.mixed + gdn_mixed_elements(cache.shape);
  if (cache.keeps_snapshots) {
    memory.snapshots = reinterpret_cast<float*>(cache.snapshot_data());
    memory.snapshot_scales = memory.snapshots + kMostTreeNodes * gdn_state_elements(cache.shape);
  }
  return memory;
}

// The kernels' fold on the host, with the same operations.
std::vector<float> CudaGdnCache::state(std::span<const std::int32_t> path, int half) const {
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize before reading a recurrent state");
  const GdnMemory memory = gdn_memory(*this);
  std::vector<float> padded;
  if (memory.state_format != StateFormat::kFP32) {
    const auto value = memory.state_format == StateFormat::kFP16 ? float16_to_float : bfloat16_to_float;
    for (const std::uint16_t bits :
         from_device(static_cast<const std::uint16_t*>(memory.state), gdn_state_elements(shape))) {
      padded.push_back(value(bits));
    }
  } else {
    padded = from_device(static_cast<const float*>(memory.state), gdn_state_elements(shape));
  }
  const std::vector<float> scales =
      from_device(memory.scales, static_cast<std::int64_t>(shape.value_heads) * kGdnScaleCopies);
  const int from = 1 - half;
  const std::vector<float> keys = from_device(memory.keys + from * gdn_key_elements(shape), gdn_key_elements(shape));
  const std::vector<float> updates =
      from_device(memory.updates + from * gdn_update_elements(shape), gdn_update_elements(shape));
  const std::vector<float> decays =
      from_device(memory.decays + from * gdn_decay_elements(shape), gdn_decay_elements(shape));

  std::vector<float> result;
  for (int head = 0; head < shape.value_heads; ++head) {
    const int key_head = head / (shape.value_heads / shape.key_heads);
    float* rows = padded.data() + static_cast<std::ptrdiff_t>(head) * kGdnHead * kGdnHead;
    float scale = scales[static_cast<std::size_t>(head * kGdnScaleCopies)];
    for (const std::int32_t token : path) {
      const float raw = scale * decays[static_cast<std::size_t>(token * shape.value_heads + head)];
      const bool restart = raw < kGdnLeastScale;
      scale = restart ? 1.0F : raw;
      const float* key = keys.data() + (static_cast<std::ptrdiff_t>(token) * shape.key_heads + key_head) * kGdnHead;
      const float* update = updates.data() + (static_cast<std::ptrdiff_t>(token) * shape.value_heads + head) * kGdnHead;
      for (int i = 0; i < kGdnHead; ++i) {
        for (int j = 0; j < kGdnHead; ++j) {
          float& element = rows[gdn_state_place(i, j)];
          element = std::fma(key[i], update[j], restart ? element * raw : element);
        }
      }
    }
    for (int i = 0; i < shape.dk; ++i) {
      for (int j = 0; j < shape.dv; ++j) result.push_back(rows[gdn_state_place(i, j)] * scale);
    }
  }
  return result;
}

}  // namespace tare::engine

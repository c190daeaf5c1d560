#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/gdn/gdn_layout.h"
#include "engine/formats/cache_blocks.h"
#include "engine/formats/float_formats.h"
#include "engine/formats/state_codec.h"

namespace tare::engine {
namespace {

constexpr int kSizeStep = 4;  // dk and dv are multiples: what a lane reads at once

std::size_t bytes_of(std::int64_t elements, std::size_t element_bytes) {
  return static_cast<std::size_t>(elements) * element_bytes;
}
std::size_t element_bytes(StateFormat format) {
  return format == StateFormat::kFP32 ? 4 : format == StateFormat::kInt8 ? 1 : 2;
}
std::size_t block_scale_bytes(const CudaGdnShape& shape, StateFormat format) {
  return format == StateFormat::kInt8 ? bytes_of(gdn_block_scales(shape), sizeof(std::uint16_t)) : 0;
}
std::size_t element_and_block_bytes(const CudaGdnShape& shape, StateFormat format) {
  return bytes_of(gdn_state_elements(shape), element_bytes(format)) + block_scale_bytes(shape, format);
}
std::size_t state_bytes(const CudaGdnShape& shape, StateFormat format) {
  return element_and_block_bytes(shape, format) +
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

// Calls visit(place of a block's scale, function that gives the place of one of its columns).
template <class Visit>
void for_blocks(const CudaGdnShape& shape, Visit visit) {
  constexpr int kHeadScales = kGdnHead / kGdnStateBlock * kGdnHead;
  for (int head = 0; head < shape.value_heads; ++head) {
    for (int first = 0; first < kGdnHead; first += kGdnStateBlock) {
      for (int row = 0; row < kGdnHead; ++row) {
        visit(static_cast<std::size_t>(head * kHeadScales + gdn_block_scale_place(row, first)), [=](int column) {
          return static_cast<std::size_t>(head * kGdnHead * kGdnHead + gdn_state_place(row, first + column));
        });
      }
    }
  }
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
  const int rows = shape.channels() + shape.value_heads * shape.dv;
  if (rows > kGdnMostRows) {
    throw input_error("linear_num_value_heads",
                      std::to_string(shape.value_heads) + " heads make " + std::to_string(rows) +
                          " rows of q, k, v and z, too many for the CUDA kernels of Gated DeltaNet",
                      "at most " + std::to_string(kGdnMostRows) + " rows");
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
  memory.scales =
      reinterpret_cast<float*>(cache.state_data() + element_and_block_bytes(cache.shape, cache.state_format));
  if (cache.state_format == StateFormat::kInt8) {
    memory.block_scales = reinterpret_cast<std::uint16_t*>(
        cache.state_data() + bytes_of(gdn_state_elements(cache.shape), element_bytes(cache.state_format)));
  }
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

std::vector<float> read_state_elements(const CudaGdnCache& cache) {
  const GdnMemory memory = gdn_memory(cache);
  const std::int64_t count = gdn_state_elements(cache.shape);
  if (memory.state_format == StateFormat::kFP32) return from_device(static_cast<const float*>(memory.state), count);
  std::vector<float> elements(static_cast<std::size_t>(count));
  if (memory.state_format == StateFormat::kInt8) {
    const std::vector<std::int8_t> codes = from_device(static_cast<const std::int8_t*>(memory.state), count);
    const std::vector<std::uint16_t> scales = from_device(memory.block_scales, gdn_block_scales(cache.shape));
    for_blocks(cache.shape, [&](std::size_t scale, auto place) {
      for (int column = 0; column < kGdnStateBlock; ++column)
        elements[place(column)] = int8_value(scales[scale], codes[place(column)]);
    });
    return elements;
  }
  const auto value = memory.state_format == StateFormat::kFP16 ? float16_to_float : bfloat16_to_float;
  const std::vector<std::uint16_t> bits = from_device(static_cast<const std::uint16_t*>(memory.state), count);
  std::transform(bits.begin(), bits.end(), elements.begin(), value);
  return elements;
}

void write_state_elements(const CudaGdnCache& cache, std::span<const float> elements) {
  const GdnMemory memory = gdn_memory(cache);
  if (static_cast<std::int64_t>(elements.size()) != gdn_state_elements(cache.shape))
    throw internal_error("a recurrent state of another size");
  if (memory.state_format == StateFormat::kInt8) {
    std::vector<std::int8_t> codes(elements.size());
    std::vector<std::uint16_t> scales(static_cast<std::size_t>(gdn_block_scales(cache.shape)));
    for_blocks(cache.shape, [&](std::size_t scale, auto place) {
      std::array<float, kGdnStateBlock> values{};
      std::array<std::int8_t, kGdnStateBlock> block{};
      for (int column = 0; column < kGdnStateBlock; ++column)
        values[static_cast<std::size_t>(column)] = elements[place(column)];
      scales[scale] = encode_int8_block(values, block);
      for (int column = 0; column < kGdnStateBlock; ++column)
        codes[place(column)] = block[static_cast<std::size_t>(column)];
    });
    copy_to_device(static_cast<std::byte*>(memory.state), std::as_bytes(std::span(codes)));
    copy_to_device(reinterpret_cast<std::byte*>(memory.block_scales), std::as_bytes(std::span(scales)));
    return;
  }
  std::vector<std::byte> stored(bytes_of(gdn_state_elements(cache.shape), element_bytes(memory.state_format)));
  encode_state(memory.state_format, elements, kGdnHead, stored);
  copy_to_device(static_cast<std::byte*>(memory.state), stored);
}

// The kernels' fold on the host, with the same operations.
std::vector<float> CudaGdnCache::state(std::span<const std::int32_t> path, int half) const {
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize before reading a recurrent state");
  const GdnMemory memory = gdn_memory(*this);
  std::vector<float> padded = read_state_elements(*this);
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

// A committed path's keys and values to the slots of a chain. A thread block has the keys or the values of one head of
// a layer, a thread one dim. A node's slot is never below the one it moves to, nor below an earlier node's: so what a
// thread has not read yet, it has not written either, if it reads before it writes.
#include <type_traits>

#include "engine/cuda/attention/attention_kernels.h"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"

namespace tare::engine {
namespace {

constexpr int kMostScales = cache_row_bytes(CacheFormat::kInt8, kMostHeadDim) - kMostHeadDim;  // bytes of a row
constexpr int kBlockThreads = kMostHeadDim + 32;
static_assert(kMostScales <= 32 && cache_row_bytes(CacheFormat::kNVFP4, kMostHeadDim) <= kMostHeadDim);
constexpr int kThreads = kMostHeadDim;
constexpr int kTogether = 8;  // nodes of which a thread has the numbers on their way

// The nodes that are not in place.
struct Moved {
  const std::int32_t* path;
  int first;
  int count;
  int root;  // its slot
};

template <CacheFormat kFormat, class Place>
__device__ __forceinline__ void move_dim(const Moved& moved, std::byte* run, int head_dim, Place place) {
  using Number = std::conditional_t<kFormat == CacheFormat::kFP32, std::uint32_t,
                                    std::conditional_t<kFormat == CacheFormat::kBF16, std::uint16_t, std::uint8_t>>;
  const auto dim = static_cast<int>(threadIdx.x);
  const auto number = [&](int node) -> Number& {
    return *reinterpret_cast<Number*>(run + place(kFormat, head_dim, moved.root + node, dim));
  };
#pragma unroll 1
  for (int first = moved.first; first < moved.count; first += kTogether) {
    Number numbers[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      if (first + i < moved.count) numbers[i] = number(moved.path[first + i]);
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      if (first + i < moved.count) number(first + i) = numbers[i];
    }
  }
}

template <class Place>
__device__ __forceinline__ void move_dim(const Moved& moved, CacheFormat format, std::byte* run, int head_dim,
                                         Place place) {
  switch (format) {
    case CacheFormat::kFP32:
      return move_dim<CacheFormat::kFP32>(moved, run, head_dim, place);
    case CacheFormat::kBF16:
      return move_dim<CacheFormat::kBF16>(moved, run, head_dim, place);
    case CacheFormat::kFP8:
      return move_dim<CacheFormat::kFP8>(moved, run, head_dim, place);
    case CacheFormat::kInt8:
    case CacheFormat::kNVFP4:
      return;  // move_cell
  }
}

// What a thread moves of rows with scales: a byte of codes, or behind those a byte of scales.
__device__ __forceinline__ void move_cell(const Moved& moved, CacheFormat format, bool of_keys, std::byte* run,
                                          int head_dim) {
  const auto cell = static_cast<int>(threadIdx.x);
  const int codes = row_code_bytes(format, head_dim);
  if (cell >= cache_row_bytes(format, head_dim)) return;
  const bool of_codes = cell < codes;
  // The first dim whose code lies in this byte.
  const bool pairs_of_eight = !of_keys && cache_is_tiled(format, head_dim);
  const int dim = format == CacheFormat::kInt8 ? cell : pairs_of_eight ? cell / 8 * 16 + cell % 8 : 2 * cell;
  const int scale = (cell - codes) / scale_bytes(format);
  const int byte = (cell - codes) % scale_bytes(format);
  const auto at = [&](int node) -> std::byte& {
    const int slot = moved.root + node;
    if (of_codes) {
      return run[of_keys ? key_code_place(format, head_dim, slot, dim) : value_code_place(format, head_dim, slot, dim)];
    }
    return run[byte + (of_keys ? key_scale_place(format, head_dim, slot, scale)
                               : value_scale_place(format, head_dim, slot, scale))];
  };
#pragma unroll 1
  for (int i = moved.first; i < moved.count; ++i) at(i) = at(moved.path[i]);
}

// kBlocks: keys or values have scales.
template <bool kBlocks>
__global__ void __launch_bounds__(kBlocks ? kBlockThreads : kThreads)
    attention_move_kernel(const __grid_constant__ AttentionMoveArguments arguments) {
  ptx::wait_for_preceding_grid();
  const RoundControl& control = *arguments.control;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int pending = control.pending;
  static_assert(kMostRoundTokens == 32);
  const unsigned out_of_place = __ballot_sync(~0U, lane < pending && control.path[lane] != lane);
  const int head_dim = arguments.shape.head_dim;
  if (out_of_place == 0 || (!kBlocks && static_cast<int>(threadIdx.x) >= head_dim)) return;
  const Moved moved{control.path, __ffs(static_cast<int>(out_of_place)) - 1, pending, control.frontier - pending};
  const int kv_heads = arguments.shape.kv_heads;
  const int head = static_cast<int>(blockIdx.x) % kv_heads;
  const int item = static_cast<int>(blockIdx.x) / kv_heads;
  const AttentionMoveLayer& layer = arguments.layers[item / 2];
  const bool of_keys = item % 2 == 0;
  const CacheFormat format = of_keys ? arguments.key_format : arguments.value_format;
  if constexpr (kBlocks) {
    std::byte* const run =
        (of_keys ? layer.keys : layer.values) + head * arguments.slots * cache_row_bytes(format, head_dim);
    if (has_scales(format)) return move_cell(moved, format, of_keys, run, head_dim);
    if (static_cast<int>(threadIdx.x) >= head_dim) return;
  }
  std::byte* const run =
      (of_keys ? layer.keys : layer.values) + head * arguments.slots * head_dim * element_bytes(format);
  if (of_keys) {
    move_dim(moved, format, run, head_dim,
             [](CacheFormat of, int size, int slot, int dim) { return key_place(of, size, slot, dim); });
  } else {
    move_dim(moved, format, run, head_dim,
             [](CacheFormat of, int size, int slot, int dim) { return value_place(of, size, slot, dim); });
  }
}

}  // namespace

void launch_attention_move(int layers, const AttentionMoveArguments& arguments, const CudaLaunch& launch) {
  const bool blocks = has_scales(arguments.key_format) || has_scales(arguments.value_format);
  launch_kernel("attention_move", blocks ? attention_move_kernel<true> : attention_move_kernel<false>,
                {.blocks = 2 * layers * arguments.shape.kv_heads, .threads = blocks ? kBlockThreads : kThreads}, launch,
                arguments);
}

}  // namespace tare::engine

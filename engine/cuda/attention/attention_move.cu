// A committed path's keys and values to the slots of a chain. A thread block has the keys or the values of one head of
// a layer, a thread one dim. A node's slot is never below the one it moves to, nor below an earlier node's: so what a
// thread has not read yet, it has not written either, if it reads before it writes.
#include <type_traits>

#include "engine/cuda/attention/attention_kernels.h"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"

namespace tare::engine {
namespace {

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
  }
}

__global__ void __launch_bounds__(kThreads)
    attention_move_kernel(const __grid_constant__ AttentionMoveArguments arguments) {
  ptx::wait_for_preceding_grid();
  const RoundControl& control = *arguments.control;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int pending = control.pending;
  static_assert(kMostRoundTokens == 32);
  const unsigned out_of_place = __ballot_sync(~0U, lane < pending && control.path[lane] != lane);
  const int head_dim = arguments.shape.head_dim;
  if (out_of_place == 0 || static_cast<int>(threadIdx.x) >= head_dim) return;
  const Moved moved{control.path, __ffs(static_cast<int>(out_of_place)) - 1, pending, control.frontier - pending};
  const int kv_heads = arguments.shape.kv_heads;
  const int head = static_cast<int>(blockIdx.x) % kv_heads;
  const int item = static_cast<int>(blockIdx.x) / kv_heads;
  const AttentionMoveLayer& layer = arguments.layers[item / 2];
  const bool of_keys = item % 2 == 0;
  const CacheFormat format = of_keys ? arguments.key_format : arguments.value_format;
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
  launch_kernel("attention_move", attention_move_kernel,
                {.blocks = 2 * layers * arguments.shape.kv_heads, .threads = kThreads}, launch, arguments);
}

}  // namespace tare::engine

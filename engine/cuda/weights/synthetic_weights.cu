#include <cuda_bf16.h>

#include "base/error.h"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/weights/synthetic_weights.h"

namespace tare::engine {
namespace {

constexpr int kThreads = 256;
constexpr int kWeightsABlock = 8;  // 16 bits of the 128 of a Philox block each

struct SyntheticArguments {
  uint2 key;
  uint2 stream;
  float scale = 0;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint16_t* out = nullptr;
};

// Philox4x32-10 (base/philox.h).
__device__ __forceinline__ uint4 philox_block(uint4 counter, uint2 key) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * counter.x;
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * counter.z;
    counter = make_uint4(
        static_cast<std::uint32_t>(product1 >> 32) ^ counter.y ^ key.x, static_cast<std::uint32_t>(product1),
        static_cast<std::uint32_t>(product0 >> 32) ^ counter.w ^ key.y, static_cast<std::uint32_t>(product0));
    key.x += 0x9E3779B9U;
    key.y += 0xBB67AE85U;
  }
  return counter;
}

// The definition rounds the double x * scale to float and that to BF16. x has 17 bits and scale 24, so their product in
// FP32 is the exact one rounded once: the same float.
__device__ __forceinline__ std::uint32_t weight_bits(std::uint32_t bits, float scale) {
  const float x = static_cast<float>(2 * static_cast<int>(bits) - 65535) * 0x1p-16F;
  return __bfloat16_as_ushort(__float2bfloat16_rn(__fmul_rn(x, scale)));
}

__device__ __forceinline__ std::uint32_t weight_pair(std::uint32_t word, float scale) {
  return weight_bits(word & 0xFFFFU, scale) | weight_bits(word >> 16, scale) << 16;
}

__global__ void __launch_bounds__(kThreads)
    synthetic_weights_kernel(const __grid_constant__ SyntheticArguments arguments) {
  ptx::wait_for_preceding_grid();
  const std::uint64_t index =
      arguments.first / kWeightsABlock + (static_cast<std::uint64_t>(blockIdx.x) * kThreads + threadIdx.x);
  const std::uint64_t begin = index * kWeightsABlock;  // of all elements of the tensor
  const std::uint64_t end = arguments.first + arguments.count;
  if (begin >= end) return;
  const uint4 random =
      philox_block(make_uint4(static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                              arguments.stream.x, arguments.stream.y),
                   arguments.key);
  const uint4 weights = make_uint4(weight_pair(random.x, arguments.scale), weight_pair(random.y, arguments.scale),
                                   weight_pair(random.z, arguments.scale), weight_pair(random.w, arguments.scale));
  // An element before the first has no place; where it is a whole block, the address exists.
  if (begin >= arguments.first && begin + kWeightsABlock <= end) {
    std::uint16_t* target = arguments.out + (begin - arguments.first);
    if (reinterpret_cast<std::uintptr_t>(target) % sizeof(uint4) == 0) {
      *reinterpret_cast<uint4*>(target) = weights;
      return;
    }
  }
  const std::uint32_t words[4] = {weights.x, weights.y, weights.z, weights.w};
#pragma unroll
  for (int lane = 0; lane < kWeightsABlock; ++lane) {
    const std::uint64_t element = begin + static_cast<std::uint64_t>(lane);
    if (element < arguments.first || element >= end) continue;
    arguments.out[element - arguments.first] = static_cast<std::uint16_t>(words[lane / 2] >> (16 * (lane % 2)));
  }
}

uint2 halves(std::uint64_t value) {
  return make_uint2(static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(value >> 32));
}

bool is_large(TensorRole role) {
  return role == TensorRole::kEmbedding || role == TensorRole::kHead || role == TensorRole::kProjection ||
         role == TensorRole::kResidualProjection;
}

}  // namespace

void launch_synthetic_weights(const SyntheticRecipe& recipe, std::uint64_t first, std::uint64_t count,
                              std::uint16_t* out, const CudaLaunch& launch) {
  if (!is_large(recipe.role)) throw internal_error("synthetic norms and decays are made on the host");
  if (count == 0) return;
  const std::uint64_t philox_blocks = (first + count - 1) / kWeightsABlock - first / kWeightsABlock + 1;
  const SyntheticArguments arguments{.key = halves(recipe.seed),
                                     .stream = halves(recipe.stream),
                                     .scale = static_cast<float>(recipe.scale),
                                     .first = first,
                                     .count = count,
                                     .out = out};
  launch_kernel("synthetic_weights", synthetic_weights_kernel,
                {.blocks = static_cast<int>((philox_blocks + kThreads - 1) / kThreads), .threads = kThreads}, launch,
                arguments);
}

}  // namespace tare::engine

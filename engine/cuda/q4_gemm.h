// y = W x for a q4 matrix and up to 16 tokens on Hopper (sm_90a), the weight product of a decoding round.
//
// Three launches: prepare_q4_activations (x into the order of q4_activations.h), q4_gemm (partial sums into planes) and
// finish_q4_gemm (planes added in order, scaled). A round gives the first and last to its neighbours; they stand alone
// here so that the product has a complete definition.
//
// Numbers: codes and activations exact (see q4_activations.h for activations far below their token's largest), products
// and the sums of a group in the tensor core's FP32, groups weighted by their FP16 scale and added in FP32 in order of
// K, planes added in FP32 in order. The cut along K depends on shape and grid, not on the number of tokens.
//
// All launches are safe under programmatic dependent launch: weights are read before the wait on the preceding grid,
// nothing else is, and nothing is written before it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "engine/cuda/launch.h"
#include "engine/cuda/q4_activations.h"
#include "engine/cuda/tile_plan.h"

namespace tare::engine {

struct Q4GemmArguments {
  const std::byte* weights = nullptr;      // q4_matrix_bytes, 128-byte aligned, as packed by pack_q4_row_block
  const std::byte* activations = nullptr;  // q4_activation_bytes, 128-byte aligned
  float* planes = nullptr;                 // [most_planes][row_blocks * 256][tokens]
  TilePlan plan;
};

// tokens: 8 or 16, as in the activations. Throws Error (environment) when the device is no Hopper or the launch fails.
void q4_gemm(int tokens, const Q4GemmArguments& arguments, const CudaLaunch& launch);

// x: [real_tokens][columns] BF16 bits; 0 < real_tokens <= tokens. Writes every byte of the activations.
void prepare_q4_activations(int tokens, int real_tokens, std::int64_t columns, const std::uint16_t* x,
                            std::byte* activations, const CudaLaunch& launch);

// y: [real_tokens][rows] FP32, from the planes of q4_gemm under the same plan, by at most `most_blocks` thread blocks
// of 128 threads and 32 registers. A grid that has not wholly started holds up the launch after it, so few blocks let
// weights stream on, and more blocks end sooner.
void finish_q4_gemm(int tokens, int real_tokens, std::int64_t rows, std::int64_t columns, const TilePlan& plan,
                    const float* planes, const std::byte* activations, float* y, int most_blocks,
                    const CudaLaunch& launch);

}  // namespace tare::engine

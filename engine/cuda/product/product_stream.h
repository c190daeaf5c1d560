// One launch of a weight product, as product.cpp hands it to the kernels of a format.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cuda/device/launch.h"
#include "engine/cuda/product/product.h"

namespace tare::engine {

// Of a product of gate and up rows that applies the activation itself (activated_plan.h).
struct ActivationEnding {
  Operand out;                   // silu(gate) up
  float factor = 1;              // of sums
  unsigned* counters = nullptr;  // two a shared row block; zeros between launches
};

// Kernel argument. weights: the matrix's tiles; operand: its panels; planes: what product_plane_floats counts.
struct StreamArguments {
  const std::byte* weights = nullptr;
  const std::byte* operand = nullptr;
  float* planes = nullptr;
  TilePlan plan{};
  int trigger_pairs = -1;  // ProductSettings
  int late_stages = 0;     // likewise
  // Rows beside the product, kSideRowsABlock a thread block, in the thread blocks after the plan's.
  const std::uint16_t* side_weights = nullptr;
  float* side_out = nullptr;
  int side_rows = 0;
  int columns = 0;
  float side_factor = 1;
  std::uint32_t zero = 0;             // ptx::warp_barrier_arrive_after
  const float* row_scales = nullptr;  // of the matrix's rows, with E4M3 scales
  bool keep_planes = false;           // in L2, as far as it can
  ActivationEnding activation;        // of the kernels that activate; `plan` is that of the shared row blocks then
};

constexpr int kSideRowsABlock = 8;
constexpr int kStreamSharedBytes = 109 * 1024;  // two blocks leave 6 KB to their neighbours
constexpr int kAloneSharedBytes = 115 * 1024;   // one such block and one of the others fit on an SM, two such do not

struct StreamProduct {
  StreamArguments arguments;
  int width = 0;
  bool alone = false;         // ProductSettings
  int activating_blocks = 0;  // thread blocks of a product that activates; else 0
};

// What sums of a format are to be multiplied by: its codes may enter the matrix unit as subnormal FP16 numbers.
[[nodiscard]] constexpr float stream_sum_factor(WeightFormat format) {
  if (format == WeightFormat::kQ4 || format == WeightFormat::kQ5) return 0x1p22F;
  if (format == WeightFormat::kNVFP4) return 0x1p7F;
  if (format == WeightFormat::kQ3) return 0x1p20F;
  return 1;
}

// One function a codec, in product_CODEC.cu; each launches one kernel.
void launch_q4_product(const StreamProduct& product, const CudaLaunch& launch);
void launch_q5_product(const StreamProduct& product, const CudaLaunch& launch);
void launch_nvfp4_product(const StreamProduct& product, const CudaLaunch& launch);
void launch_q8_product(const StreamProduct& product, const CudaLaunch& launch);
void launch_q3_product(const StreamProduct& product, const CudaLaunch& launch);
void launch_fp8_product(const StreamProduct& product, const CudaLaunch& launch);
void launch_bf16_product(const StreamProduct& product, const CudaLaunch& launch);
void launch_q3_e4m3_product(const StreamProduct& product, const CudaLaunch& launch);
void launch_q4_e4m3_product(const StreamProduct& product, const CudaLaunch& launch);
void launch_q5_e4m3_product(const StreamProduct& product, const CudaLaunch& launch);
void launch_q8_e4m3_product(const StreamProduct& product, const CudaLaunch& launch);
void launch_fp8_e4m3_product(const StreamProduct& product, const CudaLaunch& launch);

}  // namespace tare::engine

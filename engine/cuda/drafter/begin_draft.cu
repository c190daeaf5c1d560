#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/drafter/drafter_kernels.h"
#include "engine/cuda/product/operand.cuh"

namespace tare::engine {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
// Few loads a thread, all of them under way together: what is read was written long ago and comes from DRAM.
constexpr int kBlocksARow = 4;  // 27B: 640 pairs of columns, three a thread
constexpr int kPairsAtOnce = 3;
constexpr int kBlocksAFeature = 13;  // 27B: 400 groups of 64 columns, four a warp
constexpr int kGroupsAtOnce = 4;

__device__ __forceinline__ void embed_row(const BeginDraftArguments& arguments, int row, int share) {
  const std::int32_t token = arguments.control->tokens[row];
  const auto* source =
      reinterpret_cast<const std::uint32_t*>(arguments.embedding + static_cast<std::int64_t>(token) * arguments.hidden);
  auto* target = reinterpret_cast<float2*>(arguments.x + static_cast<std::int64_t>(row) * arguments.hidden);
  const int pairs = arguments.hidden / 2;
  constexpr int kStride = kBlocksARow * kThreads;
  for (int first = share * kThreads + static_cast<int>(threadIdx.x); first < pairs; first += kPairsAtOnce * kStride) {
    std::uint32_t two[kPairsAtOnce];
#pragma unroll
    for (int i = 0; i < kPairsAtOnce; ++i) {
      if (first + i * kStride < pairs) two[i] = source[first + i * kStride];
    }
#pragma unroll
    for (int i = 0; i < kPairsAtOnce; ++i) {
      if (first + i * kStride < pairs)
        target[first + i * kStride] = {__uint_as_float(two[i] << 16), __uint_as_float(two[i] & 0xFFFF'0000U)};
    }
  }
}

__device__ __forceinline__ void gather_feature(const BeginDraftArguments& arguments, int feature, int share) {
  const DraftControl* control = arguments.control;
  const std::int32_t row = feature < control->features ? control->rows[feature] : -1;
  const std::int64_t columns = arguments.features.columns;
  const auto groups = static_cast<int>(operand_blocks(columns));
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const float* source = arguments.taps + (row < 0 ? 0 : row) * columns;
  constexpr int kStride = kBlocksAFeature * kWarps;
  for (int first = share * kWarps + static_cast<int>(threadIdx.x / 32); first < groups;
       first += kGroupsAtOnce * kStride) {
    float2 pairs[kGroupsAtOnce];
#pragma unroll
    for (int i = 0; i < kGroupsAtOnce; ++i) {
      const std::int64_t column = static_cast<std::int64_t>(first + i * kStride) * kOperandGroup + 2 * lane;
      pairs[i] = {0.0F, 0.0F};
      if (row >= 0 && column < columns) pairs[i] = *reinterpret_cast<const float2*>(source + column);
    }
#pragma unroll
    for (int i = 0; i < kGroupsAtOnce; ++i) {
      if (first + i * kStride < groups) store_group(arguments.features, first + i * kStride, feature, pairs[i]);
    }
  }
  float* context = arguments.context_x + static_cast<std::int64_t>(feature) * arguments.hidden;
  for (int column = share * kThreads + static_cast<int>(threadIdx.x); column < arguments.hidden;
       column += kBlocksAFeature * kThreads) {
    context[column] = 0.0F;
  }
}

__global__ void __launch_bounds__(kThreads) begin_draft_kernel(const __grid_constant__ BeginDraftArguments arguments) {
  ptx::wait_for_preceding_grid();
  ptx::launch_dependents();  // not before: kernels of this draft read the control before they wait for anything
  const auto block = static_cast<int>(blockIdx.x);
  const int embedded = arguments.block * kBlocksARow;
  if (block < embedded) {
    embed_row(arguments, block / kBlocksARow, block % kBlocksARow);
  } else {
    gather_feature(arguments, (block - embedded) / kBlocksAFeature, (block - embedded) % kBlocksAFeature);
  }
}

}  // namespace

void launch_begin_draft(const BeginDraftArguments& arguments, const CudaLaunch& launch) {
  const int blocks = arguments.block * kBlocksARow + arguments.features.width * kBlocksAFeature;
  launch_kernel("begin_draft", begin_draft_kernel, {.blocks = blocks, .threads = kThreads}, launch, arguments);
}

}  // namespace tare::engine

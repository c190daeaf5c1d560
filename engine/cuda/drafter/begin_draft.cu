#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/drafter/drafter_kernels.h"
#include "engine/cuda/product/operand.cuh"

namespace tare::engine {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kBlocksAFeature = 4;  // 27B: 400 groups of 64 columns, 13 a warp

__device__ __forceinline__ void embed_row(const BeginDraftArguments& arguments, int row) {
  __shared__ std::int32_t token;
  if (threadIdx.x == 0) token = static_cast<const volatile DraftControl*>(arguments.host)->tokens[row];
  __syncthreads();
  const std::uint16_t* source = arguments.embedding + static_cast<std::int64_t>(token) * arguments.hidden;
  float* target = arguments.x + static_cast<std::int64_t>(row) * arguments.hidden;
  for (auto column = static_cast<int>(threadIdx.x); column < arguments.hidden; column += kThreads) {
    target[column] = __uint_as_float(static_cast<std::uint32_t>(source[column]) << 16);
  }
}

__device__ __forceinline__ void gather_feature(const BeginDraftArguments& arguments, int feature, int share) {
  __shared__ std::int32_t row;
  if (threadIdx.x == 0) {
    const auto* host = static_cast<const volatile DraftControl*>(arguments.host);
    row = feature < host->features ? host->rows[feature] : -1;
  }
  __syncthreads();
  const std::int64_t columns = arguments.features.columns;
  const auto groups = static_cast<int>(operand_blocks(columns));
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const float* source = arguments.taps + (row < 0 ? 0 : row) * columns;
  for (int group = share * kWarps + static_cast<int>(threadIdx.x / 32); group < groups;
       group += kBlocksAFeature * kWarps) {
    const std::int64_t column = static_cast<std::int64_t>(group) * kOperandGroup + 2 * lane;
    float2 pair{0.0F, 0.0F};
    if (row >= 0 && column < columns) pair = *reinterpret_cast<const float2*>(source + column);
    store_group(arguments.features, group, feature, pair);
  }
  float* context = arguments.context_x + static_cast<std::int64_t>(feature) * arguments.hidden;
  for (int column = share * kThreads + static_cast<int>(threadIdx.x); column < arguments.hidden;
       column += kBlocksAFeature * kThreads) {
    context[column] = 0.0F;
  }
}

__global__ void __launch_bounds__(kThreads) begin_draft_kernel(const __grid_constant__ BeginDraftArguments arguments) {
  // Never lets its successor start early: kernels of this draft read the control before they wait for anything.
  const auto block = static_cast<int>(blockIdx.x);
  constexpr int kWords = sizeof(DraftControl) / sizeof(std::int32_t);
  static_assert(kWords <= kThreads);
  if (block == 0 && threadIdx.x < kWords) {
    reinterpret_cast<std::int32_t*>(arguments.control)[threadIdx.x] =
        reinterpret_cast<const volatile std::int32_t*>(arguments.host)[threadIdx.x];
  }
  if (block < arguments.block) {
    embed_row(arguments, block);
  } else {
    gather_feature(arguments, (block - arguments.block) / kBlocksAFeature, (block - arguments.block) % kBlocksAFeature);
  }
}

}  // namespace

void launch_begin_draft(const BeginDraftArguments& arguments, const CudaLaunch& launch) {
  CudaLaunch alone = launch;
  alone.programmatic = false;
  const int blocks = arguments.block + arguments.features.width * kBlocksAFeature;
  launch_kernel("begin_draft", begin_draft_kernel, {.blocks = blocks, .threads = kThreads}, alone, arguments);
}

}  // namespace tare::engine

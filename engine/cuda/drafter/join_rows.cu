#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/drafter/mtp_kernels.h"
#include "engine/cuda/product/operand.cuh"

namespace tare::engine {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
constexpr int kMostGroups = static_cast<int>(kMostJoinedColumns) / kOperandGroup / kWarps;  // a warp

struct JoinedRow {
  std::int32_t token = -1;  // -1: none, zeros
  std::int32_t state = 0;
};

__device__ __forceinline__ JoinedRow row_of(const JoinRowsArguments& arguments, int row) {
  if (row >= arguments.rows) return {};
  const DraftControl* control = arguments.control;
  if (arguments.tokens != nullptr)
    return {arguments.tokens[row], arguments.of_last_feature ? control->features - 1 : row};
  return row < control->features ? JoinedRow{control->tokens[row], control->rows[row]} : JoinedRow{};
}

// One thread block a row.
__global__ void __launch_bounds__(kThreads) join_rows_kernel(const __grid_constant__ JoinRowsArguments arguments) {
  __shared__ float2 warp_squares[kWarps];
  const auto row = static_cast<int>(blockIdx.x);
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int hidden = arguments.hidden;
  // In the first step nobody starts before the control is there: kernels read it before they wait.
  if (arguments.tokens != nullptr) ptx::launch_dependents();
  ptx::wait_for_preceding_grid();
  if (arguments.tokens == nullptr) ptx::launch_dependents();
  const JoinedRow joined = row_of(arguments, row);
  const bool real = joined.token >= 0;
  const auto groups = static_cast<int>(operand_blocks(2 * hidden));

  // A lane's pairs of columns of [embedding; hidden]; hidden is even, so a pair lies in one half.
  float2 kept[kMostGroups];
  float2 squares{0.0F, 0.0F};
#pragma unroll
  for (int i = 0; i < kMostGroups; ++i) {
    const int column = (warp + i * kWarps) * kOperandGroup + 2 * lane;
    kept[i] = {0.0F, 0.0F};
    if (!real || column >= 2 * hidden) continue;
    if (column < hidden) {
      const std::uint32_t two = *reinterpret_cast<const std::uint32_t*>(
          arguments.embedding + static_cast<std::int64_t>(joined.token) * hidden + column);
      kept[i] = {__uint_as_float(two << 16), __uint_as_float(two & 0xFFFF'0000U)};
    } else {
      kept[i] = *reinterpret_cast<const float2*>(arguments.states + static_cast<std::int64_t>(joined.state) * hidden +
                                                 column - hidden);
    }
  }
#pragma unroll
  for (int i = 0; i < kMostGroups; ++i) {
    const int column = (warp + i * kWarps) * kOperandGroup + 2 * lane;
    (column < hidden ? squares.x : squares.y) += kept[i].x * kept[i].x + kept[i].y * kept[i].y;
  }
  for (int step = 16; step > 0; step /= 2) {
    squares.x += __shfl_xor_sync(~0U, squares.x, step);
    squares.y += __shfl_xor_sync(~0U, squares.y, step);
  }
  if (lane == 0) warp_squares[warp] = squares;
  __syncthreads();
  float2 total{0.0F, 0.0F};
  for (const float2& of_warp : warp_squares) total = {total.x + of_warp.x, total.y + of_warp.y};
  const auto size = static_cast<float>(hidden);
  const float factors[2] = {1.0F / sqrtf(total.x / size + arguments.eps), 1.0F / sqrtf(total.y / size + arguments.eps)};
#pragma unroll
  for (int i = 0; i < kMostGroups; ++i) {
    const int group = warp + i * kWarps;
    if (group >= groups) break;
    const int column = group * kOperandGroup + 2 * lane;
    float2 pair{0.0F, 0.0F};
    if (column < 2 * hidden) {
      const bool second = column >= hidden;
      const float* gains = second ? arguments.hidden_gain + column - hidden : arguments.embedding_gain + column;
      const float2 gain = *reinterpret_cast<const float2*>(gains);
      const float factor = factors[second ? 1 : 0];
      pair = {kept[i].x * (factor * gain.x), kept[i].y * (factor * gain.y)};
    }
    store_group(arguments.out, group, row, pair);
  }
  if (row >= arguments.rows) return;
  float* x = arguments.x + static_cast<std::int64_t>(row) * hidden;
  for (auto column = static_cast<int>(threadIdx.x); column < hidden; column += kThreads) x[column] = 0.0F;
}

constexpr int kControlWords = sizeof(DraftControl) / sizeof(std::int32_t);
constexpr int kControlThreads = (kControlWords + 31) / 32 * 32;

__global__ void __launch_bounds__(kControlThreads)
    take_mtp_control_kernel(const volatile DraftControl* host, DraftControl* control, StepControl* controls,
                            int steps) {
  ptx::launch_dependents();
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread < kControlWords)
    reinterpret_cast<std::int32_t*>(control)[thread] = reinterpret_cast<const volatile std::int32_t*>(host)[thread];
  if (thread < steps) controls[thread].round.frontier = thread == 0 ? host->first_feature : host->frontier - 1 + thread;
}
static_assert(kMostRoundTokens <= kControlThreads);

}  // namespace

void launch_join_rows(const JoinRowsArguments& arguments, const CudaLaunch& launch) {
  launch_kernel("join_rows", join_rows_kernel, {.blocks = arguments.out.width, .threads = kThreads}, launch, arguments);
}

void launch_take_mtp_control(const DraftControl* host, DraftControl* control, StepControl* controls, int steps,
                             const CudaLaunch& launch) {
  CudaLaunch alone = launch;
  alone.programmatic = false;
  launch_kernel("take_control", take_mtp_control_kernel, {.blocks = 1, .threads = kControlThreads}, alone,
                static_cast<const volatile DraftControl*>(host), control, controls, steps);
}

}  // namespace tare::engine

#include <cuda_bf16.h>

#include <algorithm>

#include "base/error.h"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/device/quick_silu.cuh"
#include "engine/cuda/device/take_control.h"
#include "engine/cuda/elementwise.h"
#include "engine/cuda/logit_key.cuh"
#include "engine/cuda/product/gate_up_rows.h"
#include "engine/cuda/product/operand.cuh"
#include "engine/cuda/product/product_result.cuh"

namespace tare::engine {
namespace {

constexpr int kEmbedThreads = 512;
constexpr int kEmbedAtOnce = 10;  // 27B: a row's 5,120 columns
constexpr int kActivationThreads = 256;
constexpr int kActivationWarps = kActivationThreads / 32;
constexpr int kActivationBlocks = 136;    // 27B, 16 tokens: 2,176 groups of a token pair, two a warp
constexpr int kActivationRegisters = 64;  // a block fits on an SM beside two blocks of a product
constexpr int kActivationPlaneBatch = 4;  // planes of 34816x5120 over 264 blocks
constexpr int kLogitThreads = 256;
constexpr int kLogitRows = 2048;  // rows of one thread block

__device__ __forceinline__ void embed_row(const std::uint16_t* embedding, std::int32_t token, int hidden, float* x) {
  const std::uint16_t* row = embedding + static_cast<std::int64_t>(token) * hidden;
  // Loads of a batch are on their way together: the rows come from DRAM.
  for (auto first = static_cast<int>(threadIdx.x); first < hidden; first += kEmbedAtOnce * kEmbedThreads) {
    std::uint16_t bits[kEmbedAtOnce];
#pragma unroll
    for (int i = 0; i < kEmbedAtOnce; ++i) {
      if (first + i * kEmbedThreads < hidden) bits[i] = row[first + i * kEmbedThreads];
    }
#pragma unroll
    for (int i = 0; i < kEmbedAtOnce; ++i) {
      if (first + i * kEmbedThreads < hidden)
        x[first + i * kEmbedThreads] = __uint_as_float(static_cast<std::uint32_t>(bits[i]) << 16);
    }
  }
}

__global__ void __launch_bounds__(kEmbedThreads)
    begin_round_kernel(const RoundControl* control, RoundKeys* keys, const std::uint16_t* embedding, int hidden,
                       float* x) {
  ptx::wait_for_preceding_grid();
  ptx::launch_dependents();  // not before: kernels of this round read `control` before they wait for anything
  const auto block = static_cast<int>(blockIdx.x);
  if (block == 0 && threadIdx.x < kMostRoundTokens) {
    keys->best[threadIdx.x] = 0;
    keys->fault[threadIdx.x] = 0;
    keys->spun_ns = 0;
  }
  embed_row(embedding, control->tokens[block], hidden, x + static_cast<std::int64_t>(block) * hidden);
}

__global__ void __launch_bounds__(kEmbedThreads)
    embed_kernel(const std::int32_t* tokens, const std::uint16_t* embedding, int hidden, float* x) {
  ptx::launch_dependents();
  ptx::wait_for_preceding_grid();
  embed_row(embedding, tokens[blockIdx.x], hidden, x + static_cast<std::int64_t>(blockIdx.x) * hidden);
}

__device__ __forceinline__ float silu(float x) {
  return x / (1.0F + expf(-x));
}

// Plain rows (prefill, reference): a warp takes one group of 64 columns of one token.
__global__ void __launch_bounds__(kActivationThreads)
    activation_rows_kernel(const __grid_constant__ ProductResult gate_up, int tokens, int size,
                           const __grid_constant__ Operand out) {
  ptx::launch_dependents();
  ptx::wait_for_preceding_grid();
  const auto groups = static_cast<int>(operand_blocks(size));
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const auto warps = static_cast<std::int64_t>(gridDim.x) * kActivationWarps;
  const std::int64_t tasks = static_cast<std::int64_t>(groups) * out.width;
  for (std::int64_t task = static_cast<std::int64_t>(blockIdx.x) * kActivationWarps + threadIdx.x / 32; task < tasks;
       task += warps) {
    const auto token = static_cast<int>(task / groups);
    const auto group = static_cast<int>(task % groups);
    const int column = group * kOperandGroup + 2 * lane;
    float2 value{0.0F, 0.0F};
    if (column < size && token < tokens) {
      const auto gate = static_cast<int>(gate_place(column));  // `size` is even: so are these, and neighbours follow
      const auto up = static_cast<int>(up_place(column, size));
      value.x = silu(product_value(gate_up, gate, token)) * product_value(gate_up, up, token);
      value.y = silu(product_value(gate_up, gate + 1, token)) * product_value(gate_up, up + 1, token);
    }
    store_group(out, group, token, value);
  }
}

// A warp's group of 64 columns of two tokens: where its planes lie. Pairs lie side by side among the warps, so that a
// group's lines are read by neighbours.
struct ActivationTask {
  int group;
  int pair;
  int column;  // of this lane, and the one after it
  int planes;  // a group's rows of gate and up lie in one row block
  std::int64_t gate;
  std::int64_t up;

  __device__ __forceinline__ ActivationTask(const ProductResult& gate_up, int pairs, int size, int task)
      : group(task / pairs),
        pair(task % pairs),
        column(group * kOperandGroup + 2 * static_cast<int>(threadIdx.x % 32)) {
    const int inside = min(column, size - 2);  // even, as size is
    const auto row = static_cast<int>(gate_place(inside));
    planes = gate_up.plan.planes(row / kUnitRows);
    gate = plane_place(gate_up.width, row, 2 * pair);
    up = plane_place(gate_up.width, static_cast<int>(up_place(inside, size)), 2 * pair);
  }
};

__device__ __forceinline__ void add(float4& sum, const float4& more) {
  sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
}

// The planes of gate and of up, in order; both are on their way together.
__device__ __forceinline__ void add_both_planes(const float* data, std::int64_t stride, const ActivationTask& task,
                                                float4& gate, float4& up) {
  const float* gate_source = data + task.gate;
  const float* up_source = data + task.up;
#pragma unroll 1
  for (int first = 0; first < task.planes; first += kActivationPlaneBatch) {
    float4 gates[kActivationPlaneBatch] = {};
    float4 ups[kActivationPlaneBatch] = {};
#pragma unroll
    for (int i = 0; i < kActivationPlaneBatch; ++i) {
      if (first + i < task.planes) {
        gates[i] = *reinterpret_cast<const float4*>(gate_source);
        ups[i] = *reinterpret_cast<const float4*>(up_source);
      }
      gate_source += stride;
      up_source += stride;
    }
#pragma unroll
    for (int i = 0; i < kActivationPlaneBatch; ++i) {
      add(gate, gates[i]);
      add(up, ups[i]);
    }
  }
}

// Planes (rounds): a warp takes one group of 64 columns of two tokens. Registers are few, so that a block fits on an SM
// beside two blocks of a product.
__global__ void __maxnreg__(kActivationRegisters)
    activation_planes_kernel(const __grid_constant__ ProductResult gate_up, int tokens, int size,
                             const __grid_constant__ Operand out) {
  ptx::launch_dependents();
  const int pairs = out.width / 2;
  const int tasks = static_cast<int>(operand_blocks(size)) * pairs;
  const int step = static_cast<int>(gridDim.x) * kActivationWarps;
  int task = static_cast<int>(blockIdx.x) * kActivationWarps + static_cast<int>(threadIdx.x / 32);
  ActivationTask now(gate_up, pairs, size, task);
  ptx::have_computed(now.gate);
  ptx::have_computed(now.up);
  ptx::have_computed(now.planes);
  ptx::wait_for_preceding_grid();
#pragma unroll 1
  for (; task < tasks; task += step, now = ActivationTask(gate_up, pairs, size, task)) {
    float4 gate{0.0F, 0.0F, 0.0F, 0.0F};
    if (now.column < size && 2 * now.pair < tokens) {
      const std::int64_t stride = plane_floats(gate_up.plan, gate_up.width);
      float4 up{0.0F, 0.0F, 0.0F, 0.0F};
      add_both_planes(gate_up.data, stride, now, gate, up);
      const auto activated = [&](float x, float y) { return quick_silu(x * gate_up.factor) * (y * gate_up.factor); };
      gate = {activated(gate.x, up.x), activated(gate.y, up.y), activated(gate.z, up.z), activated(gate.w, up.w)};
      if (2 * now.pair + 1 >= tokens) gate.y = gate.w = 0.0F;
    }
    store_two_groups(out, now.group, 2 * now.pair, {gate.x, gate.z}, {gate.y, gate.w});
  }
}

// One block: kLogitRows rows of two tokens.
__global__ void __launch_bounds__(kLogitThreads)
    logits_kernel(const __grid_constant__ ProductResult head, int tokens, float* logits, RoundKeys* keys) {
  __shared__ unsigned long long warp_best[kLogitThreads / 32][2];
  ptx::launch_dependents();
  ptx::wait_for_preceding_grid();
  const int pairs = (tokens + 1) / 2;
  const int pair = static_cast<int>(blockIdx.x) % pairs;
  const int first_row = static_cast<int>(blockIdx.x) / pairs * kLogitRows;
  LogitKey best[2] = {0, 0};
  bool fault[2] = {false, false};
  for (int row = first_row + static_cast<int>(threadIdx.x); row < min(first_row + kLogitRows, head.rows);
       row += kLogitThreads) {
    const float2 two = product_pair(head, row, pair, tokens);
    for (int i = 0; i < 2; ++i) {
      const int token = 2 * pair + i;
      if (token >= tokens) break;
      const float logit = i == 0 ? two.x : two.y;
      logits[static_cast<std::int64_t>(token) * head.rows + row] = logit;
      if (!isfinite(logit)) fault[i] = true;
      const LogitKey key = make_logit_key(logit, row);
      if (key > best[i]) best[i] = key;
    }
  }
  for (int i = 0; i < 2; ++i) {
    for (int step = 16; step > 0; step /= 2) {
      const unsigned long long other = __shfl_xor_sync(~0U, best[i], step);
      if (other > best[i]) best[i] = other;
    }
    if (threadIdx.x % 32 == 0) warp_best[threadIdx.x / 32][i] = best[i];
    const bool any = __syncthreads_or(fault[i] ? 1 : 0) != 0;
    const int token = 2 * pair + i;
    if (any && threadIdx.x == 0 && token < tokens) keys->fault[token] = 1;
  }
  if (threadIdx.x < 2 && 2 * pair + static_cast<int>(threadIdx.x) < tokens) {
    unsigned long long most = 0;
    for (const auto& two : warp_best) most = two[threadIdx.x] > most ? two[threadIdx.x] : most;
    atomicMax(&keys->best[2 * pair + static_cast<int>(threadIdx.x)], most);
  }
}

__global__ void end_round_kernel(const RoundKeys* keys, int tokens, volatile RoundOutcome* host) {
  ptx::wait_for_preceding_grid();
  const auto token = static_cast<int>(threadIdx.x);
  if (token >= tokens) return;
  host->best[token] = id_of(keys->best[token]);
  host->fault[token] = keys->fault[token];
  if (token == 0) host->spun_ns = static_cast<std::int64_t>(keys->spun_ns);
}

__global__ void empty_keys_kernel(RoundKeys* keys) {
  ptx::launch_dependents();
  ptx::wait_for_preceding_grid();
  keys->best[threadIdx.x] = 0;
  keys->fault[threadIdx.x] = 0;
  keys->spun_ns = 0;
}

__device__ __forceinline__ std::uint64_t global_timer_ns() {
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void spin_kernel(std::uint64_t ns, RoundKeys* keys) {
  ptx::wait_for_preceding_grid();
  const std::uint64_t start = global_timer_ns();
  std::uint64_t spun = 0;
  while (spun < ns) spun = global_timer_ns() - start;
  keys->spun_ns = spun;
}

}  // namespace

void launch_begin_round(const RoundControl* host, RoundControl* control, RoundKeys* keys,
                        const std::uint16_t* embedding, int hidden, int tokens, float* x, const CudaLaunch& launch) {
  launch_take_control(host, control, sizeof(RoundControl) / sizeof(std::int32_t), launch);
  launch_kernel("begin_round", begin_round_kernel, {.blocks = tokens, .threads = kEmbedThreads}, launch, control, keys,
                embedding, hidden, x);
}

void launch_embed(const std::int32_t* tokens, int count, const std::uint16_t* embedding, int hidden, float* x,
                  const CudaLaunch& launch) {
  launch_kernel("embed", embed_kernel, {.blocks = count, .threads = kEmbedThreads}, launch, tokens, embedding, hidden,
                x);
}

void launch_mlp_activation(const ProductResult& gate_up, int tokens, int size, const Operand& out,
                           const CudaLaunch& launch) {
  if (size % 2 != 0) throw internal_error("an MLP activation of an odd number of columns");
  const std::int64_t tasks = operand_blocks(size) * (gate_up.planes ? out.width / 2 : out.width);
  const std::int64_t blocks = (tasks + kActivationWarps - 1) / kActivationWarps;
  if (gate_up.planes) {
    launch_kernel(
        "mlp_activation", activation_planes_kernel,
        {.blocks = static_cast<int>(std::min<std::int64_t>(kActivationBlocks, blocks)), .threads = kActivationThreads},
        launch, gate_up, tokens, size, out);
  } else {
    launch_kernel("mlp_activation_rows", activation_rows_kernel,
                  {.blocks = static_cast<int>(blocks), .threads = kActivationThreads}, launch, gate_up, tokens, size,
                  out);
  }
}

void launch_logits(const ProductResult& head, int tokens, float* logits, RoundKeys* keys, const CudaLaunch& launch) {
  const int blocks = (head.rows + kLogitRows - 1) / kLogitRows * ((tokens + 1) / 2);
  launch_kernel("logits", logits_kernel, {.blocks = blocks, .threads = kLogitThreads}, launch, head, tokens, logits,
                keys);
}

void launch_end_round(const RoundKeys* keys, int tokens, RoundOutcome* host, const CudaLaunch& launch) {
  launch_kernel("end_round", end_round_kernel, {.blocks = 1, .threads = kMostRoundTokens}, launch, keys, tokens, host);
}

void launch_empty_keys(RoundKeys* keys, const CudaLaunch& launch) {
  launch_kernel("empty_keys", empty_keys_kernel, {.blocks = 1, .threads = kMostRoundTokens}, launch, keys);
}

void launch_spin(std::int64_t ns, RoundKeys* keys, const CudaLaunch& launch) {
  launch_kernel("spin", spin_kernel, {.blocks = 1, .threads = 1}, launch, static_cast<std::uint64_t>(ns), keys);
}

}  // namespace tare::engine

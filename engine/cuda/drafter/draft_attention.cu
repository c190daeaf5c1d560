// Attention of a block: every row sees a run of positions of its own, context and block alike.
//
// Tensor cores: a thread block has 64 rows (token and query head) of one key-value head and one part of the positions,
// 64 at a time, keys and values in a ring of two tiles. A warp has 16 rows: S = Q K (queries in registers), softmax
// weights straight from the accumulators as operand A of O += P V. 16-byte pieces of a tile's rows lie at
// piece ^ row % 8, so that the eight rows of an ldmatrix hit different banks.
#include <cuda_bf16.h>

#include <algorithm>

#include "base/error.h"
#include "engine/cuda/attention/attention_device.cuh"
#include "engine/cuda/device/async_copy.cuh"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/drafter/draft_mma.cuh"
#include "engine/cuda/drafter/drafter_kernels.h"

namespace tare::engine {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kWarpRows = 16;
constexpr int kBlockRows = kWarps * kWarpRows;
constexpr int kTile = DraftSpan::kTile;
constexpr int kStages = 2;
constexpr int kBlocksOfParts = 264;  // two thread blocks an SM of an H200
constexpr int kMostDims = 256;

__device__ __forceinline__ DraftSpan span_of(const DraftAttentionArguments& arguments) {
  return {.frontier = arguments.control->frontier,
          .block = arguments.block,
          .window = static_cast<int>(arguments.mask.window),
          .causal = arguments.mask.causal,
          .most_parts = arguments.most_parts};
}

__device__ __forceinline__ void load_matrices(std::uint32_t shared_row, std::uint32_t (&four)[4]) {
  ptx::load_four_matrices(shared_row, four);
}
template <int kHeadDim>
struct TileMemory {
  static constexpr int kPieces = kHeadDim / 8;
  static constexpr int kRowBytes = 2 * kHeadDim;
  static constexpr int kTileBytes = kTile * kRowBytes;
  static constexpr int kSharedBytes = kStages * 2 * kTileBytes;

  static __device__ __forceinline__ std::uint32_t place(int row, int piece) {
    return static_cast<std::uint32_t>(row * kRowBytes + (piece ^ row % 8) * 16);
  }
  // Positions first .. first + 63 of one head's run; those at or past `end` become zero: what lies there may be NaN,
  // and 0 times that is not 0.
  static __device__ __forceinline__ void load(std::uint32_t target, const std::byte* run, int first, int end) {
#pragma unroll
    for (int i = 0; i < kTile * kPieces / kThreads; ++i) {
      const int index = static_cast<int>(threadIdx.x) + kThreads * i;
      const int row = index / kPieces;
      const int piece = index % kPieces;
      const bool real = first + row < end;
      const std::byte* source = run + static_cast<std::int64_t>(real ? first + row : first) * kRowBytes + piece * 16;
      copy_async_or_zeros(target + place(row, piece), source, real);
    }
  }
};

// 16 rows of a warp: queries, the positions they see, sums so far.
template <int kHeadDim>
struct WarpRows {
  static constexpr int kSteps = kHeadDim / 16;
  static constexpr int kDimTiles = kHeadDim / 8;
  static constexpr int kPositionTiles = kTile / 8;
  using Memory = TileMemory<kHeadDim>;

  std::uint32_t queries[kSteps][4];
  int first_seen[2];
  int last_seen[2];
  float largest[2] = {-INFINITY, -INFINITY};
  float weight_sums[2] = {0.0F, 0.0F};  // this lane's share
  float sums[kDimTiles][4] = {};

  __device__ __forceinline__ void load_queries(const std::byte* source, int first_row, int row_count) {
    const auto lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = first_row + lane / 4 + i % 2 * 8;
        const int dim = step * 16 + lane % 4 * 2 + i / 2 * 8;
        queries[step][i] = row < row_count ? *reinterpret_cast<const std::uint32_t*>(
                                                 source + (static_cast<std::int64_t>(row) * kHeadDim + dim) * 2)
                                           : 0U;
      }
    }
  }

  __device__ __forceinline__ void add_tile(std::uint32_t keys, std::uint32_t values, int first) {
    const auto lane = static_cast<int>(threadIdx.x % 32);
    float scores[kPositionTiles][4] = {};
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int pair = 0; pair < kPositionTiles / 2; ++pair) {
        std::uint32_t b[4];
        load_matrices(keys + Memory::place(16 * pair + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2), b);
        multiply_add(scores[2 * pair], queries[step], b[0], b[1]);
        multiply_add(scores[2 * pair + 1], queries[step], b[2], b[3]);
      }
    }
    float most[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int n = 0; n < kPositionTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int position = first + 8 * n + lane % 4 * 2 + i % 2;
        if (position < first_seen[i / 2] || position > last_seen[i / 2]) scores[n][i] = -INFINITY;
        most[i / 2] = fmaxf(most[i / 2], scores[n][i]);
      }
    }
    float references[2];
    float keep[2];
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      most[u] = fmaxf(most[u], __shfl_xor_sync(~0U, most[u], 1));
      most[u] = fmaxf(most[u], __shfl_xor_sync(~0U, most[u], 2));
      most[u] = fmaxf(most[u], largest[u]);
      references[u] = reference_score(most[u]);
      keep[u] = exp2f(largest[u] - references[u]);
      largest[u] = most[u];
      weight_sums[u] *= keep[u];
    }
#pragma unroll
    for (int n = 0; n < kDimTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[n][i] *= keep[i / 2];
    }
#pragma unroll
    for (int step = 0; step < kTile / 16; ++step) {
      std::uint32_t weights[4];
      weigh(scores[2 * step], scores[2 * step + 1], references, weights, weight_sums);
#pragma unroll
      for (int pair = 0; pair < kDimTiles / 2; ++pair) {
        std::uint32_t b[4];
        load_transposed(values + Memory::place(16 * step + lane / 8 % 2 * 8 + lane % 8, 2 * pair + lane / 16), b);
        multiply_add(sums[2 * pair], weights, b[0], b[1]);
        multiply_add(sums[2 * pair + 1], weights, b[2], b[3]);
      }
    }
  }
};

template <int kHeadDim>
__global__ void __launch_bounds__(kThreads)
    draft_attention_kernel(const __grid_constant__ DraftAttentionArguments arguments, int row_groups) {
  using Memory = TileMemory<kHeadDim>;
  extern __shared__ __align__(128) std::byte shared[];
  ptx::launch_dependents();
  const DrafterShape& shape = arguments.shape;
  const int block = static_cast<int>(blockIdx.x);
  const int row_group = block % row_groups;
  const int kv_head = block / row_groups % shape.kv_heads;
  const int part = block / row_groups / shape.kv_heads;
  const DraftSpan span = span_of(arguments);
  const int begin = span.begin() + part * span.tiles_a_part() * kTile;
  const int end = min(begin + span.tiles_a_part() * kTile, span.end());
  if (begin >= end) {
    ptx::wait_for_preceding_grid();
    return;
  }
  const std::int64_t run = (static_cast<std::int64_t>(arguments.layer) * shape.kv_heads + kv_head) *
                           arguments.cache.slots * Memory::kRowBytes;
  const std::byte* keys = arguments.cache.keys + run;
  const std::byte* values = arguments.cache.values + run;
  const std::uint32_t base = ptx::shared_address(shared);
  const auto load_tile = [&](int tile) {
    const std::uint32_t target = base + static_cast<std::uint32_t>(tile % kStages * 2 * Memory::kTileBytes);
    Memory::load(target, keys, begin + tile * kTile, end);
    Memory::load(target + Memory::kTileBytes, values, begin + tile * kTile, end);
    commit_copies();
  };
  // What earlier drafts wrote may be asked for before this one's kernels end.
  const int settled = arguments.control->features > 0 ? arguments.control->first_feature : span.frontier;
  const bool early = begin + kTile <= settled;
  if (early) load_tile(0);
  ptx::wait_for_preceding_grid();
  if (!early) load_tile(0);

  const int group = shape.heads_a_kv_head();
  const int row_count = arguments.block * group;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int first_row = row_group * kBlockRows + static_cast<int>(threadIdx.x / 32) * kWarpRows;
  WarpRows<kHeadDim> rows;
  rows.load_queries(arguments.queries + static_cast<std::int64_t>(kv_head) * row_count * Memory::kRowBytes, first_row,
                    row_count);
#pragma unroll
  for (int u = 0; u < 2; ++u) {
    const int token = (first_row + lane / 4 + 8 * u) / group;
    rows.first_seen[u] = span.first_seen(token);
    rows.last_seen[u] = span.last_seen(token);
  }
  const int tiles = (end - begin + kTile - 1) / kTile;
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) {
      load_tile(tile + 1);
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
    __syncthreads();
    const std::uint32_t source = base + static_cast<std::uint32_t>(tile % kStages * 2 * Memory::kTileBytes);
    rows.add_tile(source, source + Memory::kTileBytes, begin + tile * kTile);
    __syncthreads();  // the next copy overwrites this tile
  }
#pragma unroll
  for (int u = 0; u < 2; ++u) {
    float weight_sum = rows.weight_sums[u];
    weight_sum += __shfl_xor_sync(~0U, weight_sum, 1);
    weight_sum += __shfl_xor_sync(~0U, weight_sum, 2);
    const int row = first_row + lane / 4 + 8 * u;
    if (row >= row_count) continue;
    const std::int64_t place =
        (static_cast<std::int64_t>(part) * arguments.block + row / group) * shape.heads + kv_head * group + row % group;
    if (lane % 4 == 0) arguments.parts.ends[place] = {rows.largest[u], weight_sum};
    float* target = arguments.parts.sums + place * kHeadDim + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < WarpRows<kHeadDim>::kDimTiles; ++n) {
      *reinterpret_cast<float2*>(target + 8 * n) = {rows.sums[n][2 * u], rows.sums[n][2 * u + 1]};
    }
  }
}

// Any head dimension and FP32 arithmetic: a thread block has one row and all its positions, 64 at a time. Simple and
// exact, not fast.
template <CacheFormat kFormat>
__global__ void __launch_bounds__(kThreads)
    draft_attention_plain_kernel(const __grid_constant__ DraftAttentionArguments arguments) {
  constexpr int kDims = kMostDims / kThreads;  // of a thread, in the sum of values
  constexpr int kLaneDims = kMostDims / 32;    // of a lane, in a score
  __shared__ float scores[kTile];
  ptx::launch_dependents();
  const DrafterShape& shape = arguments.shape;
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int head = static_cast<int>(blockIdx.x) % shape.heads;
  const int token = static_cast<int>(blockIdx.x) / shape.heads;
  const DraftSpan span = span_of(arguments);
  const int begin = span.first_seen(token);
  const int end = span.last_seen(token) + 1;
  ptx::wait_for_preceding_grid();

  const std::int64_t row = static_cast<std::int64_t>(token) * shape.heads + head;
  const std::int64_t run =
      (static_cast<std::int64_t>(arguments.layer) * shape.kv_heads + head / shape.heads_a_kv_head()) *
      arguments.cache.slots * shape.head_dim;
  const std::byte* keys = arguments.cache.keys + run * element_bytes(kFormat);
  const std::byte* values = arguments.cache.values + run * element_bytes(kFormat);
  const auto place = [&](int position, int dim) {
    return (static_cast<std::int64_t>(position) * shape.head_dim + dim) * element_bytes(kFormat);
  };
  const auto* queries = reinterpret_cast<const float*>(arguments.queries) + row * shape.head_dim;
  float query[kLaneDims];
#pragma unroll
  for (int i = 0; i < kLaneDims; ++i) query[i] = lane + 32 * i < shape.head_dim ? queries[lane + 32 * i] : 0.0F;
  float sums[kDims] = {};
  float largest = -INFINITY;
  float weight_sum = 0.0F;
  for (int tile = begin; tile < end; tile += kTile) {
    const int count = min(kTile, end - tile);
    for (int at = warp; at < kTile; at += kWarps) {
      float dot = 0.0F;
      if (at < count) {
#pragma unroll
        for (int i = 0; i < kLaneDims; ++i) {
          const int dim = lane + 32 * i;
          if (dim < shape.head_dim) dot += query[i] * load_cached(kFormat, keys + place(tile + at, dim));
        }
      }
      dot = sum_of_warp(dot);
      if (lane == 0) scores[at] = at < count ? dot : -INFINITY;
    }
    __syncthreads();
    const float most = fmaxf(largest, most_of_warp(fmaxf(scores[lane], scores[lane + 32])));
    const float reference = reference_score(most);
    const float keep = exp2f(largest - reference);
    largest = most;
    weight_sum =
        weight_sum * keep + sum_of_warp(exp2f(scores[lane] - reference) + exp2f(scores[lane + 32] - reference));
#pragma unroll
    for (int i = 0; i < kDims; ++i) {
      const int dim = static_cast<int>(threadIdx.x) + kThreads * i;
      if (dim >= shape.head_dim) break;
      float sum = sums[i] * keep;
      for (int at = 0; at < count; ++at) {
        sum += exp2f(scores[at] - reference) * load_cached(kFormat, values + place(tile + at, dim));
      }
      sums[i] = sum;
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kDims; ++i) {
    const int dim = static_cast<int>(threadIdx.x) + kThreads * i;
    if (dim < shape.head_dim) arguments.parts.sums[row * shape.head_dim + dim] = sums[i];
  }
  if (threadIdx.x == 0) arguments.parts.ends[row] = {largest, weight_sum};
}

}  // namespace

bool draft_uses_tensor_cores(const DrafterShape& shape, CacheFormat format) {
  return format == CacheFormat::kBF16 && (shape.head_dim == 64 || shape.head_dim == 128);
}

int most_draft_parts(const DrafterShape& shape, int block, bool tensor_cores) {
  if (!tensor_cores) return 1;
  const int row_groups = (block * shape.heads_a_kv_head() + kBlockRows - 1) / kBlockRows;
  return std::max(1, kBlocksOfParts / (shape.kv_heads * row_groups));
}

void launch_draft_attention(const DraftAttentionArguments& arguments, int parts, const CudaLaunch& launch) {
  const DrafterShape& shape = arguments.shape;
  if (arguments.mask.window > INT32_MAX / 2) throw internal_error("a draft's window is not an int");
  if (!draft_uses_tensor_cores(shape, arguments.cache.format)) {
    auto* kernel = arguments.cache.format == CacheFormat::kFP32 ? draft_attention_plain_kernel<CacheFormat::kFP32>
                                                                : draft_attention_plain_kernel<CacheFormat::kBF16>;
    launch_kernel("draft_attention_plain", kernel, {.blocks = arguments.block * shape.heads, .threads = kThreads},
                  launch, arguments);
    return;
  }
  const int row_groups = (arguments.block * shape.heads_a_kv_head() + kBlockRows - 1) / kBlockRows;
  const bool wide = shape.head_dim == 128;
  launch_kernel("draft_attention", wide ? draft_attention_kernel<128> : draft_attention_kernel<64>,
                {.blocks = parts * shape.kv_heads * row_groups,
                 .threads = kThreads,
                 .shared_bytes = wide ? TileMemory<128>::kSharedBytes : TileMemory<64>::kSharedBytes},
                launch, arguments, row_groups);
}

}  // namespace tare::engine

// Heads, attention and merge of a block over few positions in one launch: a cluster of eight thread blocks has one
// key-value head and eight tokens, 32 rows (token and query head), and each thread block its share of the positions.
//
//   1. keys and values of committed positions, before the wait for the product
//   2. norms and rotation: each thread block has two query heads of two tokens and the key and value of two, and sends
//      queries to all, keys and values to the one with the last positions
//   3. a warp has 16 rows and a quarter of the thread block's positions: softmax weights and sums of values
//   4. the quarters' sums together, and to the thread block that has their token: it adds the eight in order, divides
//      and writes the operand
//
// What draft_heads, draft_attention and draft_merge pass on through memory, three trips of 1 us and three launches of
// 0.9, goes from shared memory to shared memory. Many positions want their more numerous thread blocks.
//
// Positions come in units of 16; the block's own positions are the last unit. 16-byte pieces of a row lie at piece ^
// row % 8, so that the eight rows of an ldmatrix hit different banks.
#include <cuda_bf16.h>

#include "base/error.h"
#include "engine/cuda/attention/attention_device.cuh"
#include "engine/cuda/device/async_copy.cuh"
#include "engine/cuda/device/cluster.cuh"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/drafter/draft_mma.cuh"
#include "engine/cuda/drafter/drafter_kernels.h"
#include "engine/cuda/product/operand.cuh"
#include "engine/cuda/product/product_result.cuh"

namespace tare::engine {
namespace {

constexpr int kCluster = 8;
constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kDims = 128;
constexpr int kGroup = 4;   // query heads of a key-value head
constexpr int kTokens = 8;  // of a cluster
constexpr int kRows = kTokens * kGroup;
constexpr int kMostTokens = 16;   // of a block: one of each of the last unit's positions
constexpr int kUnit = 16;         // positions
constexpr int kQuarters = 4;      // of a thread block's positions, two warps each
constexpr int kQuarterUnits = 3;  // whose scores a warp has at once
// Of a thread block at once: what leaves room beside a product whose thread blocks keep to an SM each.
constexpr int kMostUnits = 11;
constexpr int kRowBytes = 2 * kDims;
constexpr int kUnitBytes = kUnit * kRowBytes;
constexpr int kPieces = kRowBytes / 16;
constexpr int kPaddedDims = kDims + 8;  // rows four apart in other banks
constexpr int kPlanesAtOnce = 8;        // of 6144x5120 over 132 blocks: all at once
static_assert(kCluster == kTokens && kMostTokens <= kUnit);
static_assert((kQuarters - 1) * kMostUnits / kQuarters + kQuarterUnits <= kMostUnits);

struct MixerMemory {
  union {
    std::byte positions[2][kMostUnits * kUnitBytes];  // keys, values
    float sums[kQuarters][kRows][kPaddedDims];
  };
  union {
    std::byte queries[kRows * kRowBytes];
    float part_sums[kCluster][kGroup][kDims];  // of the token that this thread block merges
  };
  std::uint32_t heads[8][kDims / 2];  // [query head][token], keys of two tokens, values of two
  float2 ends[kQuarters][kRows];      // largest score, sum of weights
  float2 part_ends[kCluster][kGroup];
  std::uint64_t heads_came;
  std::uint64_t parts_came;
};
static_assert(sizeof(MixerMemory) <= 110 * 1024);
constexpr int kPartBytes = kGroup * (kDims * 4 + 8);  // of a thread block for another

[[nodiscard]] __device__ __forceinline__ std::uint32_t piece_place(int row, int piece) {
  return static_cast<std::uint32_t>(row * kRowBytes + (piece ^ row % 8) * 16);
}

// Units of positions: those of the context from `begin` on, then the block's own. A thread block has a run of them,
// and goes over it from its end, kMostUnits at a time: the block's own, which come last, are needed first.
struct MixerUnits {
  int begin;
  int frontier;
  int count;
  __device__ __forceinline__ explicit MixerUnits(const DraftSpan& span)
      : begin(span.begin()), frontier(span.frontier), count((span.frontier - begin + kUnit - 1) / kUnit + 1) {}
  [[nodiscard]] __device__ __forceinline__ int first_of(int rank) const { return rank * count / kCluster; }
  [[nodiscard]] __device__ __forceinline__ bool is_own(int unit) const { return unit + 1 == count; }
  [[nodiscard]] __device__ __forceinline__ int position(int unit) const {
    return is_own(unit) ? frontier : begin + unit * kUnit;
  }
};

struct Mixer {
  const DraftHeadsArguments& arguments;
  MixerMemory& memory;
  int rank;
  int kv_head;
  int first_token;  // of the cluster
  int warp = static_cast<int>(threadIdx.x / 32);
  int lane = static_cast<int>(threadIdx.x % 32);

  // Asks for the context's positions of units first .. end - 1 from `from` up to `to`, of which those at or past the
  // frontier become zero: what lies there may be NaN, and 0 times that is not 0.
  __device__ __forceinline__ void ask_positions(const MixerUnits& units, int first, int end, int from, int to,
                                                int thread, int threads) const {
    if (units.is_own(end - 1)) --end;
    const DraftCache& cache = arguments.cache;
    const std::int64_t run =
        (static_cast<std::int64_t>(arguments.layer) * arguments.shape.kv_heads + kv_head) * cache.slots * kRowBytes;
    const int piece = thread % kPieces;
    const std::uint32_t keys = ptx::shared_address(memory.positions[0]);
#pragma unroll 1
    for (int row = thread / kPieces; row < (end - first) * kUnit; row += threads / kPieces) {
      const int position = units.begin + first * kUnit + row;
      if (position < from || position >= to) continue;
      const bool real = position < units.frontier;
      const std::int64_t source = run + static_cast<std::int64_t>(real ? position : 0) * kRowBytes + piece * 16;
      const std::uint32_t target = keys + piece_place(row, piece);
      copy_async_or_zeros(target, cache.keys + source, real);
      copy_async_or_zeros(target + sizeof memory.positions[0], cache.values + source, real);
    }
  }

  // Warps 0 and 1: a query head of two tokens; 2 and 3: their keys and values, which it also writes to the cache.
  // What they have before the wait.
  struct Head {
    int pair;
    int planes = 0;  // none of tokens past the block
    const float* source = nullptr;
    float2 gains[2]{{1.0F, 1.0F}, {1.0F, 1.0F}};
    float2 cosines[2]{};  // of a token
    float2 sines[2]{};
  };
  [[nodiscard]] __device__ __forceinline__ Head head(int frontier) const {
    const DrafterShape& shape = arguments.shape;
    Head head;
    head.pair = warp < 2 ? first_token / 2 + rank / 2 : rank;
    const int unit = warp < 2    ? kv_head * kGroup + 2 * (rank % 2) + warp
                     : warp == 2 ? shape.heads + kv_head
                                 : shape.heads + shape.kv_heads + kv_head;
    const int row = unit * kDims + 2 * lane;
    if (2 * head.pair < arguments.tokens) head.planes = arguments.result.plan.planes(row / kUnitRows);
    head.source = arguments.result.data + plane_place(arguments.result.width, row, 2 * head.pair);
    ptx::have_computed(reinterpret_cast<std::int64_t>(head.source));
    ptx::have_computed(head.planes);
    if (warp == 3) return head;
    const float* gains = warp < 2 ? arguments.q_norm : arguments.k_norms + arguments.layer * kDims;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      head.gains[i] = *reinterpret_cast<const float2*>(gains + 64 * i + 2 * lane);
      if (2 * head.pair + i >= arguments.tokens) continue;
      const std::int64_t angle = static_cast<std::int64_t>(frontier + 2 * head.pair + i) * (kDims / 2) + 2 * lane;
      head.cosines[i] = *reinterpret_cast<const float2*>(arguments.rope.cosines + angle);
      head.sines[i] = *reinterpret_cast<const float2*>(arguments.rope.sines + angle);
    }
    return head;
  }
  // Dims 2 lane, 2 lane + 1 and those 64 on, of both tokens: {dim token 0, dim token 1, dim + 1 token 0, dim + 1 token
  // 1}.
  __device__ __forceinline__ void load_head(const Head& head, float4 (&quads)[2]) const {
    const ProductResult& result = arguments.result;
    sum_planes<kPlanesAtOnce>(head.source, kDims, plane_floats(result.plan, result.width), head.planes, quads);
#pragma unroll
    for (float4& quad : quads)
      quad = {quad.x * result.factor, quad.y * result.factor, quad.z * result.factor, quad.w * result.factor};
  }
  // Norm and rotation with the operations of draft_heads; BF16 words to memory.heads.
  __device__ __forceinline__ void finish_head(const Head& head, int frontier, const float4 (&quads)[2]) const {
    float2 low[2]{{quads[0].x, quads[0].z}, {quads[0].y, quads[0].w}};  // of a token
    float2 high[2]{{quads[1].x, quads[1].z}, {quads[1].y, quads[1].w}};
    // Of both tokens together: one after the other their latencies add up.
    float squares[4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      squares[2 * i] = sum_of_squares(low[i].x, low[i].y);
      squares[2 * i + 1] = sum_of_squares(high[i].x, high[i].y);
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
#pragma unroll
      for (float& sum : squares) sum += __shfl_xor_sync(~0U, sum, step);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (warp < 3) {
        const float mean = __fdiv_rn(squares[2 * i] + squares[2 * i + 1], static_cast<float>(kDims));
        const float factor = __fdiv_rn(1.0F, __fsqrt_rn(mean + arguments.shape.eps));
        low[i] = {low[i].x * factor * head.gains[0].x, low[i].y * factor * head.gains[0].y};
        high[i] = {high[i].x * factor * head.gains[1].x, high[i].y * factor * head.gains[1].y};
        const float2 from = low[i];
        const float2 cosine = head.cosines[i];
        const float2 sine = head.sines[i];
        low[i] = {rotated(from.x, high[i].x, cosine.x, sine.x), rotated(from.y, high[i].y, cosine.y, sine.y)};
        high[i] = {rotated(high[i].x, from.x, cosine.x, -sine.x), rotated(high[i].y, from.y, cosine.y, -sine.y)};
      }
      if (warp < 2) {
        const float factor = arguments.query_factor;
        low[i] = {low[i].x * factor, low[i].y * factor};
        high[i] = {high[i].x * factor, high[i].y * factor};
      }
      const int token = 2 * head.pair + i;
      const bool is_real = token < arguments.tokens;
      const std::uint32_t words[2] = {is_real ? narrow_to_bf16(low[i]) : 0U, is_real ? narrow_to_bf16(high[i]) : 0U};
      memory.heads[2 * warp + i][lane] = words[0];
      memory.heads[2 * warp + i][lane + 32] = words[1];
      if (warp < 2 || first_token > 0 || !is_real) continue;
      const DraftCache& cache = arguments.cache;
      const std::int64_t row =
          (static_cast<std::int64_t>(arguments.layer) * arguments.shape.kv_heads + kv_head) * cache.slots + frontier +
          token;
      auto* target = reinterpret_cast<std::uint32_t*>((warp == 2 ? cache.keys : cache.values) + row * kRowBytes);
      target[lane] = words[0];
      target[lane + 32] = words[1];
    }
  }
  // What all warps' heads are, to the thread blocks that need them. own_slot: of the last unit in its thread block.
  __device__ __forceinline__ void send_heads(int own_slot) const {
    const auto thread = static_cast<int>(threadIdx.x);
    const int piece = thread % kPieces;
    const int row = thread / kPieces % 4;
    const auto send_piece = [&](int head_row, const void* target, std::uint32_t place, int peer) {
      const float4 value = reinterpret_cast<const float4*>(memory.heads[head_row])[piece];
      send(peer_address(target, peer) + place, value, peer_address(&memory.heads_came, peer));
    };
    const int query = (rank / 2 * 2 + row % 2) * kGroup + 2 * (rank % 2) + row / 2;
#pragma unroll
    for (int i = 0; i < kCluster / 4; ++i)
      send_piece(row, memory.queries, piece_place(query, piece), thread / 64 + 4 * i);
    if (thread >= 64) return;
    const int position = own_slot * kUnit + 2 * rank + row % 2;
    send_piece(4 + row, memory.positions[row / 2], piece_place(position, piece), kCluster - 1);
  }

  // Of this warp's 16 rows.
  float largest[2] = {-INFINITY, -INFINITY};
  float weight_sums[2] = {0.0F, 0.0F};  // this lane's share
  float sums[kDims / 8][4] = {};

  // Adds the units at `slots`, which stand for positions units.position(first), ..., `count` of them.
  template <class AfterScores>
  __device__ __forceinline__ void add_units(const MixerUnits& units, const DraftSpan& span, int first, int slot,
                                            int count, bool again, const AfterScores& after_scores) {
    const int first_row = warp % 2 * 16;
    const std::uint32_t keys = ptx::shared_address(memory.positions[0]) + slot * kUnitBytes;
    const std::uint32_t values = keys + static_cast<std::uint32_t>(sizeof memory.positions[0]);
    const std::uint32_t queries = ptx::shared_address(memory.queries);
    float scores[kQuarterUnits][2][4] = {};
#pragma unroll
    for (int step = 0; step < kDims / 16; ++step) {
      std::uint32_t a[4];
      ptx::load_four_matrices(queries + piece_place(first_row + lane % 16, 2 * step + lane / 16), a);
#pragma unroll
      for (int unit = 0; unit < kQuarterUnits; ++unit) {  // what is no unit is not seen below
        std::uint32_t b[4];
        ptx::load_four_matrices(
            keys + unit * kUnitBytes + piece_place(lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2), b);
        multiply_add(scores[unit][0], a, b[0], b[1]);
        multiply_add(scores[unit][1], a, b[2], b[3]);
      }
    }
    after_scores();
    float most[2] = {-INFINITY, -INFINITY};
    int first_seen[2];
    int last_seen[2];
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      const int token = first_token + (first_row + lane / 4 + 8 * u) / kGroup;
      first_seen[u] = span.first_seen(token);
      last_seen[u] = span.last_seen(token);
    }
#pragma unroll
    for (int unit = 0; unit < kQuarterUnits; ++unit) {
      const bool is_own = units.is_own(first + unit);
      const int position = units.position(first + unit) + lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int at = position + 8 * n + i % 2;
          const bool seen =
              unit < count && at >= first_seen[i / 2] && at <= last_seen[i / 2] && (is_own || at < units.frontier);
          if (!seen) scores[unit][n][i] = -INFINITY;
          most[i / 2] = fmaxf(most[i / 2], scores[unit][n][i]);
        }
      }
    }
    float references[2];
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      most[u] = fmaxf(most[u], __shfl_xor_sync(~0U, most[u], 1));
      most[u] = fmaxf(most[u], __shfl_xor_sync(~0U, most[u], 2));
      most[u] = fmaxf(most[u], largest[u]);
      references[u] = reference_score(most[u]);
      if (again) {
        const float keep = exp2f(largest[u] - references[u]);
        weight_sums[u] *= keep;
#pragma unroll
        for (auto& four : sums) four[2 * u] *= keep, four[2 * u + 1] *= keep;
      }
      largest[u] = most[u];
    }
#pragma unroll
    for (int unit = 0; unit < kQuarterUnits; ++unit) {
      if (unit >= count) break;
      std::uint32_t weights[4];
      weigh(scores[unit][0], scores[unit][1], references, weights, weight_sums);
#pragma unroll
      for (int pair = 0; pair < kDims / 16; ++pair) {
        std::uint32_t b[4];
        load_transposed(values + unit * kUnitBytes + piece_place(lane / 8 % 2 * 8 + lane % 8, 2 * pair + lane / 16), b);
        multiply_add(sums[2 * pair], weights, b[0], b[1]);
        multiply_add(sums[2 * pair + 1], weights, b[2], b[3]);
      }
    }
  }

  // The four quarters' sums of a row together, to the thread block that has its token.
  __device__ __forceinline__ void store_sums() const {
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      float weight_sum = weight_sums[u];
      weight_sum += __shfl_xor_sync(~0U, weight_sum, 1);
      weight_sum += __shfl_xor_sync(~0U, weight_sum, 2);
      const int row = warp % 2 * 16 + lane / 4 + 8 * u;
      if (lane % 4 == 0) memory.ends[warp / 2][row] = {largest[u], weight_sum};
      float* target = memory.sums[warp / 2][row] + lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < kDims / 8; ++n)
        *reinterpret_cast<float2*>(target + 8 * n) = {sums[n][2 * u], sums[n][2 * u + 1]};
    }
  }
  __device__ __forceinline__ void send_sums() const {
#pragma unroll
    for (int i = 0; i < kRows / kWarps; ++i) {
      const int row = i * kWarps + warp;
      float most = -INFINITY;
      float2 ends[kQuarters];
#pragma unroll
      for (int quarter = 0; quarter < kQuarters; ++quarter) {
        ends[quarter] = memory.ends[quarter][row];
        most = fmaxf(most, ends[quarter].x);
      }
      const float reference = reference_score(most);
      float4 sum{0.0F, 0.0F, 0.0F, 0.0F};
      float weight_sum = 0.0F;
#pragma unroll
      for (int quarter = 0; quarter < kQuarters; ++quarter) {
        const float weight = exp2f(ends[quarter].x - reference);
        const float4 part = *reinterpret_cast<const float4*>(memory.sums[quarter][row] + 4 * lane);
        weight_sum = __fmaf_rn(weight, ends[quarter].y, weight_sum);
        sum = {__fmaf_rn(weight, part.x, sum.x), __fmaf_rn(weight, part.y, sum.y), __fmaf_rn(weight, part.z, sum.z),
               __fmaf_rn(weight, part.w, sum.w)};
      }
      const int peer = row / kGroup;
      const std::uint32_t barrier = peer_address(&memory.parts_came, peer);
      send(peer_address(memory.part_sums[rank][row % kGroup] + 4 * lane, peer), sum, barrier);
      if (lane == 0) send(peer_address(&memory.part_ends[rank][row % kGroup], peer), float2{most, weight_sum}, barrier);
    }
  }
  // A warp has 64 columns of the thread block's token.
  __device__ __forceinline__ void merge(const Operand& out) const {
    const int head = warp / 2;
    const float2 end = memory.part_ends[lane % kCluster][head];
    float most = end.x;
#pragma unroll
    for (int step = kCluster / 2; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0U, most, step));
    const float weight = exp2f(end.x - reference_score(most));
    float2 mixed{0.0F, 0.0F};
    float weight_sum = 0.0F;
#pragma unroll
    for (int part = 0; part < kCluster; ++part) {
      const float of_part = __shfl_sync(~0U, weight, part);
      const float2 sum = *reinterpret_cast<const float2*>(memory.part_sums[part][head] + warp % 2 * 64 + 2 * lane);
      weight_sum = __fmaf_rn(of_part, __shfl_sync(~0U, end.y, part), weight_sum);
      mixed = {__fmaf_rn(of_part, sum.x, mixed.x), __fmaf_rn(of_part, sum.y, mixed.y)};
    }
    const int token = first_token + rank;
    mixed = token < arguments.tokens ? float2{mixed.x / weight_sum, mixed.y / weight_sum} : float2{0.0F, 0.0F};
    store_group(out, kv_head * kWarps + warp, token, mixed);
  }
};

__device__ __forceinline__ void have_quads(const float4 (&quads)[2]) {
  ptx::have_computed(static_cast<std::int64_t>(__float_as_uint(quads[0].x)) << 32 | __float_as_uint(quads[1].w));
}

__global__ void __launch_bounds__(kThreads, 2)
    draft_mixer_kernel(const __grid_constant__ DraftHeadsArguments arguments,
                       const __grid_constant__ DraftLayerMask mask, const __grid_constant__ Operand out) {
  extern __shared__ __align__(128) std::byte shared[];
  auto& memory = *reinterpret_cast<MixerMemory*>(shared);
  const int cluster = static_cast<int>(blockIdx.x) / kCluster;
  Mixer mixer{.arguments = arguments,
              .memory = memory,
              .rank = static_cast<int>(blockIdx.x) % kCluster,
              .kv_head = cluster % arguments.shape.kv_heads,
              .first_token = cluster / arguments.shape.kv_heads * kTokens};
  const bool has_own = mixer.rank + 1 == kCluster;
  if (threadIdx.x == 0) {
    make_barrier(memory.heads_came);
    make_barrier(memory.parts_came);
    expect_from_peer(memory.heads_came, kRows * kRowBytes + (has_own ? 2 * kUnitBytes : 0));
    expect_from_peer(memory.parts_came, kCluster * kPartBytes);
  }
  cluster_arrive();
  const DraftControl& control = *arguments.control;
  const DraftSpan span{.frontier = control.frontier,
                       .block = arguments.tokens,
                       .window = static_cast<int>(mask.window),
                       .causal = mask.causal};
  const MixerUnits units(span);
  const int first = units.first_of(mixer.rank);
  int end = units.first_of(mixer.rank + 1);
  int begin = max(first, end - kMostUnits);
  // What earlier drafts wrote may be asked for before this one's kernels end.
  const int settled = control.features > 0 ? control.first_feature : control.frontier;
  const auto thread = static_cast<int>(threadIdx.x);
  mixer.ask_positions(units, begin, end, 0, settled, thread, kThreads);
  const Mixer::Head head = mixer.warp < 4 ? mixer.head(units.frontier) : Mixer::Head{};
  const int own_slot = units.count - 1 - max(units.first_of(kCluster - 1), units.count - kMostUnits);
  cluster_wait();
  ptx::wait_for_preceding_grid();

  if (mixer.warp < 4) {
    float4 quads[2];
    mixer.load_head(head, quads);
    // Not before: the next product's first ring of weights would be in the way of these planes.
    have_quads(quads);
    ptx::launch_dependents();
    mixer.finish_head(head, units.frontier, quads);
  } else {
    mixer.ask_positions(units, begin, end, settled, INT32_MAX, thread - 128, 128);
  }
  __syncthreads();
  mixer.send_heads(own_slot);
  wait_for_all_copies();
  wait_for_peer(memory.heads_came, 0);
  __syncthreads();
#pragma unroll 1
  for (bool again = false;; again = true) {
    const int count = end - begin;
    const int quarter = mixer.warp / 2;
    const int slot = quarter * count / kQuarters;
    mixer.add_units(units, span, begin + slot, slot, (quarter + 1) * count / kQuarters - slot, again, [&] {
      // Sums come to where the queries are when all have read these.
      if (begin == first) cluster_arrive();
    });
    __syncthreads();
    if (begin == first) break;
    end = begin;
    begin = max(first, end - kMostUnits);
    mixer.ask_positions(units, begin, end, 0, INT32_MAX, thread, kThreads);
    wait_for_all_copies();
    __syncthreads();
  }
  mixer.store_sums();
  __syncthreads();
  cluster_wait();
  mixer.send_sums();
  wait_for_peer(memory.parts_came, 0);
  mixer.merge(out);
}

}  // namespace

bool takes_draft_mixer(const DrafterShape& shape, CacheFormat format, int block, std::int64_t positions) {
  return shape.head_dim == kDims && shape.heads_a_kv_head() == kGroup && format == CacheFormat::kBF16 &&
         block <= kMostTokens && positions <= kMostMixerPositions;
}

void launch_draft_mixer(const DraftHeadsArguments& arguments, const DraftLayerMask& mask, const Operand& out,
                        const CudaLaunch& launch) {
  const DrafterShape& shape = arguments.shape;
  if (!takes_draft_mixer(shape, arguments.cache.format, arguments.tokens, 0) || mask.window > INT32_MAX / 2)
    throw internal_error("a draft's attention in clusters of another shape");
  if (!arguments.result.planes || arguments.result.rows != (shape.heads + 2 * shape.kv_heads) * kDims)
    throw internal_error("a draft's heads are not its product's rows");
  const int parts = (arguments.tokens + kTokens - 1) / kTokens;
  launch_kernel("draft_mixer", draft_mixer_kernel,
                {.blocks = parts * shape.kv_heads * kCluster,
                 .threads = kThreads,
                 .shared_bytes = static_cast<int>(sizeof(MixerMemory)),
                 .cluster = kCluster},
                launch, arguments, mask, out);
}

}  // namespace tare::engine

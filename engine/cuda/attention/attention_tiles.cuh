// Attention on tensor cores, head dimension 256. A thread block has one key-value head, one group of query columns
// (column = token and query head) and a run of positions: a part in a round, everything up to the group's last token in
// prefill. The cache is operand A of both products, straight from its tiled order (attention_layout.h), so columns come
// in eights: the 6 query heads of one token cost 8.
//
//   a tile of 64 positions:
//     S[64 x columns] = K Q        warp w: positions 16 (w % 4) .. + 15, the first or second half of the column tiles
//     largest score a column       over the warp by shuffles, over the four warps by shared memory
//     P = 2^(S - largest)          to shared memory as operand B
//     O[256 x columns] = keep O + V P      warp w: dims 32 w .. 32 w + 31, in registers
//
// K and V arrive as units of 16 KiB in a ring of bulk copies, in the order of use. Two __syncthreads a tile (after the
// largest scores, after P) also say which units are free, so the ring needs no barriers of its own for that.
//
// All numbers are FP16 in the products: E4M3 widens exactly, BF16 exactly from 2^-17 to 65504; of INT8 and NVFP4
// attention_block_operands.cuh says it.
//
// All column counts do the same operations in the same order for a column, and so does a tile that a column does not
// see (weights 0, largest score unchanged): a token's bits do not depend on the tokens beside it. In a round a column
// sees the slots of its ancestors beyond the frontier; where those are not the first ones, the numbers are a chain's in
// other places of the sums.
#pragma once

#include "engine/cuda/attention/attention_block_operands.cuh"
#include "engine/cuda/attention/attention_device.cuh"
#include "engine/cuda/attention/attention_mma.cuh"
#include "engine/cuda/attention/attention_tiles_shape.cuh"
#include "engine/cuda/product/operand.cuh"

namespace tare::engine {

template <class Shape>
class TilesBlock {
 public:
  __device__ __forceinline__ TilesBlock(const AttentionTilesArguments& arguments, std::byte* shared, int group,
                                        int kv_head)
      : arguments_(arguments),
        shared_(shared),
        kv_head_(kv_head),
        heads_a_kv_head_(arguments.heads / arguments.kv_heads),
        first_token_(group * arguments.columns.tokens_a_group),
        tokens_(min(arguments.columns.tokens_a_group, arguments.positions.tokens - first_token_)) {
    const std::uint32_t base = ptx::shared_address(shared);
    ring_.ring = base;
    weights_ = base + Shape::kRingBytes;
    queries_ = weights_ + Shape::kWeightBytes;
    places_ = reinterpret_cast<ColumnPlace*>(shared + Shape::kRingBytes + Shape::kWeightBytes + Shape::kQueryBytes);
    largest_ = reinterpret_cast<float*>(places_ + Shape::kColumns);
    keep_ = largest_ + kPositionGroups * Shape::kColumns;
    ring_.barriers = ptx::shared_address(keep_ + Shape::kColumns);
    query_barrier_ = ring_.barriers + 8 * kMostUnits;
    const std::int64_t run = arguments.slots * kTensorHeadDim;
    keys_ = arguments.keys + kv_head * run * element_bytes(Shape::kKey);
    values_ = arguments.values + kv_head * run * element_bytes(Shape::kValue);
    if constexpr (has_scales(Shape::kKey) || has_scales(Shape::kValue)) {
      keys_ = arguments.keys + kv_head * arguments.slots * cache_row_bytes(Shape::kKey, kTensorHeadDim);
      values_ = arguments.values + kv_head * arguments.slots * cache_row_bytes(Shape::kValue, kTensorHeadDim);
    }
    query_source_ =
        arguments.queries + static_cast<std::int64_t>(kv_head * arguments.columns.groups + group) * Shape::kQueryBytes;
    if (threadIdx.x == 0) {
      for (int i = 0; i <= kMostUnits; ++i) ptx::barrier_init(ring_.barriers + static_cast<std::uint32_t>(8 * i), 1);
      ptx::fence_barrier_init();
    }
  }

  __device__ __forceinline__ void set_frontier(int frontier) { frontier_ = frontier; }
  // The columns' places, once the frontier is known: before the wait for the preceding grid. By the last threads, as
  // the first one asks for the cache meanwhile.
  __device__ __forceinline__ void find_places() {
    const int column = kTilesThreads - 1 - static_cast<int>(threadIdx.x);
    static_assert(Shape::kColumns <= kTilesThreads - 32);
    if (column < Shape::kColumns) {
      const int of_group = column / heads_a_kv_head_;
      const int token = min(of_group, tokens_ - 1);
      const int position = first_position() + token;
      ColumnPlace place;
      if constexpr (Shape::kRound) {
        place.seen = arguments_.positions.control->ancestors[first_token_ + token];
        place.position = of_group < tokens_ ? position : -1;
        place.part_size = part_positions(arguments_.kv_heads, position);
        place.row = (first_token_ + token) * arguments_.heads + kv_head_ * heads_a_kv_head_ + column % heads_a_kv_head_;
      } else {
        place.seen = static_cast<std::uint32_t>(position);
      }
      places_[column] = place;
    }
  }
  [[nodiscard]] __device__ __forceinline__ int first_position() const { return frontier_ + first_token_; }
  [[nodiscard]] __device__ __forceinline__ int last_position() const { return first_position() + tokens_ - 1; }

  // Begins the run of positions begin .. end - 1 (begin a multiple of 64). Thread 0 asks for the units whose positions
  // all lie below `written`.
  __device__ __forceinline__ void begin_run(int begin, int end, int written) {
    begin_ = begin;
    end_ = end;
    tiles_ = (end - begin + kTilePositions - 1) / kTilePositions;
    ring_.keys = keys_ + static_cast<std::int64_t>(begin) * cache_row_bytes(Shape::kKey, kTensorHeadDim);
    ring_.values = values_ + static_cast<std::int64_t>(begin) * cache_row_bytes(Shape::kValue, kTensorHeadDim);
    ring_.issued = 0;
    const int complete = max(0, min(written, end) - begin) / kTilePositions;
    if (threadIdx.x == 0) ring_.issue_below(min(complete * Shape::kTileUnits, Shape::kUnits));
  }
  __device__ __forceinline__ void load_queries() const {
    if (threadIdx.x != 0) return;
    ptx::barrier_arrive_expect(query_barrier_, Shape::kQueryBytes);
    ptx::bulk_copy(queries_, query_source_, Shape::kQueryBytes, query_barrier_);
  }

  // Sums the run: O, largest scores and weight sums stay in registers.
  __device__ __forceinline__ void run() {
    const int units = tiles_ * Shape::kTileUnits;
    if (threadIdx.x == 0) ring_.issue_below(min(units, Shape::kUnits));
#pragma unroll
    for (int n = 0; n < Shape::kColumnTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums_[0][n][i] = sums_[1][n][i] = 0.0F;
    }
#pragma unroll
    for (int n = 0; n < Shape::kHalfTiles; ++n) {
      most_[n] = {-INFINITY, -INFINITY};
      weight_sums_[n] = {0.0F, 0.0F};
    }
    ptx::barrier_wait(query_barrier_, 0);
    for (int tile = 0; tile < tiles_; ++tile) {
      const int unit = tile * Shape::kTileUnits;
      float scores[Shape::kHalfTiles][4];
      score(tile, unit, scores);
      __syncthreads();
      // The keys of this tile and the values of the one before are done with.
      if (threadIdx.x == 0) ring_.issue_below(min(units, unit + Shape::kKeyUnits + Shape::kUnits));
      // Most tiles of a long context change no largest score: keep is 1 everywhere.
      const bool rescale = __syncthreads_or(weigh(scores) ? 1 : 0) != 0;
      if (rescale) keep_sums();
      add_values(tile, unit + Shape::kKeyUnits);
    }
    ring_.base += units;
  }

  // Leaves the run's sums in shared memory, [column][kStagedRow], and largest scores and weight sums of each column.
  __device__ __forceinline__ void stage() {
#pragma unroll
    for (int n = 0; n < Shape::kHalfTiles; ++n) {
#pragma unroll
      for (int step = 4; step < 32; step *= 2) {
        weight_sums_[n].x += __shfl_xor_sync(~0U, weight_sums_[n].x, step);
        weight_sums_[n].y += __shfl_xor_sync(~0U, weight_sums_[n].y, step);
      }
    }
    __syncthreads();  // all values are read, keep_ and largest_ too
#pragma unroll
    for (int n = 0; n < Shape::kHalfTiles; ++n) {
      if (!has_tiles() || g() != 0) break;
      const int column = 8 * (first_tile() + n) + 2 * p();
      *reinterpret_cast<float2*>(largest_ + position_group() * Shape::kColumns + column) = weight_sums_[n];
      if (position_group() == 0) *reinterpret_cast<float2*>(keep_ + column) = most_[n];
    }
    auto* staged = reinterpret_cast<float*>(shared_);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
#pragma unroll
      for (int n = 0; n < Shape::kColumnTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int column = 8 * n + 2 * p() + i % 2;
          staged[column * kStagedRow + kWarpDims * warp() + 16 * j + 8 * (i / 2) + g()] = sums_[j][n][i];
        }
      }
    }
    __syncthreads();
  }

  // The staged sums of part `part` for the tokens whose parts are `size` long and that see it.
  __device__ __forceinline__ void store_part(int part, int size) const {
    static_assert(Shape::kColumns <= kTilesThreads);
    const auto* staged = reinterpret_cast<const float*>(shared_);
    const std::int64_t first = static_cast<std::int64_t>(part) * arguments_.positions.tokens * arguments_.heads;
    const auto has_part = [&](const ColumnPlace& place) { return place.part_size == size && place.position >= begin_; };
    float* const sums = arguments_.parts.sums + first * kTensorHeadDim + 4 * lane();
#pragma unroll 1
    for (int column = warp(); column < Shape::kColumns; column += kTilesWarps) {
      const ColumnPlace place = places_[column];
      if (!has_part(place)) continue;
      auto* target = reinterpret_cast<float4*>(sums + static_cast<std::int64_t>(place.row) * kTensorHeadDim);
      const auto* source = reinterpret_cast<const float4*>(staged + column * kStagedRow + 4 * lane());
      target[0] = source[0];
      target[32] = source[32];
    }
    const auto column = static_cast<int>(threadIdx.x);
    if (column >= Shape::kColumns || !has_part(places_[column])) return;
    arguments_.parts.ends[first + places_[column].row] = {keep_[column], weight_sum(column)};
  }
  // The staged sums as finished attention of a prefill chunk. Gates are plain rows; many are on their way at once.
  __device__ __forceinline__ void store_rows() const {
    constexpr int kGroups = kTensorHeadDim / kOperandGroup;
    constexpr int kTogether = 8;
    const auto* staged = reinterpret_cast<const float*>(shared_);
    const int items = tokens_ * heads_a_kv_head_ * kGroups;
    const auto place = [&](int item, int& token, int& group) {
      const int column = item / kGroups;
      token = first_token_ + column / heads_a_kv_head_;
      group = (kv_head_ * heads_a_kv_head_ + column % heads_a_kv_head_) * kGroups + item % kGroups;
    };
    for (int first = warp(); first < items; first += kTogether * kTilesWarps) {
      float2 gates[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int item = first + i * kTilesWarps;
        if (item >= items) break;
        int token = 0;
        int group = 0;
        place(item, token, group);
        // Gates follow the queries of their head: 2 head + 1.
        const int row = (group + group / kGroups * kGroups + kGroups) * kOperandGroup + 2 * lane();
        gates[i] = *reinterpret_cast<const float2*>(arguments_.qkv.data +
                                                    static_cast<std::int64_t>(token) * arguments_.qkv.rows + row);
      }
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int item = first + i * kTilesWarps;
        if (item >= items) break;
        int token = 0;
        int group = 0;
        place(item, token, group);
        const int column = item / kGroups;
        const float factor = 1.0F / weight_sum(column);
        const float2 sums = *reinterpret_cast<const float2*>(staged + column * kStagedRow +
                                                             item % kGroups * kOperandGroup + 2 * lane());
        store_group(arguments_.out, group, token,
                    {sums.x * factor * sigmoid(gates[i].x * arguments_.qkv.factor),
                     sums.y * factor * sigmoid(gates[i].y * arguments_.qkv.factor)});
      }
    }
  }
  // Before another run: the staged sums are read, the ring is free for copies.
  __device__ __forceinline__ void end_run() const {
    fence_before_copies();
    __syncthreads();
  }

 private:
  [[nodiscard]] static __device__ __forceinline__ int warp() {
    return static_cast<int>(threadIdx.x) / 32;
  }
  [[nodiscard]] static __device__ __forceinline__ int lane() {
    return static_cast<int>(threadIdx.x) % 32;
  }
  [[nodiscard]] static __device__ __forceinline__ int g() {
    return lane() / 4;
  }
  [[nodiscard]] static __device__ __forceinline__ int p() {
    return lane() % 4;
  }
  [[nodiscard]] static __device__ __forceinline__ int position_group() {
    return warp() % kPositionGroups;
  }
  [[nodiscard]] static __device__ __forceinline__ int first_tile() {
    return warp() / kPositionGroups * Shape::kHalfTiles;
  }
  // Whether a column sees a slot.
  [[nodiscard]] __device__ __forceinline__ bool sees(std::uint32_t seen, int slot) const {
    if constexpr (!Shape::kRound) return slot <= static_cast<int>(seen);
    const int node = slot - frontier_;
    return node < 0 || (node < kMostRoundTokens && (seen >> node & 1U) != 0);
  }
  // With one column tile the second half of the warps has none.
  [[nodiscard]] static __device__ __forceinline__ bool has_tiles() {
    return Shape::kColumnTiles > 1 || warp() < kPositionGroups;
  }
  [[nodiscard]] static __device__ __forceinline__ std::uint32_t lane_bytes() {
    return static_cast<std::uint32_t>(16 * lane());
  }
  static __device__ __forceinline__ float sum_of_groups(const float* sums, int stride) {
    return ((sums[0] + sums[stride]) + sums[2 * stride]) + sums[3 * stride];
  }
  [[nodiscard]] __device__ __forceinline__ float weight_sum(int column) const {
    return sum_of_groups(largest_ + column, Shape::kColumns);
  }

  // Adds the scores of the warp's 16 positions to two sums.
  __device__ __forceinline__ void multiply_numbers(int unit, float (&chains)[2][Shape::kHalfTiles][4]) {
    using Operands = CachedOperands<Shape::kKey>;
    constexpr int kGroupBytes = 16 * kTensorHeadDim * element_bytes(Shape::kKey);
    constexpr int kGroupsAUnit = kPositionGroups / Shape::kKeyUnits;
    const int key_unit = unit + position_group() / kGroupsAUnit;
    ring_.wait(key_unit);
    const std::uint32_t keys =
        ring_.unit(key_unit) + lane_bytes() + static_cast<std::uint32_t>(position_group() % kGroupsAUnit * kGroupBytes);
    const std::uint32_t queries =
        queries_ + lane_bytes() + static_cast<std::uint32_t>(first_tile() * kColumnTileElements * 2);
#pragma unroll(Shape::kColumnTiles > 2 ? 2 : 8)
    for (int pair = 0; pair < kTensorHeadDim / 32; ++pair) {
      Operands operands;
#pragma unroll
      for (int i = 0; i < Operands::kPieces; ++i) {
        operands.words[i] =
            ptx::load_shared_16(keys + static_cast<std::uint32_t>((pair * Operands::kPieces + i) * kCachePieceBytes));
      }
      uint4 b[Shape::kHalfTiles];
#pragma unroll
      for (int n = 0; n < Shape::kHalfTiles; ++n) {
        b[n] = ptx::load_shared_16(queries +
                                   static_cast<std::uint32_t>(n * kColumnTileElements * 2 + pair * kCachePieceBytes));
      }
      std::uint32_t a[2][4];
      operands.widen(a);
#pragma unroll
      for (int n = 0; n < Shape::kHalfTiles; ++n) {
        multiply_add(chains[0][n], a[0], b[n].x, b[n].y);
        multiply_add(chains[1][n], a[1], b[n].z, b[n].w);
      }
    }
  }
  // The same from a unit with scales.
  __device__ __forceinline__ void multiply_blocks(int unit, float (&chains)[2][Shape::kHalfTiles][4]) {
    constexpr CacheFormat kKey = Shape::kKey;
    constexpr int kCodes = row_code_bytes(kKey, kTensorHeadDim);
    constexpr int kScales = row_scales(kKey, kTensorHeadDim) * scale_bytes(kKey);
    constexpr int kLaneBytes = kKey == CacheFormat::kInt8 ? 16 : 8;
    const int first = 16 * position_group();
    ring_.wait(unit);
    const std::uint32_t codes = ring_.unit(unit) + static_cast<std::uint32_t>(first * kCodes + kLaneBytes * lane());
    const std::uint32_t scales =
        ring_.unit(unit) + static_cast<std::uint32_t>(kTilePositions * kCodes + (first + g()) * kScales);
    const std::uint32_t queries =
        queries_ + lane_bytes() + static_cast<std::uint32_t>(first_tile() * kColumnTileElements * 2);
    multiply_keys<kKey>(codes, scales, queries, chains);
  }
  // Scores of the warp's 16 positions, masked, and the largest of each column to shared memory.
  __device__ __forceinline__ void score(int tile, int unit, float (&scores)[Shape::kHalfTiles][4]) {
    if (!has_tiles()) return;
    float chains[2][Shape::kHalfTiles][4] = {};
    if constexpr (has_scales(Shape::kKey)) {
      multiply_blocks(unit, chains);
    } else {
      multiply_numbers(unit, chains);
    }
    const int first = begin_ + tile * kTilePositions;
    const bool masked = first + kTilePositions - 1 > (Shape::kRound ? frontier_ : first_position());
    float2 most[Shape::kHalfTiles];
#pragma unroll
    for (int n = 0; n < Shape::kHalfTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[n][i] = chains[0][n][i] + chains[1][n][i];
      if (masked) {
        const int column = 8 * (first_tile() + n) + 2 * p();
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (!sees(places_[column + i % 2].seen, first + 16 * position_group() + 8 * (i / 2) + g())) {
            scores[n][i] = -INFINITY;
          }
        }
      }
      most[n] = {fmaxf(scores[n][0], scores[n][2]), fmaxf(scores[n][1], scores[n][3])};
    }
    // Step by step over all column tiles: the shuffles of one step do not wait for each other.
#pragma unroll
    for (int step = 4; step < 32; step *= 2) {
#pragma unroll
      for (int n = 0; n < Shape::kHalfTiles; ++n) {
        most[n].x = fmaxf(most[n].x, __shfl_xor_sync(~0U, most[n].x, step));
        most[n].y = fmaxf(most[n].y, __shfl_xor_sync(~0U, most[n].y, step));
      }
    }
    if (g() == 0) {
      float* target = largest_ + position_group() * Shape::kColumns + 8 * first_tile() + 2 * p();
#pragma unroll
      for (int n = 0; n < Shape::kHalfTiles; ++n) *reinterpret_cast<float2*>(target + 8 * n) = most[n];
    }
  }

  // True when a largest score of this thread's has changed. Scores become weights, in shared memory as operand B:
  // [column tile][pair of steps][lane][step][2 words].
  __device__ __forceinline__ bool weigh(const float (&scores)[Shape::kHalfTiles][4]) {
    if (!has_tiles()) return false;
    bool changed = false;
    const float* source = largest_ + 8 * first_tile() + 2 * p();
    float2 most[Shape::kHalfTiles][kPositionGroups];
#pragma unroll
    for (int n = 0; n < Shape::kHalfTiles; ++n) {
#pragma unroll
      for (int group = 0; group < kPositionGroups; ++group) {
        most[n][group] = *reinterpret_cast<const float2*>(source + group * Shape::kColumns + 8 * n);
      }
    }
    float2 keep[Shape::kHalfTiles];
    uint2 weights[Shape::kHalfTiles];
#pragma unroll
    for (int n = 0; n < Shape::kHalfTiles; ++n) {
      const float2 before = most_[n];
#pragma unroll
      for (int group = 0; group < kPositionGroups; ++group) {
        most_[n] = {fmaxf(most_[n].x, most[n][group].x), fmaxf(most_[n].y, most[n][group].y)};
      }
      changed = changed || most_[n].x != before.x || most_[n].y != before.y;
      const float2 reference{reference_score(most_[n].x), reference_score(most_[n].y)};
      keep[n] = {power_of_two(before.x - reference.x), power_of_two(before.y - reference.y)};
      const float2 first{power_of_two(scores[n][0] - reference.x + kWeightExponent),
                         power_of_two(scores[n][1] - reference.y + kWeightExponent)};
      const float2 second{power_of_two(scores[n][2] - reference.x + kWeightExponent),
                          power_of_two(scores[n][3] - reference.y + kWeightExponent)};
      weight_sums_[n].x = weight_sums_[n].x * keep[n].x + (first.x + second.x);
      weight_sums_[n].y = weight_sums_[n].y * keep[n].y + (first.y + second.y);
      weights[n] = {transpose_matrix(narrow(first.x, first.y)), transpose_matrix(narrow(second.x, second.y))};
    }
    std::byte* target = shared_ + Shape::kRingBytes + (first_tile() * 2 + position_group() / 2) * kCachePieceBytes +
                        16 * lane() + 8 * (position_group() % 2);
#pragma unroll
    for (int n = 0; n < Shape::kHalfTiles; ++n) {
      *reinterpret_cast<uint2*>(target + n * 2 * kCachePieceBytes) = weights[n];
    }
    if (position_group() == 0 && g() == 0) {
#pragma unroll
      for (int n = 0; n < Shape::kHalfTiles; ++n) {
        *reinterpret_cast<float2*>(keep_ + 8 * (first_tile() + n) + 2 * p()) = keep[n];
      }
    }
    return changed;
  }

  __device__ __forceinline__ void keep_sums() {
#pragma unroll
    for (int n = 0; n < Shape::kColumnTiles; ++n) {
      const float2 keep = *reinterpret_cast<const float2*>(keep_ + 8 * n + 2 * p());
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        sums_[j][n][0] *= keep.x;
        sums_[j][n][1] *= keep.y;
        sums_[j][n][2] *= keep.x;
        sums_[j][n][3] *= keep.y;
      }
    }
  }
  __device__ __forceinline__ void add_values(int tile, int unit) {
    const int valid = end_ - (begin_ + tile * kTilePositions);
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {  // of steps: 32 positions
      const int value_unit = unit + pair * Shape::kValueUnits / 2;
      ring_.wait(value_unit);
      // A unit is [dim / 16][two pieces]; the warp's are dims / 16 = 2 warp, 2 warp + 1.
      const std::uint32_t values =
          ring_.unit(value_unit) + lane_bytes() + static_cast<std::uint32_t>(4 * warp() * kCachePieceBytes);
      std::uint32_t a[2][2][4];  // [dims 0..15, 16..31][step]
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        if constexpr (has_scales(Shape::kValue)) {
          load_values<Shape::kValue>(ring_.unit(value_unit), 2 * warp() + j, pair, valid - 32 * pair, a[j]);
        } else {
          using Operands = CachedOperands<Shape::kValue>;
          Operands operands;
#pragma unroll
          for (int i = 0; i < Operands::kPieces; ++i) {
            const int piece = Operands::kPieces == 2 ? 2 * j + i : 2 * j + pair;
            operands.words[i] = ptx::load_shared_16(values + static_cast<std::uint32_t>(piece * kCachePieceBytes));
          }
          if (valid < kTilePositions) operands.keep_below(valid - 32 * pair, p());
          operands.widen(a[j]);
        }
      }
      const std::uint32_t weights = weights_ + lane_bytes() + static_cast<std::uint32_t>(pair * kCachePieceBytes);
#pragma unroll
      for (int n = 0; n < Shape::kColumnTiles; ++n) {
        const uint4 b = ptx::load_shared_16(weights + static_cast<std::uint32_t>(n * 2 * kCachePieceBytes));
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          multiply_add(sums_[j][n], a[j][0], b.x, b.y);
          multiply_add(sums_[j][n], a[j][1], b.z, b.w);
        }
      }
    }
  }

  // Weights are 2^15 times 2^(score - largest): FP16 then reaches down to 2^-39 of the largest weight. The factor
  // cancels against the weight sum, and parts carry it alike.
  static constexpr float kWeightExponent = 15;

  const AttentionTilesArguments& arguments_;
  std::byte* shared_;
  int kv_head_;
  int heads_a_kv_head_;
  int first_token_;
  int tokens_;
  int frontier_ = 0;
  int begin_ = 0;
  int end_ = 0;
  int tiles_ = 0;
  UnitRing<Shape> ring_;
  std::uint32_t weights_ = 0;
  std::uint32_t queries_ = 0;
  std::uint32_t query_barrier_ = 0;
  float* largest_ = nullptr;
  float* keep_ = nullptr;
  ColumnPlace* places_ = nullptr;
  const std::byte* keys_ = nullptr;
  const std::byte* values_ = nullptr;
  const std::byte* query_source_ = nullptr;
  float sums_[2][Shape::kColumnTiles][4];  // O: [dims 0..15, 16..31 of the warp][column tile]
  float2 most_[Shape::kHalfTiles];         // largest score so far of columns 2 p, 2 p + 1
  float2 weight_sums_[Shape::kHalfTiles];  // this lane's share
};

}  // namespace tare::engine

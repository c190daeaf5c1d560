// The kernel of the weight products, for any format policy (q4_format.cuh is the first): weights stream through a ring
// of bulk copies in shared memory, become operand A in registers, meet the activations in mma.sync, and leave partial
// sums in planes (tile_plan.h).
//
//   thread block = eight warps. Warp w has 16 rows of two of the four tiles of every unit.
//   stage        = a unit, at N = 8 a pair where that is small, of one row block, and its operand blocks.
//                  full: 1 arrival and the bytes of the copies; empty: 1 arrival a warp
//
// There is no producer warp: the warps take turns, and in stage i one asks for what goes where stage i - 1 was. Without
// it two blocks leave the registers that their neighbours need. Where weights go first (weights_go_first), their places
// are filled again as soon as all warps have them in registers, while the products of their stage run.
//
// A block asks for its first ring of weights, or part of it, before it waits for the preceding grid; weights are never
// written while a round runs. Operand blocks come after the wait. Started before the preceding products end, a block
// thus fills its ring while they compute, and DRAM stays busy across the boundary.
//
// With two to four warps a scheduler it is latency that costs: four chains of matrix instructions are on their way (two
// tiles of both units of a pair at N = 8, of one unit by two groups of tokens at N = 16), and the next stage's codes
// are loaded while the last of them run.
#pragma once

#include <cuda_runtime.h>

#include <cuda/annotated_ptr>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/product/product_activation.cuh"
#include "engine/cuda/product/product_fragments.cuh"
#include "engine/cuda/product/product_side.cuh"
#include "engine/cuda/product/product_stream.h"
#include "engine/cuda/product/ring_hand_over.cuh"
#include "engine/cuda/product/row_scales.cuh"

namespace tare::engine {

constexpr int kStreamWarps = 8;
constexpr int kStreamThreads = 32 * kStreamWarps;
constexpr int kWarpTiles = kTilesAUnit * 4 / kStreamWarps;  // four warps make a tile's 64 rows
constexpr int kStreamRegisters = 96;                        // two blocks leave 4,096 a scheduler to their neighbours
constexpr int kBarrierBytes = 16;                           // of a stage: full and empty
constexpr int kFewStages = 4;

// Shared memory of a block beside its ring.
[[nodiscard]] constexpr int beside_ring_bytes(WeightCodec codec) {
  return has_tensor_scale(codec) ? kRowScaleBytes : 0;
}

// Whether a stage's weights go back to the copy engine when they are in registers, its operand blocks a stage later: a
// stage of weights more is on its way. 3 % of a round of q4 up to eight tokens and of 32, nothing at 16, where the loop
// bears less (docs/method/q4-gemm-hopper.md, point 16); other codecs were not timed.
[[nodiscard]] constexpr bool weights_go_first(WeightCodec codec, int tokens) {
  return codec.format == WeightFormat::kQ4 && !has_tensor_scale(codec) && tokens != 16;
}

// Two blocks run on an SM: one computes, its successor fills its ring.
struct StreamShape {
  int units = 0;  // of a stage
  int stage_bytes = 0;
  int stages = 0;
};
[[nodiscard]] constexpr StreamShape stream_shape(WeightCodec codec, int tokens, bool activates = false) {
  const int beside = beside_ring_bytes(codec) + (activates ? activation_shared_bytes(tokens) : 0);
  StreamShape shape;
  // Up to eight tokens the products of a pair's units are on their way together. Beyond, one unit has as many chains,
  // its sums leave no room for the other's, and stages of half the size begin and end a launch sooner (16 tokens: 4 %
  // of a round).
  for (shape.units = tokens > 8 ? 1 : 2; shape.units > 0; --shape.units) {
    shape.stage_bytes = shape.units * (unit_bytes(codec) + operand_block_bytes(tokens));
    shape.stages = (kStreamSharedBytes - beside) / (shape.stage_bytes + kBarrierBytes);
    if (shape.stages >= kFewStages || shape.units == 1) break;
  }
  return shape;
}

// A stage index that goes round, and the parity of its lap.
template <int kStages>
struct RingPlace {
  int stage = 0;
  std::uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1U;
    }
  }
  [[nodiscard]] __device__ __forceinline__ RingPlace before() const {
    return stage == 0 ? RingPlace{kStages - 1, parity ^ 1U} : RingPlace{stage - 1, parity};
  }
};

// What a thread of the block does.
template <class Format, int kTokens, int kStages, bool kActivates>
class Stream {
 public:
  static constexpr WeightCodec kCodec{Format::kFormat, Format::kScales};
  static constexpr int kUnits = stream_shape(kCodec, kTokens, kActivates).units;
  static constexpr std::uint32_t kUnitBytes = unit_bytes(kCodec);
  static constexpr std::uint32_t kCodeBytes = unit_code_bytes(Format::kFormat);
  static constexpr std::uint32_t kTileBytes = kCodeBytes / kTilesAUnit;
  static constexpr std::uint32_t kBlockBytes = operand_block_bytes(kTokens);
  static constexpr std::uint32_t kStageBytes = kUnits * (kUnitBytes + kBlockBytes);
  static constexpr int kStagesAPair = 2 / kUnits;
  // Of rows g and g + 8 of a tile; BF16 has none and keeps the place of FP16 ones, which costs it nothing.
  static constexpr std::uint32_t kPairScaleBytes = has_scales(Format::kFormat) ? 2 * row_scale_bytes(kCodec) : 4;
  static constexpr bool kBlockScales = row_scales_a_unit(Format::kFormat) > 1;
  static constexpr bool kWeightsFirst = weights_go_first(kCodec, kTokens);

  __device__ __forceinline__ Stream(const StreamArguments& arguments, std::uint32_t shared)
      : arguments_(arguments),
        shared_(shared),
        warp_(__shfl_sync(~0U, threadIdx.x / 32, 0)),  // so that ptxas sees that a warp has one
        tile_thread_(threadIdx.x % kTileThreads),
        tiles_(threadIdx.x / kTileThreads * kWarpTiles * kTileBytes),
        operand_row_(kUnits * kUnitBytes + OperandStep<kTokens>::row(threadIdx.x % 32)),
        group_sum_place_(kUnits * kUnitBytes + GroupSums<kTokens>::place(threadIdx.x % 4)),
        scales_(kCodeBytes + threadIdx.x % kTileThreads / 4 * (kTilesAUnit * kPairScaleBytes) +
                threadIdx.x / kTileThreads * kWarpTiles * kPairScaleBytes),
        row_block_stages_(arguments.plan.pairs_a_row_block * kStagesAPair),
        first_(first_stage(static_cast<int>(blockIdx.x))),
        planes_end_(first_stage(static_cast<int>(blockIdx.x) + 1) - first_),
        count_(planes_end_ + (kActivates ? activated_own_pairs(arguments.plan, rank()) * kStagesAPair : 0)),
        own_place_(kActivates ? activated_own_first(arguments.plan, rank()) * kStagesAPair - planes_end_ : 0),
        own_line_(static_cast<int>(blockIdx.x / kActivatedCluster) * row_block_stages_ + own_place_),
        duty_(!kWeightsFirst && warp_ == 0 ? kStreamWarps : static_cast<int>(warp_)),
        duty_place_(place_in_row_block(duty_ - 1 + kStages)) {
    // Keeps them in registers; else they are made anew in every turn of the loop.
    asm volatile("" : "+r"(shared_), "+r"(tile_thread_), "+r"(tiles_), "+r"(operand_row_), "+r"(scales_));
    asm volatile("" : "+r"(group_sum_place_));
  }

  __device__ __forceinline__ void init_barriers() const {
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        ptx::barrier_init(full(stage), 1);
        ptx::barrier_init(empty(stage), kStreamWarps * kWarpArrivals);
      }
      ptx::fence_barrier_init();
    }
    if constexpr (kActivates) activation().init();
  }

  // The first ring of weights, before the preceding grid ends; after it the operand blocks. The later half of the
  // blocks may ask for a part of its ring behind these (ProductSettings::late_stages). The loops of weights are not
  // unrolled, as ptxas then leaves the loop of products as it is without late stages.
  __device__ __forceinline__ void fill() {
    const int filled = count_ < kStages ? count_ : kStages;
    const bool asks_late = arguments_.late_stages > 0 && 2 * blockIdx.x >= gridDim.x;
    const int early = asks_late ? min(filled, arguments_.late_stages) : filled;
    if (threadIdx.x == 0) {
      int index = 0;
#pragma unroll 1
      for (; index < early; ++index) {
        ptx::barrier_arrive_expect(full(index), kStageBytes);
        ask_weights(index);
      }
#pragma unroll 1
      for (; index < filled; ++index) ptx::barrier_arrive_expect(full(index), kStageBytes);
    }
    int place = place_in_row_block(0);
    const std::byte* const first_block = operand(place);
    // ptxas else divides after the wait, and every block's first product waits for that.
    ptx::have_computed(reinterpret_cast<std::int64_t>(first_block));
    if constexpr (!kActivates) ptx::have_computed(duty_place_);
    ptx::wait_for_preceding_grid();
    if (threadIdx.x == 0) {
      ptx::bulk_copy(stage(0) + kUnits * kUnitBytes, first_block, kUnits * kBlockBytes, full(0));
      for (int index = 1; index < filled; ++index) {
        if (++place == row_block_stages_) place = 0;
        if (kActivates && index == planes_end_) place = own_place_ + planes_end_;
        ptx::bulk_copy(stage(index) + kUnits * kUnitBytes, operand(place), kUnits * kBlockBytes, full(index));
      }
#pragma unroll 1
      for (int index = early; index < filled; ++index) ask_weights(index);
      if (arguments_.trigger_pairs >= 0 && count_ - filled <= arguments_.trigger_pairs * kStagesAPair) {
        ptx::launch_dependents();
      }
    }
  }

  __device__ __forceinline__ void consume() {
    clear_totals();
    ask_row_scales(0);
    ptx::barrier_wait(full(0), 0);
    load_first(stage(0));
    int fragment_end = min(row_block_stages_ - place_in_row_block(0), next_end(0));
    for (int index = 0;; ++index) {
      multiply_stage(index);
      if (index + 1 == fragment_end) {
        // What activates branches by thread: not in this loop, whose registers then would be no longer a warp's.
        if (kActivates && fragment_end == count_) break;
        end_fragment(index);
        if (fragment_end == count_) break;
        clear_totals();
        ask_row_scales(index + 1);
        fragment_end = min(fragment_end + row_block_stages_, next_end(index + 1));
      }
    }
    if constexpr (kActivates) {
      finish_totals();
      activation().store(totals_);
      activation().finish_shared(arguments_);
    }
  }

 private:
  static constexpr int kSteps = 4;
  static constexpr int kChains = kUnits * kWarpTiles;
  static constexpr int kTurns = kSteps * kChains;  // of a stage, a K step of a tile each
  // With kWeightsFirst: before which turn a warp hands weights back (sooner it would wait for the last of its loads),
  // and before which one asks for more (sooner it would wait for the slowest warp).
  static constexpr int kHandOverTurn = kTurns / 4;
  static constexpr int kRefillTurn = kTokens == 8 ? kTurns / 2 : kTurns * 3 / 4;

  [[nodiscard]] __device__ __forceinline__ std::uint32_t stage(int index) const {
    return shared_ + static_cast<std::uint32_t>(index) * kStageBytes;
  }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t full(int index) const {
    return shared_ + kStages * kStageBytes + static_cast<std::uint32_t>(8 * index);
  }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t empty(int index) const {
    return full(index) + 8 * kStages;
  }
  // Of a cluster, when it activates.
  [[nodiscard]] static __device__ __forceinline__ int rank() {
    return static_cast<int>(blockIdx.x % kActivatedCluster);
  }
  [[nodiscard]] static __device__ __forceinline__ int clusters() {
    return static_cast<int>(gridDim.x / kActivatedCluster);
  }
  // Where the run of a thread block that ends in planes begins on the matrix's line: behind the clusters' row blocks.
  [[nodiscard]] __device__ __forceinline__ int first_stage(int block) const {
    const TilePlan& plan = arguments_.plan;
    if constexpr (!kActivates) return plan.first_pair(block) * kStagesAPair;
    return clusters() * row_block_stages_ + (block < plan.grid ? plan.first_pair(block) : plan.pairs()) * kStagesAPair;
  }
  // Of stage `index` of the run.
  [[nodiscard]] __device__ __forceinline__ int on_line(int index) const {
    if (kActivates && index >= planes_end_) return own_line_ + index;
    return first_ + index;
  }
  // What stage `index` of the run holds.
  [[nodiscard]] __device__ __forceinline__ const std::byte* units(int index) const {
    return arguments_.weights + static_cast<std::size_t>(on_line(index)) * (kUnits * kUnitBytes);
  }
  [[nodiscard]] __device__ __forceinline__ int place_in_row_block(int index) const {
    if (kActivates && index >= planes_end_) return own_place_ + index;  // a division less in the loop
    return static_cast<int>(static_cast<unsigned>(on_line(index)) % static_cast<unsigned>(row_block_stages_));
  }
  [[nodiscard]] __device__ __forceinline__ int row_block_of(int index) const {
    return static_cast<int>(static_cast<unsigned>(on_line(index)) / static_cast<unsigned>(row_block_stages_));
  }
  // The end of the part of the run that stage `index` lies in: planes, then a row block of its own.
  [[nodiscard]] __device__ __forceinline__ int next_end(int index) const {
    return kActivates && index < planes_end_ ? planes_end_ : count_;
  }
  [[nodiscard]] __device__ __forceinline__ const std::byte* operand(int place) const {
    return arguments_.operand + static_cast<std::size_t>(place) * (kUnits * kBlockBytes);
  }

  // Of stage `index` of the first ring, by one thread.
  __device__ __forceinline__ void ask_weights(int index) const {
    ptx::bulk_copy(stage(index), units(index), kUnits * kUnitBytes, full(index), ptx::evict_first_policy());
  }

  // In stage `index`, the warp whose turn it is asks for operand blocks that go where those of the stage before lay,
  // and for weights: there too, or, kWeightsFirst, those of one stage more, where this stage's lay.
  __device__ __forceinline__ void refill(int index) {
    if (index != duty_) return;
    const int asked = index - 1 + kStages;
    if (asked < count_) {
      const RingPlace<kStages> before = place_.before();
      const RingPlace<kStages> read = kWeightsFirst ? place_ : before;
      ptx::barrier_wait(empty(read.stage), read.parity);
      __syncwarp();
      if constexpr (kWeightsFirst) {
        const std::uint64_t policy = ptx::evict_first_policy();
        const std::byte* blocks = operand(kActivates ? place_in_row_block(asked) : duty_place_);
        const int left = count_ - 1 - asked;  // stages whose weights are to be asked for, the next one's first
        if (left > 0) {
          ptx::warp_expect_and_copy(stage(read.stage), units(asked + 1), kUnits * kUnitBytes, policy, full(read.stage),
                                    kStageBytes);
        }
        if (index > 0) {
          ptx::warp_bulk_copy(stage(before.stage) + kUnits * kUnitBytes, blocks, kUnits * kBlockBytes,
                              full(before.stage));
        }
        if (left - 1 == arguments_.trigger_pairs * kStagesAPair) ptx::launch_dependents();
      } else {
        const int place = kActivates ? place_in_row_block(asked) : duty_place_;
        ptx::warp_bulk_copies(stage(before.stage), units(asked), kUnits * kUnitBytes, ptx::evict_first_policy(),
                              operand(place), kUnits * kBlockBytes, full(before.stage));
        if (count_ - 1 - asked == arguments_.trigger_pairs * kStagesAPair) ptx::launch_dependents();
      }
    }
    duty_ += kStreamWarps;
    if constexpr (!kActivates) {
      duty_place_ += kStreamWarps;
      while (duty_place_ >= row_block_stages_) duty_place_ -= row_block_stages_;
    }
  }

  // What a stage's products begin with; the rest is loaded while they run.
  __device__ __forceinline__ void load_first(std::uint32_t stage_address) {
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) {
      const std::uint32_t tiles = stage_address + unit * kUnitBytes + tiles_;
#pragma unroll
      for (int tile = 0; tile < kWarpTiles; ++tile) {
        codes_[unit][tile] = Format::load(tiles + tile * kTileBytes, static_cast<int>(tile_thread_));
      }
      if constexpr (kBlockScales) {
        const uint4 scales = ptx::load_shared_16(stage_address + scales_ + unit * kUnitBytes);
        codes_[unit][0].scales = {scales.x, scales.y}, codes_[unit][1].scales = {scales.z, scales.w};
      }
      b_[unit].load(stage_address + operand_row_ + unit * kBlockBytes, 0);
      if constexpr (Format::kGroupBias != 0.0F) {
        group_sums_[unit].load(stage_address + group_sum_place_ + unit * kBlockBytes);
      }
    }
  }

  __device__ __forceinline__ void multiply_stage(int index) {
    const std::uint32_t stage_address = stage(place_.stage);
    RingPlace<kStages> next = place_;
    next.advance();
    LaneScales<Format::kScales> scales[kUnits];
    float sums[kUnits][kWarpTiles][kTokens / 2];
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit) {
      if constexpr (Format::kScaled) {
#pragma unroll
        for (int tile = 0; tile < kWarpTiles; ++tile) start_sums<Format, kTokens>(sums[unit][tile], group_sums_[unit]);
        if constexpr (!kBlockScales) scales[unit].load(stage_address + scales_ + unit * kUnitBytes);
      }
    }
    const bool next_landed = ptx::barrier_ended(full(next.stage), next.parity);
    multiply_units(index, stage_address, sums, scales[kUnits - 1]);
    if constexpr (!kWeightsFirst) {
      hand_over_stage(empty(place_.stage), last_loaded(scales[kUnits - 1]), arguments_.zero);
      refill(index);
    }
    begin_next(index, next, next_landed);
    if constexpr (Format::kScaled) {
#pragma unroll
      for (int unit = 0; unit < kUnits; ++unit) {
        if constexpr (kBlockScales) {
          add_unit<kTokens>(totals_[0], sums[unit][0]);
          add_unit<kTokens>(totals_[1], sums[unit][1]);
        } else {
          add_group<kTokens>(totals_[0], sums[unit][0], scales[unit].of(0));
          add_group<kTokens>(totals_[1], sums[unit][1], scales[unit].of(1));
        }
      }
    }
  }
  // Of a stage, or of its weights if they are handed back first: what this warp read of the operand blocks before has
  // then gone into products. That the scales are there too is said so that ptxas does not wait for them where the next
  // stage's loads already count on the same scoreboard.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t last_loaded(const LaneScales<Format::kScales>& scales) const {
    if constexpr (!kWeightsFirst) {
      return Format::kScaled && !kBlockScales ? b_[kUnits - 1].last() | scales.last() : b_[kUnits - 1].last();
    } else {
      std::uint32_t last = scales.last();
#pragma unroll
      for (const auto& unit : codes_) {
#pragma unroll
        for (const typename Format::Codes& codes : unit) last |= Format::last(codes);
      }
      return last;
    }
  }
  static_assert(kWarpTiles == 2, "a lane's scales are those of two tiles");

  // Operand A of the next tile is unpacked while the matrix unit has the one before.
  __device__ __forceinline__ void multiply_units(int index, std::uint32_t stage_address,
                                                 float (&sums)[kUnits][kWarpTiles][kTokens / 2],
                                                 const LaneScales<Format::kScales>& scales) {
    std::uint32_t a[2][4];
    Format::unpack(codes_[0][0], 0, a[0]);
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int step = turn / kChains;
      const int unit = turn % kChains / kWarpTiles;
      const int tile = turn % kWarpTiles;
      if (kWeightsFirst && turn == kHandOverTurn) {
        hand_over_stage(empty(place_.stage), last_loaded(scales), arguments_.zero);
      }
      if (kWeightsFirst && turn == kRefillTurn) refill(index);
      if (turn + 1 < kTurns) {
        const int next = turn + 1;
        Format::unpack(codes_[next % kChains / kWarpTiles][next % kWarpTiles], next / kChains, a[next % 2]);
      }
#pragma unroll
      for (int j = 0; j < kTokens / 8; ++j) {
        float* d = Format::kScaled ? sums[unit][tile] : totals_[tile];
        multiply<Format::kBFloat16>(d + 4 * j, a[turn % 2], b_[unit].b + 2 * j);
      }
      if (tile + 1 == kWarpTiles && step + 1 < kSteps) {
        b_[unit].load(stage_address + operand_row_ + unit * kBlockBytes, step + 1);
      }
    }
  }

  // After the last stage that is whatever lies in the ring, and not used: a branch less in every stage.
  __device__ __forceinline__ void begin_next(int index, const RingPlace<kStages>& next, bool next_landed) {
    place_ = next;
    if (!next_landed && index + 1 < count_) ptx::barrier_wait(full(next.stage), next.parity);
    load_first(stage(next.stage));
  }

  [[nodiscard]] __device__ __forceinline__ RowScales row_scales() const {
    return {shared_ + kStages * (kStageBytes + kBarrierBytes), threadIdx.x};
  }
  // Of the row block that stage `index` of the run lies in.
  __device__ __forceinline__ void ask_row_scales(int index) const {
    if constexpr (has_tensor_scale(kCodec)) {
      row_scales().ask(arguments_.row_scales + row_block_of(index) * kUnitRows, threadIdx.x);
    }
  }

  __device__ __forceinline__ void clear_totals() {
#pragma unroll
    for (auto& totals : totals_) {
#pragma unroll
      for (float& total : totals) total = 0.0F;
    }
  }

  [[nodiscard]] __device__ __forceinline__ BlockActivation<kTokens> activation() const {
    return {arguments_.activation,
            shared_ + kStages * (kStageBytes + kBarrierBytes) + static_cast<std::uint32_t>(beside_ring_bytes(kCodec))};
  }

  // The sums of the row block that stage `index` of the run was the last of, to planes.
  __device__ __forceinline__ void end_fragment(int index) const {
    if constexpr (kActivates) {
      const int row_block = row_block_of(index) - clusters();
      store_totals(row_block);
      activation().arrive(row_block);
    } else {
      store_totals(row_block_of(index));
    }
  }

  // Totals as planes would have them.
  __device__ __forceinline__ void finish_totals() {
    constexpr float kUndo = 1.0F / Format::kRowFactor;
#pragma unroll
    for (int tile = 0; tile < kWarpTiles; ++tile) {
      float factors[2] = {1.0F, kUndo};
      if constexpr (has_tensor_scale(kCodec)) {
        const RowScales scales = row_scales();
        if (tile == 0) scales.wait();
        for (int u = 0; u < 2; ++u) factors[u] *= scales.of(tile, threadIdx.x % 32 / 4, u);
      }
#pragma unroll
      for (int i = 0; i < kTokens / 2; ++i) totals_[tile][i] *= factors[i / 2 % 2];
    }
  }

  // The sums of a row block, to this thread block's plane of it.
  __device__ __forceinline__ void store_totals(int row_block) const {
    std::uint32_t thread = threadIdx.x;
    asm volatile("" : "+r"(thread));  // not to be prepared before the loop, whose registers are few
    const int plane = static_cast<int>(blockIdx.x) - arguments_.plan.first_block(row_block);
    float* target = arguments_.planes + static_cast<std::size_t>(plane) * plane_floats(arguments_.plan, kTokens) +
                    static_cast<std::size_t>(row_block) * kUnitRows * kTokens;
    if constexpr (!kActivates) {
      target = cuda::associate_access_property(target, arguments_.keep_planes
                                                           ? cuda::access_property(cuda::access_property::persisting{})
                                                           : cuda::access_property(cuda::access_property::normal{}));
    }
    constexpr float kUndo = 1.0F / Format::kRowFactor;
#pragma unroll
    for (int tile = 0; tile < kWarpTiles; ++tile) {
      const int row = static_cast<int>(thread / kTileThreads * kWarpTiles * kTileRows +
                                       thread % kTileThreads / 32 * 16 + thread % 32 / 4) +
                      tile * kTileRows;
      float factors[2] = {1.0F, 1.0F};
      if constexpr (has_tensor_scale(kCodec)) {
        const RowScales scales = row_scales();
        if (tile == 0) scales.wait();
        for (int u = 0; u < 2; ++u) factors[u] = scales.of(tile, thread % 32 / 4, u);
      }
#pragma unroll
      for (int j = 0; j < kTokens / 8; ++j) {
        const int token = 8 * j + static_cast<int>(thread % 4 * 2);
        const float* four = totals_[tile] + 4 * j;
        *reinterpret_cast<float2*>(target + plane_place(kTokens, row, token)) = {four[0] * factors[0],
                                                                                 four[1] * factors[0]};
        *reinterpret_cast<float2*>(target + plane_place(kTokens, row + 8, token)) = {four[2] * (kUndo * factors[1]),
                                                                                     four[3] * (kUndo * factors[1])};
      }
    }
  }

  const StreamArguments& arguments_;
  std::uint32_t shared_;
  std::uint32_t warp_;
  std::uint32_t tile_thread_;  // of the tiles' 128
  // Where this lane's parts lie in a stage.
  std::uint32_t tiles_;
  std::uint32_t operand_row_;
  std::uint32_t group_sum_place_;
  std::uint32_t scales_;
  const int row_block_stages_;
  const int first_;       // stage of the matrix's line
  const int planes_end_;  // stages of the run that end in planes: all, unless it activates
  const int count_;       // stages of the run
  const int own_place_;   // what, with the index of a stage behind planes_end_, makes its place in the row block
  const int own_line_;    // and on the line
  int duty_;              // the stage after which it is this warp's turn to refill
  int duty_place_;        // in its row block, of the stage to ask for then
  RingPlace<kStages> place_;
  float totals_[kWarpTiles][kTokens / 2];
  OperandStep<kTokens> b_[kUnits];
  GroupSums<kTokens> group_sums_[kUnits];
  typename Format::Codes codes_[kUnits][kWarpTiles];
};

template <class Format, int kTokens, int kStages, bool kActivates>
__global__ void __maxnreg__(kStreamRegisters) product_kernel(const __grid_constant__ StreamArguments arguments) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(128) std::byte shared[];
  [[maybe_unused]] const int side_block = static_cast<int>(blockIdx.x) - arguments.plan.grid;
  if (arguments.trigger_pairs < 0) ptx::launch_dependents();
  if constexpr (!kActivates) {
    if (side_block >= 0) {
      side_product<Format::kBFloat16, kTokens>(arguments, side_block, shared);
      return;
    }
  }
  Stream<Format, kTokens, kStages, kActivates> stream(arguments, ptx::shared_address(shared));
  stream.init_barriers();
  __syncthreads();
  stream.fill();
  stream.consume();
#else
  (void)arguments;
  __trap();  // launch_product refuses other devices
#endif
}

template <class Format, int kTokens, int kStages, bool kActivates>
void launch_stream(const StreamProduct& product, const CudaLaunch& launch, const char* name) {
  using Kernel = Stream<Format, kTokens, kStages, kActivates>;
  constexpr int kSharedBytes =
      kStages * (static_cast<int>(Kernel::kStageBytes) + kBarrierBytes) + beside_ring_bytes(Kernel::kCodec);
  const StreamArguments& arguments = product.arguments;
  // All blocks of a launch have the larger of both.
  if constexpr (kActivates) {
    launch_kernel(name, product_kernel<Format, kTokens, kStages, kActivates>,
                  {.blocks = product.activating_blocks,
                   .threads = kStreamThreads,
                   .shared_bytes = kSharedBytes + activation_shared_bytes(kTokens),
                   .cluster = kActivatedCluster},
                  launch, arguments);
    return;
  }
  const int shared_bytes = std::max({kSharedBytes, product.alone ? kAloneSharedBytes : 0,
                                     arguments.side_rows > 0 ? side_shared_bytes(arguments.columns, kTokens) : 0});
  const int side_blocks = (arguments.side_rows + kSideRowsABlock - 1) / kSideRowsABlock;
  launch_kernel(name, product_kernel<Format, kTokens, kStages, kActivates>,
                {.blocks = arguments.plan.grid + side_blocks, .threads = kStreamThreads, .shared_bytes = shared_bytes},
                launch, arguments);
}

template <class Format, int kTokens>
void launch_width(const StreamProduct& product, const CudaLaunch& launch, const char* name) {
  constexpr WeightCodec kCodec{Format::kFormat, Format::kScales};
  product.activating_blocks > 0
      ? launch_stream<Format, kTokens, stream_shape(kCodec, kTokens, true).stages, true>(product, launch, name)
      : launch_stream<Format, kTokens, stream_shape(kCodec, kTokens).stages, false>(product, launch, name);
}

// The instantiated widths of a format. names: of the launches at width 8, 16 and 32.
template <class Format>
void launch_stream_product(const StreamProduct& product, const CudaLaunch& launch, const char* const (&names)[3]) {
  static_assert(Format::kSumFactor == stream_sum_factor(Format::kFormat));
  if (product.width == 8) return launch_width<Format, 8>(product, launch, names[0]);
  if (product.width == 16) return launch_width<Format, 16>(product, launch, names[1]);
  launch_width<Format, 32>(product, launch, names[2]);
}

}  // namespace tare::engine

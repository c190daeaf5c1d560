// The kernel of the weight products, for any format policy (q4_format.cuh is the first): weights stream through rings
// of bulk copies in shared memory, become operand A in registers, meet the activations in mma.sync, and leave partial
// sums in planes (tile_plan.h).
//
//   thread block = two teams of four warps. Team 0 takes the even units of the block's run of pairs, team 1 the odd
//   ones,
//                  each through its own ring; warp w of a team has 16 rows of each of the unit's four tiles, so that
//                  an operand fragment serves four matrix instructions. At the end of a fragment the teams add their
//                  totals, even plus odd, through a stage that was just read.
//   stage        = a unit and its operand block.  full: 1 arrival and the bytes of both copies; empty: 1 arrival a warp
//
// There is no producer warp: the warps of a team take turns, and after its part of stage i a warp asks for the unit
// that goes where stage i - 1 was. Without it two blocks leave the registers that their neighbours need.
//
// A block asks for its first ring of weights before it waits for the preceding grid; weights are never written while a
// round runs. Operand blocks come after the wait. Started before the preceding products end, a block thus fills its
// ring while they compute, and DRAM stays busy across the boundary. It lets its own successor start when
// `trigger_pairs` are left to ask for: earlier, the successor's copies would only delay its own.
//
// While the last tiles of a unit are in the matrix unit, a warp already loads its first parts of the next unit.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "engine/cuda/launch.cuh"
#include "engine/cuda/product_fragments.cuh"
#include "engine/cuda/product_side.cuh"
#include "engine/cuda/product_stream.h"

namespace tare::engine {

constexpr int kTeamWarps = 4;
constexpr int kTeamThreads = 32 * kTeamWarps;
constexpr int kStreamThreads = 2 * kTeamThreads;
constexpr int kBarrierBytes = 16;  // of a stage: full and empty

// How a format's kernel uses an SM. Two blocks an SM (one computes, its successor fills its ring) must leave 6 KB of
// shared memory and the registers for a small kernel's block; where their rings would be short of kFewStages a team, or
// the sums too many for the registers, one block has it all.
struct StreamShape {
  int stage_bytes = 0;
  int stages = 0;  // of each team
  int blocks_an_sm = 0;

  [[nodiscard]] constexpr int shared_bytes() const { return 2 * stages * (stage_bytes + kBarrierBytes); }
};
constexpr int kHalfSmBytes = 109 * 1024;
constexpr int kWholeSmBytes = 218 * 1024;
constexpr int kFewStages = 4;
constexpr int kMostStages = 16;

[[nodiscard]] constexpr StreamShape stream_shape(WeightFormat format, int tokens) {
  StreamShape shape{.stage_bytes = unit_bytes(format) + operand_block_bytes(tokens), .blocks_an_sm = 2};
  const int two_stages = 2 * (shape.stage_bytes + kBarrierBytes);
  shape.stages = kHalfSmBytes / two_stages;
  if (shape.stages < kFewStages || tokens > 16) {
    shape.blocks_an_sm = 1;
    shape.stages = kWholeSmBytes / two_stages;
  }
  if (shape.stages > kMostStages) shape.stages = kMostStages;
  return shape;
}
// 96 registers: two blocks leave 4,096 a scheduler to their neighbours.
[[nodiscard]] constexpr int stream_registers(int blocks_an_sm) {
  return blocks_an_sm == 2 ? 96 : 200;
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
};

// What a warp of a team does.
template <class Format, int kTokens, int kStages>
class Team {
 public:
  static constexpr int kStageBytes = unit_bytes(Format::kFormat) + operand_block_bytes(kTokens);
  static constexpr int kUnitBytes = unit_bytes(Format::kFormat);
  static constexpr int kCodeBytes = unit_code_bytes(Format::kFormat);
  static constexpr std::uint32_t kBlockBytes = operand_block_bytes(kTokens);
  static constexpr std::uint32_t kRingBytes = kStages * kStageBytes;

  __device__ __forceinline__ Team(const StreamArguments& arguments, std::uint32_t shared)
      : arguments_(arguments),
        team_(threadIdx.x / kTeamThreads),
        thread_(threadIdx.x % kTeamThreads),
        panel_row_(OperandPart<kTokens>::panel_row(threadIdx.x % 32) + kUnitBytes),
        ring_(shared + team_ * kRingBytes),
        barriers_(shared + 2 * kRingBytes + team_ * (kStages * kBarrierBytes)),
        first_(arguments.plan.first_pair(static_cast<int>(blockIdx.x))),
        count_(arguments.plan.first_pair(static_cast<int>(blockIdx.x) + 1) - first_) {}

  __device__ __forceinline__ void init_barriers() const {
    if (thread_ == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        ptx::barrier_init(full(stage), 1);
        ptx::barrier_init(empty(stage), kTeamWarps);
      }
      ptx::fence_barrier_init();
    }
  }

  // The first ring of weights, before the preceding grid ends; after it the operand blocks.
  __device__ __forceinline__ void fill() {
    const int filled = count_ < kStages ? count_ : kStages;
    if (thread_ == 0) {
      const std::uint64_t policy = ptx::evict_first_policy();
      for (int index = 0; index < filled; ++index) {
        ptx::barrier_arrive_expect(full(index), kUnitBytes + kBlockBytes);
        ptx::bulk_copy(stage(index), unit(index), kUnitBytes, full(index), policy);
      }
      if (count_ - filled <= arguments_.trigger_pairs) ptx::launch_dependents();
      for (int index = filled; index < filled + arguments_.ahead_pairs && index < count_; ++index) {
        ptx::bulk_prefetch_l2(unit(index), kUnitBytes);
      }
    }
    ptx::wait_for_preceding_grid();
    if (thread_ == 0) {
      for (int index = 0; index < filled; ++index) copy_operand(index, index);
    }
  }

  __device__ __forceinline__ void consume() {
    clear_totals();
    ptx::barrier_wait(full(0), 0);
    load_first(stage(0));
    int fragment_end = arguments_.plan.pairs_a_row_block - pair_of(0);
    for (int index = 0; index < count_; ++index) {
      const bool ends = index + 1 == fragment_end || index + 1 == count_;
      multiply_unit(index, ends);
      place_.advance();
      if (ends) {
        finish_fragment(row_block_of(index), stage_before(place_.stage));
        release(stage_before(place_.stage));
        fragment_end += arguments_.plan.pairs_a_row_block;
      }
    }
  }

 private:
  static constexpr int kAtOnce = Format::kTilesAtOnce;
  static constexpr int kSteps = 4;

  [[nodiscard]] __device__ __forceinline__ std::uint32_t stage(int index) const {
    return ring_ + static_cast<std::uint32_t>(index * kStageBytes);
  }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t full(int index) const {
    return barriers_ + static_cast<std::uint32_t>(8 * index);
  }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t empty(int index) const {
    return barriers_ + static_cast<std::uint32_t>(8 * (kStages + index));
  }
  [[nodiscard]] static __device__ __forceinline__ int stage_before(int index) {
    return index == 0 ? kStages - 1 : index - 1;
  }
  // This team's unit of the run's pair `index`.
  [[nodiscard]] __device__ __forceinline__ const std::byte* unit(int index) const {
    return arguments_.weights + static_cast<std::size_t>(2 * (first_ + index)) * kUnitBytes + team_ * kUnitBytes;
  }
  [[nodiscard]] __device__ __forceinline__ int row_block_of(int index) const {
    return static_cast<int>(static_cast<unsigned>(first_ + index) /
                            static_cast<unsigned>(arguments_.plan.pairs_a_row_block));
  }
  // Its place in the row block.
  [[nodiscard]] __device__ __forceinline__ int pair_of(int index) const {
    return static_cast<int>(static_cast<unsigned>(first_ + index) %
                            static_cast<unsigned>(arguments_.plan.pairs_a_row_block));
  }
  __device__ __forceinline__ void copy_operand(int to_stage, int index) const {
    const std::byte* source = arguments_.operand + (2 * static_cast<std::size_t>(pair_of(index)) + team_) * kBlockBytes;
    ptx::bulk_copy(stage(to_stage) + kUnitBytes, source, kBlockBytes, full(to_stage));
  }
  __device__ __forceinline__ void release(int index) const {
    __syncwarp();
    if (thread_ % 32 == 0) ptx::barrier_arrive(empty(index));
  }

  // After stage `index` of the run was read: the unit that goes where the one before lay.
  __device__ __forceinline__ void refill(int index) {
    const int asked = index - 1 + kStages;
    if (index == 0 || asked >= count_) return;
    if (thread_ == static_cast<unsigned>(index) % kTeamWarps * 32) {
      const int before = stage_before(place_.stage);
      ptx::barrier_wait(empty(before), before > place_.stage ? place_.parity ^ 1U : place_.parity);
      ptx::barrier_arrive_expect(full(before), kUnitBytes + kBlockBytes);
      ptx::bulk_copy(stage(before), unit(asked), kUnitBytes, full(before), ptx::evict_first_policy());
      copy_operand(before, asked);
      if (count_ - 1 - asked == arguments_.trigger_pairs) ptx::launch_dependents();
    }
  }

  // What a unit's products begin with; the rest is loaded while they run.
  __device__ __forceinline__ void load_first(std::uint32_t unit_address) {
    if constexpr (Format::kGroupBias != 0.0F) operand_.load_sums(unit_address + kUnitBytes, thread_ % 4);
#pragma unroll
    for (int tile = 0; tile < kAtOnce; ++tile) codes_[tile] = load_codes(unit_address, tile);
    operand_.load_panel(unit_address + panel_row_);
  }
  [[nodiscard]] __device__ __forceinline__ typename Format::Codes load_codes(std::uint32_t unit_address,
                                                                             int tile) const {
    return Format::load(unit_address + static_cast<std::uint32_t>(tile * (kCodeBytes / kTilesAUnit)),
                        static_cast<int>(thread_));
  }

  __device__ __forceinline__ void multiply_unit(int index, bool ends) {
    const std::uint32_t unit_address = stage(place_.stage);
    uint4 scales;
    if constexpr (Format::kScaled) scales = ptx::load_shared_16(unit_address + kCodeBytes + thread_ / 4 * 16);
    float starts[kTokens / 2];
    start_sums<Format, kTokens>(starts, operand_.group_sum);
#pragma unroll
    for (int first = 0; first < kTilesAUnit; first += kAtOnce) {
      float sums[kAtOnce][kTokens / 2];
      typename Format::Codes codes[kAtOnce];
#pragma unroll
      for (int tile = 0; tile < kAtOnce; ++tile) {
        codes[tile] = codes_[tile];
        if (first + kAtOnce < kTilesAUnit) codes_[tile] = load_codes(unit_address, first + kAtOnce + tile);
#pragma unroll
        for (int i = 0; i < kTokens / 2; ++i) sums[tile][i] = starts[i];
      }
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int tile = 0; tile < kAtOnce; ++tile) {
          std::uint32_t a[4];
          Format::unpack(codes[tile], step, a);
#pragma unroll
          for (int j = 0; j < kTokens / 8; ++j) {
            float* d = Format::kScaled ? sums[tile] : totals_[first + tile];
            multiply<Format::kBFloat16>(d + 4 * j, a, operand_.step(step) + 2 * j);
          }
        }
      }
      if (first + kAtOnce == kTilesAUnit) {
        if (!ends) release(place_.stage);
        refill(index);
        if (index + 1 < count_) {
          RingPlace<kStages> next = place_;
          next.advance();
          ptx::barrier_wait(full(next.stage), next.parity);
          load_first(stage(next.stage));
        }
      }
      if constexpr (Format::kScaled) {
#pragma unroll
        for (int tile = 0; tile < kAtOnce; ++tile) {
          add_group<kTokens>(totals_[first + tile], sums[tile], scale_of(scales, first + tile));
        }
      }
    }
  }
  [[nodiscard]] static __device__ __forceinline__ std::uint32_t scale_of(const uint4& scales, int tile) {
    return tile == 0 ? scales.x : tile == 1 ? scales.y : tile == 2 ? scales.z : scales.w;
  }

  __device__ __forceinline__ void clear_totals() {
#pragma unroll
    for (auto& totals : totals_) {
#pragma unroll
      for (float& total : totals) total = 0.0F;
    }
  }

  // Each team keeps two tiles and gives the other two away, a tile a round, through the stage that was read last.
  __device__ __forceinline__ void finish_fragment(int row_block, int last_stage) {
    constexpr int kKept = kTilesAUnit / 2;
    constexpr std::uint32_t kTileBytes = kTokens / 2 * 4 * kTeamThreads;
    constexpr int kTilesARound = 2 * kTileBytes <= kStageBytes ? 2 : 1;
    static_assert(kTilesARound * kTileBytes <= kStageBytes);
    // Not to be prepared before the loop, whose registers are few.
    std::uint32_t thread = thread_;
    asm volatile("" : "+r"(thread));
    const std::uint32_t given = stage(last_stage) + thread * 16;
    const std::uint32_t taken = team_ == 0 ? given + kRingBytes : given - kRingBytes;
    const int plane = static_cast<int>(blockIdx.x) - arguments_.plan.first_block(row_block);
    float* target = arguments_.planes + static_cast<std::size_t>(plane) * plane_floats(arguments_.plan, kTokens) +
                    static_cast<std::size_t>(row_block) * kUnitRows * kTokens;
#pragma unroll
    for (int first = 0; first < kKept; first += kTilesARound) {
      __syncthreads();  // both teams have read the stage, and what the last round gave
#pragma unroll
      for (int tile = first; tile < first + kTilesARound; ++tile) {
#pragma unroll
        for (int j = 0; j < kTokens / 8; ++j) {
          ptx::store_shared_16(given + exchange_place(tile - first, j), four_totals(team_ == 0, tile, j));
        }
      }
      __syncthreads();
#pragma unroll
      for (int tile = first; tile < first + kTilesARound; ++tile) {
#pragma unroll
        for (int j = 0; j < kTokens / 8; ++j) {
          const uint4 words = ptx::load_shared_16(taken + exchange_place(tile - first, j));
          float4 mine = four_totals(team_ == 1, tile, j);
          mine.x += __uint_as_float(words.x), mine.y += __uint_as_float(words.y);
          mine.z += __uint_as_float(words.z), mine.w += __uint_as_float(words.w);
          store_four(target, thread, static_cast<int>(team_) * kKept + tile, j, mine);
        }
      }
    }
    ptx::fence_async_shared();
    __syncthreads();
    clear_totals();
  }
  [[nodiscard]] static __device__ __forceinline__ std::uint32_t exchange_place(int tile, int j) {
    return static_cast<std::uint32_t>((tile * (kTokens / 8) + j) * kTeamThreads * 16);
  }
  // Of tile `tile` of the lower or upper two.
  [[nodiscard]] __device__ __forceinline__ float4 four_totals(bool upper, int tile, int j) const {
    const float(&low)[kTokens / 2] = totals_[tile];
    const float(&high)[kTokens / 2] = totals_[tile + kTilesAUnit / 2];
    return {upper ? high[4 * j] : low[4 * j], upper ? high[4 * j + 1] : low[4 * j + 1],
            upper ? high[4 * j + 2] : low[4 * j + 2], upper ? high[4 * j + 3] : low[4 * j + 3]};
  }
  static __device__ __forceinline__ void store_four(float* target, std::uint32_t thread, int tile, int j,
                                                    const float4& four) {
    const int row = tile * kTileRows + static_cast<int>(thread / 32 * 16 + thread % 32 / 4);
    const int token = 8 * j + static_cast<int>(thread % 4 * 2);
    constexpr float kUndo = 1.0F / Format::kRowFactor;
    *reinterpret_cast<float2*>(target + plane_place(kTokens, row, token)) = {four.x, four.y};
    *reinterpret_cast<float2*>(target + plane_place(kTokens, row + 8, token)) = {four.z * kUndo, four.w * kUndo};
  }

  const StreamArguments& arguments_;
  const std::uint32_t team_;
  const std::uint32_t thread_;     // of the team
  const std::uint32_t panel_row_;  // in a stage
  const std::uint32_t ring_;
  const std::uint32_t barriers_;
  const int first_;  // pair of the run
  const int count_;  // pairs of the run
  RingPlace<kStages> place_;
  float totals_[kTilesAUnit][kTokens / 2];
  OperandPart<kTokens> operand_;
  typename Format::Codes codes_[kAtOnce];
};

template <class Format, int kTokens, int kStages, int kBlocksAnSm>
__global__ void __maxnreg__(stream_registers(kBlocksAnSm))
    product_kernel(const __grid_constant__ StreamArguments arguments) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(128) std::byte shared[];
  const int side_block = static_cast<int>(blockIdx.x) - arguments.plan.grid;
  if (arguments.trigger_pairs < 0 || side_block >= 0) ptx::launch_dependents();
  if (side_block >= 0) {
    side_product<Format::kBFloat16, kTokens>(arguments, side_block, shared);
    return;
  }
  Team<Format, kTokens, kStages> team(arguments, ptx::shared_address(shared));
  team.init_barriers();
  __syncthreads();
  team.fill();
  team.consume();
#else
  (void)arguments;
  __trap();  // launch_product refuses other devices
#endif
}

template <class Format, int kTokens, int kStages, int kBlocksAnSm>
void launch_stream(const StreamProduct& product, const CudaLaunch& launch, const char* name) {
  constexpr StreamShape kShape{
      .stage_bytes = Team<Format, kTokens, kStages>::kStageBytes, .stages = kStages, .blocks_an_sm = kBlocksAnSm};
  static_assert(kShape.shared_bytes() >= side_shared_bytes(kTokens));
  const StreamArguments& arguments = product.arguments;
  const int side_blocks = (arguments.side_rows + kSideRowsABlock - 1) / kSideRowsABlock;
  launch_kernel(
      name, product_kernel<Format, kTokens, kStages, kBlocksAnSm>,
      {.blocks = arguments.plan.grid + side_blocks, .threads = kStreamThreads, .shared_bytes = kShape.shared_bytes()},
      launch, arguments);
}

template <class Format, int kTokens>
void launch_width(const StreamProduct& product, const CudaLaunch& launch, const char* name) {
  constexpr StreamShape kShape = stream_shape(Format::kFormat, kTokens);
  launch_stream<Format, kTokens, kShape.stages, kShape.blocks_an_sm>(product, launch, name);
}

// The instantiated widths of a format. names: of the launches at width 8, 16 and 32.
template <class Format>
void launch_stream_product(const StreamProduct& product, const CudaLaunch& launch, const char* const (&names)[3]) {
  if (product.width == 8) return launch_width<Format, 8>(product, launch, names[0]);
  if (product.width == 16) return launch_width<Format, 16>(product, launch, names[1]);
  launch_width<Format, 32>(product, launch, names[2]);
}

}  // namespace tare::engine

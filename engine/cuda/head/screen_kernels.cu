#include "engine/cuda/head/screen_kernels.h"

#include <cuda_bf16.h>

#include <algorithm>

#include "base/error.h"
#include "engine/cuda/device/async_copy.cuh"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/head/logit_selection.cuh"
#include "engine/cuda/head/logit_stretches.cuh"
#include "engine/cuda/product/product_stream.h"
#include "engine/cuda/product/row_fields.h"
#include "engine/cuda/product/stored_weight.cuh"

namespace tare::engine {
namespace {

// A lane's share of two tokens' logits in a stretch, and what becomes of it.
struct LargestLogits {
  const LogitCut& cut;
  int tokens;
  std::uint32_t* largest;
  RoundKeys* keys;
  float most[2];
  float zeros[2];  // NaN when a logit is not finite

  __device__ __forceinline__ void begin() {
#pragma unroll
    for (int i = 0; i < 2; ++i) most[i] = -INFINITY, zeros[i] = 0.0F;
  }
  __device__ __forceinline__ void add(const LaneLogits& logits) {
#pragma unroll
    for (int n = 0; n < 2 * kLaneQuads; ++n) {
      if (logits.row + LaneLogits::laid_rows(n) >= cut.rows) continue;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        most[i] = fmaxf(most[i], logits.of[i][n]);
        zeros[i] = fmaf(logits.of[i][n], 0.0F, zeros[i]);
      }
    }
  }
  __device__ __forceinline__ void finish(int stretch, int pair) {
    const auto lane = static_cast<int>(threadIdx.x % 32);
    const float of_chunk = largest_of_chunk(most);
    const int token = 2 * pair + lane % 2;
    const int chunk = stretch * kChunksAStretch + lane / kLanesAChunk;
    if (lane % kLanesAChunk < 2 && token < tokens && chunk < cut.chunks)
      largest[token * kMostLogitChunks + logit_chunk_place(chunk)] = ordered_logit(of_chunk);
    const bool wrong[2] = {!(zeros[0] == 0.0F), !(zeros[1] == 0.0F)};
    if (!__any_sync(~0U, wrong[0] || wrong[1])) return;
    const unsigned any[2] = {__ballot_sync(~0U, wrong[0]), __ballot_sync(~0U, wrong[1])};
    if (lane < 2 && token < tokens && any[lane] != 0) keys->fault[token] = 1;
  }
};

template <bool kQuick>
__global__ void __launch_bounds__(kStretchThreads, kStretchBlocks)
    screen_chunks_kernel(const __grid_constant__ ProductResult screen, const __grid_constant__ LogitCut cut, int tokens,
                         std::uint32_t* largest, RoundKeys* keys) {
  ptx::launch_dependents();
  LargestLogits logits{.cut = cut, .tokens = tokens, .largest = largest, .keys = keys, .most = {}, .zeros = {}};
  go_over_stretch<kQuick>(screen, cut, tokens, 0, (tokens + 1) / 2, logits);
}

// Thread blocks a token: each finds the candidates, and scores its share of them, a warp a candidate at most. As many
// as leave one to an SM, so that the rows of few tokens come to many SMs at once.
constexpr int kMostBlocks = 128;
constexpr int kMostChoiceBytes = 200 * 1024;  // shared memory of one on Hopper, less what is static
// So much that no two of them meet on an SM, while one fits beside a block of the product. They are there before the
// product ends, and else all of them came to the few SMs on which it ends first.
constexpr int kAloneChoiceBytes = kAloneSharedBytes - static_cast<int>(sizeof(SelectSpace));
constexpr int kLeastParts = 8;  // four rows of BF16 at hidden 5120 are 80 KB, and lie beside a block of a product
constexpr int kLanes = 4;       // that hold a row of a unit
constexpr int kChains = 8;      // of a reference product's sums: unit u is of chain u % 8
constexpr int kRunWords = 4;    // of a lane, neighbours
constexpr int kPaddedColumns = kUnitColumns + 8;  // of a unit's numbers in shared memory: other banks for each chain
static_assert(kMostCandidates / kLeastParts <= kSelectWarps);

[[nodiscard]] __host__ __device__ constexpr int runs(WeightFormat format) {
  return (thread_words(format) + kRunWords - 1) / kRunWords;
}
[[nodiscard]] __host__ __device__ constexpr int units_of(std::int64_t columns) {
  return static_cast<int>((columns + kUnitColumns - 1) / kUnitColumns);
}

// Dynamic shared memory: words as they lie in the head's tiles [scored][run][unit][lane][kRunWords], numbers of the
// token's row [unit][kPaddedColumns], and pairs of scales [scored][unit], one of them the row's.
struct ChoiceSpace {
  int units;
  int scored;  // candidates of a thread block
  [[nodiscard]] __host__ __device__ constexpr int words(int runs) const {
    return scored * units * runs * kLanes * kRunWords;
  }
  [[nodiscard]] __host__ __device__ constexpr int numbers() const { return units * kPaddedColumns; }
  [[nodiscard]] __host__ __device__ constexpr int scales() const { return scored * units; }
  [[nodiscard]] constexpr int bytes(WeightFormat format) const {
    return static_cast<int>(sizeof(float)) * (words(runs(format)) + numbers() + scales());
  }
};

struct ChoiceHead {
  const std::byte* tiles = nullptr;
  int columns = 0;
  int units_a_row_block = 0;
  int units = 0;      // that have columns
  int parts = 0;      // thread blocks a token
  int scored = 0;     // candidates of a thread block
  int row_warps = 0;  // that bring one of them
};

// Asks for the numbers of a token's row; those past the columns are 0.
__device__ __forceinline__ void ask_numbers(const float* row, int columns, int units, float* numbers) {
#pragma unroll 1
  for (int column = 2 * static_cast<int>(threadIdx.x); column < units * kUnitColumns; column += 2 * kSelectThreads) {
    float* target = numbers + column / kUnitColumns * kPaddedColumns + column % kUnitColumns;
    if (column < columns) {
      copy_async<8>(target, row + column);
    } else {
      *reinterpret_cast<float2*>(target) = {0.0F, 0.0F};
    }
  }
}
// Rounds what this thread asked for.
__device__ __forceinline__ void round_numbers(int units, float* numbers) {
#pragma unroll 1
  for (int column = 2 * static_cast<int>(threadIdx.x); column < units * kUnitColumns; column += 2 * kSelectThreads) {
    auto* two = reinterpret_cast<float2*>(numbers + column / kUnitColumns * kPaddedColumns + column % kUnitColumns);
    *two = __bfloat1622float2(__float22bfloat162_rn(*two));
  }
}

// Asks for row `id` of the head, by `warps` warps of which this is number `warp`.
template <WeightFormat kFormat>
__device__ __forceinline__ void ask_row(const ChoiceHead& head, int id, int units, int warp, int warps,
                                        std::uint32_t* words, std::uint32_t* scales) {
  constexpr int kWords = thread_words(kFormat);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int p = lane % kLanes;
  const int row = id % kUnitRows;
  const int tile = row_tile(row);
  const int thread = row_thread(row, p);
  const std::byte* first =
      head.tiles + static_cast<std::int64_t>(id / kUnitRows) * head.units_a_row_block * unit_bytes(kFormat);
#pragma unroll 1
  for (int unit = warp * kChains + lane / kLanes; unit < units; unit += warps * kChains) {
    const std::byte* source = first + static_cast<std::int64_t>(unit) * unit_bytes(kFormat);
    const auto* codes = reinterpret_cast<const std::uint32_t*>(source);
    std::uint32_t* target = words + (unit * kLanes + p) * kRunWords;
    if constexpr (kWords % kRunWords == 0) {
#pragma unroll
      for (int i = 0; i < kWords; i += kRunWords) {
        copy_async<16>(target + i * units * kLanes, codes + thread_word(kFormat, tile, thread, i));
      }
    } else {  // two neighbours and one apart
      static_assert(kWords == 3);
      copy_async<8>(target, codes + thread_word(kFormat, tile, thread, 0));
      copy_async<4>(target + 2, codes + thread_word(kFormat, tile, thread, 2));
    }
    if constexpr (row_scales_a_unit(kFormat) == 1) {
      if (p == 0) copy_async<4>(scales + unit, source + unit_code_bytes(kFormat) + scale_place(row) / 2 * 4);
    }
  }
}

// A row's logit, in all lanes of a warp: lane 4 c + p has chain c and columns 2 p, 2 p + 1 of every eight.
template <WeightFormat kFormat>
__device__ __forceinline__ float score(int id, int units, const float* numbers, const std::uint32_t* scales,
                                       const std::uint32_t* words) {
  constexpr int kRuns = runs(kFormat);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int p = lane % kLanes;
  const int half = row_half(id % kUnitRows);
  float sum = 0.0F;
#pragma unroll 2
  for (int unit = lane / kLanes; unit < units; unit += kChains) {
    std::uint32_t stored[kRuns * kRunWords];
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      const uint4 four = *reinterpret_cast<const uint4*>(words + ((run * units + unit) * kLanes + p) * kRunWords);
      stored[kRunWords * run] = four.x, stored[kRunWords * run + 1] = four.y;
      stored[kRunWords * run + 2] = four.z, stored[kRunWords * run + 3] = four.w;
    }
    std::uint32_t kept[kept_words(kFormat)];
#pragma unroll
    for (int i = 0; i < kept_words(kFormat); ++i) kept[i] = kept_word(kFormat, stored, half, i);
    float scale = 1.0F;
    if constexpr (row_scales_a_unit(kFormat) == 1) {
      const std::uint32_t pair = scales[unit];
      scale = __half2float(__ushort_as_half(static_cast<unsigned short>(pair >> (16 * half))));
    }
#pragma unroll
    for (int part = 0; part < 8; ++part) {
      const auto two = *reinterpret_cast<const float2*>(numbers + unit * kPaddedColumns + 8 * part + 2 * p);
      sum = fmaf(scale * field_value<kFormat>(kept_field(kFormat, kept, half, part, 0)), two.x, sum);
      sum = fmaf(scale * field_value<kFormat>(kept_field(kFormat, kept, half, part, 1)), two.y, sum);
    }
  }
  sum += __shfl_xor_sync(~0U, sum, 1);
  sum += __shfl_xor_sync(~0U, sum, 2);
  float total = __shfl_sync(~0U, sum, 0);
#pragma unroll
  for (int chain = 1; chain < kChains; ++chain) total += __shfl_sync(~0U, sum, chain * kLanes);
  return total;
}
static_assert(scale_place(8) % 2 == 1 && scale_place(0) % 2 == 0, "the scale of a row's half");

template <WeightFormat kFormat, bool kPlanes>
__global__ void __launch_bounds__(kSelectThreads)
    screen_choice_kernel(const __grid_constant__ ScreenChoiceArguments arguments, const __grid_constant__ LogitCut cut,
                         const __grid_constant__ ChoiceHead head) {
  __shared__ SelectSpace select;
  extern __shared__ __align__(16) std::uint32_t words[];
  const ChoiceSpace space{.units = head.units, .scored = head.scored};
  auto* numbers = reinterpret_cast<float*>(words + space.words(runs(kFormat)));
  auto* scales = reinterpret_cast<std::uint32_t*>(numbers + space.numbers());
  const int token = static_cast<int>(blockIdx.x) / head.parts;
  const int part = static_cast<int>(blockIdx.x) % head.parts;
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  prepare_selection<kPlanes>(arguments.screen, cut, select);
  ptx::wait_for_preceding_grid();

  ask_numbers(arguments.hidden + static_cast<std::int64_t>(token) * head.columns, head.columns, space.units, numbers);
  commit_copies();
  select_candidates<kPlanes>(arguments.screen, cut, token, arguments.largest + token * kMostLogitChunks,
                             arguments.candidates, select);

  // Candidate part + parts i is this block's i-th; all its warps bring rows.
  const auto candidate = [&](int i) {
    const int index = part + head.parts * i;
    return index < arguments.candidates ? select.chosen[index] : 0;
  };
  const int asked = warp / head.row_warps;
  const auto row_words = space.units * runs(kFormat) * kLanes * kRunWords;
  const LogitKey asked_key = candidate(asked);
  if (asked_key != 0) {
    ask_row<kFormat>(head, id_of(asked_key), space.units, warp % head.row_warps, head.row_warps,
                     words + asked * row_words, scales + asked * space.units);
  }
  commit_copies();
  ptx::launch_dependents();  // not before: a product's first ring of weights would be in these rows' way
  if (arguments.chosen != nullptr && part == 0 && thread < kMostCandidates) {
    const LogitKey key = select.chosen[thread];
    arguments.chosen[token * kMostCandidates + thread] = thread < arguments.candidates && key != 0 ? id_of(key) : -1;
  }
  if (arguments.rounded) {
    wait_for_copies<1>();
    round_numbers(space.units, numbers);
  }
  wait_for_copies<0>();
  __syncthreads();
  if (warp >= space.scored || candidate(warp) == 0) return;
  const int id = id_of(candidate(warp));
  const float logit = score<kFormat>(id, space.units, numbers, scales + warp * space.units, words + warp * row_words);
  if (thread % 32 != 0) return;
  atomicMax(&arguments.keys->best[token], make_logit_key(logit, id));
  if (!isfinite(logit)) arguments.keys->fault[token] = 1;
}

template <WeightFormat kFormat>
void launch_choice(const ScreenChoiceArguments& arguments, const CudaLaunch& launch) {
  const int units = units_of(arguments.head.columns);
  const auto shared_bytes = [&](int parts) {
    return ChoiceSpace{.units = units, .scored = kMostCandidates / parts}.bytes(kFormat);
  };
  int parts = kMostCandidates;
  while (parts > kLeastParts && arguments.tokens * parts > kMostBlocks && shared_bytes(parts / 2) <= kMostChoiceBytes)
    parts /= 2;
  const ChoiceHead head{.tiles = arguments.head.tiles,
                        .columns = static_cast<int>(arguments.head.columns),
                        .units_a_row_block = static_cast<int>(units_a_row_block(arguments.head.columns)),
                        .units = units,
                        .parts = parts,
                        .scored = kMostCandidates / parts,
                        .row_warps = kSelectWarps * parts / kMostCandidates};
  const int blocks = arguments.tokens * parts;
  const bool alone = arguments.screen.planes && blocks <= kMostBlocks;
  launch_kernel("screen_choice",
                arguments.screen.planes ? screen_choice_kernel<kFormat, true> : screen_choice_kernel<kFormat, false>,
                {.blocks = blocks,
                 .threads = kSelectThreads,
                 .shared_bytes = std::max(shared_bytes(parts), alone ? kAloneChoiceBytes : 0)},
                launch, arguments, cut_of(arguments.screen), head);
}

}  // namespace

bool can_choose_from(WeightFormat head, std::int64_t columns) {
  return ChoiceSpace{.units = units_of(columns), .scored = 1}.bytes(head) <= kMostChoiceBytes;
}

void launch_screen_chunks(const ProductResult& screen, int tokens, std::uint32_t* largest, RoundKeys* keys,
                          const CudaLaunch& launch) {
  const LogitCut cut = cut_of(screen);
  launch_kernel("screen_chunks", is_quick(screen, cut) ? screen_chunks_kernel<true> : screen_chunks_kernel<false>,
                {.blocks = stretch_grid(cut, (tokens + 1) / 2), .threads = kStretchThreads}, launch, screen, cut,
                tokens, largest, keys);
}

void launch_screen_choice(const ScreenChoiceArguments& arguments, const CudaLaunch& launch) {
  if (arguments.candidates < 1 || arguments.candidates > kMostCandidates || arguments.head.columns % 2 != 0 ||
      arguments.head.rows != arguments.screen.rows) {
    throw internal_error("a choice among candidates of another head, or of too many");
  }
  switch (arguments.head.format) {
    case WeightFormat::kBF16:
      return launch_choice<WeightFormat::kBF16>(arguments, launch);
    case WeightFormat::kQ8:
      return launch_choice<WeightFormat::kQ8>(arguments, launch);
    case WeightFormat::kQ4:
      return launch_choice<WeightFormat::kQ4>(arguments, launch);
    case WeightFormat::kQ3:
      return launch_choice<WeightFormat::kQ3>(arguments, launch);
    case WeightFormat::kFP8:
      return launch_choice<WeightFormat::kFP8>(arguments, launch);
    case WeightFormat::kQ5:
    case WeightFormat::kNVFP4:
      break;
  }
  throw internal_error("no choice among candidates in this weight format");
}

}  // namespace tare::engine

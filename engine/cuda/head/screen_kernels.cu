#include "engine/cuda/head/screen_kernels.h"

#include <cuda_bf16.h>

#include <algorithm>

#include "base/error.h"
#include "engine/cuda/device/launch.cuh"
#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/head/logit_selection.cuh"
#include "engine/cuda/product/row_fields.h"
#include "engine/cuda/product/stored_weight.cuh"

namespace tare::engine {
namespace {

constexpr int kRowBlock = 256;
constexpr int kChunkThreads = 256;
constexpr int kChunkWarps = kChunkThreads / 32;
constexpr int kQuads = kRowBlock / 64;  // a lane has two neighbouring rows of 64
constexpr int kPlaneBatch = 2;          // planes of 248320x5120 over 264 blocks

// A lane's share of one row of logits.
struct LargestLogit {
  float largest = -INFINITY;
  float zeros = 0.0F;  // NaN when a logit is not finite

  __device__ __forceinline__ void add(float logit) {
    largest = fmaxf(largest, logit);
    zeros = fmaf(logit, 0.0F, zeros);
  }
};

// A warp has one chunk of two tokens.
__global__ void __launch_bounds__(kChunkThreads)
    screen_chunks_kernel(const __grid_constant__ ProductResult screen, int tokens, float* largest, RoundKeys* keys) {
  ptx::launch_dependents();
  const int pairs = (tokens + 1) / 2;
  const int task = static_cast<int>(blockIdx.x) * kChunkWarps + static_cast<int>(threadIdx.x) / 32;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int pair = task % pairs;
  const int chunk = task / pairs;
  const int chunk_rows = logit_chunk_rows(screen.rows);
  const int begin = chunk * chunk_rows;
  const int end = min(begin + chunk_rows, screen.rows);
  const int first_planes = screen.planes && begin < end ? screen.plan.planes(begin / kRowBlock) : 1;
  ptx::wait_for_preceding_grid();
  if (begin >= end) return;

  LargestLogit rows[2];
  for (int first = begin; first < end; first += kRowBlock) {
    const int row = first + 2 * lane;
    if (screen.planes) {
      const int planes = first == begin ? first_planes : screen.plan.planes(first / kRowBlock);
      float4 quads[kQuads];
      product_quads<kPlaneBatch, 64>(screen, planes, row, pair, quads);
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        if (row + 64 * i < end) rows[0].add(quads[i].x), rows[1].add(quads[i].y);
        if (row + 64 * i + 1 < end) rows[0].add(quads[i].z), rows[1].add(quads[i].w);
      }
    } else {
      for (int i = 0; i < 2 * kQuads; ++i) {
        const int id = row + i / 2 * 64 + i % 2;
        if (id >= end) continue;
        const float2 two = product_pair(screen, id, pair, tokens);
        rows[0].add(two.x), rows[1].add(two.y);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    for (int step = 16; step > 0; step /= 2) {
      rows[i].largest = fmaxf(rows[i].largest, __shfl_xor_sync(~0U, rows[i].largest, step));
      rows[i].zeros += __shfl_xor_sync(~0U, rows[i].zeros, step);
    }
    const int token = 2 * pair + i;
    if (lane != 0 || token >= tokens) continue;
    largest[token * kMostLogitChunks + chunk] = rows[i].largest;
    if (!(rows[i].zeros == 0.0F)) keys->fault[token] = 1;
  }
}

// Thread blocks a token: each finds the candidates, and scores its share of them.
constexpr int kParts = 8;
constexpr int kScored = kMostCandidates / kParts;
constexpr int kLanes = 4;                         // that hold a row of a unit
constexpr int kChains = 8;                        // of a reference product's sums: unit u is of chain u % 8
constexpr int kPaddedColumns = kUnitColumns + 8;  // of a unit's numbers in shared memory: other banks for each chain

[[nodiscard]] constexpr int shared_words(WeightFormat format) {
  return (kept_words(format) + 3) / 4 * 4;
}
[[nodiscard]] __host__ __device__ constexpr int units_of(std::int64_t columns) {
  return static_cast<int>((columns + kUnitColumns - 1) / kUnitColumns);
}

// Dynamic shared memory: numbers of the row [unit][kPaddedColumns], scales [scored][unit], words
// [scored][unit][lane][shared_words]. The first two are padded to whole 16 bytes.
struct ChoiceSpace {
  int units;
  [[nodiscard]] __host__ __device__ constexpr int numbers() const { return units * kPaddedColumns; }
  [[nodiscard]] __host__ __device__ constexpr int scales() const { return (kScored * units + 3) / 4 * 4; }
  [[nodiscard]] __host__ __device__ constexpr int words(int a_lane) const { return kScored * units * kLanes * a_lane; }
};

struct ChoiceHead {
  const std::byte* tiles = nullptr;
  int columns = 0;
  int units_a_row_block = 0;
};

// The words of one lane of a row's unit, on their way to shared memory.
template <WeightFormat kFormat>
__device__ __forceinline__ void keep_words(const std::byte* unit, int row, int p, std::uint32_t* target) {
  const auto* codes = reinterpret_cast<const std::uint32_t*>(unit);
  constexpr int kWords = thread_words(kFormat);
  std::uint32_t words[kWords];
  const int tile = row_tile(row);
  const int thread = row_thread(row, p);
  if constexpr (kWords % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      const uint4 four = *reinterpret_cast<const uint4*>(codes + thread_word(kFormat, tile, thread, i));
      words[i] = four.x, words[i + 1] = four.y, words[i + 2] = four.z, words[i + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = codes[thread_word(kFormat, tile, thread, i)];
  }
#pragma unroll
  for (int i = 0; i < kept_words(kFormat); ++i) target[i] = kept_word(kFormat, words, row_half(row), i);
}

// A row's logit, in all lanes of a warp: lane 4 c + p has chain c and columns 2 p, 2 p + 1 of every eight.
template <WeightFormat kFormat>
__device__ __forceinline__ float score(const ChoiceSpace& space, int half, const float* numbers, const float* scales,
                                       const std::uint32_t* words) {
  constexpr int kWords = shared_words(kFormat);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int p = lane % kLanes;
  float sum = 0.0F;
  for (int unit = lane / kLanes; unit < space.units; unit += kChains) {
    std::uint32_t kept[kWords];
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      const uint4 four = *reinterpret_cast<const uint4*>(words + (unit * kLanes + p) * kWords + i);
      kept[i] = four.x, kept[i + 1] = four.y, kept[i + 2] = four.z, kept[i + 3] = four.w;
    }
    const float scale = scales[unit];
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

template <WeightFormat kFormat>
__global__ void __launch_bounds__(kSelectThreads)
    screen_choice_kernel(const __grid_constant__ ScreenChoiceArguments arguments,
                         const __grid_constant__ ChoiceHead head) {
  __shared__ SelectSpace select;
  extern __shared__ __align__(16) float shared[];
  ptx::launch_dependents();
  const ChoiceSpace space{units_of(head.columns)};
  float* numbers = shared;
  float* scales = numbers + space.numbers();
  auto* words = reinterpret_cast<std::uint32_t*>(scales + space.scales());
  const int token = static_cast<int>(blockIdx.x) / kParts;
  const int part = static_cast<int>(blockIdx.x) % kParts;
  const auto thread = static_cast<int>(threadIdx.x);
  ptx::wait_for_preceding_grid();

  const float* row_of_token = arguments.hidden + static_cast<std::int64_t>(token) * head.columns;
  for (int column = 2 * thread; column < space.units * kUnitColumns; column += 2 * kSelectThreads) {
    float2 two{0.0F, 0.0F};
    if (column < head.columns) two = *reinterpret_cast<const float2*>(row_of_token + column);
    if (arguments.rounded) two = __bfloat1622float2(__float22bfloat162_rn(two));
    *reinterpret_cast<float2*>(numbers + column / kUnitColumns * kPaddedColumns + column % kUnitColumns) = two;
  }
  select_candidates(arguments.screen, token, arguments.largest + token * kMostLogitChunks, arguments.candidates,
                    select);
  if (arguments.chosen != nullptr && part == 0 && thread < kMostCandidates) {
    const LogitKey key = select.keys[thread];
    arguments.chosen[token * kMostCandidates + thread] = thread < arguments.candidates && key != 0 ? id_of(key) : -1;
  }

  // Candidate part + kParts i is this block's i-th.
  const auto candidate = [&](int i) {
    const int index = part + kParts * i;
    return index < arguments.candidates ? select.keys[index] : 0;
  };
  const auto unit_of = [&](int id, int unit) {
    return head.tiles +
           (static_cast<std::int64_t>(id / kUnitRows) * head.units_a_row_block + unit) * unit_bytes(kFormat);
  };
  for (int task = thread; task < kScored * space.units * kLanes; task += kSelectThreads) {
    const int i = task / (space.units * kLanes);
    const LogitKey key = candidate(i);
    if (key == 0) break;
    const int unit = task / kLanes % space.units;
    const int row = id_of(key) % kUnitRows;
    const std::byte* source = unit_of(id_of(key), unit);
    keep_words<kFormat>(source, row, task % kLanes, words + task * shared_words(kFormat));
    if (task % kLanes == 0) scales[i * space.units + unit] = row_scale<kFormat>(source, row);
  }
  __syncthreads();
  const int warp = thread / 32;
  if (warp >= kScored || candidate(warp) == 0) return;
  const int id = id_of(candidate(warp));
  const float logit = score<kFormat>(space, row_half(id % kUnitRows), numbers, scales + warp * space.units,
                                     words + warp * space.units * kLanes * shared_words(kFormat));
  if (thread % 32 != 0) return;
  atomicMax(&arguments.keys->best[token], make_logit_key(logit, id));
  if (!isfinite(logit)) arguments.keys->fault[token] = 1;
}

template <WeightFormat kFormat>
void launch_choice(const ScreenChoiceArguments& arguments, const CudaLaunch& launch) {
  const ChoiceHead head{arguments.head.tiles, static_cast<int>(arguments.head.columns),
                        static_cast<int>(units_a_row_block(arguments.head.columns))};
  launch_kernel("screen_choice", screen_choice_kernel<kFormat>,
                {.blocks = arguments.tokens * kParts,
                 .threads = kSelectThreads,
                 .shared_bytes = screen_choice_shared_bytes(kFormat, arguments.head.columns)},
                launch, arguments, head);
}

}  // namespace

int screen_choice_shared_bytes(WeightFormat head, std::int64_t columns) {
  const ChoiceSpace space{units_of(columns)};
  return static_cast<int>(sizeof(float)) * (space.numbers() + space.scales() + space.words(shared_words(head)));
}

void launch_screen_chunks(const ProductResult& screen, int tokens, float* largest, RoundKeys* keys,
                          const CudaLaunch& launch) {
  const int tasks = logit_chunks(screen.rows) * ((tokens + 1) / 2);
  launch_kernel("screen_chunks", screen_chunks_kernel,
                {.blocks = (tasks + kChunkWarps - 1) / kChunkWarps, .threads = kChunkThreads}, launch, screen, tokens,
                largest, keys);
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

// A state slice in registers (gdn_state.cuh) from and to INT8: codes where FP32 has its elements, a scale for every 64
// columns of a row (gdn_layout.h), bit for bit formats/cache_blocks.h.
#pragma once

#include "engine/cuda/gdn/gdn_state.cuh"
#include "engine/formats/cache_blocks.h"

namespace tare::engine::gdn {

static_assert(kGdnStateBlock == kInt8Block);

// The scales of a head from a column on, a multiple of 64.
[[nodiscard]] __device__ __forceinline__ std::uint16_t* block_scales_of(const GdnMemory& memory, int head, int column) {
  return memory.block_scales + head * (kGdnHead / kGdnStateBlock) * kGdnHead + gdn_block_scale_place(0, column);
}

// Rows of a thread's quad as its elements have them: in fours from first_row + quad * kQuadStep on.
template <class Tile>
[[nodiscard]] __device__ __forceinline__ constexpr int row_in_quad(int i) {
  return Tile::kRecurrent ? i % 4 : i % 2 * 2 + i % 4 / 2;
}

// `scales`: of the slice's first column.
template <class Tile>
__device__ __forceinline__ void load_int8(Tile& state, const std::int8_t* codes, int slice,
                                          const std::uint16_t* scales) {
  const std::int8_t* const source = codes + slice + state.first_place;
  const std::uint16_t* const rows = scales + gdn_block_scale_place(state.first_row, state.first_column);
#pragma unroll
  for (int quad = 0; quad < Tile::kQuads; ++quad) {
    const uint2 four = *reinterpret_cast<const uint2*>(rows + quad * Tile::kQuadStep);
    const float of_row[4] = {__uint_as_float(four.x << 16), __uint_as_float(four.x & 0xFFFF0000U),
                             __uint_as_float(four.y << 16), __uint_as_float(four.y & 0xFFFF0000U)};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int i = 4 * quad + j;
      const std::int8_t* const place = source + Tile::place_step(i);
      const float scale = of_row[row_in_quad<Tile>(i)];
      if constexpr (Tile::kOwnColumns == 4) {
        const char4 own = *reinterpret_cast<const char4*>(place);
        state.set_pair(i, 0, {scale * static_cast<float>(own.x), scale * static_cast<float>(own.y)});
        state.set_pair(i, 2, {scale * static_cast<float>(own.z), scale * static_cast<float>(own.w)});
      } else {
        const char2 own = *reinterpret_cast<const char2*>(place);
        state.set_pair(i, 0, {scale * static_cast<float>(own.x), scale * static_cast<float>(own.y)});
      }
    }
  }
}

struct Int8Scale {
  std::uint16_t bits = 0;
  float scale = 0;
  float reciprocal = 0;  // 0: codes are 0
};
// `most`: the block's largest magnitude as bits; those of NaN lie above infinity's.
__device__ __forceinline__ Int8Scale int8_scale(std::uint32_t most) {
  constexpr std::uint16_t kNaN = 0x7FC0U;
  const float absmax = __uint_as_float(most);
  if (!isfinite(absmax)) return {kNaN, __uint_as_float(std::uint32_t{kNaN} << 16), 0.0F};
  if (absmax < kLeastInt8Absmax) return {};
  const __nv_bfloat16 rounded = __float2bfloat16_rn(__fdiv_rn(absmax, kInt8MostCode));
  const float scale = __bfloat162float(rounded);
  return {__bfloat16_as_ushort(rounded), scale, __fdiv_rn(1.0F, scale)};
}

// Stores `scale` times the state; the registers hold what is stored afterwards. `most` is work space of the block's,
// [64 columns][row]. Every thread of the block; nothing of `most` is read after it by others.
template <int kThreads, class Tile>
__device__ __forceinline__ void store_int8(Tile& state, std::int8_t* codes, int slice, std::uint16_t* scales,
                                           std::uint32_t* most, float scale) {
  constexpr int kRowsOfBlocks = Tile::kSliceColumns / kGdnStateBlock * kGdnHead;
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kLanes;
  __syncthreads();  // everyone has used what lies there, and read the scale
  for (int i = thread; i < kRowsOfBlocks; i += kThreads) most[i] = 0;
  __syncthreads();
  std::uint32_t* const own_most = most + gdn_block_scale_place(state.first_row, state.first_column);
  const auto row_place = [](int i) { return i / 4 * Tile::kQuadStep + row_in_quad<Tile>(i); };
  // Lanes that have other columns of the same rows: lane / 16 or lane / 4 apart (gdn_state.cuh).
  constexpr int kFirstStep = Tile::kRecurrent ? 16 : 4;
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i) {
    std::uint32_t largest = 0;
#pragma unroll
    for (int c = 0; c < Tile::kOwnColumns; ++c) {
      state.s[i][c] = __fmul_rn(state.s[i][c], scale);
      largest = max(largest, __float_as_uint(state.s[i][c]) & 0x7FFF'FFFFU);
    }
#pragma unroll
    for (int step = kFirstStep; step < kLanes; step *= 2) largest = max(largest, __shfl_xor_sync(~0U, largest, step));
    if (lane < kFirstStep) atomicMax(own_most + row_place(i), largest);
  }
  __syncthreads();
  std::int8_t* const target = codes + slice + state.first_place;
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i) {
    const Int8Scale of_row = int8_scale(own_most[row_place(i)]);
    constexpr int kMost = static_cast<int>(kInt8MostCode);
    int own[Tile::kOwnColumns];
#pragma unroll
    for (int c = 0; c < Tile::kOwnColumns; ++c) {
      const int code = of_row.reciprocal == 0 ? 0 : __float2int_rn(__fmul_rn(state.s[i][c], of_row.reciprocal));
      own[c] = min(max(code, -kMost), kMost);
      state.s[i][c] = of_row.scale * static_cast<float>(own[c]);
    }
    std::int8_t* const place = target + Tile::place_step(i);
    const auto byte = [&](int c) { return static_cast<signed char>(own[c]); };
    if constexpr (Tile::kOwnColumns == 4) {
      *reinterpret_cast<char4*>(place) = {byte(0), byte(1), byte(2), byte(3)};
    } else {
      *reinterpret_cast<char2*>(place) = {byte(0), byte(1)};
    }
  }
  for (int i = thread; i < kRowsOfBlocks; i += kThreads) scales[i] = int8_scale(most[i]).bits;
}

// The committed state's slice.
template <class Kernel>
__device__ __forceinline__ void load_state(const GdnMemory& memory, typename Kernel::Tile& state, int slice_place,
                                           int head, int slice) {
  if constexpr (Kernel::kInt8) {
    load_int8(state, static_cast<const std::int8_t*>(memory.state), slice_place,
              block_scales_of(memory, head, slice * Kernel::kColumns));
  } else {
    state.load(memory.state, slice_place, memory.state_format);
  }
}

}  // namespace tare::engine::gdn

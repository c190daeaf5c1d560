// A slice of one head's state in the registers of a thread block, and the recurrence over it.
//
// Warps share the slice by columns of dv, threads of a warp by rows of dk:
//   recurrent: a warp has 8 columns, a thread 8 rows x 4 columns: rows 4 (lane % 16) + {0..3, 64..67}, columns
//              4 (lane / 16) + 0..3. A sum over dk stays in 16 lanes, and each number of k and q that a thread loads
//              serves 4 columns.
//   chunked:   a pair of warps has 16 columns, each warp one half of dk, a thread 16 rows x 2 columns: rows
//              64 half + 16 s + 4 (lane % 4) + 0..3 for s = 0..3, columns 2 (lane / 4) + 0, 1. So a thread holds what
//              mma.m16n8k8 wants of it (gdn_chunk.cuh).
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "engine/cuda/gdn/gdn_layout.h"

namespace tare::engine::gdn {

constexpr int kBlockTokens = 16;  // tokens that go through shared memory together
constexpr int kLanes = 32;
// Rows of k and q in shared memory: 16 banks from one token to the next, so that the lanes of a quarter warp that read
// two tokens (gdn_chunk.cuh) meet no bank twice.
constexpr int kRowStride = kGdnHead + 16;

struct alignas(16) TokenStep {
  float beta = 0;
  float raw = 0;      // the scale before this token times its decay
  float inverse = 0;  // 1 / the scale after this token
  float key_query = 0;
};

// Shared memory of a thread block that owns `kColumns` columns of a head, for the tokens in hand.
template <int kColumns>
struct alignas(16) PassShared {
  float keys[kBlockTokens][kRowStride];
  float queries[kBlockTokens][kRowStride];
  float values[kBlockTokens][kColumns];   // v, then u / scale
  float outputs[kBlockTokens][kColumns];  // o
  TokenStep steps[kBlockTokens];
  float square_sums[kGdnScaleCopies][kBlockTokens];  // of o, by slice
  float scale;                                       // S = scale S'
  unsigned restarts;                                 // bit t: the scale starts again at token t
};

struct Scales {
  float raw = 0;
  float after = 1;
};
// A warp follows the scale over `count` tokens; lane t brings the decay of token t and gets the scale before and after.
__device__ __forceinline__ Scales follow_scale(float decay, int count, float& scale, unsigned& restarts) {
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  Scales own;
  restarts = 0;
#pragma unroll 2
  for (int token = 0; token < count; ++token) {
    const float raw = scale * __shfl_sync(~0U, decay, token);
    const bool restart = raw < kGdnLeastScale;
    scale = restart ? 1.0F : raw;
    restarts |= static_cast<unsigned>(restart) << token;
    if (lane == token) own = {raw, scale};
  }
  return own;
}

__device__ __forceinline__ float saturated_half(float value) {
  const float largest = 65504.0F;
  return __half2float(__float2half_rn(value > largest ? largest : value < -largest ? -largest : value));
}

template <GdnForm kForm, int kColumns>
struct StateTile {
  static constexpr bool kRecurrent = kForm == GdnForm::kRecurrent;
  static constexpr int kOwnColumns = kRecurrent ? 4 : 2;
  static constexpr int kQuads = kRecurrent ? 2 : 4;  // of four rows
  static constexpr int kQuadStep = kRecurrent ? 64 : 16;
  static constexpr int kRows = 4 * kQuads;

  float s[kRows][kOwnColumns];
  int first_row;
  int first_column;  // within the slice

  __device__ __forceinline__ StateTile() {
    const auto warp = static_cast<int>(threadIdx.x / kLanes);
    const auto lane = static_cast<int>(threadIdx.x % kLanes);
    if constexpr (kRecurrent) {
      first_row = 4 * (lane % 16);
      first_column = 8 * warp + 4 * (lane / 16);
    } else {
      first_row = 64 * (warp / (kColumns / 16)) + 4 * (lane % 4);
      first_column = 16 * (warp % (kColumns / 16)) + 2 * (lane / 4);
    }
  }
  [[nodiscard]] __device__ __forceinline__ int row(int i) const { return first_row + i / 4 * kQuadStep + i % 4; }

  // `slice` is the first element of this block's columns.
  __device__ __forceinline__ void load(const void* state, std::int64_t slice, bool halves) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const std::int64_t place = slice + row(i) * kGdnHead + first_column;
      if (halves) {
        const auto* source = reinterpret_cast<const __half2*>(static_cast<const __half*>(state) + place);
#pragma unroll
        for (int c = 0; c < kOwnColumns; c += 2) {
          const float2 pair = __half22float2(source[c / 2]);
          s[i][c] = pair.x;
          s[i][c + 1] = pair.y;
        }
      } else if constexpr (kOwnColumns == 4) {
        const float4 four = *reinterpret_cast<const float4*>(static_cast<const float*>(state) + place);
        s[i][0] = four.x;
        s[i][1] = four.y;
        s[i][2] = four.z;
        s[i][3] = four.w;
      } else {
        const float2 two = *reinterpret_cast<const float2*>(static_cast<const float*>(state) + place);
        s[i][0] = two.x;
        s[i][1] = two.y;
      }
    }
  }
  __device__ __forceinline__ void store(void* state, std::int64_t slice, bool halves) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const std::int64_t place = slice + row(i) * kGdnHead + first_column;
      if (halves) {
        auto* target = reinterpret_cast<__half2*>(static_cast<__half*>(state) + place);
#pragma unroll
        for (int c = 0; c < kOwnColumns; c += 2) target[c / 2] = __floats2half2_rn(s[i][c], s[i][c + 1]);
      } else if constexpr (kOwnColumns == 4) {
        *reinterpret_cast<float4*>(static_cast<float*>(state) + place) = {s[i][0], s[i][1], s[i][2], s[i][3]};
      } else {
        *reinterpret_cast<float2*>(static_cast<float*>(state) + place) = {s[i][0], s[i][1]};
      }
    }
  }
  // What an FP16 state keeps: S itself, rounded; the registers hold the same afterwards.
  __device__ __forceinline__ void round_to_halves(float scale) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int c = 0; c < kOwnColumns; ++c) s[i][c] = saturated_half(s[i][c] * scale);
    }
  }

  // S' <- [raw] S' + k (u / scale)^T: one token, in every use the same operations.
  __device__ __forceinline__ void update(const float (&key)[kRows], const float (&scaled_update)[kOwnColumns],
                                         bool restart, float raw) {
    if (restart) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int c = 0; c < kOwnColumns; ++c) s[i][c] = __fmul_rn(s[i][c], raw);
      }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int c = 0; c < kOwnColumns; ++c) s[i][c] = fmaf(key[i], scaled_update[c], s[i][c]);
    }
  }
  __device__ __forceinline__ void read_rows(const float* vector, float (&rows)[kRows]) const {
#pragma unroll
    for (int quad = 0; quad < kQuads; ++quad) {
      const float4 four = *reinterpret_cast<const float4*>(vector + first_row + quad * kQuadStep);
      rows[4 * quad] = four.x;
      rows[4 * quad + 1] = four.y;
      rows[4 * quad + 2] = four.z;
      rows[4 * quad + 3] = four.w;
    }
  }
  // `count` tokens whose keys and scaled updates lie in shared memory.
  __device__ __forceinline__ void advance(const PassShared<kColumns>& shared, int count) {
    const unsigned restarts = shared.restarts;
#pragma unroll 1
    for (int token = 0; token < count; ++token) {
      float key[kRows];
      float scaled_update[kOwnColumns];
      read_rows(shared.keys[token], key);
#pragma unroll
      for (int c = 0; c < kOwnColumns; ++c) scaled_update[c] = shared.values[token][first_column + c];
      update(key, scaled_update, (restarts >> token & 1U) != 0, shared.steps[token].raw);
    }
  }
};

// What a lane of the recurrent form holds after the sums: S'^T k of one of its columns (even lanes) or S'^T q (odd),
// lanes l and l + 8 of 16 the same. Each step halves what a lane keeps.
__device__ __forceinline__ float sum_over_rows(const float (&key_dots)[4], const float (&query_dots)[4], int lane) {
  const bool first = (lane & 1) != 0;
  const bool second = (lane & 2) != 0;
  const bool third = (lane & 4) != 0;
  float four[4];
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    const float sent = __shfl_xor_sync(~0U, first ? key_dots[c] : query_dots[c], 1);
    four[c] = (first ? query_dots[c] : key_dots[c]) + sent;
  }
  float two[2];
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    const float sent = __shfl_xor_sync(~0U, second ? four[c] : four[2 + c], 2);
    two[c] = (second ? four[2 + c] : four[c]) + sent;
  }
  const float sent = __shfl_xor_sync(~0U, third ? two[0] : two[1], 4);
  const float one = (third ? two[1] : two[0]) + sent;
  return one + __shfl_xor_sync(~0U, one, 8);
}
// The lane of 16 that holds S'^T k of column c after sum_over_rows.
__device__ __forceinline__ int lane_of_column(int c) {
  return (c >> 1) * 2 + (c & 1) * 4;
}

// Token by token: u = beta (v - S^T k), o = S^T q + (k.q) u with S already decayed, S <- S + k u^T. Leaves o in
// `outputs` and u / scale in `values`.
template <int kColumns>
__device__ __forceinline__ void run_recurrence(StateTile<GdnForm::kRecurrent, kColumns>& state,
                                               PassShared<kColumns>& shared, int count) {
  using Tile = StateTile<GdnForm::kRecurrent, kColumns>;
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const bool queries = (lane & 1) != 0;
  const int column = state.first_column + (lane >> 1 & 1) * 2 + (lane >> 2 & 1);
  float(*const results)[kColumns] = queries ? shared.outputs : shared.values;
  const unsigned restarts = shared.restarts;

  float key[Tile::kRows];
  float query[Tile::kRows];
  state.read_rows(shared.keys[0], key);
  state.read_rows(shared.queries[0], query);
  TokenStep step = shared.steps[0];
  float value = shared.values[0][column];
#pragma unroll 1
  for (int token = 0; token < count; ++token) {
    float key_dots[4] = {};
    float query_dots[4] = {};
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        key_dots[c] = fmaf(key[i], state.s[i][c], key_dots[c]);
        query_dots[c] = fmaf(query[i], state.s[i][c], query_dots[c]);
      }
    }
    // The next token's numbers are asked for while this one's sums travel.
    const int next = token + 1 < count ? token + 1 : token;
    float next_key[Tile::kRows];
    float next_query[Tile::kRows];
    state.read_rows(shared.keys[next], next_key);
    state.read_rows(shared.queries[next], next_query);
    const TokenStep next_step = shared.steps[next];
    const float next_value = shared.values[next][column];

    const float sum = sum_over_rows(key_dots, query_dots, lane);
    const float own_update = step.beta * fmaf(-step.raw, sum, value);  // of even lanes
    const float own_scaled = own_update * step.inverse;
    float scaled_update[4];
#pragma unroll
    for (int c = 0; c < 4; ++c) scaled_update[c] = __shfl_sync(~0U, own_scaled, lane_of_column(c), 16);
    state.update(key, scaled_update, (restarts >> token & 1U) != 0, step.raw);

    const float column_update = __shfl_xor_sync(~0U, own_update, 1);  // of odd lanes: the even neighbour's u
    const float output = fmaf(step.key_query, column_update, step.raw * sum);
    __syncwarp();  // lanes that share a column have read it before its last token's place is written
    if ((lane & 8) == 0) results[token][column] = queries ? output : own_scaled;
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
      key[i] = next_key[i];
      query[i] = next_query[i];
    }
    step = next_step;
    value = next_value;
  }
}

}  // namespace tare::engine::gdn

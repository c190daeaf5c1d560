// A slice of one head's state in the registers of a thread block, and the recurrence over it.
//
// Warps share the slice by columns of dv, threads of a warp by rows of dk:
//   recurrent: a warp has 8 columns, a thread 8 rows x 4 columns: rows 4 (lane % 16) + {0..3, 64..67}, columns
//              4 (lane / 16) + 0..3. A sum over dk stays in 16 lanes. What is read from shared memory costs by the
//              register that it fills, broadcast or not: 16 rows x 2 columns would need fewer shuffles and twice of
//              that.
//   chunked:   a pair of warps has 16 columns, each warp one half of dk, a thread 16 rows x 2 columns: rows
//              64 half + 16 s + 4 (lane % 4) + {0, 2, 1, 3} for s = 0..3, columns 2 (lane / 4) + 0, 1. So a thread
//              holds what mma.m16n8k8 wants of it, as an operand and as a sum (gdn_chunk.cuh).
#pragma once

#include <cuda_bf16.h>
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
  float after = 0;    // the scale after this token
};

// Shared memory of a thread block that owns `kColumns` columns of a head, for the tokens in hand.
template <int kColumns>
struct alignas(16) PassShared {
  static constexpr int kStride =
      kColumns + 8;  // 8 banks from one token to the next: four tokens' lanes meet none twice
  float keys[kBlockTokens][kRowStride];
  float queries[kBlockTokens][kRowStride];
  float values[kBlockTokens][kStride];   // v, then u / scale
  float outputs[kBlockTokens][kStride];  // o; of the recurrent form without (k.q) u
  float gates[kBlockTokens][kStride];    // silu(z)
  TokenStep steps[kBlockTokens];
  float own_sums[kBlockTokens];   // of o, squared, over this slice
  float peer_sums[kBlockTokens];  // and over the other one
  float scale;                    // S = scale S'
  unsigned restarts;              // bit t: the scale starts again at token t
  int half;                       // of the records, that this pass writes
  std::uint64_t rows_barrier;     // q or k from the peer
  std::uint64_t sums_barrier;     // its sums of squares
};

struct Scales {
  float raw = 0;
  float after = 1;
};
// A warp follows the scale over `count` tokens; lane t brings the decay of token t, 1 past the last, and gets the scale
// before and after.
__device__ __forceinline__ Scales follow_scale(float decay, int count, float& scale, unsigned& restarts) {
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  Scales own;
  restarts = 0;
  constexpr int kStep = 4;
#pragma unroll 1
  for (int first = 0; first < count; first += kStep) {
#pragma unroll
    for (int token = first; token < first + kStep; ++token) {
      const float raw = scale * __shfl_sync(~0U, decay, token);
      const bool restart = raw < kGdnLeastScale;
      scale = restart ? 1.0F : raw;
      restarts |= static_cast<unsigned>(restart) << token;
      if (lane == token) own = {raw, scale};
    }
  }
  return own;
}

// follow_scale of a tree: lane n brings the decay and the parent of node n, and gets the scale before and after it.
__device__ __forceinline__ Scales follow_scale_of_nodes(float decay, int parent, int count, float scale,
                                                        unsigned& restarts) {
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  Scales own;
  restarts = 0;
#pragma unroll 4
  for (int node = 0; node < count; ++node) {
    const int before = __shfl_sync(~0U, parent, node);
    const float of_parent = __shfl_sync(~0U, own.after, before & (kLanes - 1));
    const float raw = (before >= 0 ? of_parent : scale) * __shfl_sync(~0U, decay, node);
    const bool restart = raw < kGdnLeastScale;
    restarts |= static_cast<unsigned>(restart) << node;
    if (lane == node) own = {raw, restart ? 1.0F : raw};
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
  static constexpr int kSliceColumns = kColumns;

  float s[kRows][kOwnColumns];
  int first_row;
  int first_column;  // within the slice
  int first_place;   // of this thread's elements in memory (gdn_layout.h), within the slice

  __device__ __forceinline__ StateTile() {
    const auto warp = static_cast<int>(threadIdx.x / kLanes);
    const auto lane = static_cast<int>(threadIdx.x % kLanes);
    if constexpr (kRecurrent) {
      first_row = 4 * (lane % 16);
      first_column = 8 * warp + 4 * (lane / 16);
      first_place = gdn_state_place(0, 8 * warp) + lane % 16 * 8 + lane / 16 * 4;
    } else {
      first_row = 64 * (warp / (kColumns / 16)) + 4 * (lane % 4);
      first_column = 16 * (warp % (kColumns / 16)) + 2 * (lane / 4);
      first_place = gdn_state_place(first_row / 64 * 64, first_column / 8 * 8) + lane % 4 * 8 + lane / 4 % 4 * 2;
    }
  }
  // From a thread's first place to that of its row i.
  [[nodiscard]] static constexpr int place_step(int i) {
    return gdn_state_place(i / 4 * kQuadStep + (kRecurrent ? i % 4 : i % 2 * 2 + i % 4 / 2), 0);
  }

  // `slice` is the first element of this block's columns.
  __device__ __forceinline__ void load(const void* state, int slice, StateFormat format) {
    const int first = slice + first_place;
    if (format == StateFormat::kFP16) {
      const __half* source = static_cast<const __half*>(state) + first;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int c = 0; c < kOwnColumns; c += 2) {
          set_pair(i, c, __half22float2(*reinterpret_cast<const __half2*>(source + place_step(i) + c)));
        }
      }
    } else if (format == StateFormat::kBF16) {
      const __nv_bfloat16* source = static_cast<const __nv_bfloat16*>(state) + first;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int c = 0; c < kOwnColumns; c += 2) {
          set_pair(i, c, __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(source + place_step(i) + c)));
        }
      }
    } else {
      const float* source = static_cast<const float*>(state) + first;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if constexpr (kRecurrent) {
          const float4 four = *reinterpret_cast<const float4*>(source + place_step(i));
          set_pair(i, 0, {four.x, four.y});
          set_pair(i, 2, {four.z, four.w});
        } else {
          set_pair(i, 0, *reinterpret_cast<const float2*>(source + place_step(i)));
        }
      }
    }
  }
  __device__ __forceinline__ void store(void* state, int slice, StateFormat format) const {
    const int first = slice + first_place;
    if (format == StateFormat::kFP16) {
      __half* target = static_cast<__half*>(state) + first;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int c = 0; c < kOwnColumns; c += 2) {
          *reinterpret_cast<__half2*>(target + place_step(i) + c) = __floats2half2_rn(s[i][c], s[i][c + 1]);
        }
      }
    } else if (format == StateFormat::kBF16) {
      __nv_bfloat16* target = static_cast<__nv_bfloat16*>(state) + first;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int c = 0; c < kOwnColumns; c += 2) {
          *reinterpret_cast<__nv_bfloat162*>(target + place_step(i) + c) = __floats2bfloat162_rn(s[i][c], s[i][c + 1]);
        }
      }
    } else {
      float* target = static_cast<float*>(state) + first;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        if constexpr (kRecurrent) {
          *reinterpret_cast<float4*>(target + place_step(i)) = {s[i][0], s[i][1], s[i][2], s[i][3]};
        } else {
          *reinterpret_cast<float2*>(target + place_step(i)) = {s[i][0], s[i][1]};
        }
      }
    }
  }
  __device__ __forceinline__ void set_pair(int i, int c, float2 two) {
    s[i][c] = two.x;
    s[i][c + 1] = two.y;
  }
  // What an FP16 state keeps: S itself, rounded; the registers hold the same afterwards.
  __device__ __forceinline__ void round_to(StateFormat format, float scale) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int c = 0; c < kOwnColumns; ++c) {
        const float value = s[i][c] * scale;
        s[i][c] = format == StateFormat::kFP16 ? saturated_half(value) : __bfloat162float(__float2bfloat16_rn(value));
      }
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
};

// S' <- [raw] S' + k (u / scale)^T: one token of the recurrent form, in every use the same operations.
template <class Tile>
__device__ __forceinline__ void add_update(Tile& state, const float (&key)[Tile::kRows],
                                           const float (&scaled_update)[Tile::kOwnColumns], bool restart, float raw) {
  if (restart) {
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
      for (int c = 0; c < Tile::kOwnColumns; ++c) state.s[i][c] = __fmul_rn(state.s[i][c], raw);
    }
  }
#pragma unroll
  for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
    for (int c = 0; c < Tile::kOwnColumns; ++c) state.s[i][c] = fmaf(key[i], scaled_update[c], state.s[i][c]);
  }
}
template <int kColumns>
__device__ __forceinline__ void advance_one(StateTile<GdnForm::kRecurrent, kColumns>& state,
                                            const PassShared<kColumns>& shared, int token, bool restart) {
  using Tile = StateTile<GdnForm::kRecurrent, kColumns>;
  float key[Tile::kRows];
  state.read_rows(shared.keys[token], key);
  const float4 four = *reinterpret_cast<const float4*>(&shared.values[token][state.first_column]);
  const float scaled_update[Tile::kOwnColumns] = {four.x, four.y, four.z, four.w};
  add_update(state, key, scaled_update, restart, restart ? shared.steps[token].raw : 1.0F);
}
// `count` tokens whose keys and scaled updates lie in shared memory.
template <int kColumns>
__device__ __forceinline__ void advance(StateTile<GdnForm::kRecurrent, kColumns>& state,
                                        const PassShared<kColumns>& shared, int count) {
  constexpr int kStep = 4;
  const unsigned restarts = shared.restarts;
  int token = 0;
  if (restarts == 0) {
#pragma unroll 1
    for (; token + kStep <= count; token += kStep) {
#pragma unroll
      for (int i = 0; i < kStep; ++i) advance_one(state, shared, token + i, false);
    }
  }
#pragma unroll 1
  for (; token < count; ++token) advance_one(state, shared, token, (restarts >> token & 1U) != 0);
}
// The same operations in less code, for a kernel that is bound by reading it: the next token's numbers are on their way
// while one is added.
template <int kColumns, class Shared>
__device__ __forceinline__ void advance_in_short(StateTile<GdnForm::kRecurrent, kColumns>& state, const Shared& shared,
                                                 int count) {
  using Tile = StateTile<GdnForm::kRecurrent, kColumns>;
  const unsigned restarts = shared.restarts;
  float next_key[Tile::kRows];
  state.read_rows(shared.keys[0], next_key);
  float4 next_update = *reinterpret_cast<const float4*>(&shared.values[0][state.first_column]);
#pragma unroll 1
  for (int token = 0; token < count; ++token) {
    float key[Tile::kRows];
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) key[i] = next_key[i];
    const float scaled_update[Tile::kOwnColumns] = {next_update.x, next_update.y, next_update.z, next_update.w};
    const int next = min(token + 1, count - 1);
    state.read_rows(shared.keys[next], next_key);
    next_update = *reinterpret_cast<const float4*>(&shared.values[next][state.first_column]);
    const bool restart = (restarts >> token & 1U) != 0;
    add_update(state, key, scaled_update, restart, restart ? shared.steps[token].raw : 1.0F);
  }
}

// What a lane of the recurrent form holds after the sums: S'^T k of one of its columns (even lanes) or S'^T q (odd),
// lanes l and l + 8 of 16 the same. Each step but the last halves what a lane keeps.
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
__device__ __forceinline__ constexpr int lane_of_column(int c) {
  return (c >> 1) * 2 + (c & 1) * 4;
}

// Token by token: u = beta (v - S^T k), o = S^T q + (k.q) u with S already decayed, S <- S + k u^T. Leaves o without
// its second part in `outputs` and u / scale in `values`.
template <int kColumns>
class Recurrence {
 public:
  using Tile = StateTile<GdnForm::kRecurrent, kColumns>;

  __device__ __forceinline__ Recurrence(Tile& state, PassShared<kColumns>& shared, int count, int first = 0)
      : state_(state),
        shared_(shared),
        lane_(static_cast<int>(threadIdx.x % kLanes)),
        first_(first),
        end_(first + count),
        restarts_(shared.restarts) {
    const int column = state.first_column + (lane_ >> 1 & 1) * 2 + (lane_ >> 2 & 1);
    updates_ = (lane_ & 9) == 0;
    writes_ = (lane_ & 8) == 0;
    results_ = (lane_ & 1) != 0 ? &shared.outputs[first][column] : &shared.values[first][column];
  }
  __device__ __forceinline__ void run() {
    float key[Tile::kRows];
    float other_key[Tile::kRows];
    state_.read_rows(shared_.keys[first_], key);
    state_.read_rows(shared_.queries[first_], query_);
    step_ = shared_.steps[first_];
    value_ = updates_ ? *results_ : 0.0F;
    // Two tokens a turn, so that keys change places without being moved.
#pragma unroll 1
    for (int token = first_; token < end_; token += 2) {
      one_token(token, key, other_key);
      if (token + 1 == end_) break;
      one_token(token + 1, other_key, key);
    }
  }

 private:
  __device__ __forceinline__ void one_token(int token, const float (&key)[Tile::kRows],
                                            float (&next_key)[Tile::kRows]) {
    float key_dots[4] = {};
    float query_dots[4] = {};
#pragma unroll
    for (int i = 0; i < Tile::kRows; ++i) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        key_dots[c] = fmaf(key[i], state_.s[i][c], key_dots[c]);
        query_dots[c] = fmaf(query_[i], state_.s[i][c], query_dots[c]);
      }
    }
    // u / scale = rate sum + input: one operation after the sum.
    const float scaled_beta = step_.beta * step_.inverse;
    const float rate = -step_.raw * scaled_beta;
    const float input = value_ * scaled_beta;
    const float raw = step_.raw;
    const float sum = sum_over_rows(key_dots, query_dots, lane_);
    const float own_scaled = fmaf(rate, sum, input);
    float scaled_update[4];
#pragma unroll
    for (int c = 0; c < 4; ++c) scaled_update[c] = __shfl_sync(~0U, own_scaled, lane_of_column(c), 16);
    // The next token's numbers are asked for behind this one's shuffles, not before: both wait in one line.
    if (token + 1 < end_) {
      state_.read_rows(shared_.keys[token + 1], next_key);
      state_.read_rows(shared_.queries[token + 1], query_);
      step_ = shared_.steps[token + 1];
      if (updates_) value_ = results_[PassShared<kColumns>::kStride];
    }
    add_update(state_, key, scaled_update, (restarts_ >> token & 1U) != 0, raw);
    const float result = (lane_ & 1) != 0 ? raw * sum : own_scaled;
    if (writes_) *results_ = result;
    results_ += PassShared<kColumns>::kStride;
  }

  Tile& state_;
  PassShared<kColumns>& shared_;
  int lane_;
  int first_;
  int end_;
  unsigned restarts_;
  // Whether this lane is the one that writes its column's u. It alone reads v there: no other lane's read can come
  // after the write to the same place.
  bool updates_;
  bool writes_;     // u or o
  float* results_;  // of the token in hand
  float query_[Tile::kRows];
  TokenStep step_;
  float value_;
};

}  // namespace tare::engine::gdn

// The chunk form over up to 16 tokens of one head: no state of a token is formed (engine/cpu/gdn_definition.h has the
// formulas). S' is the state in registers, S = scale S'.
//
//   products  S'^T [K; Q]: tensor cores, TF32 operands in two parts each (3 products: 22 bits of an operand count)
//   gram      K K^T and Q K^T likewise: the fragments of K serve as both operands
//   u_i = beta_i (v_i - e_i S'^T k_i - sum_{j<i} d_ij (k_i.k_j) u_j)      e_i = scale a_1 .. a_i, d_ij = a_j+1 .. a_i
//   o_i = e_i S'^T q_i + sum_{j<=i} d_ij (q_i.k_j) u_j
//
// e and d are products of decays, all at most 1: nothing overflows, and no sum of logarithms loses digits. d is 0 for
// j > i; a tree later puts its ancestors there.
//
// Rows of both operands are tokens: K in rows 0..15 and Q in 16..31 of two mma tiles; up to 8 tokens share one tile, K
// in its upper and Q in its lower half.
#pragma once

#include "engine/cuda/gdn/gdn_state.cuh"

namespace tare::engine::gdn {

constexpr int kGramParts = 8;
constexpr int kTokenRows = 2 * kBlockTokens;  // keys, then queries

// What a chunk needs besides; its parts share memory with the projections (gdn_pass.cu), which are gone by then.
template <int kColumns>
struct alignas(16) ChunkParts {
  float products[2][kTokenRows][kColumns];  // by half of dk
  float gram[kGramParts][kTokenRows][kBlockTokens];
};
template <int kColumns>
struct alignas(16) ChunkShared : PassShared<kColumns> {
  float decays[kBlockTokens][kBlockTokens];         // d [i][j]
  float from_start[kBlockTokens];                   // e
  float key_factors[kBlockTokens][kBlockTokens];    // [j][i]: d_ij (k_i.k_j) for j < i
  float query_factors[kBlockTokens][kBlockTokens];  // [i][j]: d_ij (q_i.k_j) for j <= i
};

// Lane j < 16 of a warp fills column j of d, lane 16 fills e; `decay` is lane t's, 1 past the last token.
template <int kColumns>
__device__ __forceinline__ void multiply_decays(ChunkShared<kColumns>& shared, float decay, float scale) {
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  float product = lane < kBlockTokens ? 1.0F : scale;
#pragma unroll 2
  for (int token = 0; token < kBlockTokens; ++token) {
    const float own = __shfl_sync(~0U, decay, token);
    if (token > lane || lane >= kBlockTokens) product *= own;
    if (lane < kBlockTokens) {
      shared.decays[token][lane] = token >= lane ? product : 0.0F;
    } else if (lane == kBlockTokens) {
      shared.from_start[token] = product;
    }
  }
}

// A number in two TF32 parts.
struct SplitFloat {
  std::uint32_t high;
  std::uint32_t low;
};
__device__ __forceinline__ std::uint32_t to_tf32(float x) {
  std::uint32_t bits = 0;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}
__device__ __forceinline__ SplitFloat split(float x) {
  const std::uint32_t high = to_tf32(x);
  return {high, to_tf32(x - __uint_as_float(high))};
}

__device__ __forceinline__ void mma_tf32(float (&sum)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
struct SplitA {
  std::uint32_t high[4];
  std::uint32_t low[4];
};
struct SplitB {
  std::uint32_t high[2];
  std::uint32_t low[2];
};
// Small parts first.
__device__ __forceinline__ void multiply(float (&sum)[4], const SplitA& a, const SplitB& b) {
  mma_tf32(sum, a.low, b.high);
  mma_tf32(sum, a.high, b.low);
  mma_tf32(sum, a.high, b.high);
}
// Rows `upper` and `lower` of a tile at one lane's two places of dk.
__device__ __forceinline__ SplitA tile_of_rows(const SplitFloat (&upper)[2], const SplitFloat (&lower)[2]) {
  return {{upper[0].high, lower[0].high, upper[1].high, lower[1].high},
          {upper[0].low, lower[0].low, upper[1].low, lower[1].low}};
}
__device__ __forceinline__ SplitB columns_of_row(const SplitFloat (&row)[2]) {
  return {{row[0].high, row[1].high}, {row[0].low, row[1].low}};
}

// Products and gram of `kTiles` tiles (1: up to 8 tokens). Leaves them in shared memory, by parts.
template <int kTiles, int kColumns>
__device__ __forceinline__ void multiply_chunk(const StateTile<GdnForm::kChunked, kColumns>& state,
                                               const ChunkShared<kColumns>& shared, ChunkParts<kColumns>& parts) {
  constexpr int kColumnGroups = kColumns / 16;
  const auto warp = static_cast<int>(threadIdx.x / kLanes);
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const int row_half = warp / kColumnGroups;
  const int column_group = warp % kColumnGroups;
  const int token = lane / 4;
  const int pair = lane % 4;

  float products[kTiles][2][4] = {};
  float gram[kTiles][kTiles][4] = {};  // [tile][tokens 8 n..]
#pragma unroll
  for (int quad = 0; quad < 4; ++quad) {
    const int row = state.first_row + quad * 16;
    // Rows of the tiles that this lane reads: K, K + 8, Q, Q + 8, or K and Q.
    const float* const sources[4] = {
        kTiles == 2 ? shared.keys[token] + row : shared.keys[token] + row,
        kTiles == 2 ? shared.keys[token + 8] + row : shared.queries[token] + row,
        shared.queries[token] + row,
        shared.queries[token + 8] + row,
    };
    float rows[2 * kTiles][4];
#pragma unroll
    for (int r = 0; r < 2 * kTiles; ++r) {
      const float4 four = *reinterpret_cast<const float4*>(sources[r]);
      rows[r][0] = four.x;
      rows[r][1] = four.y;
      rows[r][2] = four.z;
      rows[r][3] = four.w;
    }
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      SplitFloat split_rows[2 * kTiles][2];
#pragma unroll
      for (int r = 0; r < 2 * kTiles; ++r) {
        split_rows[r][0] = split(rows[r][2 * step]);
        split_rows[r][1] = split(rows[r][2 * step + 1]);
      }
      SplitB columns[2];
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const SplitFloat own[2] = {split(state.s[4 * quad + 2 * step][n]), split(state.s[4 * quad + 2 * step + 1][n])};
        columns[n] = columns_of_row(own);
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const SplitA a = tile_of_rows(split_rows[2 * tile], split_rows[2 * tile + 1]);
#pragma unroll
        for (int n = 0; n < 2; ++n) multiply(products[tile][n], a, columns[n]);
        if (column_group == quad) {
#pragma unroll
          for (int n = 0; n < kTiles; ++n) multiply(gram[tile][n], a, columns_of_row(split_rows[n]));
        }
      }
    }
  }

  // Of a tile a lane holds rows lane / 4 and 8 + lane / 4, columns 2 (lane % 4) and its successor; the two tiles of
  // state columns interleave.
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      const int row = kTiles == 2 ? tile * kBlockTokens + lower * 8 + token : lower * kBlockTokens + token;
      const float(&even)[4] = products[tile][0];
      const float(&odd)[4] = products[tile][1];
      *reinterpret_cast<float4*>(&parts.products[row_half][row][16 * column_group + 4 * pair]) = {
          even[2 * lower], odd[2 * lower], even[2 * lower + 1], odd[2 * lower + 1]};
      if (column_group >= kGramParts / 2) continue;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const int part = row_half * (kGramParts / 2) + column_group;
        *reinterpret_cast<float2*>(&parts.gram[part][row][8 * n + 2 * pair]) = {gram[tile][n][2 * lower],
                                                                                gram[tile][n][2 * lower + 1]};
      }
    }
  }
}

// Adds the parts of the gram matrix and decays them.
template <int kTokens, int kColumns, int kThreads>
__device__ __forceinline__ void finish_gram(ChunkShared<kColumns>& shared, const ChunkParts<kColumns>& parts) {
  for (int index = static_cast<int>(threadIdx.x); index < 2 * kTokens * kTokens; index += kThreads) {
    const int j = index % kTokens;
    const int i = index / kTokens % kTokens;
    const bool query = index >= kTokens * kTokens;
    float sum = 0.0F;
#pragma unroll
    for (int part = 0; part < kGramParts; ++part) {
      sum += parts.gram[part][(query ? kBlockTokens : 0) + i][j];
    }
    const float decayed = sum * shared.decays[i][j];
    if (query) {
      shared.query_factors[i][j] = j <= i ? decayed : 0.0F;
    } else {
      shared.key_factors[j][i] = j < i ? decayed : 0.0F;
    }
  }
}

// Forward substitution, one thread a column. Leaves u / scale in `values` and u where S'^T k was.
template <int kTokens, int kColumns>
__device__ __forceinline__ void substitute(ChunkShared<kColumns>& shared, ChunkParts<kColumns>& parts, int column) {
  float rest[kTokens];
#pragma unroll
  for (int i = 0; i < kTokens; ++i) {
    const float prediction = parts.products[0][i][column] + parts.products[1][i][column];
    rest[i] = fmaf(-shared.from_start[i], prediction, shared.values[i][column]);
  }
#pragma unroll
  for (int j = 0; j < kTokens; ++j) {
    const float u = shared.steps[j].beta * rest[j];
    parts.products[0][j][column] = u;
    shared.values[j][column] = u * shared.steps[j].inverse;
#pragma unroll
    for (int i = j + 1; i < kTokens; ++i) rest[i] = fmaf(-shared.key_factors[j][i], u, rest[i]);
  }
}

template <int kTokens, int kColumns, int kThreads>
__device__ __forceinline__ void read_outputs(ChunkShared<kColumns>& shared, const ChunkParts<kColumns>& parts) {
  constexpr int kGroups = kThreads / kColumns;
  const int column = static_cast<int>(threadIdx.x) % kColumns;
  const int group = static_cast<int>(threadIdx.x) / kColumns;
  float updates[kTokens];
#pragma unroll
  for (int j = 0; j < kTokens; ++j) updates[j] = parts.products[0][j][column];
#pragma unroll
  for (int k = 0; k < kTokens / kGroups; ++k) {
    const int i = group + k * kGroups;
    const float from_state = parts.products[0][kBlockTokens + i][column] + parts.products[1][kBlockTokens + i][column];
    float output = shared.from_start[i] * from_state;
#pragma unroll
    for (int j = 0; j < kTokens; ++j) output = fmaf(shared.query_factors[i][j], updates[j], output);
    shared.outputs[i][column] = output;
  }
}

template <int kTokens, int kColumns, int kThreads>
__device__ __forceinline__ void solve_chunk(ChunkShared<kColumns>& shared, ChunkParts<kColumns>& parts) {
  finish_gram<kTokens, kColumns, kThreads>(shared, parts);
  __syncthreads();
  if (threadIdx.x < kColumns) substitute<kTokens>(shared, parts, static_cast<int>(threadIdx.x));
  __syncthreads();
  read_outputs<kTokens, kColumns, kThreads>(shared, parts);
}

// Leaves o in `outputs` and u / scale in `values`. All threads; rows of keys, queries and values are zero from `count`
// up to 8, or 16 when there are more than 8.
template <int kColumns, int kThreads>
__device__ __forceinline__ void run_chunk(const StateTile<GdnForm::kChunked, kColumns>& state,
                                          ChunkShared<kColumns>& shared, ChunkParts<kColumns>& parts, int count) {
  if (count <= kBlockTokens / 2) {
    multiply_chunk<1>(state, shared, parts);
    __syncthreads();
    solve_chunk<kBlockTokens / 2, kColumns, kThreads>(shared, parts);
  } else {
    multiply_chunk<2>(state, shared, parts);
    __syncthreads();
    solve_chunk<kBlockTokens, kColumns, kThreads>(shared, parts);
  }
}

}  // namespace tare::engine::gdn

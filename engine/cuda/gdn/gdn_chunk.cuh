// The chunk form over up to 16 tokens of one head: no state of a token is formed (engine/cpu/gdn_definition.h has the
// formulas). S' is the state in registers, S = scale S'. All products are on tensor cores, TF32 operands in two parts
// each (3 products: 22 bits of an operand count).
//
//   products  S'^T [K; Q]
//   gram      K K^T and Q K^T: the fragments of K serve as both operands
//   u_i = beta_i (v_i - e_i S'^T k_i - sum_{j<i} d_ij (k_i.k_j) u_j)      e_i = scale a_1 .. a_i, d_ij = a_j+1 .. a_i
//   o_i = e_i S'^T q_i + sum_{j<=i} d_ij (q_i.k_j) u_j
//   advance   S'^T <- w S'^T + (w_j u_j / scale_j) K    w, w_j: where the scale starts again (gdn_layout.h), else 1
//
// e and d are products of decays, all at most 1: nothing overflows, and no sum of logarithms loses digits. d is 0 for
// j > i; in a tree they are products along the path to i, and d is 0 unless j is i or an ancestor of i. Nothing else
// changes: the sums over j < i then go over the path.
//
// Rows of the products' operands are tokens: K in rows 0..15 and Q in 16..31 of two mma tiles; up to 8 tokens share one
// tile, K in its upper and Q in its lower half. A thread's state is operand B of the products and the sum of advance at
// once: of the 4 rows 4 p .. 4 p + 3 (p = lane % 4) of a quad of rows, step e of two takes rows 4 p + e and 4 p + 2 + e
// as places p and p + 4 of k, which are columns 2 p and 2 p + 1 of advance's sum.
#pragma once

#include "engine/cuda/gdn/gdn_state.cuh"

namespace tare::engine::gdn {

constexpr int kGramParts = 8;
constexpr int kTokenRows = 2 * kBlockTokens;     // keys, then queries
constexpr int kFactorStride = kBlockTokens + 4;  // lanes of a fragment meet no bank twice
constexpr int kHalfBlock = kBlockTokens / 2;

// What a chunk needs besides; its parts share memory with plain rows on their way in (gdn_pass.cu).
template <int kColumns>
struct alignas(16) ChunkParts {
  float products[2][kTokenRows][PassShared<kColumns>::kStride];  // by half of dk; then u where S'^T k was
  float gram[kGramParts][kTokenRows][kBlockTokens];
};
template <int kColumns>
struct alignas(16) ChunkShared : PassShared<kColumns> {
  alignas(16) float key_factors[kBlockTokens][kBlockTokens];  // [j][i]: d_ij (k_i.k_j) for j < i
  float query_factors[kBlockTokens][kFactorStride];           // [i][j]: d_ij (q_i.k_j) for j <= i
  float decays[kBlockTokens][kBlockTokens];                   // d [i][j]
  float from_start[kBlockTokens];                             // e
};

// Lane j < 16 of a warp fills column j of d, lane 16 fills e; `decay` is lane t's, 1 past the last token.
template <int kColumns>
__device__ __forceinline__ void multiply_decays(ChunkShared<kColumns>& shared, float decay, float scale) {
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const bool of_pair = lane < kBlockTokens;
  float* target = of_pair ? &shared.decays[0][lane] : &shared.from_start[0];
  const int stride = of_pair ? kBlockTokens : 1;
  float product = of_pair ? 1.0F : scale;
#pragma unroll
  for (int token = 0; token < kBlockTokens; ++token) {
    const float own = __shfl_sync(~0U, decay, token);
    if (token > lane || !of_pair) product *= own;
    if (lane <= kBlockTokens) target[token * stride] = token >= lane || !of_pair ? product : 0.0F;
  }
}

// multiply_decays of a tree: d is 0 for all that is no ancestor.
template <int kColumns>
__device__ __forceinline__ void multiply_decays_of_nodes(ChunkShared<kColumns>& shared, float decay, int parent,
                                                         float scale) {
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const bool of_pair = lane < kBlockTokens;
  const bool writes = lane <= kBlockTokens;
  float* target = of_pair ? &shared.decays[0][lane] : &shared.from_start[0];
  const int stride = of_pair ? kBlockTokens : 1;
  const float at_root = of_pair ? 0.0F : scale;
#pragma unroll 4
  for (int node = 0; node < kBlockTokens; ++node) {
    const float own = __shfl_sync(~0U, decay, node);
    const int before = __shfl_sync(~0U, parent, node);
    if (!writes) continue;
    const float of_parent = before >= 0 ? target[before * stride] : at_root;
    target[node * stride] = of_pair && lane == node ? 1.0F : of_parent * own;
  }
}

// A number in two TF32 parts. Tensor cores leave out the 13 lowest bits: the upper part is rounded here so that the
// lower one's loss has both signs.
struct SplitFloat {
  std::uint32_t high;
  std::uint32_t low;
};
__device__ __forceinline__ SplitFloat split(float x) {
  constexpr std::uint32_t kHalf = 1U << 12U;
  constexpr std::uint32_t kKept = ~((1U << 13U) - 1U);
  const std::uint32_t high = (__float_as_uint(x) + kHalf) & kKept;
  return {high, __float_as_uint(x - __uint_as_float(high))};
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
// kCount sums of products, side by side: a tensor core's sum is there only after some 30 clocks. Small parts first.
template <int kCount>
__device__ __forceinline__ void multiply(float (*const (&sums)[kCount])[4], const SplitA* const (&a)[kCount],
                                         const SplitB* const (&b)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) mma_tf32(*sums[i], a[i]->low, b[i]->high);
#pragma unroll
  for (int i = 0; i < kCount; ++i) mma_tf32(*sums[i], a[i]->high, b[i]->low);
#pragma unroll
  for (int i = 0; i < kCount; ++i) mma_tf32(*sums[i], a[i]->high, b[i]->high);
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
        shared.keys[token] + row,
        kTiles == 2 ? shared.keys[token + kHalfBlock] + row : shared.queries[token] + row,
        shared.queries[token] + row,
        shared.queries[token + kHalfBlock] + row,
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
        split_rows[r][0] = split(rows[r][step]);
        split_rows[r][1] = split(rows[r][step + 2]);
      }
      SplitB columns[2];
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const SplitFloat own[2] = {split(state.s[4 * quad + 2 * step][n]), split(state.s[4 * quad + 2 * step + 1][n])};
        columns[n] = columns_of_row(own);
      }
      const SplitA keys = tile_of_rows(split_rows[0], split_rows[1]);
      const SplitB key_columns = columns_of_row(split_rows[0]);
      if constexpr (kTiles == 2) {
        const SplitA queries = tile_of_rows(split_rows[2], split_rows[3]);
        multiply<4>({&products[0][0], &products[0][1], &products[1][0], &products[1][1]},
                    {&keys, &keys, &queries, &queries}, {&columns[0], &columns[1], &columns[0], &columns[1]});
        if (column_group == quad) {
          const SplitB more_columns = columns_of_row(split_rows[1]);
          multiply<4>({&gram[0][0], &gram[0][1], &gram[1][0], &gram[1][1]}, {&keys, &keys, &queries, &queries},
                      {&key_columns, &more_columns, &key_columns, &more_columns});
        }
      } else {
        multiply<2>({&products[0][0], &products[0][1]}, {&keys, &keys}, {&columns[0], &columns[1]});
        if (column_group == quad) multiply<1>({&gram[0][0]}, {&keys}, {&key_columns});
      }
    }
  }

  // Of a tile a lane holds rows lane / 4 and 8 + lane / 4, columns 2 (lane % 4) and its successor; the two tiles of
  // state columns interleave.
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      const int row = kTiles == 2 ? tile * kBlockTokens + lower * kHalfBlock + token : lower * kBlockTokens + token;
      const float(&even)[4] = products[tile][0];
      const float(&odd)[4] = products[tile][1];
      *reinterpret_cast<float4*>(&parts.products[row_half][row][16 * column_group + 4 * pair]) = {
          even[2 * lower], odd[2 * lower], even[2 * lower + 1], odd[2 * lower + 1]};
      if (column_group >= kGramParts / 2) continue;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const int part = row_half * (kGramParts / 2) + column_group;
        *reinterpret_cast<float2*>(&parts.gram[part][row][kHalfBlock * n + 2 * pair]) = {gram[tile][n][2 * lower],
                                                                                         gram[tile][n][2 * lower + 1]};
      }
    }
  }
}

// Adds the parts of the gram matrix and decays them.
template <int kTokens, int kColumns, int kThreads>
__device__ __forceinline__ void finish_gram(ChunkShared<kColumns>& shared, const ChunkParts<kColumns>& parts) {
#pragma unroll 1
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
    const TokenStep step = shared.steps[j];
    const float u = step.beta * rest[j];
    parts.products[0][j][column] = u;
    shared.values[j][column] = u * step.inverse;
#pragma unroll
    for (int first = (j + 1) / 4 * 4; first < kTokens; first += 4) {
      const float4 four = *reinterpret_cast<const float4*>(&shared.key_factors[j][first]);
      const float factors[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (first + i > j) rest[first + i] = fmaf(-factors[i], u, rest[first + i]);
      }
    }
  }
}

// o of 8 columns a warp.
template <int kTokens, int kColumns>
__device__ __forceinline__ void read_outputs(ChunkShared<kColumns>& shared, const ChunkParts<kColumns>& parts) {
  const auto warp = static_cast<int>(threadIdx.x / kLanes);
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  constexpr int kLowers = kTokens / kHalfBlock;  // rows lane / 4 and, of more than 8 tokens, 8 + lane / 4
  const int token = lane / 4;
  const int place = lane % 4;
  const int first_column = 8 * warp;
  float sum[4] = {};
#pragma unroll
  for (int step = 0; step < kLowers; ++step) {
    SplitFloat factors[2][2] = {};
    SplitFloat updates[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int j = kHalfBlock * step + place + 4 * k;
#pragma unroll
      for (int lower = 0; lower < kLowers; ++lower) {
        factors[lower][k] = split(shared.query_factors[kHalfBlock * lower + token][j]);
      }
      updates[k] = split(parts.products[0][j][first_column + token]);
    }
    const SplitA a = tile_of_rows(factors[0], factors[1]);
    const SplitB b = columns_of_row(updates);
    multiply<1>({&sum}, {&a}, {&b});
  }
#pragma unroll
  for (int lower = 0; lower < kLowers; ++lower) {
    const int i = kHalfBlock * lower + token;
    const int column = first_column + 2 * place;
    const float2 one = *reinterpret_cast<const float2*>(&parts.products[0][kBlockTokens + i][column]);
    const float2 other = *reinterpret_cast<const float2*>(&parts.products[1][kBlockTokens + i][column]);
    const float from_start = shared.from_start[i];
    *reinterpret_cast<float2*>(&shared.outputs[i][column]) = {fmaf(from_start, one.x + other.x, sum[2 * lower]),
                                                              fmaf(from_start, one.y + other.y, sum[2 * lower + 1])};
  }
}

template <int kTokens, int kColumns, int kThreads>
__device__ __forceinline__ void solve_chunk(ChunkShared<kColumns>& shared, ChunkParts<kColumns>& parts) {
  static_assert(kThreads / kLanes * 8 == kColumns);
  finish_gram<kTokens, kColumns, kThreads>(shared, parts);
  __syncthreads();
  if (threadIdx.x < kColumns) substitute<kTokens>(shared, parts, static_cast<int>(threadIdx.x));
  __syncthreads();
  read_outputs<kTokens>(shared, parts);
}

// Leaves o in `outputs` and u / scale in `values`. All threads; rows of keys, queries and values are zero from `count`
// up to 8, or 16 when there are more than 8.
template <int kColumns, int kThreads>
__device__ __forceinline__ void run_chunk(const StateTile<GdnForm::kChunked, kColumns>& state,
                                          ChunkShared<kColumns>& shared, ChunkParts<kColumns>& parts, int count) {
  if (count <= kHalfBlock) {
    multiply_chunk<1>(state, shared, parts);
    __syncthreads();
    solve_chunk<kHalfBlock, kColumns, kThreads>(shared, parts);
  } else {
    multiply_chunk<2>(state, shared, parts);
    __syncthreads();
    solve_chunk<kBlockTokens, kColumns, kThreads>(shared, parts);
  }
}

// `count` tokens whose keys and scaled updates lie in shared memory. What they add is summed apart from the state,
// whose sum with it then rounds once: tensor cores cut off where they add.
template <int kColumns>
__device__ __forceinline__ void advance(StateTile<GdnForm::kChunked, kColumns>& state,
                                        const PassShared<kColumns>& shared, int count) {
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const int place = lane % 4;
  constexpr int kTokenSets = kBlockTokens / 4;  // a lane looks after tokens place + 4 m
  float weights[kTokenSets] = {1.0F, 1.0F, 1.0F, 1.0F};
  if (const unsigned restarts = shared.restarts; restarts != 0) {
    float whole = 1.0F;
#pragma unroll 1
    for (int token = count - 1; token >= 0; --token) {
#pragma unroll
      for (int m = 0; m < kTokenSets; ++m) {
        if (token == place + 4 * m) weights[m] = whole;
      }
      if ((restarts >> token & 1U) != 0) whole *= shared.steps[token].raw;
    }
#pragma unroll
    for (auto& row : state.s) {
      row[0] *= whole;
      row[1] *= whole;
    }
  }
  SplitA updates[2];  // of tokens 0..7 and 8..15
#pragma unroll
  for (int step = 0; step < 2; ++step) {
    SplitFloat even[2];
    SplitFloat odd[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int token = kHalfBlock * step + 4 * k + place;
      float2 two{0.0F, 0.0F};
      if (token < count) two = *reinterpret_cast<const float2*>(&shared.values[token][state.first_column]);
      even[k] = split(two.x * weights[2 * step + k]);
      odd[k] = split(two.y * weights[2 * step + k]);
    }
    updates[step] = tile_of_rows(even, odd);
  }
  const int first_row = state.first_row - 4 * place + 2 * (lane / 4);
#pragma unroll
  for (int quad = 0; quad < 4; ++quad) {
    float sums[2][4] = {};  // by row step of the quad
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      if (kHalfBlock * step >= count) break;
      float2 keys[2];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int token = kHalfBlock * step + 4 * k + place;
        keys[k] = {0.0F, 0.0F};
        if (token < count) keys[k] = *reinterpret_cast<const float2*>(&shared.keys[token][first_row + 16 * quad]);
      }
      const SplitFloat first[2] = {split(keys[0].x), split(keys[1].x)};
      const SplitFloat second[2] = {split(keys[0].y), split(keys[1].y)};
      const SplitB first_columns = columns_of_row(first);
      const SplitB second_columns = columns_of_row(second);
      multiply<2>({&sums[0], &sums[1]}, {&updates[step], &updates[step]}, {&first_columns, &second_columns});
    }
#pragma unroll
    for (int e = 0; e < 2; ++e) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        state.s[4 * quad + 2 * e + r][0] += sums[e][r];
        state.s[4 * quad + 2 * e + r][1] += sums[e][2 + r];
      }
    }
  }
}

}  // namespace tare::engine::gdn

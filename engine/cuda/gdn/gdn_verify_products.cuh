// The products of a verify of up to 16 tokens on tensor cores (gdn_verify.cuh): of the state's slice with keys and
// queries, of keys and queries with keys, and what follows from them. gdn_chunk.cuh has the formulas; here
//
//   U = (I + L)^-1 R     R_i = beta_i (v_i - e_i S'^T k_i), L_ij = beta_i d_ij (k_i.k_j) for j < i, else 0
//   O = E S'^T Q + M U   M_ij = d_ij (q_i.k_j) for j <= i, else 0
//
// (I + L)^-1 hangs on the keys alone, so some warps find it while the others multiply the state. It is found by
// substitution, not by powers of L, which cancel where keys repeat. Its elements are products of contractions
// (I - beta k k^T) between keys: at most 1 in size, so multiplying by it loses nothing.
//
// State, keys and queries are FP16 in two parts, times powers of two: 22 bits of a number count, products are exact,
// and twice as many go through a tensor core as of TF32. The small products at the end are of TF32 in two parts.
//
// The state is operand A (columns by rows of dk), tokens are columns of B: so sums over dk, R and U stay where they are
// as the A of the next product. Of a sum a lane has columns lane / 4 and 8 more of its warp's 16, of tokens 8 n + 2 p
// and the one after it (p = lane % 4). TF32's places p and p + 4 of a step are those two tokens.
#pragma once

#include <cuda_fp16.h>

#include "engine/cuda/device/ptx.cuh"
#include "engine/cuda/gdn/gdn_chunk.cuh"

namespace tare::engine::gdn {

constexpr int kSliceColumns = 64;
constexpr int kWarpColumns = 16;
constexpr int kHalfStride = kGdnHead + 8;  // rows that ldmatrix reads together meet no bank twice
constexpr int kStepRows = 16;              // of dk, that one instruction takes
constexpr int kSteps = kGdnHead / kStepRows;
constexpr int kTokenTiles = kBlockTokens / 8;

// Powers of two that FP16 is kept times: a token's norm comes to lie below 2^15; the largest element of 8 columns of
// the state in [2^14, 2^15).
constexpr int kTokenExponent = 15;
constexpr int kStateExponent = 14;
// Biased exponents of the largest element beyond which the factor or its inverse is no normal number.
constexpr int kLeastBiased = 32;
constexpr int kMostBiased = 240;
constexpr int kBias = 127;

template <int kRows>
struct HalfRows {
  alignas(16) __half high[kRows][kHalfStride];
  alignas(16) __half low[kRows][kHalfStride];
};
struct HalfQuad {
  uint2 high;
  uint2 low;
};
__device__ __forceinline__ HalfQuad split_halves(float4 x) {
  const __half2 high[2] = {__floats2half2_rn(x.x, x.y), __floats2half2_rn(x.z, x.w)};
  const float2 kept[2] = {__half22float2(high[0]), __half22float2(high[1])};
  const __half2 low[2] = {__floats2half2_rn(x.x - kept[0].x, x.y - kept[0].y),
                          __floats2half2_rn(x.z - kept[1].x, x.w - kept[1].y)};
  return {*reinterpret_cast<const uint2*>(high), *reinterpret_cast<const uint2*>(low)};
}
__device__ __forceinline__ float power_of_two(int biased) {
  return __int_as_float(biased << 23);
}

// The state as halves [column][row]; `inverses` [column / 8] undoes their factors.
template <class Tile>
__device__ __forceinline__ void store_halves(const Tile& state, HalfRows<kSliceColumns>& halves, float* inverses) {
  static_assert(Tile::kRecurrent && Tile::kOwnColumns == 4);
  std::uint32_t largest = 0;
#pragma unroll
  for (const auto& row : state.s) {
#pragma unroll
    for (const float element : row) largest = max(largest, __float_as_uint(element) & 0x7FFF'FFFFU);
  }
  largest = __reduce_max_sync(~0U, largest);
  const int biased = min(max(static_cast<int>(largest >> 23), kLeastBiased), kMostBiased);
  const float factor = power_of_two(2 * kBias + kStateExponent - biased);
  if (threadIdx.x % kLanes == 0) {
    inverses[threadIdx.x / kLanes] = power_of_two(biased - kStateExponent);
  }
#pragma unroll
  for (int quad = 0; quad < Tile::kQuads; ++quad) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const HalfQuad four = split_halves({state.s[4 * quad][c] * factor, state.s[4 * quad + 1][c] * factor,
                                          state.s[4 * quad + 2][c] * factor, state.s[4 * quad + 3][c] * factor});
      const int row = state.first_row + quad * Tile::kQuadStep;
      *reinterpret_cast<uint2*>(&halves.high[state.first_column + c][row]) = four.high;
      *reinterpret_cast<uint2*>(&halves.low[state.first_column + c][row]) = four.low;
    }
  }
}

__device__ __forceinline__ void mma_fp16(float (&sum)[4], const std::uint32_t* a, const std::uint32_t* b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// Where this lane's row of a 16 x 16 operand A, or of two 8-token operands B, begins: rows of `first` on.
__device__ __forceinline__ std::uint32_t row_of_a(const __half (*first)[kHalfStride]) {
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  return ptx::shared_address(&first[lane % 16][lane / 16 * 8]);
}
__device__ __forceinline__ std::uint32_t row_of_b(const __half (*first)[kHalfStride]) {
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  return ptx::shared_address(&first[lane / 16 * 8 + lane % 8][lane / 8 % 2 * 8]);
}
constexpr std::uint32_t kStepBytes = kStepRows * sizeof(__half);

// A warp's 16 columns of the state.
struct StateOperand {
  std::uint32_t high[kSteps][4];
  std::uint32_t low[kSteps][4];

  __device__ __forceinline__ void load(const HalfRows<kSliceColumns>& halves, int first_column) {
    const std::uint32_t of_high = row_of_a(halves.high + first_column);
    const std::uint32_t of_low = row_of_a(halves.low + first_column);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      ptx::load_four_matrices(of_high + step * kStepBytes, high[step]);
      ptx::load_four_matrices(of_low + step * kStepBytes, low[step]);
    }
  }
};

// S'^T of 16 keys (sums 0 and 1) and 16 queries, times their factors. A tensor core's sum is there only after some 33
// clocks, so each is kept in two that take turns: between two uses of one lie eight instructions.
__device__ __forceinline__ void multiply_state(const StateOperand& state, const HalfRows<kTokenRows>& tokens,
                                               float (&sums)[2 * kTokenTiles][4]) {
  constexpr int kTiles = 2 * kTokenTiles;
  float both[2][kTiles][4] = {};
  const std::uint32_t of_high = row_of_b(tokens.high);
  const std::uint32_t of_low = row_of_b(tokens.low);
  constexpr std::uint32_t kToQueries = kBlockTokens * kHalfStride * sizeof(__half);
  int turn = 0;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    std::uint32_t high[2 * kTiles];
    std::uint32_t low[2 * kTiles];
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      const std::uint32_t place = step * kStepBytes + part * kToQueries;
      ptx::load_four_matrices(of_high + place, high + 4 * part);
      ptx::load_four_matrices(of_low + place, low + 4 * part);
    }
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) mma_fp16(both[turn % 2][tile], state.low[step], high + 2 * tile);
    ++turn;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) mma_fp16(both[turn % 2][tile], state.high[step], low + 2 * tile);
    ++turn;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) mma_fp16(both[turn % 2][tile], state.high[step], high + 2 * tile);
    ++turn;
  }
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[tile][i] = both[0][tile][i] + both[1][tile][i];
  }
}

// By one warp: 16 keys, or queries, with the 16 keys. A lane has rows lane / 4 and 8 more of keys 8 n + 2 p and the one
// after it. The registers of a key as operand A are those of operand B.
template <bool kOfQueries>
__device__ __forceinline__ void multiply_keys(const HalfRows<kTokenRows>& tokens, float (&sums)[kTokenTiles][4]) {
  std::uint32_t of_high = row_of_a(tokens.high);
  std::uint32_t of_low = row_of_a(tokens.low);
  constexpr std::uint32_t kToQueries = kBlockTokens * kHalfStride * sizeof(__half);
  float three[3][kTokenTiles][4] = {};
#pragma unroll 4
  for (int step = 0; step < kSteps; ++step) {
    std::uint32_t key_high[4];
    std::uint32_t key_low[4];
    ptx::load_four_matrices(of_high, key_high);
    ptx::load_four_matrices(of_low, key_low);
    std::uint32_t high[4] = {key_high[0], key_high[1], key_high[2], key_high[3]};
    std::uint32_t low[4] = {key_low[0], key_low[1], key_low[2], key_low[3]};
    if constexpr (kOfQueries) {
      ptx::load_four_matrices(of_high + kToQueries, high);
      ptx::load_four_matrices(of_low + kToQueries, low);
    }
#pragma unroll
    for (int tile = 0; tile < kTokenTiles; ++tile) {
      const std::uint32_t upper[2] = {key_high[tile], key_high[2 + tile]};
      const std::uint32_t lower[2] = {key_low[tile], key_low[2 + tile]};
      mma_fp16(three[0][tile], low, upper);
      mma_fp16(three[1][tile], high, lower);
      mma_fp16(three[2][tile], high, upper);
    }
    of_high += kStepBytes;
    of_low += kStepBytes;
  }
#pragma unroll
  for (int tile = 0; tile < kTokenTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[tile][i] = three[0][tile][i] + three[1][tile][i] + three[2][tile][i];
  }
}

// What a chunk's tokens mean to each other.
struct alignas(16) TokenFactors {
  static constexpr int kStride = kBlockTokens + 8;     // lanes of a fragment meet no bank twice
  float of_keys[kBlockTokens][kBlockTokens];           // [j][i]: L_ij
  alignas(8) float of_queries[kBlockTokens][kStride];  // [i][j]: M_ij
  alignas(8) float inverse[kBlockTokens][kStride];     // [i][j] of (I + L)^-1
};

// By the warp that has them: what multiply_keys gave becomes L or M. `inverses` of the rows, then of the keys;
// `decays` is d, [i][j].
template <bool kOfQueries>
__device__ __forceinline__ void store_factors(TokenFactors& factors, const float (*decays)[kBlockTokens],
                                              const float* betas, const float* inverses,
                                              const float (&sums)[kTokenTiles][4]) {
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const float* const of_rows = inverses + (kOfQueries ? kBlockTokens : 0);
#pragma unroll
  for (int tile = 0; tile < kTokenTiles; ++tile) {
    const int j = 8 * tile + lane % 4 * 2;
    const float2 of_keys = *reinterpret_cast<const float2*>(inverses + j);
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      const int i = 8 * lower + lane / 4;
      const float2 decay = *reinterpret_cast<const float2*>(&decays[i][j]);
      const float weight = kOfQueries ? of_rows[i] : of_rows[i] * betas[i];
      const float2 factor{sums[tile][2 * lower] * of_keys.x * weight * decay.x,
                          sums[tile][2 * lower + 1] * of_keys.y * weight * decay.y};
      if constexpr (kOfQueries) {
        *reinterpret_cast<float2*>(&factors.of_queries[i][j]) = {j <= i ? factor.x : 0.0F,
                                                                 j + 1 <= i ? factor.y : 0.0F};
      } else {
        factors.of_keys[j][i] = j < i ? factor.x : 0.0F;
        factors.of_keys[j + 1][i] = j + 1 < i ? factor.y : 0.0F;
      }
    }
  }
}

// By one warp, of which lanes l and l + 16 find column l.
__device__ __forceinline__ void invert_factors(TokenFactors& factors) {
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const int column = lane % kBlockTokens;
  float rest[kBlockTokens];
#pragma unroll
  for (int i = 0; i < kBlockTokens; ++i) rest[i] = i == column ? 1.0F : 0.0F;
#pragma unroll
  for (int j = 0; j < kBlockTokens; ++j) {
#pragma unroll
    for (int first = (j + 1) / 4 * 4; first < kBlockTokens; first += 4) {
      const float4 four = *reinterpret_cast<const float4*>(&factors.of_keys[j][first]);
      const float own[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (first + i > j) rest[first + i] = fmaf(-own[i], rest[j], rest[first + i]);
      }
    }
  }
  if (lane < kBlockTokens) {
#pragma unroll
    for (int i = 0; i < kBlockTokens; ++i) factors.inverse[i][column] = rest[i];
  }
}

// sums[n] <- (rows [n] of tokens j) (matrix of i and j)^T: a warp's 16 columns, tokens i = 8 n ...
__device__ __forceinline__ void multiply_by(const float (*matrix)[TokenFactors::kStride],
                                            const float (&rows)[kTokenTiles][4], float (&sums)[kTokenTiles][4]) {
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  static_assert(kTokenTiles == 2);
  SplitA a[2];
  SplitB b[2][2];  // [tile of i][step of j]
  float parts[2][2][4] = {};
#pragma unroll
  for (int step = 0; step < 2; ++step) {
    const SplitFloat upper[2] = {split(rows[step][0]), split(rows[step][1])};
    const SplitFloat lower[2] = {split(rows[step][2]), split(rows[step][3])};
    a[step] = tile_of_rows(upper, lower);
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      const float2 two = *reinterpret_cast<const float2*>(&matrix[8 * tile + lane / 4][8 * step + lane % 4 * 2]);
      const SplitFloat own[2] = {split(two.x), split(two.y)};
      b[tile][step] = columns_of_row(own);
    }
  }
  multiply<4>({&parts[0][0], &parts[1][0], &parts[0][1], &parts[1][1]}, {&a[0], &a[0], &a[1], &a[1]},
              {&b[0][0], &b[1][0], &b[0][1], &b[1][1]});
#pragma unroll
  for (int tile = 0; tile < 2; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[tile][i] = parts[tile][0][i] + parts[tile][1][i];
  }
}

}  // namespace tare::engine::gdn

// The products of a verify of up to 16 tokens on tensor cores (gdn_verify.cuh): of the state's slice with keys and
// queries, of keys and queries with keys, and what follows from them. gdn_chunk.cuh has the formulas; here
//
//   U = (I + L)^-1 R     R_i = beta_i (v_i - e_i S'^T k_i), L_ij = beta_i d_ij (k_i.k_j) for j < i, else 0
//   O = E S'^T Q + M U   M_ij = d_ij (q_i.k_j) for j <= i, else 0
//
// (I + L) hangs on the keys alone, so some warps look after it while the others multiply the state. It is cut in halves
// of 8 tokens, [A 0; B C]: U_1 = A^-1 R_1, U_2 = C^-1 (R_2 - B U_1). The inverses are found by substitution, not by
// powers, which cancel where keys repeat. Their elements are products of contractions (I - beta k k^T) between keys: at
// most 1 in size, so multiplying by them loses nothing.
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
#include "engine/cuda/device/warps_barrier.cuh"
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

// A quarter of dk of keys with keys, by one warp. A lane has rows lane / 4 and 8 more of keys 8 n + 2 p and the one
// after it. The registers of a key as operand A are those of operand B.
constexpr int kKeyParts = 4;
__device__ __forceinline__ void multiply_keys(const HalfRows<kTokenRows>& tokens, int quarter,
                                              float (&sums)[kTokenTiles][4]) {
  constexpr int kOwnSteps = kSteps / kKeyParts;
  const std::uint32_t of_high = row_of_a(tokens.high) + quarter * kOwnSteps * kStepBytes;
  const std::uint32_t of_low = row_of_a(tokens.low) + quarter * kOwnSteps * kStepBytes;
  float three[3][kTokenTiles][4] = {};
#pragma unroll
  for (int step = 0; step < kOwnSteps; ++step) {
    std::uint32_t high[4];
    std::uint32_t low[4];
    ptx::load_four_matrices(of_high + step * kStepBytes, high);
    ptx::load_four_matrices(of_low + step * kStepBytes, low);
#pragma unroll
    for (int tile = 0; tile < kTokenTiles; ++tile) {
      const std::uint32_t upper[2] = {high[tile], high[2 + tile]};
      const std::uint32_t lower[2] = {low[tile], low[2 + tile]};
      mma_fp16(three[0][tile], low, upper);
      mma_fp16(three[1][tile], high, lower);
      mma_fp16(three[2][tile], high, upper);
    }
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
  alignas(8) float inverses[kBlockTokens][kStride];    // [i][j % 8]: A^-1, then C^-1
};

// L, by four warps of which each first multiplies a quarter of dk. `parts` is room for that, `barrier` a named barrier
// of theirs. `inverses` undoes the tokens' powers of two; `decays` is d, [i][j].
constexpr int kPartStride = kBlockTokens + 4;
using KeyParts = float[kKeyParts][kBlockTokens][kPartStride];
template <int kBlockThreads>
__device__ __forceinline__ void find_key_factors(TokenFactors& factors, KeyParts& parts, int barrier,
                                                 const HalfRows<kTokenRows>& tokens, const float* inverses,
                                                 const float (*decays)[kBlockTokens], const float* betas) {
  const auto warp = static_cast<int>(threadIdx.x / kLanes);
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  float sums[kTokenTiles][4];
  multiply_keys(tokens, warp, sums);
#pragma unroll
  for (int tile = 0; tile < kTokenTiles; ++tile) {
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      *reinterpret_cast<float2*>(&parts[warp][8 * lower + lane / 4][8 * tile + lane % 4 * 2]) = {
          sums[tile][2 * lower], sums[tile][2 * lower + 1]};
    }
  }
  meet<kBlockThreads>(barrier, kKeyParts * kLanes);
  const int i = 4 * warp + lane / 8;
  const int j = lane % 8 * 2;
  float2 sum{0.0F, 0.0F};
#pragma unroll
  for (const auto& part : parts) {
    const float2 more = *reinterpret_cast<const float2*>(&part[i][j]);
    sum = {sum.x + more.x, sum.y + more.y};
  }
  const float2 of_keys = *reinterpret_cast<const float2*>(inverses + j);
  const float2 decay = *reinterpret_cast<const float2*>(&decays[i][j]);
  const float weight = inverses[i] * betas[i];
  factors.of_keys[j][i] = j < i ? sum.x * of_keys.x * weight * decay.x : 0.0F;
  factors.of_keys[j + 1][i] = j + 1 < i ? sum.y * of_keys.y * weight * decay.y : 0.0F;
}
// M of keys 8 tile .. 8 tile + 7, by one warp.
__device__ __forceinline__ void find_query_factors(TokenFactors& factors, const HalfRows<kTokenRows>& tokens, int tile,
                                                   const float* inverses, const float (*decays)[kBlockTokens]) {
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  std::uint32_t of_high = row_of_a(tokens.high + kBlockTokens);
  std::uint32_t of_low = row_of_a(tokens.low + kBlockTokens);
  // Both parts of eight keys together.
  const auto* of_part = lane / 16 == 0 ? tokens.high : tokens.low;
  std::uint32_t of_keys = ptx::shared_address(&of_part[8 * tile + lane % 8][lane / 8 % 2 * 8]);
  float three[3][4] = {};
#pragma unroll 4
  for (int step = 0; step < kSteps; ++step) {
    std::uint32_t high[4];
    std::uint32_t low[4];
    std::uint32_t keys[4];
    ptx::load_four_matrices(of_high, high);
    ptx::load_four_matrices(of_low, low);
    ptx::load_four_matrices(of_keys, keys);
    mma_fp16(three[0], low, keys);
    mma_fp16(three[1], high, keys + 2);
    mma_fp16(three[2], high, keys);
    of_high += kStepBytes;
    of_low += kStepBytes;
    of_keys += kStepBytes;
  }
  const int j = 8 * tile + lane % 4 * 2;
  const float2 of_key = *reinterpret_cast<const float2*>(inverses + j);
#pragma unroll
  for (int lower = 0; lower < 2; ++lower) {
    const int i = 8 * lower + lane / 4;
    const float2 decay = *reinterpret_cast<const float2*>(&decays[i][j]);
    const float of_row = inverses[kBlockTokens + i];
    const auto sum = [&](int k) { return three[0][k] + three[1][k] + three[2][k]; };
    *reinterpret_cast<float2*>(&factors.of_queries[i][j]) = {
        j <= i ? sum(2 * lower) * of_key.x * of_row * decay.x : 0.0F,
        j + 1 <= i ? sum(2 * lower + 1) * of_key.y * of_row * decay.y : 0.0F};
  }
}

// A^-1 and C^-1, by one warp: lanes 0..7 find the columns of the one, 8..15 of the other, the rest the same again.
__device__ __forceinline__ void invert_factors(TokenFactors& factors) {
  constexpr int kSize = kBlockTokens / 2;
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const int column = lane % kSize;
  const int block = lane / kSize % 2 * kSize;
  float rest[kSize];
#pragma unroll
  for (int i = 0; i < kSize; ++i) rest[i] = i == column ? 1.0F : 0.0F;
#pragma unroll
  for (int j = 0; j < kSize - 1; ++j) {
#pragma unroll
    for (int first = (j + 1) / 4 * 4; first < kSize; first += 4) {
      const float4 four = *reinterpret_cast<const float4*>(&factors.of_keys[block + j][block + first]);
      const float own[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (first + i > j) rest[first + i] = fmaf(-own[i], rest[j], rest[first + i]);
      }
    }
  }
  if (lane < kBlockTokens) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) factors.inverses[block + i][column] = rest[i];
  }
}

// Eight tokens' rows (of a warp's 16 columns) as operand A, and the factors of eight tokens i and j as operand B.
__device__ __forceinline__ SplitA tokens_as_a(const float (&rows)[4]) {
  const SplitFloat upper[2] = {split(rows[0]), split(rows[1])};
  const SplitFloat lower[2] = {split(rows[2]), split(rows[3])};
  return tile_of_rows(upper, lower);
}
__device__ __forceinline__ SplitB factors_as_b(float2 two) {
  const SplitFloat own[2] = {split(two.x), split(two.y)};
  return columns_of_row(own);
}
// sum + a b, in three sums side by side.
__device__ __forceinline__ void add_product(float (&sum)[4], const SplitA& a, const SplitB& b) {
  float small[4] = {};
  float other[4] = {};
  float large[4] = {};
  mma_tf32(small, a.low, b.high);
  mma_tf32(other, a.high, b.low);
  mma_tf32(large, a.high, b.high);
#pragma unroll
  for (int i = 0; i < 4; ++i) sum[i] += large[i] + (small[i] + other[i]);
}

__device__ __forceinline__ SplitB pair_of_factors(const float& first) {
  return factors_as_b(*reinterpret_cast<const float2*>(&first));
}

// U from R.
__device__ __forceinline__ void solve(const TokenFactors& factors, const float (&rest)[kTokenTiles][4],
                                      float (&updates)[kTokenTiles][4]) {
  static_assert(kTokenTiles == 2);
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const int i = lane / 4;
  const int j = lane % 4 * 2;
  const SplitB inverses[2] = {pair_of_factors(factors.inverses[i][j]), pair_of_factors(factors.inverses[8 + i][j])};
  const SplitB between = factors_as_b({-factors.of_keys[j][8 + i], -factors.of_keys[j + 1][8 + i]});
  float second_rest[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    updates[0][k] = updates[1][k] = 0.0F;
    second_rest[k] = rest[1][k];
  }
  add_product(updates[0], tokens_as_a(rest[0]), inverses[0]);
  add_product(second_rest, tokens_as_a(updates[0]), between);
  add_product(updates[1], tokens_as_a(second_rest), inverses[1]);
}
// O <- O + M U.
__device__ __forceinline__ void add_outputs(const TokenFactors& factors, const float (&updates)[kTokenTiles][4],
                                            float (&outputs)[kTokenTiles][4]) {
  const auto lane = static_cast<int>(threadIdx.x % kLanes);
  const int i = lane / 4;
  const int j = lane % 4 * 2;
  const SplitA first = tokens_as_a(updates[0]);
  const SplitA second = tokens_as_a(updates[1]);
  add_product(outputs[0], first, pair_of_factors(factors.of_queries[i][j]));
  add_product(outputs[1], first, pair_of_factors(factors.of_queries[8 + i][j]));
  add_product(outputs[1], second, pair_of_factors(factors.of_queries[8 + i][8 + j]));
}

}  // namespace tare::engine::gdn

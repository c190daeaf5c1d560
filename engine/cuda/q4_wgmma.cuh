// The tensor-core consumer: a warpgroup owns 128 rows as two tiles of 64. The dequantised weights of a tile are operand
// A, in registers; the activations are operand B, in shared memory, read by the tensor core itself.
//
// The two tiles take turns: while the four matrix instructions of one run, the other's codes are unpacked and its last
// sums are weighted. The second tile's group runs on into the next unit, until that unit's first codes are unpacked; a
// stage is released then. The wait at that point is for all groups: with waits for all but the newest only, ptxas 13.0
// does not see that sums are ready when they are read and serialises the instructions (C7514).
//
// Sums: d[4 j + 2 u + v] of a thread is row 16 w + g + 8 u of the tile, token 8 j + 2 p + v (PTX ISA, wgmma fragments).
#pragma once

#include <cuda_fp16.h>

#include "engine/cuda/q4_stream.cuh"

namespace tare::engine {

// (word & mask) | base in one instruction.
template <std::uint32_t kMask, std::uint32_t kBase>
__device__ __forceinline__ std::uint32_t field(std::uint32_t word) {
  std::uint32_t result = 0;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(result) : "r"(word), "n"(kMask), "n"(kBase));
  return result;
}

struct Float16Codes {
  static constexpr Q4Form kForm = Q4Form::kFloat16;
  static constexpr float kOddRowFactor = 16.0F;  // what rows g + 8 come out too large by
  static constexpr float kSumFactor = 0x1p24F;   // codes are subnormals, q 2^-24

  // Registers 0..3 of one K step.
  static __device__ __forceinline__ void unpack(std::uint32_t word, std::uint32_t* registers) {
    const std::uint32_t upper = word >> 8;
    registers[0] = word & 0x000F'000FU;
    registers[1] = word & 0x00F0'00F0U;
    registers[2] = upper & 0x000F'000FU;
    registers[3] = upper & 0x00F0'00F0U;
  }
};

struct BFloat16Codes {
  static constexpr Q4Form kForm = Q4Form::kBFloat16;
  static constexpr float kOddRowFactor = 1.0F;
  static constexpr float kSumFactor = 1.0F;

  static __device__ __forceinline__ void unpack(std::uint32_t word, std::uint32_t* registers) {
    registers[0] = field<0x000F'000FU, 0x4300'4300U>(word);  // 128 + q in both halves
    registers[1] = field<0x000F'000FU, 0x4300'4300U>(word >> 4);
    registers[2] = field<0x000F'000FU, 0x4300'4300U>(word >> 8);
    registers[3] = field<0x000F'000FU, 0x4300'4300U>(word >> 12);
  }
};

template <class Codes>
__device__ __forceinline__ void unpack_tile(const uint4& codes, std::uint32_t* registers) {
  Codes::unpack(codes.x, registers);
  Codes::unpack(codes.y, registers + 4);
  Codes::unpack(codes.z, registers + 8);
  Codes::unpack(codes.w, registers + 12);
}

// Descriptor of the activation panel at a shared address: K-major, no swizzle; 16 kTokens bytes from one column of core
// matrices to the next, 128 bytes from 8 tokens to the next 8.
template <int kTokens>
__device__ __forceinline__ std::uint64_t panel_descriptor(std::uint32_t shared_panel) {
  constexpr std::uint64_t kLeading = 16 * kTokens / 16;
  constexpr std::uint64_t kStride = 128 / 16;
  return static_cast<std::uint64_t>((shared_panel & 0x3FFFFU) >> 4) | (kLeading << 16) | (kStride << 32);
}

// sums = A B over 64 columns: four instructions as one committed group, started but not waited for.
#define TARE_Q4_MULTIPLY_16(TYPE)                                                                                     \
  asm volatile(                                                                                                       \
      "{\n\t"                                                                                                         \
      ".reg .b64 b1, b2, b3;\n\t"                                                                                     \
      "add.s64 b1, %24, 32;\n\tadd.s64 b2, %24, 64;\n\tadd.s64 b3, %24, 96;\n\t"                                      \
      "wgmma.fence.sync.aligned;\n\t"                                                                                 \
      "wgmma.mma_async.sync.aligned.m64n16k16.f32." TYPE "." TYPE                                                     \
      " {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11}, %24, 0, 1, 1, 0;\n\t"                                             \
      "wgmma.mma_async.sync.aligned.m64n16k16.f32." TYPE "." TYPE                                                     \
      " {%0,%1,%2,%3,%4,%5,%6,%7}, {%12,%13,%14,%15}, b1, 1, 1, 1, 0;\n\t"                                            \
      "wgmma.mma_async.sync.aligned.m64n16k16.f32." TYPE "." TYPE                                                     \
      " {%0,%1,%2,%3,%4,%5,%6,%7}, {%16,%17,%18,%19}, b2, 1, 1, 1, 0;\n\t"                                            \
      "wgmma.mma_async.sync.aligned.m64n16k16.f32." TYPE "." TYPE                                                     \
      " {%0,%1,%2,%3,%4,%5,%6,%7}, {%20,%21,%22,%23}, b3, 1, 1, 1, 0;\n\t"                                            \
      "wgmma.commit_group.sync.aligned;\n\t}"                                                                         \
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]), "=f"(d[7])                \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]), "r"(a[8]), "r"(a[9]), \
        "r"(a[10]), "r"(a[11]), "r"(a[12]), "r"(a[13]), "r"(a[14]), "r"(a[15]), "l"(panel)                            \
      : "memory")

#define TARE_Q4_MULTIPLY_8(TYPE)                                                                                      \
  asm volatile(                                                                                                       \
      "{\n\t"                                                                                                         \
      ".reg .b64 b1, b2, b3;\n\t"                                                                                     \
      "add.s64 b1, %20, 16;\n\tadd.s64 b2, %20, 32;\n\tadd.s64 b3, %20, 48;\n\t"                                      \
      "wgmma.fence.sync.aligned;\n\t"                                                                                 \
      "wgmma.mma_async.sync.aligned.m64n8k16.f32." TYPE "." TYPE                                                      \
      " {%0,%1,%2,%3}, {%4,%5,%6,%7}, %20, 0, 1, 1, 0;\n\t"                                                           \
      "wgmma.mma_async.sync.aligned.m64n8k16.f32." TYPE "." TYPE                                                      \
      " {%0,%1,%2,%3}, {%8,%9,%10,%11}, b1, 1, 1, 1, 0;\n\t"                                                          \
      "wgmma.mma_async.sync.aligned.m64n8k16.f32." TYPE "." TYPE                                                      \
      " {%0,%1,%2,%3}, {%12,%13,%14,%15}, b2, 1, 1, 1, 0;\n\t"                                                        \
      "wgmma.mma_async.sync.aligned.m64n8k16.f32." TYPE "." TYPE                                                      \
      " {%0,%1,%2,%3}, {%16,%17,%18,%19}, b3, 1, 1, 1, 0;\n\t"                                                        \
      "wgmma.commit_group.sync.aligned;\n\t}"                                                                         \
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                                                \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]), "r"(a[8]), "r"(a[9]), \
        "r"(a[10]), "r"(a[11]), "r"(a[12]), "r"(a[13]), "r"(a[14]), "r"(a[15]), "l"(panel)                            \
      : "memory")

template <class Codes, int kTokens>
__device__ __forceinline__ void multiply(float (&d)[kTokens / 2], const std::uint32_t (&a)[16], std::uint64_t panel) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if constexpr (kTokens == 16) {
    if constexpr (Codes::kForm == Q4Form::kFloat16) {
      TARE_Q4_MULTIPLY_16("f16");
    } else {
      TARE_Q4_MULTIPLY_16("bf16");
    }
  } else {
    if constexpr (Codes::kForm == Q4Form::kFloat16) {
      TARE_Q4_MULTIPLY_8("f16");
    } else {
      TARE_Q4_MULTIPLY_8("bf16");
    }
  }
#endif
}
#undef TARE_Q4_MULTIPLY_16
#undef TARE_Q4_MULTIPLY_8

// Until at most kInFlight committed groups run; `d` is then readable.
template <int kInFlight, int kSums>
__device__ __forceinline__ void wait_for_sums(float (&d)[kSums]) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if constexpr (kSums == 8) {
    asm volatile("wgmma.wait_group.sync.aligned %8;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
                 : "n"(kInFlight)
                 : "memory");
  } else {
    asm volatile("wgmma.wait_group.sync.aligned %4;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "n"(kInFlight)
                 : "memory");
  }
#endif
}

// The offsets of this thread's tokens, [j][v].
template <int kTokens>
struct Offsets {
  float at[kTokens / 4];

  __device__ __forceinline__ void load(const std::byte* group_offset, int p) {
    if constexpr (kTokens == 16) {
      const float4 four = reinterpret_cast<const float4*>(group_offset)[p];
      at[0] = four.x, at[1] = four.y, at[2] = four.z, at[3] = four.w;
    } else {
      const float2 two = reinterpret_cast<const float2*>(group_offset)[p];
      at[0] = two.x, at[1] = two.y;
    }
  }
};

// totals += scale (sums + offset), of rows g and g + 8 with their scales.
template <class Codes, int kTokens>
__device__ __forceinline__ void add_group(float (&totals)[kTokens / 2], const float (&sums)[kTokens / 2],
                                          __half2 packed_scales, const Offsets<kTokens>& offsets) {
  const float2 scales = __half22float2(packed_scales);
#pragma unroll
  for (int j = 0; j < kTokens / 8; ++j) {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const float offset = offsets.at[2 * j + v];
      totals[4 * j + v] = fmaf(scales.x, sums[4 * j + v] + offset, totals[4 * j + v]);
      totals[4 * j + 2 + v] =
          fmaf(scales.y, fmaf(Codes::kOddRowFactor, offset, sums[4 * j + 2 + v]), totals[4 * j + 2 + v]);
    }
  }
}

// Where a consumer thread stands.
struct Q4Lane {
  int warpgroup = static_cast<int>(threadIdx.x) / 128;
  int thread = static_cast<int>(threadIdx.x) % 128;
  int warp = thread / 32;
  int g = thread % 32 / 4;
  int p = thread % 4;
};

struct Q4ThreadWeights {
  uint4 codes[2];     // of the two tiles
  __half2 scales[2];  // of rows g and g + 8

  __device__ __forceinline__ void load(const std::byte* stage, const Q4Lane& lane) {
    const auto* tiles = reinterpret_cast<const uint4*>(stage) + lane.warpgroup * 256 + lane.thread;
    codes[0] = tiles[0];
    codes[1] = tiles[128];
    const uint2 packed =
        reinterpret_cast<const uint2*>(stage + kQ4CodeBytes)[(lane.warpgroup * 4 + lane.warp) * 8 + lane.g];
    scales[0] = *reinterpret_cast<const __half2*>(&packed.x);
    scales[1] = *reinterpret_cast<const __half2*>(&packed.y);
  }
};

// Writes a thread's totals of two tiles to the plane of its row block.
template <class Codes, int kTokens>
__device__ __forceinline__ void store_totals(float* plane, const float (&totals)[2][kTokens / 2], const Q4Lane& lane) {
#pragma unroll
  for (int tile = 0; tile < 2; ++tile) {
    const int row = lane.warpgroup * 128 + tile * kQ4TileRows + lane.warp * 16 + lane.g;
#pragma unroll
    for (int j = 0; j < kTokens / 8; ++j) {
#pragma unroll
      for (int u = 0; u < 2; ++u) {
        const float factor = Codes::kSumFactor / (u == 0 ? 1.0F : Codes::kOddRowFactor);
        const float2 pair{totals[tile][4 * j + 2 * u] * factor, totals[tile][4 * j + 2 * u + 1] * factor};
        *reinterpret_cast<float2*>(plane + (row + 8 * u) * kTokens + 8 * j + 2 * lane.p) = pair;
      }
    }
  }
}

template <class Codes, int kTokenCount>
class Q4WgmmaConsumer {
 public:
  static constexpr int kTokens = kTokenCount;

  __device__ __forceinline__ void first_unit(const std::byte* stage) {
#pragma unroll
    for (int index = 0; index < kTokens / 2; ++index) totals_[0][index] = totals_[1][index] = 0.0F;
    unit(
        stage, [] {}, [] {});
  }

  template <class Release>
  __device__ __forceinline__ void next_unit(const std::byte* stage, Release release_previous) {
    unit(
        stage, [&] { wait_for_sums<0>(second_sums_); },
        [&] {
          add_group<Codes, kTokens>(totals_[1], second_sums_, second_scales_, offsets_);
          release_previous();
        });
  }

  __device__ __forceinline__ void end_fragment() {
    wait_for_sums<0>(second_sums_);
    add_group<Codes, kTokens>(totals_[1], second_sums_, second_scales_, offsets_);
  }

  __device__ __forceinline__ void store(float* plane) const {
    store_totals<Codes, kTokens>(plane, totals_, lane_);
  }

 private:
  template <class Before, class Between>
  __device__ __forceinline__ void unit(const std::byte* stage, Before before, Between between) {
    Q4ThreadWeights weights;
    weights.load(stage, lane_);
    Offsets<kTokens> offsets;
    offsets.load(stage + kQ4UnitBytes + q4_activation_panel_bytes(kTokens), lane_.p);
    const std::uint64_t panel = panel_descriptor<kTokens>(ptx::shared_address(stage) + kQ4UnitBytes);

    float first_sums[kTokens / 2];
    std::uint32_t first_codes[16];
    unpack_tile<Codes>(weights.codes[0], first_codes);
    before();
    multiply<Codes, kTokens>(first_sums, first_codes, panel);
    between();

    std::uint32_t second_codes[16];
    unpack_tile<Codes>(weights.codes[1], second_codes);
    multiply<Codes, kTokens>(second_sums_, second_codes, panel);
    second_scales_ = weights.scales[1];
    offsets_ = offsets;

    wait_for_sums<1>(first_sums);
    add_group<Codes, kTokens>(totals_[0], first_sums, weights.scales[0], offsets);
  }

  Q4Lane lane_;
  float totals_[2][kTokens / 2];
  float second_sums_[kTokens / 2];  // of the unit before, in flight between units
  __half2 second_scales_;
  Offsets<kTokens> offsets_;
};

}  // namespace tare::engine

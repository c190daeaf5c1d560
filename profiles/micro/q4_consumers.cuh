// Consumers of the q4 weight stream that are not the engine's: each leaves something out, so that differences of times
// say what a part costs, or does the products another way, as a control.
#pragma once

#include "engine/cuda/q4_wgmma.cuh"

namespace tare::micro {

using engine::Offsets;
using engine::Q4Lane;
using engine::Q4ThreadWeights;

// Stages pass through unread: the ring alone.
template <int kTokenCount>
class CopyConsumer {
 public:
  static constexpr int kTokens = kTokenCount;
  __device__ __forceinline__ void first_unit(const std::byte*) {}
  template <class Release>
  __device__ __forceinline__ void next_unit(const std::byte*, Release release_previous) {
    release_previous();
  }
  __device__ __forceinline__ void end_fragment() {}
  __device__ __forceinline__ void store(float*) const {}
};

// Reads and unpacks, folds the registers together instead of multiplying.
template <class Codes, int kTokenCount>
class UnpackConsumer {
 public:
  static constexpr int kTokens = kTokenCount;
  __device__ __forceinline__ void first_unit(const std::byte* stage) {
    folded_ = 0;
    fold(stage);
  }
  template <class Release>
  __device__ __forceinline__ void next_unit(const std::byte* stage, Release release_previous) {
    fold(stage);
    __syncwarp();
    release_previous();
  }
  __device__ __forceinline__ void end_fragment() { __syncwarp(); }
  __device__ __forceinline__ void store(float* plane) const {
    plane[threadIdx.x * kTokens] = __uint_as_float(folded_ & 0x3F7F'FFFFU);
  }

 private:
  __device__ __forceinline__ void fold(const std::byte* stage) {
    Q4ThreadWeights weights;
    weights.load(stage, lane_);
    for (int tile = 0; tile < 2; ++tile) {
      std::uint32_t registers[16];
      engine::unpack_tile<Codes>(weights.codes[tile], registers);
#pragma unroll
      for (int index = 0; index < 16; index += 2) {
        asm("lop3.b32 %0, %1, %2, %3, 0x96;"
            : "=r"(folded_)
            : "r"(registers[index]), "r"(registers[index + 1]), "r"(folded_));
      }
    }
    const float2 scales = __half22float2(weights.scales[0]);
    folded_ ^= __float_as_uint(scales.x + scales.y);
  }
  Q4Lane lane_;
  std::uint32_t folded_ = 0;
};

// The same numbers by mma.sync m16n8k16: a warp's 16 rows of each tile, activation fragments by ldmatrix, shared by
// both tiles. Control for what wgmma buys.
template <class Codes, int kTokenCount>
class MmaSyncConsumer {
 public:
  static constexpr int kTokens = kTokenCount;

  __device__ __forceinline__ void first_unit(const std::byte* stage) {
#pragma unroll
    for (int index = 0; index < kTokens / 2; ++index) totals_[0][index] = totals_[1][index] = 0.0F;
    unit(stage);
  }
  template <class Release>
  __device__ __forceinline__ void next_unit(const std::byte* stage, Release release_previous) {
    release_previous();
    unit(stage);
  }
  __device__ __forceinline__ void end_fragment() {
    __syncwarp();
  }
  __device__ __forceinline__ void store(float* plane) const {
    engine::store_totals<Codes, kTokens>(plane, totals_, lane_);
  }

 private:
  // Operand B of one K step: two registers for each 8 tokens.
  __device__ __forceinline__ void load_tokens(std::uint32_t shared_panel, int step, std::uint32_t (&b)[kTokens / 4]) {
    const auto lane = static_cast<std::uint32_t>(threadIdx.x % 32);
    if constexpr (kTokens == 16) {
      // matrices: (k8 0, tokens 0..7), (k8 1, tokens 0..7), (k8 0, 8..15), (k8 1, 8..15)
      const std::uint32_t row = shared_panel + static_cast<std::uint32_t>(step) * 512U + (lane / 8 % 2) * 256U +
                                (lane / 16) * 128U + (lane % 8) * 16U;
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                   : "r"(row));
    } else {
      const std::uint32_t row =
          shared_panel + static_cast<std::uint32_t>(step) * 256U + (lane / 8 % 2) * 128U + (lane % 8) * 16U;
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(b[0]), "=r"(b[1]) : "r"(row));
    }
  }
  static __device__ __forceinline__ void multiply(float* d, const std::uint32_t* a, const std::uint32_t* b) {
    if constexpr (Codes::kForm == engine::Q4Form::kFloat16) {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    } else {
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
  }
  __device__ __forceinline__ void unit(const std::byte* stage) {
    Q4ThreadWeights weights;
    weights.load(stage, lane_);
    Offsets<kTokens> offsets;
    offsets.load(stage + engine::kQ4UnitBytes + engine::q4_activation_panel_bytes(kTokens), lane_.p);
    const std::uint32_t panel = engine::ptx::shared_address(stage) + engine::kQ4UnitBytes;
    float sums[2][kTokens / 2] = {};
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      std::uint32_t b[kTokens / 4];
      load_tokens(panel, step, b);
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        const uint4& codes = weights.codes[tile];
        const std::uint32_t word = step == 0 ? codes.x : step == 1 ? codes.y : step == 2 ? codes.z : codes.w;
        std::uint32_t a[4];
        Codes::unpack(word, a);
#pragma unroll
        for (int j = 0; j < kTokens / 8; ++j) multiply(sums[tile] + 4 * j, a, b + 2 * j);
      }
    }
    engine::add_group<Codes, kTokens>(totals_[0], sums[0], weights.scales[0], offsets);
    engine::add_group<Codes, kTokens>(totals_[1], sums[1], weights.scales[1], offsets);
    __syncwarp();
  }
  Q4Lane lane_;
  float totals_[2][kTokens / 2];
};

}  // namespace tare::micro

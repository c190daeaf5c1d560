// Consumers of the q4 weight stream that are not the engine's: each leaves something out, so that differences of times
// say what a part costs, or does the products another way, as a control.
#pragma once

#include "engine/cuda/q4_wgmma.cuh"

namespace tare::micro {

using engine::kQ4PairBytes;
using engine::kQ4UnitBytes;
using engine::Offsets;
using engine::Q4Lane;

// Stages pass through unread: the ring alone.
template <int kTokenCount>
class CopyConsumer {
 public:
  static constexpr int kTokens = kTokenCount;
  static constexpr int kWarpgroups = 2;
  __device__ __forceinline__ void first_pair(const std::byte*) {}
  template <class Release>
  __device__ __forceinline__ void next_pair(const std::byte*, Release release_previous) {
    release_previous();
  }
  __device__ __forceinline__ void end_fragment() {}
  __device__ __forceinline__ void store(float*) const {}
};

// Reads and unpacks, folds the registers together instead of multiplying.
template <int kTokenCount, int kWarpgroupCount>
class UnpackConsumer {
 public:
  static constexpr int kTokens = kTokenCount;
  static constexpr int kWarpgroups = kWarpgroupCount;
  __device__ __forceinline__ UnpackConsumer() { lane_.hold(); }
  __device__ __forceinline__ void first_pair(const std::byte* stage) {
    folded_ = 0;
    fold(stage);
  }
  template <class Release>
  __device__ __forceinline__ void next_pair(const std::byte* stage, Release release_previous) {
    fold(stage);
    __syncwarp();
    release_previous();
  }
  __device__ __forceinline__ void end_fragment() { __syncwarp(); }
  __device__ __forceinline__ void store(float* plane) const {
    plane[threadIdx.x % 256 * kTokens] = __uint_as_float(folded_ & 0x3F7F'FFFFU);
  }

 private:
  static constexpr int kTiles = 4 / kWarpgroups;
  __device__ __forceinline__ void fold(const std::byte* stage) {
    const std::uint32_t base = engine::ptx::shared_address(stage);
#pragma unroll
    for (int step = 0; step < 2 * kTiles; ++step) {
      const std::uint32_t unit_base = base + static_cast<std::uint32_t>(step / kTiles * kQ4UnitBytes);
      const uint4 codes =
          engine::load_codes(unit_base + lane_.codes + static_cast<std::uint32_t>(step % kTiles * 2048));
      std::uint32_t registers[16];
      engine::unpack_tile(codes, registers);
#pragma unroll
      for (int index = 0; index < 16; index += 2) {
        asm("lop3.b32 %0, %1, %2, %3, 0x96;"
            : "=r"(folded_)
            : "r"(registers[index]), "r"(registers[index + 1]), "r"(folded_));
      }
    }
  }
  Q4Lane<kTiles> lane_;
  std::uint32_t folded_ = 0;
};

// The same numbers by mma.sync m16n8k16: a warp's 16 rows of each of its tiles, activation fragments by ldmatrix,
// shared by the tiles. Control for what wgmma buys.
template <int kTokenCount, int kWarpgroupCount>
class MmaSyncConsumer {
 public:
  static constexpr int kTokens = kTokenCount;
  static constexpr int kWarpgroups = kWarpgroupCount;

  __device__ __forceinline__ MmaSyncConsumer() { lane_.hold(); }
  __device__ __forceinline__ void first_pair(const std::byte* stage) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (float& total : totals_[tile]) total = 0.0F;
    }
    pair(stage);
  }
  template <class Release>
  __device__ __forceinline__ void next_pair(const std::byte* stage, Release release_previous) {
    release_previous();
    pair(stage);
  }
  __device__ __forceinline__ void end_fragment() {
    __syncwarp();
  }
  __device__ __forceinline__ void store(float* plane) const {
    engine::store_totals<kTokens, kTiles>(plane, totals_, lane_);
  }

 private:
  static constexpr int kTiles = 4 / kWarpgroups;
  static constexpr int kBlockBytes = engine::q4_activation_block_bytes(kTokens);

  // Operand B of one K step: two registers for each 8 tokens. `row` is where this lane's row of the first step lies.
  static __device__ __forceinline__ void load_tokens(std::uint32_t row, int step, std::uint32_t (&b)[kTokens / 4]) {
    const std::uint32_t address = row + static_cast<std::uint32_t>(step * 32 * kTokens);
    if constexpr (kTokens == 16) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                   : "r"(address));
    } else {
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(b[0]), "=r"(b[1]) : "r"(address));
    }
  }
  // Where a lane's row lies: matrices (k8 0, tokens 0..7), (k8 1, 0..7), and for 16 tokens (k8 0, 8..15), (k8
  // 1, 8..15).
  static __device__ __forceinline__ std::uint32_t row_of_lane() {
    const auto lane = static_cast<std::uint32_t>(threadIdx.x % 32);
    return (lane / 8 % 2) * (16 * kTokens) + (kTokens == 16 ? lane / 16 * 128 : 0) + (lane % 8) * 16U;
  }
  static __device__ __forceinline__ void multiply(float* d, const std::uint32_t* a, const std::uint32_t* b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
  __device__ __forceinline__ void pair(const std::byte* stage) {
    const std::uint32_t base = engine::ptx::shared_address(stage);
#pragma unroll
    for (int unit = 0; unit < 2; ++unit) {
      const std::uint32_t unit_base = base + static_cast<std::uint32_t>(unit * kQ4UnitBytes);
      const std::uint32_t panel = base + static_cast<std::uint32_t>(kQ4PairBytes + unit * kBlockBytes);
      Offsets<kTokens> offsets;
      offsets.load(panel + static_cast<std::uint32_t>(engine::q4_activation_panel_bytes(kTokens) + lane_.p * kTokens));
      uint4 codes[kTiles];
      __half2 scales[kTiles];
      float sums[kTiles][kTokens / 2] = {};
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        codes[tile] = engine::load_codes(unit_base + lane_.codes + static_cast<std::uint32_t>(tile * 2048));
        scales[tile] = engine::load_scales(unit_base + lane_.scales + static_cast<std::uint32_t>(tile * 4));
      }
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        std::uint32_t b[kTokens / 4];
        load_tokens(panel + row_, step, b);
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          const uint4& four = codes[tile];
          std::uint32_t a[4];
          engine::unpack_word(step == 0 ? four.x : step == 1 ? four.y : step == 2 ? four.z : four.w, a);
#pragma unroll
          for (int j = 0; j < kTokens / 8; ++j) multiply(sums[tile] + 4 * j, a, b + 2 * j);
        }
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        engine::add_group<kTokens>(totals_[tile], sums[tile], scales[tile], offsets);
      }
    }
    __syncwarp();
  }
  Q4Lane<kTiles> lane_;
  std::uint32_t row_ = row_of_lane();
  float totals_[kTiles][kTokens / 2];
};

}  // namespace tare::micro

// The consumer of the q4 stream by mma.sync m16n8k16: a warp owns 16 rows of each of its warpgroup's tiles. The codes
// become operand A in registers, the activations operand B by ldmatrix, once for all tiles of the warp. Sums of a group
// start at zero and are weighted by the group's scale afterwards.
#pragma once

#include "engine/cuda/q4_fragments.cuh"

namespace tare::engine {

template <int kTokenCount, int kWarpgroupCount>
class Q4MmaSyncConsumer {
 public:
  static constexpr int kTokens = kTokenCount;
  static constexpr int kWarpgroups = kWarpgroupCount;

  __device__ __forceinline__ Q4MmaSyncConsumer() { lane_.hold(); }
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
    store_totals<kTokens, kTiles>(plane, totals_, lane_);
  }

 private:
  static constexpr int kTiles = 4 / kWarpgroups;
  static constexpr int kBlockBytes = q4_activation_block_bytes(kTokens);

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
    const std::uint32_t base = ptx::shared_address(stage);
#pragma unroll
    for (int unit = 0; unit < 2; ++unit) {
      const std::uint32_t unit_base = base + static_cast<std::uint32_t>(unit * kQ4UnitBytes);
      const std::uint32_t panel = base + static_cast<std::uint32_t>(kQ4PairBytes + unit * kBlockBytes);
      Offsets<kTokens> offsets;
      offsets.load(panel + static_cast<std::uint32_t>(q4_activation_panel_bytes(kTokens) + lane_.p * kTokens));
      uint4 codes[kTiles];
      __half2 scales[kTiles];
      float sums[kTiles][kTokens / 2] = {};
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        codes[tile] = load_codes(unit_base + lane_.codes + static_cast<std::uint32_t>(tile * 2048));
        scales[tile] = load_scales(unit_base + lane_.scales + static_cast<std::uint32_t>(tile * 4));
      }
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        std::uint32_t b[kTokens / 4];
        load_tokens(panel + row_, step, b);
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          const uint4& four = codes[tile];
          std::uint32_t a[4];
          unpack_word(step == 0 ? four.x : step == 1 ? four.y : step == 2 ? four.z : four.w, a);
#pragma unroll
          for (int j = 0; j < kTokens / 8; ++j) multiply(sums[tile] + 4 * j, a, b + 2 * j);
        }
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        add_group<kTokens>(totals_[tile], sums[tile], scales[tile], offsets);
      }
    }
    __syncwarp();
  }
  Q4Lane<kTiles> lane_;
  std::uint32_t row_ = row_of_lane();
  float totals_[kTiles][kTokens / 2];
};

}  // namespace tare::engine

// A consumer by wgmma, a control for the engine's (q4_mma_sync.cuh), which is faster: a warpgroup owns one or two of
// the tiles of 64 rows. The dequantised weights of a tile are operand A, in registers; the activations are operand B,
// in shared memory, read by the tensor core itself.
//
// Two accumulators take turns: while the four matrix instructions of one step (a tile of a unit) run, the next step's
// codes are unpacked and the last sums are weighted. A pair's last step runs on into the next pair, until that pair's
// first codes are unpacked; the stage is released then. The wait at that point is for all groups: with waits for all
// but the newest only, ptxas 13.0 does not see that sums are ready when they are read and serialises the instructions
// (C7514).
//
// Sums: d[4 j + 2 u + v] of a thread is row 16 w + g + 8 u of the tile, token 8 j + 2 p + v (PTX ISA, wgmma fragments).
#pragma once

#include "engine/cuda/q4_fragments.cuh"

namespace tare::micro {

using namespace tare::engine;  // NOLINT(google-build-using-namespace): the engine's parts, put together another way

// Descriptor of 16 columns of the activation panel, from the low word of the panel's: K-major, no swizzle; 16 kTokens
// bytes from one column of core matrices to the next, 128 bytes from 8 tokens to the next 8.
template <int kTokens>
__device__ __forceinline__ std::uint64_t panel_descriptor(std::uint32_t panel_low, int step) {
  constexpr std::uint64_t kStride = 128 / 16;
  return static_cast<std::uint64_t>(panel_low + static_cast<std::uint32_t>(step * 2 * kTokens)) | (kStride << 32);
}
// Low word of the descriptor of the panel at a shared address. The shuffle tells ptxas that it is the same in all
// lanes: all that follows from it then runs in uniform registers, where the matrix instruction wants it.
template <int kTokens>
__device__ __forceinline__ std::uint32_t panel_low_word(std::uint32_t shared_panel) {
  constexpr std::uint32_t kLeading = 16 * kTokens / 16;
  return __shfl_sync(~0U, ((shared_panel & 0x3FFFFU) >> 4) | (kLeading << 16), 0);
}

// sums = A B over 64 columns: four instructions as one committed group, started but not waited for.
#define TARE_Q4_MULTIPLY_16                                                                                           \
  asm volatile(                                                                                                       \
      "{\n\t"                                                                                                         \
      "wgmma.fence.sync.aligned;\n\t"                                                                                 \
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16"                                                            \
      " {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11}, %24, 0, 1, 1, 0;\n\t"                                             \
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16"                                                            \
      " {%0,%1,%2,%3,%4,%5,%6,%7}, {%12,%13,%14,%15}, %25, 1, 1, 1, 0;\n\t"                                           \
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16"                                                            \
      " {%0,%1,%2,%3,%4,%5,%6,%7}, {%16,%17,%18,%19}, %26, 1, 1, 1, 0;\n\t"                                           \
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16"                                                            \
      " {%0,%1,%2,%3,%4,%5,%6,%7}, {%20,%21,%22,%23}, %27, 1, 1, 1, 0;\n\t"                                           \
      "wgmma.commit_group.sync.aligned;\n\t}"                                                                         \
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]), "=f"(d[7])                \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]), "r"(a[8]), "r"(a[9]), \
        "r"(a[10]), "r"(a[11]), "r"(a[12]), "r"(a[13]), "r"(a[14]), "r"(a[15]), "l"(b0), "l"(b1), "l"(b2), "l"(b3)    \
      : "memory")

#define TARE_Q4_MULTIPLY_8                                                                                            \
  asm volatile(                                                                                                       \
      "{\n\t"                                                                                                         \
      "wgmma.fence.sync.aligned;\n\t"                                                                                 \
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"                                                             \
      " {%0,%1,%2,%3}, {%4,%5,%6,%7}, %20, 0, 1, 1, 0;\n\t"                                                           \
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"                                                             \
      " {%0,%1,%2,%3}, {%8,%9,%10,%11}, %21, 1, 1, 1, 0;\n\t"                                                         \
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"                                                             \
      " {%0,%1,%2,%3}, {%12,%13,%14,%15}, %22, 1, 1, 1, 0;\n\t"                                                       \
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"                                                             \
      " {%0,%1,%2,%3}, {%16,%17,%18,%19}, %23, 1, 1, 1, 0;\n\t"                                                       \
      "wgmma.commit_group.sync.aligned;\n\t}"                                                                         \
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                                                \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]), "r"(a[8]), "r"(a[9]), \
        "r"(a[10]), "r"(a[11]), "r"(a[12]), "r"(a[13]), "r"(a[14]), "r"(a[15]), "l"(b0), "l"(b1), "l"(b2), "l"(b3)    \
      : "memory")

template <int kTokens>
__device__ __forceinline__ void multiply(float (&d)[kTokens / 2], const std::uint32_t (&a)[16],
                                         std::uint32_t panel_low) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const std::uint64_t b0 = panel_descriptor<kTokens>(panel_low, 0);
  const std::uint64_t b1 = panel_descriptor<kTokens>(panel_low, 1);
  const std::uint64_t b2 = panel_descriptor<kTokens>(panel_low, 2);
  const std::uint64_t b3 = panel_descriptor<kTokens>(panel_low, 3);
  if constexpr (kTokens == 16) {
    TARE_Q4_MULTIPLY_16;
  } else {
    TARE_Q4_MULTIPLY_8;
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

template <int kTokenCount, int kWarpgroupCount>
class Q4WgmmaConsumer {
 public:
  static constexpr int kTokens = kTokenCount;
  static constexpr int kWarpgroups = kWarpgroupCount;

  __device__ __forceinline__ Q4WgmmaConsumer() { lane_.hold(); }

  __device__ __forceinline__ void first_pair(const std::byte* stage) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (float& total : totals_[tile]) total = 0.0F;
    }
    pair(
        stage, [] {}, [] {});
  }

  template <class Release>
  __device__ __forceinline__ void next_pair(const std::byte* stage, Release release_previous) {
    if constexpr (kDrains) {
      release_previous();
      pair(
          stage, [] {}, [] {});
    } else {
      pair(
          stage, [&] { wait_for_sums<0>(sums_[1]); },
          [&] {
            add_group<kTokens>(totals_[kTiles - 1], sums_[1], last_scales_, last_offsets_);
            release_previous();
          });
    }
  }

  __device__ __forceinline__ void end_fragment() {
    if constexpr (!kDrains) {
      wait_for_sums<0>(sums_[1]);
      add_group<kTokens>(totals_[kTiles - 1], sums_[1], last_scales_, last_offsets_);
    }
  }

  __device__ __forceinline__ void store(float* plane) const {
    store_totals<kTokens, kTiles>(plane, totals_, lane_);
  }

 private:
  static constexpr int kTiles = 4 / kWarpgroups;
  static constexpr bool kDrains = kWarpgroups == 4;  // no products run on into the next pair
  static constexpr int kSteps = 2 * kTiles;          // of a pair: tile after tile, unit after unit; an even number

  // `before` runs when the first codes are unpacked, `between` when the first products are on their way.
  template <class Before, class Between>
  __device__ __forceinline__ void pair(const std::byte* stage, Before before, Between between) {
    const std::uint32_t base = ptx::shared_address(stage);
    const std::uint32_t panel_low = panel_low_word<kTokens>(base + kQ4PairBytes);
    __half2 scales[2];
    Offsets<kTokens> offsets[2];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int unit = step / kTiles;
      const int tile = step % kTiles;
      const std::uint32_t unit_base = base + static_cast<std::uint32_t>(unit * kQ4UnitBytes);
      const uint4 codes = load_codes(unit_base + lane_.codes + static_cast<std::uint32_t>(tile * 2048));
      scales[step % 2] = load_scales(unit_base + lane_.scales + static_cast<std::uint32_t>(tile * 4));
      if (tile == 0) {
        offsets[unit].load(base + static_cast<std::uint32_t>(kQ4PairBytes + unit * kBlockBytes +
                                                             q4_activation_panel_bytes(kTokens) + lane_.p * kTokens));
      }
      std::uint32_t registers[16];
      unpack_tile(codes, registers);
      if (step == 0) before();
      multiply<kTokens>(sums_[step % 2], registers, panel_low + static_cast<std::uint32_t>(unit * kBlockBytes / 16));
      if (step == 0) {
        between();
      } else {
        wait_for_sums<1>(sums_[(step - 1) % 2]);
        add_group<kTokens>(totals_[(step - 1) % kTiles], sums_[(step - 1) % 2], scales[(step - 1) % 2],
                           offsets[(step - 1) / kTiles]);
      }
    }
    if constexpr (kDrains) {
      wait_for_sums<0>(sums_[1]);
      add_group<kTokens>(totals_[kTiles - 1], sums_[1], scales[1], offsets[1]);
    } else {
      last_scales_ = scales[1];
      last_offsets_ = offsets[1];
    }
  }

  static constexpr int kBlockBytes = q4_activation_block_bytes(kTokens);
  Q4Lane<kTiles> lane_;
  float totals_[kTiles][kTokens / 2];
  float sums_[2][kTokens / 2];  // sums_[1] of the last step is in flight between pairs
  __half2 last_scales_;
  Offsets<kTokens> last_offsets_;
};

}  // namespace tare::micro

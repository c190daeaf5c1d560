// wgmma with operand A in registers and 8 or 16 columns of operand B: four instructions over a panel of activations
// (operand.h). What the products would use if it were faster than mma.sync; wgmma_rate_probe.cu measures its rate.
#pragma once

#include <cstdint>

namespace tare::micro {

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
#define TARE_MULTIPLY_16                                                                                              \
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

#define TARE_MULTIPLY_8                                                                                               \
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
    TARE_MULTIPLY_16;
  } else {
    TARE_MULTIPLY_8;
  }
#endif
}
#undef TARE_MULTIPLY_16
#undef TARE_MULTIPLY_8

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

}  // namespace tare::micro

// The tensor-core operations of a draft's attention, and the weights between its two products.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace tare::engine {

// 8x8 matrices of 16-bit numbers, transposed; lane 8 i + r gives the address of row r of matrix i.
__device__ __forceinline__ void load_transposed(std::uint32_t shared_row, std::uint32_t (&four)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(four[0]), "=r"(four[1]), "=r"(four[2]), "=r"(four[3])
               : "r"(shared_row));
}
// d[16 x 8] += a[16 x 16] b[16 x 8] of BF16 numbers, in FP32.
__device__ __forceinline__ void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                             std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Softmax weights exp2(score - reference) of 16 rows by 16 positions, scores as multiply_add leaves them for either
// eight positions, rounded to BF16 as its operand a. A lane's share of the rows' sums is of what was kept: what is
// summed is what is divided by.
__device__ __forceinline__ void weigh(const float (&first)[4], const float (&second)[4], const float (&references)[2],
                                      std::uint32_t (&weights)[4], float (&weight_sums)[2]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float* score = (i < 2 ? first : second) + i % 2 * 2;
    const float2 exact{exp2f(score[0] - references[i % 2]), exp2f(score[1] - references[i % 2])};
    const __nv_bfloat162 rounded = __float22bfloat162_rn(exact);
    weights[i] = *reinterpret_cast<const std::uint32_t*>(&rounded);
    const float2 kept = __bfloat1622float2(rounded);
    weight_sums[i % 2] += kept.x + kept.y;
  }
}

}  // namespace tare::engine

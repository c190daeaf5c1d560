#include "base/error.h"
#include "engine/cuda/q4_gemm.h"
#include "engine/cuda/q4_launch.cuh"
#include "engine/cuda/q4_wgmma.cuh"

namespace tare::engine {

void q4_gemm(Q4Form form, int tokens, const Q4GemmArguments& arguments, const CudaLaunch& launch) {
  const bool wide = tokens == 16;
  if (!wide && tokens != 8) throw internal_error("a q4 product takes 8 or 16 tokens");
  if (form == Q4Form::kFloat16) {
    if (wide) return launch_q4_stream<Q4WgmmaConsumer<Float16Codes, 16>>("q4_gemm f16 n16", arguments, launch);
    return launch_q4_stream<Q4WgmmaConsumer<Float16Codes, 8>>("q4_gemm f16 n8", arguments, launch);
  }
  if (wide) return launch_q4_stream<Q4WgmmaConsumer<BFloat16Codes, 16>>("q4_gemm bf16 n16", arguments, launch);
  return launch_q4_stream<Q4WgmmaConsumer<BFloat16Codes, 8>>("q4_gemm bf16 n8", arguments, launch);
}

}  // namespace tare::engine

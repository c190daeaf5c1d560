#include "base/error.h"
#include "engine/cuda/q4_gemm.h"
#include "engine/cuda/q4_launch.cuh"
#include "engine/cuda/q4_mma_sync.cuh"

namespace tare::engine {

namespace {

constexpr int kWarpgroups = 2;
constexpr int kBlocksAnSm = 2;  // one runs, its successor fills its ring meanwhile
constexpr int kStages = 5;

template <int kTokens>
void launch_product(const char* name, const Q4GemmArguments& arguments, const CudaLaunch& launch) {
  launch_q4_stream<Q4MmaSyncConsumer<kTokens, kWarpgroups>, kStages, kBlocksAnSm>(name, arguments, launch);
}

void require_hopper() {
  int device = 0;
  int major = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
  if (major != 9) {
    throw Error(ErrorKind::kEnvironment, "the q4 product needs a Hopper GPU (compute capability 9.0)", "q4_gemm");
  }
}

}  // namespace

void q4_gemm(int tokens, const Q4GemmArguments& arguments, const CudaLaunch& launch) {
  require_hopper();
  if (tokens == 16) return launch_product<16>("q4_gemm n16", arguments, launch);
  if (tokens == 8) return launch_product<8>("q4_gemm n8", arguments, launch);
  throw internal_error("a q4 product takes 8 or 16 tokens");
}

}  // namespace tare::engine

// One launch with its attribute, checked.
#pragma once

#include <cuda_runtime.h>

#include "engine/cuda/cuda_check.h"
#include "engine/cuda/q4_stream.cuh"

namespace tare::engine {

// Every kernel asks for the largest shared-memory carve-out: a change of carve-out between neighbours drains the SMs.
template <class... Parameters, class... Arguments>
void launch_kernel(const char* name, void (*kernel)(Parameters...), int blocks, int threads, int shared_bytes,
                   const CudaLaunch& launch, const Arguments&... arguments) {
  check_cuda(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributePreferredSharedMemoryCarveout,
                                  cudaSharedmemCarveoutMaxShared),
             name);
  if (shared_bytes > 0) {
    check_cuda(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    shared_bytes),
               name);
  }
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.stream = launch.stream;
  config.attrs = &attribute;
  config.numAttrs = launch.programmatic ? 1 : 0;
  check_cuda(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), name);
}

template <class Consumer, int kStages, int kBlocksAnSm>
void launch_q4_stream(const char* name, const Q4GemmArguments& arguments, const CudaLaunch& launch) {
  launch_kernel(name, q4_stream_kernel<Consumer, kStages, kBlocksAnSm>, arguments.plan.grid, kQ4Threads<Consumer>,
                q4_shared_bytes(Consumer::kTokens, kStages), launch, arguments);
}

}  // namespace tare::engine

// One launch with its attributes, checked and recorded.
#pragma once

#include <cuda_runtime.h>

#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/device/launch.h"

namespace tare::engine {

struct LaunchShape {
  int blocks = 1;
  int threads = 1;
  int shared_bytes = 0;
  int cluster = 1;  // thread blocks a cluster; more than 1 needs sm_90
};

constexpr int kPortableCluster = 8;

// Every kernel asks for the largest shared-memory carve-out: a change of carve-out between neighbours drains the SMs.
template <class... Parameters, class... Arguments>
void launch_kernel(const char* name, void (*kernel)(Parameters...), const LaunchShape& shape, const CudaLaunch& launch,
                   const Arguments&... arguments) {
  const auto* function = reinterpret_cast<const void*>(kernel);
  check_cuda(
      cudaFuncSetAttribute(function, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared),
      name);
  if (shape.cluster > kPortableCluster) {
    check_cuda(cudaFuncSetAttribute(function, cudaFuncAttributeNonPortableClusterSizeAllowed, 1), name);
  }
  if (shape.shared_bytes > 0) {
    check_cuda(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, shape.shared_bytes), name);
  }
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (launch.programmatic) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = static_cast<unsigned>(shape.cluster);
    attributes[count].val.clusterDim.y = 1;
    attributes[count++].val.clusterDim.z = 1;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
  config.stream = launch.stream;
  config.attrs = attributes;
  config.numAttrs = count;
  check_cuda(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), name);
  if (launch.records != nullptr) launch.records->push_back({name, launch.part, launch.bytes, launch.bytes_a_position});
}

}  // namespace tare::engine

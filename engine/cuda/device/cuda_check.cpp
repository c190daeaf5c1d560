#include "engine/cuda/device/cuda_check.h"

#include <string>

#include "base/error.h"

namespace tare::engine {

void check_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  throw Error(ErrorKind::kEnvironment, std::string(cudaGetErrorString(status)) + " (" + cudaGetErrorName(status) + ")",
              call);
}

}  // namespace tare::engine

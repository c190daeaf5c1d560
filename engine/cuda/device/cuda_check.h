// A CUDA call that failed becomes a tare::Error (environment) that names the call.
#pragma once

#include <cuda_runtime_api.h>

namespace tare::engine {

// Throws when `status` is not cudaSuccess; `call` says what was tried.
void check_cuda(cudaError_t status, const char* call);

}  // namespace tare::engine

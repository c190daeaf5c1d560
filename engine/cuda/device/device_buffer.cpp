#include "engine/cuda/device/device_buffer.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "base/error.h"
#include "engine/cuda/device/cuda_check.h"

namespace tare::engine {

DeviceBuffer::DeviceBuffer(std::size_t bytes, const char* what) : bytes_(bytes) {
  if (bytes == 0) return;
  const cudaError_t status = cudaMalloc(&memory_, bytes);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    throw Error(ErrorKind::kEnvironment, fmt::format("the GPU has no {} bytes left", bytes), what,
                "use a smaller model, context or weight format");
  }
  check_cuda(status, what);
}

DeviceBuffer::~DeviceBuffer() {
  (void)cudaFree(memory_);  // at exit the context may be gone already
}

namespace {
// cudaMemcpy from pageable memory returns once the bytes are staged, not once they are on the device, and cudaMemset
// returns before it has run (CUDA runtime API, "API synchronization behavior"). The engine's streams do not wait for
// the default one.
void wait_for_default_stream(const char* what) {
  check_cuda(cudaStreamSynchronize(cudaStreamLegacy), what);
}
}  // namespace

void copy_to_device(std::byte* target, std::span<const std::byte> source) {
  check_cuda(cudaMemcpy(target, source.data(), source.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  wait_for_default_stream("cudaMemcpy");
}
void copy_to_host(std::span<std::byte> target, const std::byte* source) {
  check_cuda(cudaMemcpy(target.data(), source, target.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
}
void fill_device(std::byte* target, std::size_t bytes, int value) {
  check_cuda(cudaMemset(target, value, bytes), "cudaMemset");
  wait_for_default_stream("cudaMemset");
}

}  // namespace tare::engine

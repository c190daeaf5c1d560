#include "engine/backends/make_backend.h"

#include "base/error.h"
#include "engine/cpu/cpu_backend.h"
#ifdef TARE_WITH_CUDA
#include "engine/cuda/cuda_backend.h"
#endif

namespace tare::engine {

std::unique_ptr<Backend> make_backend(const Checkpoint& checkpoint, const EngineOptions& options) {
  switch (options.backend) {
    case BackendKind::kCpu:
      return make_cpu_backend(checkpoint, options);
    case BackendKind::kCuda:
#ifdef TARE_WITH_CUDA
      return make_cuda_backend(checkpoint, options);
#else
      throw Error(ErrorKind::kEnvironment, "this program was built without CUDA", "backend",
                  "build the preset release where nvcc is on the PATH, or use backend cpu");
#endif
  }
  throw internal_error("a backend has no maker");
}

}  // namespace tare::engine

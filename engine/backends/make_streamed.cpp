#include "engine/backends/make_streamed.h"

#include "base/error.h"
#include "engine/streamed/cpu_streamed.h"
#ifdef TARE_WITH_CUDA
#include "engine/streamed/cuda/cuda_head_product.h"
#include "engine/streamed/cuda/cuda_streamed.h"
#endif

namespace tare::engine {
namespace {

bool is_cuda(const StreamedOptions& options) {
  if (options.backend == "cpu") return false;
  if (options.backend != "cuda") throw input_error("--backend", "must be cpu or cuda, is '" + options.backend + "'");
#ifndef TARE_WITH_CUDA
  throw Error(ErrorKind::kEnvironment, "this program was built without CUDA", "--backend",
              "build the preset release where nvcc is on the PATH, or use --backend cpu");
#endif
  return true;
}

}  // namespace

StreamedMemory plan_streamed(const Checkpoint& checkpoint, const StreamedShape& shape, const StreamedOptions& options) {
#ifdef TARE_WITH_CUDA
  if (is_cuda(options)) return plan_cuda_streamed(checkpoint, shape, options.device, options.activation_bytes);
#else
  (void)is_cuda(options);
#endif
  return plan_cpu_streamed(checkpoint, shape, options.threads, options.activation_bytes);
}

std::unique_ptr<StreamedBackend> make_streamed(const Checkpoint& checkpoint, const StreamedShape& shape,
                                               const StreamedOptions& options) {
#ifdef TARE_WITH_CUDA
  if (is_cuda(options)) return make_cuda_streamed(checkpoint, shape, options.device, options.activation_bytes);
#else
  (void)is_cuda(options);
#endif
  return make_cpu_streamed(checkpoint, shape, options.threads, options.activation_bytes);
}

std::unique_ptr<HeadProduct> make_head_product([[maybe_unused]] const Checkpoint& checkpoint,
                                               [[maybe_unused]] int device) {
#ifdef TARE_WITH_CUDA
  return make_cuda_head_product(checkpoint, device);
#else
  (void)is_cuda({.backend = "cuda"});  // throws
  throw internal_error("a head on no GPU");
#endif
}

}  // namespace tare::engine

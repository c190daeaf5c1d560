#include "engine/backends/make_streamed.h"

#include "base/error.h"
#include "engine/streamed/cpu_streamed.h"

namespace tare::engine {
namespace {

void check_backend(const StreamedOptions& options) {
  if (options.backend != "cpu") throw input_error("--backend", "must be cpu, is '" + options.backend + "'");
}

}  // namespace

StreamedMemory plan_streamed(const Checkpoint& checkpoint, const StreamedShape& shape, const StreamedOptions& options) {
  check_backend(options);
  return plan_cpu_streamed(checkpoint, shape, options.threads, options.activation_bytes);
}

std::unique_ptr<StreamedBackend> make_streamed(const Checkpoint& checkpoint, const StreamedShape& shape,
                                               const StreamedOptions& options) {
  check_backend(options);
  return make_cpu_streamed(checkpoint, shape, options.threads, options.activation_bytes);
}

}  // namespace tare::engine

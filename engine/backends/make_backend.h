// The backend that the options name, whichever of them this program was built with.
#pragma once

#include <memory>

#include "engine/backend/backend.h"

namespace tare::engine {

// As make_cpu_backend and make_cuda_backend. Throws also Error (environment) for backend=cuda in a program that was
// built without CUDA.
[[nodiscard]] std::unique_ptr<Backend> make_backend(const Checkpoint& checkpoint, const EngineOptions& options);

}  // namespace tare::engine

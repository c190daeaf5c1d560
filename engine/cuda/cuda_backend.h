// The CUDA backend: one GPU, a round as one graph.
//
// With activations fp32 every product is a reference product (slow, any device); with bf16 rounds run the tensor-core
// products of this folder and prefill runs cuBLAS.
#pragma once

#include <memory>

#include "engine/backend/backend.h"
#include "engine/checkpoint/checkpoint.h"

namespace tare::engine {

// Throws Error (environment): no GPU, a driver older than this program's CUDA, not enough memory (bytes by part, before
// anything is loaded), a device whose kernels are not here; Error (input): what this backend does not support, named.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend(const Checkpoint& checkpoint, const EngineOptions& options);

}  // namespace tare::engine

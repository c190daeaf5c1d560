// The streamed reference, and the head of scores on a GPU, on whichever backend this program was built with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/streamed/head_product.h"
#include "engine/streamed/streamed_backend.h"

namespace tare::engine {

struct StreamedOptions {
  std::string backend = "cpu";         // or "cuda"
  int threads = 1;                     // of the CPU
  std::uint64_t activation_bytes = 0;  // that activations and their snapshot may take; beyond it they are spilled
  int device = 0;                      // of the GPU
};

// What it will take, without taking it. Throws Error (input) for another backend, Error (environment) for cuda where
// there is none, or where the model does not fit.
[[nodiscard]] StreamedMemory plan_streamed(const Checkpoint& checkpoint, const StreamedShape& shape,
                                           const StreamedOptions& options);
// The same errors. The checkpoint must outlive the backend.
[[nodiscard]] std::unique_ptr<StreamedBackend> make_streamed(const Checkpoint& checkpoint, const StreamedShape& shape,
                                                             const StreamedOptions& options);

// The exact head of scores on a GPU. Throws Error (input) when it is not BF16, Error (environment) where there is no
// GPU or no room.
[[nodiscard]] std::unique_ptr<HeadProduct> make_head_product(const Checkpoint& checkpoint, int device);

}  // namespace tare::engine

// The reference on one GPU.
#pragma once

#include <memory>

#include "engine/streamed/streamed_backend.h"

namespace tare::engine {

// Activations and their snapshot may take `activation_bytes` of the device's memory, and what is free there; windows
// beyond it are spilled by streamed_run. The checkpoint must outlive the backend. Throws Error (environment): no GPU,
// no cuBLAS, a model whose layer or head does not fit; Error (input): no such device, a head size without a kernel.
[[nodiscard]] std::unique_ptr<StreamedBackend> make_cuda_streamed(const Checkpoint& checkpoint,
                                                                  const StreamedShape& shape, int device,
                                                                  std::uint64_t activation_bytes);

// What it will take of the device and of the host, given what is free on the device now. Errors as above.
[[nodiscard]] StreamedMemory plan_cuda_streamed(const Checkpoint& checkpoint, const StreamedShape& shape, int device,
                                                std::uint64_t activation_bytes);
// The same when `free_bytes` are free.
[[nodiscard]] StreamedMemory plan_cuda_streamed_in(const Checkpoint& checkpoint, const StreamedShape& shape,
                                                   std::uint64_t free_bytes, std::uint64_t activation_bytes);

}  // namespace tare::engine

// The reference on the CPU.
#pragma once

#include <memory>

#include "engine/streamed/streamed_backend.h"

namespace tare::engine {

// Activations may take `activation_bytes` of memory; windows beyond it are spilled by streamed_run. At least one window
// is held. The checkpoint must outlive the backend. `threads` >= 1.
[[nodiscard]] std::unique_ptr<StreamedBackend> make_cpu_streamed(const Checkpoint& checkpoint,
                                                                 const StreamedShape& shape, int threads,
                                                                 std::uint64_t activation_bytes);

// What it will take.
[[nodiscard]] StreamedMemory plan_cpu_streamed(const Checkpoint& checkpoint, const StreamedShape& shape, int threads,
                                               std::uint64_t activation_bytes);

}  // namespace tare::engine

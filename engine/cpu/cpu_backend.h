// The CPU backend: SIMD kernels chosen at run time, weights packed at load, a pool of threads.
//
// The same tokens give the same bits for every number of threads, every prefill chunk and every split into verifies,
// within one GDN form and one instruction set.
#pragma once

#include <memory>

#include "engine/backend/backend.h"

namespace tare::engine {

// Loads, quantises and packs the checkpoint's text model; the checkpoint may be closed afterwards. Weights of the MTP
// head are not loaded. Throws Error (input): a tensor missing, misshapen or not finite (named), an instruction set this
// machine lacks; Error (environment): not enough memory.
[[nodiscard]] std::unique_ptr<Backend> make_cpu_backend(const Checkpoint& checkpoint, const EngineOptions& options);

}  // namespace tare::engine

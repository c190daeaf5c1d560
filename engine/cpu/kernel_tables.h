// What each kernel file offers: its table for one Highway target. Private to engine/cpu; others use kernels.h.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/simd_targets.h"

namespace tare::engine {

[[nodiscard]] MultiplyPanels matrix_kernels(std::int64_t target);
[[nodiscard]] const VectorKernels* vector_kernels(std::int64_t target);
[[nodiscard]] const AttentionKernels* attention_kernels(std::int64_t target);
[[nodiscard]] const GdnKernels* gdn_kernels(std::int64_t target);

}  // namespace tare::engine

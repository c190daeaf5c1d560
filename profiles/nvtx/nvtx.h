// NVTX ranges of this process.
#pragma once

#include <memory>

#include "profiles/nvtx/range_backend.h"

namespace tare::profiles {

// Where ranges go when a tool listens to NVTX in this process (nsys profile does); null when none does, or when this
// program was built without NVTX's headers.
[[nodiscard]] std::shared_ptr<RangeSink> nvtx_sink();

// The backend with ranges where a tool listens; else the backend that was given.
[[nodiscard]] std::unique_ptr<engine::Backend> with_nvtx_ranges(std::unique_ptr<engine::Backend> backend);

}  // namespace tare::profiles

// The read rate of a GPU's memory.
#pragma once

#include "profiles/read_rate.h"

namespace tare::profiles {

// A plain read: 16-byte loads, about 128 KB an SM in flight, timed by events. Of two grids the faster counts, as tried
// on each working set. Throws Error (environment): built without CUDA, no GPU; its probes: no memory.
[[nodiscard]] ReadRateSource gpu_read_rate(int device);

}  // namespace tare::profiles

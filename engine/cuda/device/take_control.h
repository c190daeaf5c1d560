// How what changes from round to round comes to the device.
#pragma once

#include "engine/cuda/device/launch.h"

namespace tare::engine {

// Copies `words` (at most 1,024) 32-bit words from mapped host memory. One thread block asks for all of them at once:
// blocks that read a word each wait for the bus one after the other, 0.75 us a block on an H200.
// The first kernel of a graph, not programmatic; it lets its successor start at once, which is programmatic and lets
// nobody start before it has waited. So kernels after that one may read the control before they wait.
void launch_take_control(const void* host, void* control, int words, const CudaLaunch& launch);

}  // namespace tare::engine

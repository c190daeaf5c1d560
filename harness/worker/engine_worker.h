// Our own engine as a worker: reads calls from a descriptor, answers on another, until `close` or the end of input.
#pragma once

namespace tare::harness {

// Serves the protocol. `input` and `output` are open descriptors, not closed here. Errors in a call are answered, not
// thrown; returns the exit code of the process (0; 5 after an internal error).
[[nodiscard]] int serve_worker(int input, int output);

}  // namespace tare::harness

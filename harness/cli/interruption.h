// SIGINT and SIGTERM of commands that take long: the first one asks the work to end at its next edge, where all that
// was done is kept; a second one, of either kind, ends the program at once.
#pragma once

#include <atomic>

namespace tare::harness {

// Installs the handlers; the flag is set by the first signal.
[[nodiscard]] const std::atomic<bool>* interruption();

}  // namespace tare::harness

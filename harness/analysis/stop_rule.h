// When an experiment ends. A function of what the ledger holds, so that a run which was killed and goes on ends where
// it would have ended.
#pragma once

#include <optional>

#include "harness/experiment/experiment.h"
#include "harness/ledger/ledger.h"

namespace tare::harness {

// To be asked after every block: why there is to be no further one. Precision needs two complete blocks and conclusive
// intervals, and looks at their widths alone. Time: a block takes from the start of its first launch (twins beside it
// and behind it included) to the end of the last; the next is taken to last as long as the longest so far. Absent: go
// on.
[[nodiscard]] std::optional<StopRecord> stop_now(const Experiment& experiment, const Ledger& ledger);

}  // namespace tare::harness

// The CSV files (RFC 4180, UTF-8, one header line, "." as decimal sign, empty for what is missing). Numbers are in the
// fewest digits that read back to the same value.
#pragma once

#include <string>

#include "reports/findings.h"

namespace tare::reports {

// One line an interval: arm, measure, question, method, logs, percents, p, verdict, known truth, and the conditions
// (experiment and checkpoint digests, options, build, machine).
[[nodiscard]] std::string effects_csv(const Findings& findings);
// One line a run in the order of start, counted or not; a column a measure, "MEASURE_KEY [UNIT]".
[[nodiscard]] std::string runs_csv(const Findings& findings);
// One line a prompt and arm.
[[nodiscard]] std::string prompts_csv(const Findings& findings);

}  // namespace tare::reports

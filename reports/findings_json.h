// Findings for machines.
#pragma once

#include "base/json_reader.h"
#include "reports/findings.h"

namespace tare::reports {

// The whole of `findings`, every field under the name it has in findings.h; enums as words, arms and measures named
// instead of numbered, percents beside logs, missing numbers as null. "format" is "tare-findings" and "version" 1.
[[nodiscard]] Json findings_json(const Findings& findings);

// The text of findings.json: indented, invalid UTF-8 replaced.
[[nodiscard]] std::string findings_json_text(const Findings& findings);

}  // namespace tare::reports

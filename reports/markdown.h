// The report as Markdown (GitHub's flavour), for pull requests and repositories. Folded tables and listings are left to
// the CSV and JSON files; figures are linked by relative path.
#pragma once

#include <string>

#include "reports/document.h"

namespace tare::reports {

[[nodiscard]] std::string markdown_of(const Document& document);

}  // namespace tare::reports

// The report as one HTML file: no script, no outside resource, figures inline.
#pragma once

#include <string>

#include "reports/document.h"

namespace tare::reports {

[[nodiscard]] std::string html_of(const Document& document);

// Texts of one numeric column, padded on the right with spaces as wide as digits (U+2007) and points (U+2008), so that
// decimal points stand under each other when the column is aligned to the right. What is no number stays as it is.
void align_decimals(std::vector<std::string>& texts);

}  // namespace tare::reports

// The report's tables as LaTeX (booktabs), to be taken into a paper.
#pragma once

#include <string>

#include "reports/document.h"

namespace tare::reports {

// A table environment for every table of the report that is not folded, in the order of the page, labelled
// "tab:ID"; the first lines say which packages it needs. Compiles with pdfLaTeX, XeLaTeX and LuaLaTeX.
[[nodiscard]] std::string latex_of(const Document& document);

}  // namespace tare::reports

// The body of the report: findings arranged as sections of paragraphs, tables and figures.
#pragma once

#include <vector>

#include "reports/document.h"
#include "reports/findings.h"

namespace tare::reports {

// The whole report. A figure is put into the section of its name ("effects", "runs", ...) or the one it names.
[[nodiscard]] Document make_document(const Findings& findings, const std::vector<Figure>& figures);

// Single sections, in the order of the page.
[[nodiscard]] Section effects_section(const Findings& findings);
// Combinations, factors and interactions; without blocks when the experiment has no factors.
[[nodiscard]] Section matrix_section(const Findings& findings);
// Fidelity against speed; without blocks when no arm was scored.
[[nodiscard]] Section front_section(const Findings& findings);
[[nodiscard]] Section measures_section(const Findings& findings);
// Where the time of a round goes; without blocks when nothing was profiled.
[[nodiscard]] Section times_section(const Findings& findings);
// Tokens a round, acceptance and phases; without blocks when no arm drafts.
[[nodiscard]] Section rounds_section(const Findings& findings);
[[nodiscard]] Section runs_section(const Findings& findings);
[[nodiscard]] Section prompts_section(const Findings& findings);
[[nodiscard]] Section instrument_section(const Findings& findings);
[[nodiscard]] Section arms_section(const Findings& findings);
[[nodiscard]] Section conditions_section(const Findings& findings);
[[nodiscard]] Section methods_section(const Findings& findings);

}  // namespace tare::reports

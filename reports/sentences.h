// The report's sentences: findings in words. Each function returns plain text with visible_text applied to names.
#pragma once

#include <string>
#include <vector>

#include "reports/document.h"
#include "reports/findings.h"

namespace tare::reports {

// "q4 is faster than q8 by 34.1 % [33.6, 34.6]: difference shown (Holm-adjusted p < 0.0001)."
[[nodiscard]] VerdictLine verdict_line(const Findings& findings, const Effect& effect);
// "Valid: 64 of 64 replays reproduced their text ...", or what went wrong first.
[[nodiscard]] std::string validity_sentence(const Validity& validity);
// "q8 (baseline) against q4 and q8-null, 64 prompts of 12,288 tokens a run, 3 blocks."
[[nodiscard]] std::string compared_sentence(const Findings& findings);
// One line of conditions for the first screen.
[[nodiscard]] std::string machine_line(const Findings& findings);
// All warnings, the gravest first, those of effects with the arm's name. What is said of several is one line that names
// them all.
[[nodiscard]] std::vector<WarningLine> warning_lines(const Findings& findings);
// The methods in prose, one string a paragraph.
[[nodiscard]] std::vector<std::string> methods_paragraphs(const Findings& findings);
// The same as a text file to copy from, a paragraph a line.
[[nodiscard]] std::string methods_text(const Findings& findings);
// "drift of -0.03 % a slot [-0.05, -0.01]; runs scatter by 0.12 % around the fit."
[[nodiscard]] std::string drift_sentence(const Findings& findings);

// visible name of an arm.
[[nodiscard]] std::string arm_name(const Findings& findings, std::size_t arm);
// "better", "non-inferior": verdict words as printed.
[[nodiscard]] std::string printed_verdict(const std::string& verdict);
// "a", "a and b", "a, b and c".
[[nodiscard]] std::string listed(const std::vector<std::string>& names);
// The text, or kNotAvailable for an empty one.
[[nodiscard]] std::string or_not_available(const std::string& text);

}  // namespace tare::reports

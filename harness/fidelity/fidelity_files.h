// The files of tare fidelity: tables and figure from a fidelity.json, which is written last, by rename.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "reports/figure_fidelity.h"

namespace tare::harness {

// Every arm's divergence with its own head, by kind: of decoding where it was walked, else of prefill.
[[nodiscard]] reports::FidelityFigure fidelity_figure(const Json& fidelity);

// One point an arm, all kinds of text together.
struct OverallFidelity {
  std::string walked;  // "decoding in rounds of 16"
  std::vector<reports::FidelityPoint> points;
};
[[nodiscard]] OverallFidelity overall_fidelity(const Json& fidelity);

// Writes fidelity.md, fidelity.svg (where gnuplot is found; says so on standard error where it is not) and
// fidelity.json.
void write_fidelity_files(const Json& fidelity, const std::filesystem::path& directory);

// A fidelity.json. Throws Error (input) for another version.
[[nodiscard]] Json read_fidelity(const std::filesystem::path& file);

// The same from the fidelity.json in `directory`, for `tare report`. Throws Error (input) for another version.
Json rewrite_fidelity_files(const std::filesystem::path& directory);

}  // namespace tare::harness

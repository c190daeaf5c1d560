// Writes everything people and machines read after an experiment.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "reports/figures.h"
#include "reports/findings.h"

namespace tare::reports {

struct ReportOptions {
  std::string gnuplot = "gnuplot";  // program that draws the figures; a name is looked up in PATH
  // Each figure also as NAME.pdf, whose date is when the experiment ended, and NAME.png (two pixels for one).
  bool for_print = false;
};

struct WrittenReport {
  std::vector<std::filesystem::path> files;  // all that were written, report.html first
  std::vector<Error> missing;                // figures that could not be drawn, each saying why and what to install
};

// Writes into `directory` (made when absent): report.html (one file, figures inline), report.md, findings.json,
// effects.csv, runs.csv, prompts.csv, tables.tex (booktabs), methods.txt, and figures/NAME.svg beside the NAME.gp and
// NAME.dat it was drawn from. Figures are drawn by as many threads as there are cores.
// A figure that cannot be drawn (no gnuplot) is named as missing in the report and in the result; the rest is written.
// Throws Error (internal) when an index of `findings` points nowhere, Error (environment) when a file cannot be
// written.
[[nodiscard]] WrittenReport write_report(const Findings& findings, const std::filesystem::path& directory,
                                         const ReportOptions& options = {});

// Draws one figure into `file` (SVG), by way of a folder of its own that is removed. Throws Error (internal): there is
// nothing to draw; Error (environment): no gnuplot, or the file cannot be written.
void write_figure(const Plot& plot, const std::filesystem::path& file, const ReportOptions& options = {});

}  // namespace tare::reports

// `tare export`: a run directory as others can take it.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"

namespace tare::harness {

struct ExportSettings {
  bool anonymise = false;
  std::string gnuplot = "gnuplot";
};

struct Exported {
  std::vector<std::filesystem::path> files;      // README.md first
  std::map<std::string, std::size_t> taken_out;  // by kind, when anonymised: {"host": 1}
  std::vector<Error> missing;                    // figures that could not be drawn
};

// Writes into `out` (made when absent; refused with Error (input) when it holds anything, or lies in `run`):
//   README.md, report.html and the files beside it, verdict.json, figures/ as SVG, PDF and PNG,
//   ledger.sqlite (a copy), ledger.json and ledger/*.csv (every table).
// With `anonymise` the copy is cleaned first and everything else is made from the copy.
[[nodiscard]] Exported export_run(const std::filesystem::path& run, const std::filesystem::path& out,
                                  const ExportSettings& settings = {});

}  // namespace tare::harness

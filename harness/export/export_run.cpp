#include "harness/export/export_run.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>

#include <optional>

#include "base/file.h"
#include "base/text.h"
#include "harness/analysis/analysis.h"
#include "harness/analysis/blinding.h"
#include "harness/export/anonymiser.h"
#include "harness/export/tables.h"
#include "harness/ledger/ledger.h"
#include "harness/ledger/ledger_tables.h"
#include "reports/escape.h"
#include "reports/report.h"

namespace tare::harness {
namespace {

namespace fs = std::filesystem;

void make_empty(const fs::path& out, const fs::path& run) {
  std::error_code failure;
  if (fs::exists(out) && (!fs::is_directory(out) || !fs::is_empty(out)))
    throw input_error(out.string(), "is there and not empty", "export into a new directory");
  if (fs::weakly_canonical(out) == fs::weakly_canonical(run))
    throw input_error(out.string(), "is the run directory itself", "export into another directory");
  fs::create_directories(out / "ledger", failure);
  if (failure)
    throw Error(ErrorKind::kEnvironment, "cannot be made: " + failure.message(), out.string(),
                "check the path and its permissions");
}

// The name of who owns the file; none when it has no name here.
std::vector<std::string> owner_of(const fs::path& file) {
  struct stat about {};
  if (::stat(file.c_str(), &about) != 0) return {};
  const passwd* owner = ::getpwuid(about.st_uid);
  return owner == nullptr ? std::vector<std::string>() : std::vector<std::string>{owner->pw_name};
}

std::string readme(const reports::Findings& findings, const std::vector<CsvFile>& tables,
                   const Anonymiser* anonymiser) {
  std::string text =
      fmt::format("# {}\n\nExperiment {}, digest {}; exported by {}.\n\n", reports::markdown_text(findings.title),
                  reports::markdown_text(findings.experiment), findings.experiment_digest, findings.harness_version);
  if (anonymiser != nullptr) {
    std::vector<std::string> counts;
    for (const auto& [kind, count] : anonymiser->counts()) counts.push_back(fmt::format("{} {}", count, kind));
    text += fmt::format(
        "Anonymised: names of hosts, kernels, GPUs, users and directories are replaced, the same one by the same word "
        "everywhere ({}).\n\n",
        counts.empty() ? "none was found" : join(counts, ", "));
  }
  text +=
      "| file | what |\n|---|---|\n"
      "| `report.html`, `report.md` | what was found, with tables and figures |\n"
      "| `methods.txt` | the methods, to copy from |\n"
      "| `tables.tex` | the report's tables for LaTeX |\n"
      "| `figures/` | each figure as SVG, PDF and PNG, with its gnuplot script and data |\n"
      "| `findings.json` | everything in the report; `effects.csv`, `runs.csv`, `prompts.csv` are parts of it |\n"
      "| `verdict.json` | what came out, for scripts |\n"
      "| `ledger.sqlite` | everything that was measured |\n"
      "| `ledger.json` | the same as JSON, lists unpacked |\n";
  for (const CsvFile& file : tables) text += fmt::format("| `ledger/{}` | {} lines |\n", file.name, file.lines);
  return text +
         "\nColumns and units: docs/protocol/ledger.md of tare. `_ns` nanoseconds, `_us` microseconds, `_utc_ns` Unix "
         "time; an empty field was not measured. An effect is ln(arm / baseline).\n";
}

}  // namespace

Exported export_run(const fs::path& run, const fs::path& out, const ExportSettings& settings) {
  const fs::path from = run / kLedgerFile;
  refuse_blind(Ledger::open_for_reading(from));
  std::vector<LedgerTable> tables = read_ledger_tables(from);
  make_empty(out, run);
  std::optional<Anonymiser> anonymiser;
  if (settings.anonymise) anonymiser.emplace(tables, owner_of(from));
  const fs::path copy = out / kLedgerFile;
  copy_ledger(
      from, copy,
      anonymiser ? TextRewrite([&](const std::string& text) { return anonymiser->text(text); }) : TextRewrite());
  if (anonymiser) tables = read_ledger_tables(copy);

  Exported exported;
  const auto write = [&](const fs::path& name, const std::string& content) {
    write_file_atomically(out / name, content);
    exported.files.push_back(out / name);
  };
  reports::Findings findings = analyse(Ledger::open_for_reading(copy));
  findings.command = fmt::format("tare run {}.json --out DIR", findings.experiment);
  std::vector<CsvFile> csv;
  for (const LedgerTable& table : tables)
    for (CsvFile& file : csv_of(table)) csv.push_back(std::move(file));
  write("README.md", readme(findings, csv, anonymiser ? &*anonymiser : nullptr));
  const reports::WrittenReport report =
      reports::write_report(findings, out, {.gnuplot = settings.gnuplot, .for_print = true});
  exported.files.insert(exported.files.end(), report.files.begin(), report.files.end());
  exported.missing = report.missing;
  exported.files.push_back(copy);
  write("ledger.json", json_of(tables));
  for (const CsvFile& file : csv) write(fs::path("ledger") / file.name, file.content);
  write_verdict(findings, out);
  exported.files.push_back(out / kVerdictFile);
  if (anonymiser) exported.taken_out = anonymiser->counts();
  return exported;
}

}  // namespace tare::harness

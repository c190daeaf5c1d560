#include "harness/cli/finish_report.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/error.h"
#include "base/json_reader.h"
#include "harness/analysis/analysis.h"
#include "harness/ledger/ledger.h"
#include "reports/findings.h"
#include "reports/report.h"

namespace tare::harness {
namespace {

void print_effects(const reports::Findings& findings) {
  for (const reports::Effect& effect : findings.effects) {
    if (effect.measure != findings.effect_measure) continue;
    const reports::Interval* interval = reports::verdict_interval(effect);
    const std::string name = reports::shown_name(findings.arms[effect.arm]);
    if (interval == nullptr || !reports::is_known(*interval)) {
      fmt::print("{}: {}\n", name, effect.verdict);
      continue;
    }
    fmt::print("{}: {:+.3f} % [{:+.3f}, {:+.3f}] against {}: {}, {}\n", name,
               reports::percent_of_log(effect.estimate_log), reports::percent_of_log(interval->low_log),
               reports::percent_of_log(interval->high_log), reports::shown_name(findings.arms.front()), effect.verdict,
               effect.difference_shown ? "difference shown" : "no difference shown");
  }
}

// The read rate that `tare ceiling --json` found, for what the report says of bytes over time.
void take_read_rate(const std::string& file, reports::Times& times) {
  const Json json = read_json_file(file);
  JsonReader ceiling(json, file);
  times.read_gb_per_s = ceiling.number("read_gb_per_s", 0);
  times.read_rate_source = fmt::format("tare ceiling, {}", ceiling.text("reader"));
}

}  // namespace

int finish_report(const std::filesystem::path& directory, bool json, const std::string& ceiling) {
  const Ledger ledger = Ledger::open_for_reading(directory / kLedgerFile);
  reports::Findings findings = analyse(ledger);
  if (!ceiling.empty()) take_read_rate(ceiling, findings.times);
  const reports::WrittenReport written = reports::write_report(findings, directory);
  write_verdict(findings, directory);
  for (const Error& missing : written.missing) {
    fmt::print(stderr, "warning: {}\n", missing.what());
    if (!missing.parts().hint.empty()) fmt::print(stderr, "hint: {}\n", missing.parts().hint);
  }
  if (json) {
    fmt::print("{}\n", verdict_json(findings).dump(2));
  } else {
    print_effects(findings);
    fmt::print("report: {}\n", (directory / "report.html").string());
  }
  if (!findings.validity.valid) {
    fmt::print(stderr, "error: {}: invalid: {}\n", directory.string(),
               findings.validity.why_invalid.empty() ? "see the report" : findings.validity.why_invalid);
    return exit_code(ErrorKind::kInvalid);
  }
  return 0;
}

}  // namespace tare::harness

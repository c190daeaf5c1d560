#include "harness/cli/finish_report.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/error.h"
#include "base/json_reader.h"
#include "harness/analysis/analysis.h"
#include "harness/fidelity/fidelity_files.h"
#include "harness/ledger/ledger.h"
#include "reports/findings.h"
#include "reports/report.h"
#include "stats/front.h"

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

// Scores of the same arms, by name.
void take_fidelity(const std::string& where, reports::Findings& findings) {
  if (findings.blinding.blind)
    throw input_error(where, "is of named arms, and the experiment is blind", "tare report --unblind DIR first");
  const std::filesystem::path file = std::filesystem::is_directory(where)
                                         ? std::filesystem::path(where) / "fidelity.json"
                                         : std::filesystem::path(where);
  const OverallFidelity overall = overall_fidelity(read_fidelity(file));
  std::vector<double> gain;
  std::vector<double> loss;
  for (std::size_t arm = 0; arm < findings.arms.size(); ++arm) {
    for (const reports::FidelityPoint& point : overall.points) {
      if (point.arm != findings.arms[arm].name) continue;
      findings.fidelity.push_back({arm, point.divergence, point.low, point.high, false});
      const reports::Effect* effect = reports::find_effect(findings, arm, findings.effect_measure);
      gain.push_back(arm == 0 ? 0 : effect == nullptr ? reports::kMissing : effect->estimate_log);
      loss.push_back(point.divergence);
      break;
    }
  }
  if (findings.fidelity.empty())
    throw input_error(file.string(), "has scores of none of this run's arms", "name the arms alike in both");
  const std::vector<bool> front = stats::non_dominated(gain, loss);
  for (std::size_t i = 0; i < front.size(); ++i) findings.fidelity[i].on_front = front[i];
  findings.fidelity_source = overall.walked;
}

}  // namespace

int finish_report(const std::filesystem::path& directory, bool json, const std::string& ceiling,
                  const std::string& fidelity) {
  const Ledger ledger = Ledger::open_for_reading(directory / kLedgerFile);
  reports::Findings findings = analyse(ledger);
  if (!ceiling.empty()) take_read_rate(ceiling, findings.times);
  if (!fidelity.empty()) take_fidelity(fidelity, findings);
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

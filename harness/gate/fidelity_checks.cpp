#include <fmt/format.h>

#include <filesystem>

#include "forced/fidelity_policy.h"
#include "harness/gate/checks.h"

namespace tare::harness {
namespace {

using reports::GateCheck;
using reports::GateOutcome;
using stats::Verdict;

GateOutcome outcome_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kBetter:
    case Verdict::kNonInferior:
    case Verdict::kEquivalent:
      return GateOutcome::kPass;
    case Verdict::kWorse:
      return GateOutcome::kFail;
    case Verdict::kInconclusive:
      return GateOutcome::kInconclusive;
    case Verdict::kInvalid:
      return GateOutcome::kInvalid;
  }
  return GateOutcome::kInvalid;
}

GateCheck check_of(const forced::FidelityVerdict& verdict) {
  return {.section = "fidelity",
          .name = fmt::format("{} of {}, {}", verdict.metric, verdict.arm, verdict.kind),
          .verdict = verdict.verdict,
          .outcome = outcome_of(verdict.verdict),
          .text = fmt::format("loss {:+.3g} [{:+.3g}, {:+.3g}], may be {:.3g}: {}", verdict.loss, verdict.lower_bound,
                              verdict.upper_bound, verdict.margin, verdict.reason),
          .numbers = {{"loss", fmt::format("{:.9g}", verdict.loss)},
                      {"lower_bound", fmt::format("{:.9g}", verdict.lower_bound)},
                      {"upper_bound", fmt::format("{:.9g}", verdict.upper_bound)},
                      {"margin", fmt::format("{:.9g}", verdict.margin)}}};
}

}  // namespace

// A file that is missing, of another version or without rows is as invalid as a run without numbers.
void check_fidelity(const std::filesystem::path& directory, const forced::FidelityPolicy& rule,
                    std::vector<GateCheck>& checks) {
  try {
    const Json fidelity = read_json_file(directory / rule.file);  // an absolute path stays as it is
    const std::vector<forced::FidelityVerdict> verdicts = forced::judge_fidelity(fidelity, rule, rule.file);
    for (const forced::FidelityVerdict& verdict : verdicts) checks.push_back(check_of(verdict));
    if (verdicts.empty()) checks.push_back(not_seen("fidelity", rule.file, "nothing was scored"));
  } catch (const Error& error) {
    checks.push_back(not_seen("fidelity", rule.file, error.what()));
  }
}

}  // namespace tare::harness

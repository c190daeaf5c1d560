#include "harness/gate/gate.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "harness/analysis/analysis.h"
#include "harness/analysis/gathered.h"
#include "harness/environment/build_info.h"
#include "harness/environment/environment.h"
#include "harness/gate/checks.h"

namespace tare::harness {
namespace {

using reports::GateFindings;

std::vector<std::string> arm_names(const Gathered& gathered) {
  std::vector<std::string> names;
  for (const Arm& arm : gathered.experiment.arms) names.push_back(arm.name);
  return names;
}

std::optional<std::size_t> arm_of(const Gathered& gathered, const std::string& name) {
  const std::vector<std::string> names = arm_names(gathered);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

// Arms to be judged. A name that is not there is a check that is invalid: a member that lacks must not pass unseen.
std::vector<std::size_t> judged_arms(const Gathered& gathered, const GatePolicy& policy, bool stored,
                                     GateFindings& findings) {
  std::vector<std::size_t> arms;
  if (policy.arms.empty()) {
    for (std::size_t arm = stored ? 0 : 1; arm < gathered.experiment.arms.size(); ++arm) arms.push_back(arm);
    return arms;
  }
  for (const std::string& name : policy.arms) {
    const auto arm = arm_of(gathered, name);
    if (!arm) {
      findings.checks.push_back(
          not_seen("comparable", fmt::format("arm {}", name),
                   fmt::format("the run has no arm '{}'; it has {}", name, join(arm_names(gathered), ", "))));
    } else if (*arm == 0 && !stored) {
      findings.checks.push_back(not_seen("comparable", fmt::format("arm {}", name),
                                         "is the baseline itself: there is nothing to hold it against"));
    } else {
      arms.push_back(*arm);
    }
  }
  return arms;
}

// The metrics that need no second side of the ledger.
void judge_sections(const GateSides& sides, const GatePolicy& policy, GateFindings& findings) {
  const bool valid = check_validation(sides, policy.validation, findings.checks);
  const bool comparable = check_identity(sides, policy.may_differ, findings.checks);
  if (!valid || !comparable) return;  // no number may be read
  if (!policy.speed.empty()) check_speed(sides, policy, findings.checks);
  if (policy.memory) check_memory(sides, *policy.memory, findings.checks);
  if (policy.launches) check_launches(sides, *policy.launches, findings.checks);
}

}  // namespace

GateFindings judge_gate(const Ledger& ledger, const GatePolicy& policy, const std::string& policy_name,
                        const std::filesystem::path& directory, const std::optional<StoredBaseline>& stored) {
  const Gathered here = gather(ledger);
  GateFindings findings;
  findings.experiment = ledger.identity().name;
  findings.created_utc = utc_text(utc_now_ns());
  findings.harness_version = harness_version();
  findings.policy = policy_name;
  findings.policy_digest = policy.digest;
  findings.alpha = policy.alpha;
  findings.inconclusive_fails = policy.inconclusive_fails;

  std::optional<Gathered> kept_run;
  if (stored) kept_run = gather(*stored->ledger);
  const Gathered& baseline = kept_run ? *kept_run : here;
  const std::string baseline_name =
      stored && !stored->arm.empty() ? stored->arm : baseline.experiment.arms.front().name;
  findings.against = stored ? fmt::format("arm {} of {}", baseline_name, stored->name)
                            : fmt::format("arm {} of the same run", baseline_name);
  const auto baseline_arm = arm_of(baseline, baseline_name);
  std::vector<std::size_t> arms = judged_arms(here, policy, stored.has_value(), findings);
  if (!baseline_arm) {
    findings.checks.push_back(not_seen(
        "comparable", "baseline",
        fmt::format("{} has no arm '{}'; it has {}", stored->name, baseline_name, join(arm_names(baseline), ", "))));
  } else if (arms.empty()) {
    findings.checks.push_back(not_seen("comparable", "arms", "there is no arm to judge: nothing is compared"));
  } else {
    judge_sections({here, baseline, *baseline_arm, std::move(arms), stored.has_value()}, policy, findings);
  }
  if (policy.fidelity) check_fidelity(directory, *policy.fidelity, findings.checks);
  return findings;
}

Json to_json(const GateFindings& findings) {
  Json checks = Json::array();
  for (const reports::GateCheck& check : findings.checks) {
    Json numbers = Json::object();
    for (const auto& [name, value] : check.numbers) numbers[name] = value;
    checks.push_back({{"section", check.section},
                      {"name", check.name},
                      {"verdict", stats::verdict_name(check.verdict)},
                      {"outcome", reports::word_of(check.outcome)},
                      {"text", check.text},
                      {"numbers", std::move(numbers)}});
  }
  return {{"outcome", reports::word_of(reports::outcome_of(findings))},
          {"exit_code", reports::exit_code_of(findings)},
          {"policy", findings.policy},
          {"policy_digest", findings.policy_digest},
          {"against", findings.against},
          {"created_utc", findings.created_utc},
          {"harness_version", findings.harness_version},
          {"alpha", findings.alpha},
          {"checks", std::move(checks)}};
}

}  // namespace tare::harness

#include "harness/gate/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/text.h"
#include "harness/analysis/comparability.h"
#include "harness/experiment/launch_rules.h"
#include "harness/gate/identity.h"
#include "harness/ledger/launched_names.h"

namespace tare::harness {
namespace {

using reports::GateCheck;
using reports::GateOutcome;
using stats::Verdict;

constexpr double kPercent = 100;

const std::string& name_of(const Gathered& gathered, std::size_t arm) {
  return gathered.experiment.arms[arm].name;
}

bool check_rows(const Gathered& gathered, const std::string& which, const ValidationRule& rule,
                std::vector<GateCheck>& checks) {
  std::vector<reports::Warning> reasons;
  const reports::Validity validity = judge(gathered, reasons);
  if (!validity.valid) {
    checks.push_back(not_seen("validation", which, validity.why_invalid));
    return false;
  }
  const auto caught = std::count_if(validity.controls.begin(), validity.controls.end(),
                                    [](const reports::PositiveControl& control) { return control.caught; });
  const auto prompts = static_cast<std::int64_t>(validity.prompts_validated);
  std::vector<std::string> lacks;
  if (prompts < rule.fewest_prompts)
    lacks.push_back(fmt::format("{} texts of {} wanted", prompts, rule.fewest_prompts));
  if (caught < rule.fewest_controls)
    lacks.push_back(fmt::format("{} positive controls caught of {} wanted", caught, rule.fewest_controls));
  if (rule.complete && gathered.complete_blocks.size() < gathered.plan.blocks.size())
    lacks.push_back(
        fmt::format("{} of {} blocks measured", gathered.complete_blocks.size(), gathered.plan.blocks.size()));
  if (!lacks.empty()) {
    checks.push_back(not_seen("validation", which, join(lacks, "; ")));
    return false;
  }
  checks.push_back(kept("validation", which, true,
                        fmt::format("{} texts reproduced, {} controls caught, {} blocks", prompts, caught,
                                    gathered.complete_blocks.size())));
  return true;
}

// Largest resident set of an arm's counted launches; absent when one of them is not known.
std::optional<double> peak_bytes(const Gathered& gathered, std::size_t arm) {
  double largest = 0;
  for (const CountedRun& run : gathered.counted) {
    if (run.arm != arm) continue;
    const auto peak = gathered.launches[run.launch].peak_memory_bytes;
    if (!peak || *peak <= 0) return std::nullopt;
    largest = std::max(largest, static_cast<double>(*peak));
  }
  if (largest <= 0) return std::nullopt;
  return largest;
}

// What the twin launches of an arm launched together; empty, with `fault`, when that is not known.
std::set<std::string> launched_by(const Gathered& gathered, std::size_t arm, std::string& fault) {
  std::set<std::string> names;
  fault = "no twin launch was made: the experiment needs \"profile\"";
  for (const LaunchedNames& twin : launched_names(gathered.launches, gathered.profiles)) {
    if (twin.arm != name_of(gathered, arm)) continue;
    if (!twin.fault.empty()) {
      fault = twin.fault;
      return {};
    }
    names.insert(twin.names.begin(), twin.names.end());
  }
  if (!names.empty()) fault.clear();
  return names;
}

std::string only_in(const std::set<std::string>& one, const std::set<std::string>& other) {
  constexpr std::size_t kNamed = 3;
  std::vector<std::string> names;
  for (const std::string& name : one)
    if (!other.contains(name)) names.push_back("'" + name + "'");
  const std::size_t more = names.size() > kNamed ? names.size() - kNamed : 0;
  names.resize(std::min(names.size(), kNamed));
  return join(names, ", ") + (more > 0 ? fmt::format(" and {} more", more) : std::string());
}

}  // namespace

GateCheck kept(std::string section, std::string name, bool holds, std::string text) {
  return {.section = std::move(section),
          .name = std::move(name),
          .verdict = holds ? Verdict::kNonInferior : Verdict::kWorse,
          .outcome = holds ? GateOutcome::kPass : GateOutcome::kFail,
          .text = std::move(text),
          .numbers = {}};
}

GateCheck not_seen(std::string section, std::string name, std::string text) {
  return {.section = std::move(section),
          .name = std::move(name),
          .verdict = Verdict::kInvalid,
          .outcome = GateOutcome::kInvalid,
          .text = std::move(text),
          .numbers = {}};
}

bool check_validation(const GateSides& sides, const ValidationRule& rule, std::vector<GateCheck>& checks) {
  bool good = check_rows(sides.here, "validation", rule, checks);
  if (sides.stored) good = check_rows(sides.baseline, "validation of the baseline", rule, checks) && good;
  return good;
}

bool check_identity(const GateSides& sides, const std::set<std::string>& may_differ, std::vector<GateCheck>& checks) {
  bool good = true;
  std::set<std::string> said;  // the same difference of several arms once
  const Identity baseline = identity_of(sides.baseline, sides.baseline_arm);
  for (const std::size_t arm : sides.arms) {
    for (const IdentityDifference& difference : differences(identity_of(sides.here, arm), baseline)) {
      if (!said.insert(difference.text).second) continue;
      if (may_differ.contains(difference.what)) {
        checks.push_back(kept("comparable", difference.what, true, difference.text + "; the policy lets it differ"));
        continue;
      }
      good = false;
      checks.push_back(
          not_seen("comparable", difference.what, difference.text + "; refused unless \"may_differ\" names it"));
    }
  }
  if (said.empty())
    checks.push_back(kept("comparable", "both sides", true, "one GPU, driver, checkpoint, harness and machine"));
  return good;
}

void check_memory(const GateSides& sides, const MemoryRule& rule, std::vector<GateCheck>& checks) {
  const std::optional<double> of_baseline = peak_bytes(sides.baseline, sides.baseline_arm);
  for (const std::size_t arm : sides.arms) {
    const std::string name = fmt::format("peak memory of {}", name_of(sides.here, arm));
    const std::optional<double> bytes = peak_bytes(sides.here, arm);
    if (!bytes || (rule.most_increase_percent && !of_baseline)) {
      checks.push_back(not_seen("memory", name,
                                fmt::format("the peak memory of {} is not known", bytes ? "the baseline" : "the arm")));
      continue;
    }
    std::string text = human_bytes(static_cast<std::uint64_t>(*bytes));
    bool holds = true;
    if (rule.most_increase_percent) {
      const double increase = kPercent * (*bytes / *of_baseline - 1);
      holds = increase <= *rule.most_increase_percent;
      text += fmt::format(", {:+.2f} % against {}, at most {:+.2f} % may be", increase,
                          human_bytes(static_cast<std::uint64_t>(*of_baseline)), *rule.most_increase_percent);
    }
    if (rule.most_bytes) {
      holds = holds && *bytes <= *rule.most_bytes;
      text += fmt::format(", at most {}", human_bytes(static_cast<std::uint64_t>(*rule.most_bytes)));
    }
    GateCheck check = kept("memory", name, holds, text);
    check.numbers.emplace_back("bytes", fmt::format("{:.0f}", *bytes));
    checks.push_back(std::move(check));
  }
}

void check_launches(const GateSides& sides, const LaunchRules& rules, std::vector<GateCheck>& checks) {
  std::string baseline_fault;
  const std::set<std::string> of_baseline = launched_by(sides.baseline, sides.baseline_arm, baseline_fault);
  for (const std::size_t arm : sides.arms) {
    const std::string name = fmt::format("launches of {}", name_of(sides.here, arm));
    std::string fault;
    const std::set<std::string> launched = launched_by(sides.here, arm, fault);
    if (fault.empty() && rules.same_as_baseline) fault = baseline_fault;
    if (!fault.empty()) {
      checks.push_back(not_seen("launches", name, fault));
      continue;
    }
    Arm rule_of_arm;
    rule_of_arm.name = name_of(sides.here, arm);
    rule_of_arm.must_launch = rules.must_launch;
    rule_of_arm.must_not_launch = rules.must_not_launch;
    std::vector<std::string> broken = broken_launch_rules(rule_of_arm, launched);
    if (rules.same_as_baseline && launched != of_baseline) {
      const std::string more = only_in(launched, of_baseline);
      const std::string fewer = only_in(of_baseline, launched);
      if (!more.empty()) broken.push_back("launches " + more + ", which the baseline does not");
      if (!fewer.empty()) broken.push_back("does not launch " + fewer + ", which the baseline does");
    }
    checks.push_back(broken.empty()
                         ? kept("launches", name, true, fmt::format("{} names, all as asked", launched.size()))
                         : kept("launches", name, false, join(broken, "; ")));
  }
}

}  // namespace tare::harness

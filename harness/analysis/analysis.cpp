#include "harness/analysis/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "harness/analysis/blinding.h"
#include "harness/analysis/comparability.h"
#include "harness/analysis/conditions.h"
#include "harness/analysis/descriptions.h"
#include "harness/analysis/effects.h"
#include "harness/analysis/gathered.h"
#include "harness/analysis/profiled_rounds.h"
#include "harness/analysis/reconciliation.h"
#include "harness/analysis/rounds_of_arms.h"
#include "harness/environment/build_info.h"
#include "harness/environment/environment.h"

namespace tare::harness {
namespace {

using reports::Severity;

constexpr std::size_t kShortCommit = 7;

std::string title_of(const Experiment& experiment) {
  std::vector<std::string> others;
  for (std::size_t i = 1; i < experiment.arms.size(); ++i) others.push_back(experiment.arms[i].name);
  const std::string last = others.back();
  others.pop_back();
  const std::string names = others.empty() ? last : join(others, ", ") + " and " + last;
  return fmt::format("{} against {}", names, experiment.arms.front().name);
}

void warn_of_what_lacks(const Gathered& gathered, reports::Findings& findings) {
  if (!findings.complete) {
    const bool fixed = gathered.experiment.schedule.stop.rule == StopRule::kFixed;
    findings.warnings.push_back(
        {Severity::kWarning, "incomplete",
         fmt::format("{} of {}{} blocks are complete; run the experiment again to go on",
                     gathered.complete_blocks.size(), fixed ? "" : "at most ", gathered.plan.blocks.size()),
         ""});
  }
  const auto left_out = std::count_if(findings.runs.begin(), findings.runs.end(), [](const reports::Run& run) {
    return run.state != reports::RunState::kCounted && run.state != reports::RunState::kWarmUp;
  });
  if (left_out > 0)
    findings.warnings.push_back(
        {Severity::kNote, "runs_left_out",
         fmt::format("{} runs were interrupted, failed or excluded, and are listed but not counted", left_out), ""});
  const bool prompts_changed = std::any_of(
      gathered.sittings.begin(), gathered.sittings.end(),
      [&](const SittingRecord& sitting) { return sitting.prompts_digest != gathered.sittings.front().prompts_digest; });
  if (prompts_changed)
    findings.warnings.push_back({Severity::kNote, "prompt_file_changed",
                                 "the prompt file was changed between sittings; the texts are those of the first", ""});
}

// A worker that falls while closing has answered all of its prompts, which count; that it fell may say that it is ill.
void warn_of_bad_ends(const Gathered& gathered, reports::Findings& findings) {
  std::size_t runs = 0;
  std::string first;
  for (const CountedRun& run : gathered.counted) {
    const LaunchRecord& launch = gathered.launches[run.launch];
    if (launch.exit_status.value_or(0) == 0) continue;
    ++runs;
    if (first.empty())
      first = fmt::format("launch {} of arm '{}': status {}", launch.id, launch.arm, *launch.exit_status);
  }
  if (runs > 0)
    findings.warnings.push_back(
        {Severity::kWarning, "worker_ended_badly",
         fmt::format("after its last answer, the worker of {} counted runs ended badly ({})", runs, first), ""});
}

}  // namespace

std::string harness_version() {
  const BuildInfo build = build_info();
  return fmt::format("tare {} ({}{})", build.version, build.commit.substr(0, kShortCommit),
                     build.dirty ? "+changes" : "");
}

namespace {

reports::Findings findings_of(const Gathered& gathered, const Ledger& ledger) {
  reports::Findings findings;
  findings.title = title_of(gathered.experiment);
  findings.description = gathered.experiment.description;
  findings.experiment = ledger.identity().name;
  findings.experiment_digest = gathered.digest;
  findings.experiment_json = gathered.experiment_json.dump(2);
  findings.created_utc = utc_text(utc_now_ns());
  findings.command =
      fmt::format("tare run {}.json --out {}", findings.experiment, ledger.file().parent_path().filename().string());
  findings.harness_version = harness_version();
  findings.complete = is_complete(gathered);
  findings.validity = judge(gathered, findings.warnings);
  findings.arms = describe_arms(gathered);
  findings.runs = describe_runs(gathered);
  findings.texts = describe_texts(gathered, findings.warnings);
  findings.conditions = describe_conditions(gathered, findings.warnings);
  findings.schedule = describe_schedule(gathered);
  findings.matrix = describe_matrix(gathered.experiment);
  findings.stop = describe_stop(gathered);
  if (!gathered.profiles.empty()) {
    findings.times = times_of(reconcile(gathered));
    add_profiled_rounds(findings.times, gathered);
  }
  findings.rounds = rounds_of_arms(gathered, findings.warnings);
  warn_of_what_lacks(gathered, findings);
  warn_of_bad_ends(gathered, findings);
  if (findings.validity.valid) {
    add_effects(gathered, findings);
  } else {
    add_invalid_effects(gathered, findings);
  }
  return findings;
}

}  // namespace

reports::Findings analyse_openly(const Ledger& ledger) {
  return findings_of(gather(ledger), ledger);
}

reports::Findings analyse(const Ledger& ledger) {
  if (is_blind(ledger)) {
    const Gathered open = gather(ledger);
    const Gathered blind = blinded(open);
    reports::Findings findings = findings_of(blind, ledger);
    hide_what_tells(open, blind, findings);
    return findings;
  }
  reports::Findings findings = analyse_openly(ledger);
  if (const auto unblinding = ledger.unblinding()) describe_unblinding(*unblinding, findings);
  return findings;
}

}  // namespace tare::harness

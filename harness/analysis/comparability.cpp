#include "harness/analysis/comparability.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "harness/experiment/launch_rules.h"
#include "harness/ledger/launched_names.h"

namespace tare::harness {
namespace {

using reports::Severity;
using reports::Warning;

// The harness times a request from outside, the worker from inside: they must agree to one of these.
constexpr double kClockShare = 0.002;
constexpr double kClockNs = 1e6;

class Judgement {
 public:
  void refuse(std::string code, std::string text, std::string about = {}) {
    reasons_.push_back({Severity::kInvalid, std::move(code), std::move(text), std::move(about)});
  }
  [[nodiscard]] const std::vector<Warning>& reasons() const { return reasons_; }

 private:
  std::vector<Warning> reasons_;
};

std::string difference_text(const TextDifference& difference) {
  return fmt::format("prompt {}, position {} ({}): wanted {}, got {}", difference.prompt_id, difference.position,
                     difference.what, difference.wanted, difference.got);
}

// Controls are named "control: what is wrong with their texts".
std::string control_name(const ValidationRecord& record) {
  constexpr std::string_view kPrefix = "control: ";
  return record.name.starts_with(kPrefix) ? record.name.substr(kPrefix.size()) : record.name;
}

// The last record of each name, validations and controls apart: a sitting validates anew.
std::vector<ValidationRecord> latest(const std::vector<ValidationRecord>& validations) {
  std::map<std::pair<bool, std::string>, ValidationRecord> by_name;
  for (const ValidationRecord& record : validations) by_name[{record.is_control, record.name}] = record;
  std::vector<ValidationRecord> result;
  for (auto& [name, record] : by_name) result.push_back(std::move(record));
  return result;
}

void judge_validation(const Gathered& gathered, reports::Validity& validity, Judgement& judgement) {
  validity.prompts_total = gathered.measured.size();
  bool validated = false;
  for (const ValidationRecord& record : latest(gathered.validations)) {
    if (record.is_control) {
      const std::string detail = record.first_difference ? difference_text(*record.first_difference) : "";
      validity.controls.push_back({control_name(record), record.passed(), detail});
      if (!record.passed())
        judgement.refuse("control_not_caught",
                         fmt::format("the positive control '{}' was not caught: {} of {} wrong texts passed as right",
                                     control_name(record), record.prompts_equal, record.prompts));
      continue;
    }
    validated = true;
    validity.prompts_validated = static_cast<std::size_t>(record.prompts_equal);
    validity.prompts_total = static_cast<std::size_t>(record.prompts);
    if (record.first_difference) {
      const TextDifference& first = *record.first_difference;
      validity.first_difference =
          reports::FirstDifference{first.prompt_id, first.position, fmt::format("{} {}", first.what, first.wanted),
                                   fmt::format("{} {}", first.what, first.got)};
    }
    if (!record.passed())
      judgement.refuse(
          "validation_failed",
          fmt::format("validation '{}' reproduced {} of {} texts{}", record.name, record.prompts_equal, record.prompts,
                      record.first_difference ? "; first difference: " + difference_text(*record.first_difference)
                                              : std::string()));
    if (record.prompts != static_cast<std::int64_t>(gathered.measured.size()))
      judgement.refuse("validation_incomplete", fmt::format("validation '{}' covered {} texts, {} are measured",
                                                            record.name, record.prompts, gathered.measured.size()));
  }
  if (!validated) judgement.refuse("not_validated", "the instrument was never validated: no replay was checked");
  for (const std::size_t text : gathered.measured) {
    validity.tokens_validated += gathered.texts[text].tokens.size();
    validity.rounds_validated += gathered.texts[text].round_tokens.size();
  }
  if (!validated || validity.prompts_validated < validity.prompts_total)
    validity.tokens_validated = validity.rounds_validated = 0;
}

// One value for all members of a group, or a refusal.
class SameInGroup {
 public:
  SameInGroup(std::string code, std::string what) : code_(std::move(code)), what_(std::move(what)) {}

  void add(const std::string& group, const std::string& value, const std::string& member, Judgement& judgement) {
    const auto [found, is_new] = first_.emplace(group, std::pair(value, member));
    if (is_new || found->second.first == value || !refused_.insert(group).second) return;
    judgement.refuse(code_, fmt::format("{} of {} changed: {} in {}, {} in {}", what_, group, found->second.first,
                                        found->second.second, value, member));
  }

 private:
  std::string code_;
  std::string what_;
  std::map<std::string, std::pair<std::string, std::string>> first_;
  std::set<std::string> refused_;
};

// The program's own name for itself, when it gives one.
std::string worker_kind(const LaunchRecord& launch) {
  const Json& build = launch.build;
  const bool named = build.is_object() && build.contains("program") && build["program"].is_string();
  return named ? build["program"].get<std::string>() : std::string();
}

// Launches that count must have opened what the others of their kind opened. Checkpoints are compared by model
// among workers of one kind (each kind has its own digest), builds by program, options by arm.
void judge_launches(const Gathered& gathered, Judgement& judgement) {
  SameInGroup checkpoints("mixed_checkpoints", "the checkpoint digest");
  SameInGroup builds("mixed_builds", "the build");
  SameInGroup options("mixed_options", "the options");
  std::set<std::size_t> used;
  for (const CountedRun& run : gathered.counted) used.insert(run.launch);
  for (std::size_t i = 0; i < gathered.launches.size(); ++i) {
    const LaunchRecord& launch = gathered.launches[i];
    const bool made_texts = launch.purpose != "measurement" && !launch.checkpoint_digest.empty();
    if (!used.contains(i) && !made_texts) continue;
    const auto arm = std::find_if(gathered.experiment.arms.begin(), gathered.experiment.arms.end(),
                                  [&](const Arm& candidate) { return candidate.name == launch.arm; });
    if (arm == gathered.experiment.arms.end()) continue;
    const std::string member = fmt::format("launch {} (arm '{}')", launch.id, launch.arm);
    if (launch.checkpoint_digest.empty())
      judgement.refuse("unknown_checkpoint", member + " did not say which checkpoint it opened", launch.arm);
    const std::string program = arm->program.empty() ? "tare's own worker" : join(arm->program, " ");
    const std::string kind = worker_kind(launch);
    checkpoints.add(fmt::format("model '{}'{}", arm->model, kind.empty() ? "" : " in " + kind),
                    launch.checkpoint_digest, member, judgement);
    builds.add(program, launch.build.dump(), member, judgement);
    options.add(fmt::format("arm '{}'", arm->name), launch.options.dump(), member, judgement);
  }
}

// Sittings on machines that differ in what does not change on one machine.
void judge_sittings(const Gathered& gathered, Judgement& judgement) {
  SameInGroup machines("mixed_machines", "the");
  for (const SittingRecord& sitting : gathered.sittings) {
    const std::string member = fmt::format("sitting {}", sitting.id);
    for (const char* key : {"cpu_model", "product"})
      if (sitting.machine.contains(key)) machines.add(key, sitting.machine[key].dump(), member, judgement);
  }
}

// The first fault of a run is named; the others of its kind would say the same.
void judge_replays(const Gathered& gathered, Judgement& judgement) {
  for (const CountedRun& run : gathered.counted) {
    const auto fault_at = [&](const auto& is_fault) {
      for (std::size_t i = 0; i < run.results.size(); ++i)
        if (is_fault(run.results[i], gathered.texts[gathered.measured[i]])) return i;
      return run.results.size();
    };
    const std::string name = fmt::format("run {} (arm '{}')", run.record.id, run.record.arm);
    const std::size_t other_text =
        fault_at([](const PromptResult& result, const TextRecord& text) { return result.text_digest != text.digest; });
    if (other_text < run.results.size())
      judgement.refuse("other_text",
                       fmt::format("{} committed another text than the one it was forced onto, prompt {}", name,
                                   run.results[other_text].prompt_id),
                       run.record.arm);
    const std::size_t no_time = fault_at([](const PromptResult& result, const TextRecord&) {
      return result.decode_ns <= 0 || result.decode_tokens <= 0;
    });
    if (no_time < run.results.size())
      judgement.refuse("no_decode_time",
                       fmt::format("{}, prompt {}: {} tokens in {} ns of decode", name, run.results[no_time].prompt_id,
                                   run.results[no_time].decode_tokens, run.results[no_time].decode_ns),
                       run.record.arm);
  }
}

// What the arms of an experiment must and must not launch, against what their twin launches did. An arm whose twin says
// nothing has not been shown to be what was meant; before its first twin that is only said.
void judge_launched(const Gathered& gathered, std::vector<Warning>& warnings, Judgement& judgement) {
  const std::vector<LaunchedNames> launched = launched_names(gathered.launches, gathered.profiles);
  for (const Arm& arm : gathered.experiment.arms) {
    if (!has_launch_rules(arm)) continue;
    bool shown = false;
    std::string fault;
    for (const LaunchedNames& twin : launched) {
      if (twin.arm != arm.name) continue;
      if (!twin.fault.empty()) {
        fault = twin.fault;
        continue;
      }
      shown = true;
      const std::vector<std::string> broken = broken_launch_rules(arm, twin.names);
      for (const std::string& text : broken)
        judgement.refuse("other_path", fmt::format("{} (twin launch {})", text, twin.launch_id), arm.name);
      if (!broken.empty()) break;  // its other twins would say the same
    }
    if (!shown && !fault.empty()) {
      judgement.refuse("path_not_shown",
                       fmt::format("what arm '{}' launches is not known, and it has must_launch or must_not_launch: {}",
                                   arm.name, fault),
                       arm.name);
    } else if (!shown) {
      warnings.push_back({Severity::kWarning, "path_not_shown",
                          fmt::format("what arm '{}' launches has not been checked yet: no twin has walked", arm.name),
                          arm.name});
    }
  }
}

reports::ClockAgreement clock_agreement(const Gathered& gathered, std::vector<Warning>& warnings) {
  reports::ClockAgreement clock;
  clock.worst_share = 0;
  clock.worst_ns = 0;
  std::size_t disagreeing = 0;
  for (const CountedRun& run : gathered.counted) {
    for (const PromptResult& result : run.results) {
      const double difference = std::abs(static_cast<double>(result.outer_ns - result.inner_ns));
      const double share = difference / std::max(1.0, static_cast<double>(result.outer_ns));
      ++clock.compared;
      clock.worst_ns = std::max(clock.worst_ns, difference);
      clock.worst_share = std::max(clock.worst_share, share);
      if (difference > kClockNs && share > kClockShare) ++disagreeing;
    }
  }
  clock.agreed = disagreeing == 0;
  if (!clock.agreed)
    warnings.push_back(
        {Severity::kWarning, "clocks_disagree",
         fmt::format("the worker's clock and the harness's differ by more than 0.2 % and 1 ms in {} of {} "
                     "requests (at most {:.2f} ms): something held the harness up, or a clock is wrong",
                     disagreeing, clock.compared, clock.worst_ns / 1e6),
         ""});
  return clock;
}

}  // namespace

reports::Validity judge(const Gathered& gathered, std::vector<Warning>& warnings) {
  reports::Validity validity;
  Judgement judgement;
  judge_validation(gathered, validity, judgement);
  for (const std::string& misfit : gathered.misfits) judgement.refuse("rows_do_not_fit", misfit);
  if (gathered.measured.empty()) judgement.refuse("no_texts", "no text has a decode round to measure");
  if (gathered.counted.empty()) judgement.refuse("no_block", "no block of the schedule is complete yet");
  judge_launches(gathered, judgement);
  judge_sittings(gathered, judgement);
  judge_replays(gathered, judgement);
  judge_launched(gathered, warnings, judgement);
  if (!gathered.counted.empty()) validity.clock = clock_agreement(gathered, warnings);
  if (validity.controls.empty())
    warnings.push_back({Severity::kWarning, "no_controls",
                        "the validation was not shown to catch anything: no positive control was run", ""});
  validity.valid = judgement.reasons().empty();
  if (!validity.valid) validity.why_invalid = judgement.reasons().front().text;
  warnings.insert(warnings.begin(), judgement.reasons().begin(), judgement.reasons().end());
  return validity;
}

}  // namespace tare::harness

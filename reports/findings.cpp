#include "reports/findings.h"

#include <algorithm>
#include <cmath>

namespace tare::reports {

double percent_of_log(double log) {
  return 100.0 * std::expm1(log);
}

std::string question_of(Estimand estimand) {
  switch (estimand) {
    case Estimand::kTheseLaunches:
      return "these prompts, these launches";
    case Estimand::kAnyLaunch:
      return "this suite, any launch";
    case Estimand::kPromptsLikeThese:
      return "prompts like these, any launch";
  }
  return {};
}

std::string word_of(Estimand estimand) {
  switch (estimand) {
    case Estimand::kTheseLaunches:
      return "these-launches";
    case Estimand::kAnyLaunch:
      return "any-launch";
    case Estimand::kPromptsLikeThese:
      return "prompts-like-these";
  }
  return {};
}

std::string word_of(RunState state) {
  switch (state) {
    case RunState::kCounted:
      return "counted";
    case RunState::kWarmUp:
      return "warm-up";
    case RunState::kInterrupted:
      return "interrupted";
    case RunState::kExcluded:
      return "excluded";
    case RunState::kFailed:
      return "failed";
  }
  return {};
}

std::string word_of(Severity severity) {
  switch (severity) {
    case Severity::kNote:
      return "note";
    case Severity::kWarning:
      return "warning";
    case Severity::kInvalid:
      return "invalid";
  }
  return {};
}

const Interval* verdict_interval(const Effect& effect) {
  const auto found = std::find_if(effect.intervals.begin(), effect.intervals.end(),
                                  [](const Interval& interval) { return interval.of_verdict; });
  return found == effect.intervals.end() ? nullptr : &*found;
}

std::vector<Interval> ordered_intervals(const Effect& effect) {
  const auto place = [](const Interval& interval) { return interval.of_verdict ? 0 : interval.robustness ? 2 : 1; };
  std::vector<Interval> ordered = effect.intervals;
  std::stable_sort(ordered.begin(), ordered.end(),
                   [&](const Interval& a, const Interval& b) { return place(a) < place(b); });
  return ordered;
}

bool is_trusted(const Validity& validity) {
  return validity.valid && std::all_of(validity.controls.begin(), validity.controls.end(),
                                       [](const PositiveControl& control) { return control.caught; });
}

bool is_known(const Interval& interval) {
  return !std::isnan(interval.low_log) && !std::isnan(interval.high_log);
}

std::optional<bool> holds_truth(const Interval& interval, const KnownTruth& truth) {
  if (!is_known(interval) || std::isnan(truth.effect_log)) return std::nullopt;
  return interval.low_log <= truth.effect_log && truth.effect_log <= interval.high_log;
}

const std::string& shown_name(const Arm& arm) {
  return arm.display_name.empty() ? arm.name : arm.display_name;
}

const Effect* find_effect(const Findings& findings, std::size_t arm, std::size_t measure) {
  const auto found = std::find_if(findings.effects.begin(), findings.effects.end(),
                                  [&](const Effect& effect) { return effect.arm == arm && effect.measure == measure; });
  return found == findings.effects.end() ? nullptr : &*found;
}

const MeasureValue* find_value(const Findings& findings, std::size_t arm, std::size_t measure) {
  const auto found = std::find_if(findings.values.begin(), findings.values.end(), [&](const MeasureValue& value) {
    return value.arm == arm && value.measure == measure;
  });
  return found == findings.values.end() ? nullptr : &*found;
}

std::string levels_text(const Findings& findings, const Arm& arm) {
  std::string text;
  for (std::size_t f = 0; f < arm.levels.size(); ++f) {
    const Factor& factor = findings.matrix.factors.at(f);
    text += (text.empty() ? "" : ", ") + factor.name + " " + factor.levels.at(arm.levels[f]);
  }
  return text;
}

}  // namespace tare::reports

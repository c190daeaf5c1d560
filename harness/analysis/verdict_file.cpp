#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/file.h"
#include "harness/analysis/analysis.h"

namespace tare::harness {
namespace {

Json number_or_null(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json warnings_json(const std::vector<reports::Warning>& warnings) {
  Json json = Json::array();
  for (const reports::Warning& warning : warnings)
    json.push_back({{"severity", reports::word_of(warning.severity)},
                    {"code", warning.code},
                    {"text", warning.text},
                    {"about", warning.about}});
  return json;
}

Json interval_json(const reports::Interval& interval) {
  return {{"question", reports::word_of(interval.estimand)},
          {"method", interval.method},
          {"level", interval.level},
          {"low_percent", number_or_null(reports::percent_of_log(interval.low_log))},
          {"high_percent", number_or_null(reports::percent_of_log(interval.high_log))},
          {"of_verdict", interval.of_verdict},
          {"robustness", interval.robustness}};
}

Json effect_json(const reports::Findings& findings, const reports::Effect& effect) {
  Json intervals = Json::array();
  for (const reports::Interval& interval : effect.intervals) intervals.push_back(interval_json(interval));
  Json json = {{"arm", findings.arms.at(effect.arm).name},
               {"baseline", findings.arms.front().name},
               {"measure", findings.measures.at(effect.measure).key},
               {"verdict", effect.verdict},
               {"difference_shown", effect.difference_shown},
               {"effect_percent", number_or_null(reports::percent_of_log(effect.estimate_log))},
               {"effect_log", number_or_null(effect.estimate_log)},
               {"intervals", std::move(intervals)},
               {"p", number_or_null(effect.p)},
               {"p_adjusted", number_or_null(effect.p_adjusted)},
               {"p_holm", number_or_null(effect.p_holm)},
               {"p_benjamini_hochberg", number_or_null(effect.p_benjamini_hochberg)},
               {"true_effect_percent", Json()},
               {"warnings", warnings_json(effect.warnings)}};
  if (effect.truth) json["true_effect_percent"] = number_or_null(reports::percent_of_log(effect.truth->effect_log));
  return json;
}

std::string experiment_verdict(const reports::Findings& findings) {
  if (!findings.validity.valid) return "invalid";
  const bool undecided = std::any_of(findings.effects.begin(), findings.effects.end(), [&](const auto& effect) {
    return effect.measure == findings.effect_measure && effect.verdict == "inconclusive";
  });
  return undecided ? "inconclusive" : "conclusive";
}

}  // namespace

Json verdict_json(const reports::Findings& findings) {
  Json effects = Json::array();
  for (const reports::Effect& effect : findings.effects)
    if (effect.measure == findings.effect_measure) effects.push_back(effect_json(findings, effect));
  const reports::Validity& validity = findings.validity;
  const auto caught = std::count_if(validity.controls.begin(), validity.controls.end(),
                                    [](const reports::PositiveControl& control) { return control.caught; });
  return {{"version", kVerdictVersion},
          {"experiment", findings.experiment},
          {"experiment_digest", findings.experiment_digest},
          {"created_utc", findings.created_utc},
          {"harness_version", findings.harness_version},
          {"experiment_verdict", experiment_verdict(findings)},
          {"valid", validity.valid},
          {"why_invalid", text_or_null(validity.why_invalid)},
          {"complete", findings.complete},
          {"validation",
           {{"prompts_validated", validity.prompts_validated},
            {"prompts_total", validity.prompts_total},
            {"controls_caught", caught},
            {"controls_total", validity.controls.size()}}},
          {"alpha", findings.methods.alpha},
          {"family_size", findings.methods.family_size},
          {"effects", std::move(effects)},
          {"warnings", warnings_json(findings.warnings)}};
}

void write_verdict(const reports::Findings& findings, const std::filesystem::path& directory) {
  write_file_atomically(directory / kVerdictFile, verdict_json(findings).dump(2) + "\n");
}

}  // namespace tare::harness

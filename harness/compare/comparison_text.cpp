#include <fmt/format.h>

#include <cmath>

#include "base/text.h"
#include "harness/compare/compare.h"
#include "harness/environment/environment.h"

namespace tare::harness {
namespace {

Json number_or_null(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

Json estimate_json(const stats::Estimate& estimate) {
  Json json = {{"effect_percent", number_or_null(stats::percent(estimate.log_effect))},
               {"low_percent", Json()},
               {"high_percent", Json()},
               {"standard_error_log", number_or_null(estimate.standard_error)},
               {"degrees_of_freedom", Json()},
               {"conclusive", estimate.conclusive}};
  if (estimate.interval) {
    json["low_percent"] = number_or_null(stats::percent(estimate.interval->low));
    json["high_percent"] = number_or_null(stats::percent(estimate.interval->high));
  }
  if (estimate.degrees_of_freedom) json["degrees_of_freedom"] = *estimate.degrees_of_freedom;
  return json;
}

std::string estimate_text(const stats::Estimate& estimate) {
  const std::string effect = fmt::format("{:+.3f} %", stats::percent(estimate.log_effect));
  if (!estimate.interval) return effect + ", no interval";
  return fmt::format("{} [{:+.3f}, {:+.3f}]{}", effect, stats::percent(estimate.interval->low),
                     stats::percent(estimate.interval->high), estimate.conclusive ? "" : ", too few for a verdict");
}

std::string pooled_text(const ComparedArm& arm) {
  if (!arm.pooled) return "not pooled: fewer than two sittings have an interval of their own";
  const stats::PooledEffect& pooled = *arm.pooled;
  return fmt::format("pooled over {} sittings {}; between sittings sd {:.3f} %; {} (p = {:.3g})", arm.units.size(),
                     estimate_text(pooled.estimate), stats::percent(pooled.between_sitting_sd),
                     arm.agree ? "they agree" : "they DISAGREE beyond their own errors", pooled.heterogeneity_p);
}

}  // namespace

std::string comparison_text(const Comparison& comparison) {
  std::string text;
  for (const ComparedDirectory& directory : comparison.directories)
    text += fmt::format("{}: {}, from {}, {} blocks in {} sitting{}{}\n", directory.path, directory.experiment,
                        utc_text(directory.started_utc_ns), directory.blocks, directory.sittings,
                        directory.sittings == 1 ? "" : "s",
                        directory.sittings > 1 && !directory.split ? ", counted as one (too few blocks each)" : "");
  for (const ConditionDifference& difference : comparison.differences) text += "differs: " + difference.text + "\n";
  if (!comparison.arms_left_out.empty())
    text += "in one directory alone, left out: " + join(comparison.arms_left_out, ", ") + "\n";
  text += fmt::format("decode speed against {}, {:g} % intervals, this suite and any launch:\n", comparison.baseline,
                      100 * comparison.level);
  for (const ComparedArm& arm : comparison.arms) {
    text += arm.name + "\n";
    for (const DirectoryEffect& effect : arm.directories)
      text += fmt::format("  {}: {}\n", comparison.directories[effect.directory].path, estimate_text(effect.estimate));
    for (const Unit& unit : arm.units)
      if (unit.of_sitting) text += fmt::format("    {}: {}\n", unit.name, estimate_text(unit.estimate));
    text += "  " + pooled_text(arm) + "\n";
  }
  return text;
}

Json to_json(const Comparison& comparison) {
  Json directories = Json::array();
  for (const ComparedDirectory& directory : comparison.directories)
    directories.push_back({{"path", directory.path},
                           {"experiment", directory.experiment},
                           {"experiment_digest", directory.experiment_digest},
                           {"started_utc", utc_text(directory.started_utc_ns)},
                           {"blocks", directory.blocks},
                           {"sittings", directory.sittings},
                           {"split", directory.split}});
  Json differences = Json::array();
  for (const ConditionDifference& difference : comparison.differences)
    differences.push_back({{"what", difference.what}, {"text", difference.text}});
  Json arms = Json::array();
  for (const ComparedArm& arm : comparison.arms) {
    Json effects = Json::array();
    for (const DirectoryEffect& effect : arm.directories) {
      effects.push_back(estimate_json(effect.estimate));
      effects.back()["directory"] = comparison.directories[effect.directory].path;
    }
    Json units = Json::array();
    for (const Unit& unit : arm.units) {
      units.push_back(estimate_json(unit.estimate));
      units.back()["name"] = unit.name;
    }
    Json entry = {
        {"name", arm.name}, {"directories", effects}, {"units", units}, {"pooled", Json()}, {"agree", Json()}};
    if (arm.pooled) {
      entry["agree"] = arm.agree;
      entry["pooled"] = estimate_json(arm.pooled->estimate);
      entry["pooled"]["between_sd_percent"] = stats::percent(arm.pooled->between_sitting_sd);
      entry["pooled"]["heterogeneity_q"] = arm.pooled->heterogeneity_q;
      entry["pooled"]["heterogeneity_p"] = arm.pooled->heterogeneity_p;
      entry["pooled"]["weights"] = arm.pooled->weights;
    }
    arms.push_back(std::move(entry));
  }
  return {{"format", "tare-comparison"},
          {"version", 1},
          {"baseline", comparison.baseline},
          {"measure", "decode_speed"},
          {"level", comparison.level},
          {"directories", directories},
          {"differences", differences},
          {"arms", arms},
          {"arms_left_out", comparison.arms_left_out}};
}

}  // namespace tare::harness

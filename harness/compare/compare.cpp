#include "harness/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "harness/analysis/blinding.h"
#include "harness/analysis/comparability.h"
#include "harness/analysis/measured_values.h"
#include "harness/analysis/sittings.h"
#include "harness/gate/identity.h"
#include "harness/gate/policy.h"
#include "stats/analysis.h"

namespace tare::harness {
namespace {

struct Side {
  std::string path;
  Gathered gathered;
  std::vector<stats::Estimate> whole;  // per arm but the baseline
  std::vector<SittingEstimates> sittings;
  bool split = false;
  std::int64_t started_utc_ns = 0;
};

[[noreturn]] void refuse(const std::string& what, const std::string& where, const std::string& hint = {}) {
  throw Error(ErrorKind::kInvalid, what, where, hint);
}

Side read_side(const std::filesystem::path& directory, double level) {
  Side side;
  side.path = directory.string();
  const Ledger ledger = Ledger::open_for_reading(directory / kLedgerFile);
  refuse_blind(ledger);
  side.gathered = gather(ledger);
  std::vector<reports::Warning> warnings;
  const reports::Validity validity = judge(side.gathered, warnings);
  if (!validity.valid) refuse("cannot be compared: " + validity.why_invalid, side.path);
  const MeasuredValues values = measured_values(side.gathered, Measure::kDecodeSpeed);
  if (!values.why_missing.empty()) refuse("cannot be compared: " + values.why_missing, side.path);
  side.whole = stats::verdict_estimates(values.observations, granularity_of(side.gathered.experiment), level);
  side.sittings = estimate_sittings(side.gathered, values.observations, level);
  const auto whole_sitting = [](const SittingEstimates& sitting) {
    return std::all_of(sitting.arms.begin(), sitting.arms.end(), can_be_pooled);
  };
  side.split = side.sittings.size() > 1 && std::all_of(side.sittings.begin(), side.sittings.end(), whole_sitting);
  side.started_utc_ns = side.gathered.counted.front().record.started_utc_ns;
  for (const CountedRun& run : side.gathered.counted)
    side.started_utc_ns = std::min(side.started_utc_ns, run.record.started_utc_ns);
  return side;
}

// Launches of one process at one nanosecond are the same launches: a directory twice, or a copy of one.
void refuse_copies(const std::vector<Side>& sides) {
  for (std::size_t a = 0; a < sides.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (sides[a].started_utc_ns == sides[b].started_utc_ns && sides[a].gathered.digest == sides[b].gathered.digest)
        throw input_error(sides[a].path, fmt::format("holds the same runs as {}", sides[b].path),
                          "runs are pooled once; give directories that were measured by themselves");
}

// Both sides replay one suite: the same texts after the same prompts.
void require_same_texts(const Side& first, const Side& other) {
  const auto digests = [](const Gathered& gathered) {
    std::map<std::string, std::string> texts;
    for (const std::size_t index : gathered.measured)
      texts[gathered.texts[index].prompt_id] = gathered.texts[index].prompt_digest + " " + gathered.texts[index].digest;
    return texts;
  };
  const auto of_first = digests(first.gathered);
  const auto of_other = digests(other.gathered);
  if (of_first == of_other) return;
  std::string example = "they have other prompts";
  for (const auto& [prompt, digest] : of_first) {
    const auto found = of_other.find(prompt);
    if (found != of_other.end() && found->second == digest) continue;
    example = fmt::format("prompt {} has {}", prompt, found == of_other.end() ? "no text there" : "another text");
    break;
  }
  refuse(fmt::format("replays other texts than {}: {}", first.path, example), other.path,
         "a speed belongs to its texts; give the texts of one run to the other (texts.mode given), or one seed");
}

std::string sorted_dump(const Json& options) {
  return nlohmann::json::parse(options.dump()).dump();
}

void require_same_options(const Side& first, const Arm& arm, const Side& other, const Arm& of_other) {
  if (sorted_dump(arm.options) == sorted_dump(of_other.options)) return;
  refuse(fmt::format("arm '{}' has the options {}, in {} it has {}", arm.name, of_other.options.dump(), first.path,
                     arm.options.dump()),
         other.path, "arms of one name must be one configuration; rename one");
}

const Arm* find_arm(const Side& side, const std::string& name) {
  for (const Arm& arm : side.gathered.experiment.arms)
    if (arm.name == name) return &arm;
  return nullptr;
}

std::size_t index_of(const Side& side, const Arm& arm) {
  return static_cast<std::size_t>(&arm - side.gathered.experiment.arms.data());
}

void require_comparable(const Side& first, const Side& other) {
  const Experiment& of_first = first.gathered.experiment;
  const Experiment& of_other = other.gathered.experiment;
  require_same_texts(first, other);
  if (of_first.schedule.granularity != of_other.schedule.granularity)
    refuse(fmt::format("has granularity '{}', {} has '{}'", to_text(of_other.schedule.granularity), first.path,
                       to_text(of_first.schedule.granularity)),
           other.path, "launches alone on the machine and launches side by side are different questions");
  const Arm& baseline = of_first.arms.front();
  if (of_other.arms.front().name != baseline.name)
    refuse(fmt::format("has the baseline '{}', {} has '{}'", of_other.arms.front().name, first.path, baseline.name),
           other.path, "effects are against the baseline; both must have one");
  for (const Arm& arm : of_first.arms)
    if (const Arm* same = find_arm(other, arm.name)) require_same_options(first, arm, other, *same);
}

// "tare 0.1.0 0123456": a build's JSON is long.
std::string brief(const std::string& what, const std::string& value) {
  if (what != "harness") return value;
  const Json build = Json::parse(value, nullptr, false);
  if (!build.is_object()) return value;
  constexpr std::size_t kShortCommit = 7;
  std::string text = build.value("version", "?") + " " + build.value("commit", "?").substr(0, kShortCommit);
  if (build.value("dirty", false)) text += " with changes";
  return text;
}

std::string values_text(const std::string& what, const std::set<std::string>& values) {
  std::set<std::string> texts;
  for (const std::string& value : values) texts.insert(brief(what, value));
  return texts.empty() ? "not known" : join(std::vector<std::string>(texts.begin(), texts.end()), " and ");
}

// Of all arms that count, so that another checkpoint of any arm is seen.
Identity identity_of_side(const Side& side, const std::vector<std::string>& arms) {
  Identity identity;
  for (const std::string& name : arms)
    if (const Arm* arm = find_arm(side, name))
      for (auto& [word, values] : identity_of(side.gathered, index_of(side, *arm)))
        identity[word].insert(values.begin(), values.end());
  return identity;
}

std::vector<ConditionDifference> condition_differences(const std::vector<Side>& sides,
                                                       const std::vector<std::string>& arms) {
  std::vector<ConditionDifference> found;
  std::vector<Identity> identities;
  for (const Side& side : sides) identities.push_back(identity_of_side(side, arms));
  for (const std::string_view view : kDifferences) {
    const std::string word(view);
    const bool one =
        word == "machine" || std::all_of(identities.begin(), identities.end(), [&](const Identity& identity) {
          return word == "checkpoint" || identity.at(word).size() <= 1;
        });
    const bool same = std::all_of(identities.begin(), identities.end(), [&](const Identity& identity) {
      return identity.at(word) == identities.front().at(word);
    });
    if (same && one) continue;
    std::vector<std::string> parts;
    for (std::size_t s = 0; s < sides.size(); ++s)
      parts.push_back(fmt::format("{} in {}", values_text(word, identities[s].at(word)), sides[s].path));
    found.push_back({word, word + ": " + join(parts, "; ")});
  }
  const bool same_experiment = std::all_of(sides.begin(), sides.end(), [&](const Side& side) {
    return side.gathered.digest == sides.front().gathered.digest;
  });
  if (!same_experiment) {
    std::vector<std::string> parts;
    for (const Side& side : sides) parts.push_back(fmt::format("{} in {}", side.gathered.digest, side.path));
    found.push_back({"experiment", "experiment: " + join(parts, "; ")});
  }
  return found;
}

ComparedArm compare_arm(const std::vector<Side>& sides, const std::string& name, double level) {
  ComparedArm compared;
  compared.name = name;
  for (std::size_t s = 0; s < sides.size(); ++s) {
    const Arm* arm = find_arm(sides[s], name);
    if (arm == nullptr) continue;
    const std::size_t place = index_of(sides[s], *arm) - 1;
    compared.directories.push_back({s, sides[s].whole[place]});
    if (!sides[s].split) {
      if (can_be_pooled(sides[s].whole[place])) compared.units.push_back({sides[s].path, sides[s].whole[place]});
      continue;
    }
    for (const SittingEstimates& sitting : sides[s].sittings)
      compared.units.push_back(
          {fmt::format("{}, sitting {}", sides[s].path, sitting.sitting), sitting.arms[place], true});
  }
  if (compared.units.size() < 2) return compared;
  std::vector<stats::Estimate> estimates;
  for (const Unit& unit : compared.units) estimates.push_back(unit.estimate);
  compared.pooled = stats::pool_sittings(estimates, level);
  compared.agree = compared.pooled->heterogeneity_p >= 1 - level;
  return compared;
}

}  // namespace

Comparison compare_runs(const std::vector<std::filesystem::path>& directories) {
  if (directories.size() < 2) throw input_error("compare", "needs at least two run directories");
  Comparison comparison;
  std::vector<Side> sides;
  for (const std::filesystem::path& directory : directories) {
    if (sides.empty()) {
      const Ledger ledger = Ledger::open_for_reading(directory / kLedgerFile);
      comparison.level = 1 - parse_experiment(ledger.identity().experiment.dump(), directory).analysis.alpha;
    }
    sides.push_back(read_side(directory, comparison.level));
  }
  refuse_copies(sides);
  for (std::size_t s = 1; s < sides.size(); ++s) require_comparable(sides.front(), sides[s]);

  std::map<std::string, std::size_t> counts;
  std::vector<std::string> names;  // in the order of their first appearance, the baseline first
  for (const Side& side : sides)
    for (const Arm& arm : side.gathered.experiment.arms)
      if (++counts[arm.name] == 1) names.push_back(arm.name);
  comparison.baseline = names.front();
  std::vector<std::string> shared = {comparison.baseline};
  for (std::size_t i = 1; i < names.size(); ++i)
    (counts[names[i]] >= 2 ? shared : comparison.arms_left_out).push_back(names[i]);
  if (shared.size() < 2)
    refuse(fmt::format("has no arm in common with {} but the baseline", sides.front().path), sides.back().path,
           "arms are matched by name");
  // Sides that share an arm with one another, though not with the first, must mean the same by it.
  for (std::size_t a = 1; a < sides.size(); ++a)
    for (std::size_t b = a + 1; b < sides.size(); ++b) require_comparable(sides[a], sides[b]);

  for (const Side& side : sides)
    comparison.directories.push_back({side.path, side.gathered.experiment.name, side.gathered.digest,
                                      side.started_utc_ns, side.gathered.complete_blocks.size(), side.sittings.size(),
                                      side.split});
  comparison.differences = condition_differences(sides, shared);
  for (std::size_t i = 1; i < shared.size(); ++i)
    comparison.arms.push_back(compare_arm(sides, shared[i], comparison.level));
  return comparison;
}

}  // namespace tare::harness

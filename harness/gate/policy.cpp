#include "harness/gate/policy.h"

#include <algorithm>
#include <iterator>

#include "base/digest.h"
#include "base/file.h"
#include "harness/experiment/launch_rules.h"

namespace tare::harness {
namespace {

constexpr double kLeastMarginPercent = 1e-6;
constexpr double kMostMarginPercent = 50;  // as in experiments: beyond, "no worse" means nothing

struct NamedRequirement {
  const char* name;
  Requirement requirement;
};
constexpr NamedRequirement kRequirements[] = {{"non_inferior", Requirement::kNonInferior},
                                              {"better", Requirement::kBetter},
                                              {"equivalent", Requirement::kEquivalent},
                                              {"not_worse", Requirement::kNotWorse}};

std::optional<double> margin(JsonReader& reader, const std::string& key) {
  if (!reader.has(key)) return std::nullopt;
  return reader.number(key, kLeastMarginPercent, kMostMarginPercent);
}

SpeedRule speed_rule(Measure measure, JsonReader reader) {
  SpeedRule rule;
  rule.measure = measure;
  rule.non_inferiority_margin_percent = margin(reader, "non_inferiority_margin_percent");
  rule.equivalence_margin_percent = margin(reader, "equivalence_margin_percent");
  if (reader.has("require")) {
    std::vector<std::string> words;
    for (const NamedRequirement& known : kRequirements) words.emplace_back(known.name);
    const std::string word = reader.word("require", words);
    for (const NamedRequirement& known : kRequirements)
      if (word == known.name) rule.require = known.requirement;
  }
  reader.refuse_unknown_keys();
  if (rule.require == Requirement::kNonInferior && !rule.non_inferiority_margin_percent)
    throw reader.error("non_inferiority_margin_percent", "is missing",
                       "how many percent worse is still good: without it nothing is non-inferior");
  if (rule.require == Requirement::kEquivalent && !rule.equivalence_margin_percent)
    throw reader.error("equivalence_margin_percent", "is missing", "within how many percent it counts as equal");
  // An arm that is equivalent passes as non-inferior: it must be so.
  if (rule.require == Requirement::kNonInferior && rule.equivalence_margin_percent &&
      *rule.equivalence_margin_percent > *rule.non_inferiority_margin_percent)
    throw reader.error("equivalence_margin_percent", "is wider than the margin of non-inferiority",
                       "make it at most as wide");
  return rule;
}

std::vector<SpeedRule> speed_rules(const Json& json, const std::string& where) {
  if (!json.is_object()) throw input_error(where, "must be an object", "measures by name, as in an experiment");
  std::vector<SpeedRule> rules;
  for (const auto& [name, rule] : json.items()) {
    Measure measure = Measure::kDecodeSpeed;
    try {
      measure = measure_of(name);
    } catch (const Error& error) {
      throw error.within(where);
    }
    rules.push_back(speed_rule(measure, JsonReader(rule, where + "." + name)));
  }
  if (rules.empty()) throw input_error(where, "names no measure", "for example decode_speed");
  return rules;
}

MemoryRule memory_rule(JsonReader reader) {
  MemoryRule rule;
  if (reader.has("most_increase_percent")) rule.most_increase_percent = reader.number("most_increase_percent", 0);
  if (reader.has("most_bytes")) rule.most_bytes = reader.number("most_bytes", 1);
  reader.refuse_unknown_keys();
  if (!rule.most_increase_percent && !rule.most_bytes)
    throw input_error(reader.where(), "asks nothing", "give most_increase_percent or most_bytes");
  return rule;
}

std::vector<std::string> patterns(JsonReader& reader, const std::string& key) {
  if (!reader.has(key)) return {};
  std::vector<std::string> list = reader.texts(key);
  for (const std::string& pattern : list) {
    const std::string fault = pattern_fault(pattern);
    if (!fault.empty()) throw reader.error(key, fault);
  }
  return list;
}

LaunchRules launch_rules(JsonReader reader) {
  LaunchRules rules;
  rules.must_launch = patterns(reader, "must_launch");
  rules.must_not_launch = patterns(reader, "must_not_launch");
  if (reader.has("same_as_baseline")) rules.same_as_baseline = reader.boolean("same_as_baseline");
  reader.refuse_unknown_keys();
  if (rules.must_launch.empty() && rules.must_not_launch.empty() && !rules.same_as_baseline)
    throw input_error(reader.where(), "asks nothing", "give must_launch, must_not_launch or same_as_baseline");
  return rules;
}

ValidationRule validation_rule(JsonReader reader) {
  ValidationRule rule;
  if (reader.has("fewest_prompts")) rule.fewest_prompts = reader.integer("fewest_prompts", 1);
  if (reader.has("fewest_controls")) rule.fewest_controls = reader.integer("fewest_controls", 0);
  if (reader.has("complete")) rule.complete = reader.boolean("complete");
  reader.refuse_unknown_keys();
  return rule;
}

std::set<std::string> may_differ(JsonReader& reader) {
  std::set<std::string> allowed;
  const std::vector<std::string> known(std::begin(kDifferences), std::end(kDifferences));
  for (const std::string& word : reader.texts("may_differ")) {
    if (std::find(known.begin(), known.end(), word) == known.end())
      throw reader.error("may_differ", "'" + word + "' is nothing that is compared",
                         "gpu, driver, checkpoint, harness or machine");
    allowed.insert(word);
  }
  return allowed;
}

}  // namespace

GatePolicy parse_policy(std::string_view text, const std::string& where) {
  const Json json = parse_json(text, where, JsonComments::kAllowed);
  JsonReader reader(json, where);
  (void)reader.integer("version", kPolicyVersion, kPolicyVersion);
  GatePolicy policy;
  policy.digest = digest(text);
  if (reader.has("arms")) policy.arms = reader.texts("arms");
  if (reader.has("alpha")) policy.alpha = reader.number("alpha", 1e-6, 0.5);
  if (reader.has("speed")) policy.speed = speed_rules(reader.any("speed"), reader.place("speed"));
  if (reader.has("memory")) policy.memory = memory_rule(reader.object("memory"));
  if (reader.has("launches")) policy.launches = launch_rules(reader.object("launches"));
  if (reader.has("validation")) policy.validation = validation_rule(reader.object("validation"));
  if (reader.has("fidelity")) policy.fidelity = forced::read_fidelity_policy(reader.object("fidelity"));
  if (reader.has("between_sittings_percent"))
    policy.between_sittings_percent = reader.number("between_sittings_percent", 0, kMostMarginPercent);
  if (reader.has("may_differ")) policy.may_differ = may_differ(reader);
  if (reader.has("inconclusive")) policy.inconclusive_fails = reader.word("inconclusive", {"fail", "skip"}) == "fail";
  reader.refuse_unknown_keys();
  if (policy.speed.empty() && !policy.memory && !policy.launches && !policy.fidelity)
    throw input_error(where, "asks nothing", "give at least one of speed, memory, launches, fidelity");
  return policy;
}

GatePolicy read_policy(const std::filesystem::path& file) {
  return parse_policy(read_text_file(file), file.string());
}

std::string to_text(Requirement requirement) {
  for (const NamedRequirement& known : kRequirements)
    if (known.requirement == requirement) return known.name;
  throw internal_error("a requirement has no name");
}

}  // namespace tare::harness

#include "forced/fidelity_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/text.h"

namespace tare::forced {
namespace {

constexpr std::int64_t kFidelityVersion = 1;

double loss_sign(const std::string& metric) {
  return metric == "top1" ? -1 : 1;
}

// The row of an arm in the pass that the policy judges; null when there is none.
const Json* find_row(const Json& fidelity, const FidelityPolicy& policy, const std::string& arm,
                     const std::string& kind) {
  for (const Json& row : fidelity.at("rows"))
    if (row.value("arm", "") == arm && row.value("path", "") == policy.path && row.value("head", "") == policy.head &&
        row.value("kind", "") == kind &&
        (policy.path != "decode" || row.value("nodes", std::int64_t{0}) == policy.nodes))
      return &row;
  return nullptr;
}

void judge(FidelityVerdict& verdict, const Json& row, const FidelityPolicy& policy) {
  if (!row.contains("difference")) {
    verdict.reason = "has no difference to a baseline";
    return;
  }
  const Json& difference = row["difference"][verdict.metric];
  if (!difference["mean"].is_number()) {
    verdict.reason = "is infinite or was not scored";
    return;
  }
  const double sign = loss_sign(verdict.metric);
  verdict.loss = sign * difference["mean"].get<double>();
  if (!difference.contains("upper_bound") || row.value("windows", std::int64_t{0}) < policy.fewest_windows) {
    verdict.verdict = stats::Verdict::kInconclusive;
    verdict.reason =
        fmt::format("{} windows, {} are needed", row.value("windows", std::int64_t{0}), policy.fewest_windows);
    return;
  }
  const double first = sign * difference["lower_bound"].get<double>();
  const double second = sign * difference["upper_bound"].get<double>();
  verdict.lower_bound = std::min(first, second);
  verdict.upper_bound = std::max(first, second);
  const double left = verdict.margin - verdict.spent;
  if (verdict.upper_bound < 0) {
    verdict.verdict = stats::Verdict::kBetter;
    verdict.reason = "the loss is below 0";
  } else if (verdict.upper_bound < left) {
    verdict.verdict = stats::Verdict::kNonInferior;
    verdict.reason = "the loss is below what is left of the margin";
  } else if (verdict.lower_bound >= left) {
    verdict.verdict = stats::Verdict::kWorse;
    verdict.reason = "the loss is not below what is left of the margin";
  } else {
    verdict.verdict = stats::Verdict::kInconclusive;
    verdict.reason = "what is left of the margin lies between the bounds";
  }
}

}  // namespace

FidelityPolicy read_fidelity_policy(JsonReader reader) {
  FidelityPolicy policy;
  if (reader.has("file")) policy.file = reader.text("file");
  if (reader.has("path")) policy.path = reader.word("path", {"prefill", "decode"});
  if (reader.has("nodes")) policy.nodes = reader.integer("nodes", 1);
  if (reader.has("head")) policy.head = reader.word("head", {"own", "exact"});
  if (reader.has("kinds")) policy.kinds = reader.texts("kinds");
  if (reader.has("arms")) policy.arms = reader.texts("arms");
  if (reader.has("fewest_windows")) policy.fewest_windows = reader.integer("fewest_windows", 2);
  const JsonReader margins = reader.object("margins");
  const std::vector<std::string> known(std::begin(kFidelityMetrics), std::end(kFidelityMetrics));
  for (const auto& [metric, margin] : margins.json().items()) {
    if (std::find(known.begin(), known.end(), metric) == known.end())
      throw margins.error(metric, "is no metric", name_hint(metric, known));
    if (!margin.is_number() || !(margin.get<double>() > 0)) throw margins.error(metric, "must be a number above 0");
    policy.margins[metric] = margin.get<double>();
  }
  reader.refuse_unknown_keys();
  if (policy.margins.empty()) throw reader.error("margins", "is empty", "a fidelity section must ask something");
  if (policy.kinds.empty()) throw reader.error("kinds", "is empty");
  return policy;
}

FidelityPolicy read_fidelity_policy(const std::filesystem::path& file) {
  const Json json = read_json_file(file, JsonComments::kAllowed);
  JsonReader reader(json, file.string());
  (void)reader.integer("version", 1, 1);
  return read_fidelity_policy(reader.object("fidelity"));
}

std::vector<FidelityVerdict> judge_fidelity(const Json& fidelity, const FidelityPolicy& policy,
                                            const std::string& where, const SpentMargins& spent) {
  JsonReader reader(fidelity, where);
  (void)reader.integer("version", kFidelityVersion, kFidelityVersion);
  (void)reader.array("rows");
  if (reader.has("complete") && !reader.boolean("complete"))
    throw input_error(where, "is of a run that was stopped", "run tare fidelity to its end");
  const std::string baseline = reader.text("baseline");
  std::vector<std::string> arms = policy.arms;
  if (arms.empty())
    for (const Json& arm : reader.array("arms"))
      if (const std::string name = arm.value("name", ""); name != baseline) arms.push_back(name);
  if (arms.empty()) throw input_error(where, "holds no arm but the baseline: nothing to be judged");
  std::vector<FidelityVerdict> verdicts;
  for (const std::string& arm : arms) {
    for (const std::string& kind : policy.kinds) {
      const Json* row = find_row(fidelity, policy, arm, kind);
      for (const auto& [metric, margin] : policy.margins) {
        FidelityVerdict verdict{.arm = arm, .kind = kind, .metric = metric, .margin = margin, .reason = {}};
        if (const auto found = spent.find(metric); found != spent.end()) verdict.spent = found->second;
        if (row == nullptr) {
          verdict.reason = fmt::format("there is no row of path {}, head {}", policy.path, policy.head);
        } else {
          judge(verdict, *row, policy);
        }
        verdicts.push_back(std::move(verdict));
      }
    }
  }
  return verdicts;
}

stats::Verdict overall_verdict(const std::vector<FidelityVerdict>& verdicts) {
  using stats::Verdict;
  for (const Verdict verdict :
       {Verdict::kInvalid, Verdict::kWorse, Verdict::kInconclusive, Verdict::kNonInferior, Verdict::kBetter})
    for (const FidelityVerdict& one : verdicts)
      if (one.verdict == verdict) return verdict;
  return Verdict::kInvalid;
}

Json to_json(const FidelityVerdict& verdict) {
  return {{"arm", verdict.arm},
          {"kind", verdict.kind},
          {"metric", verdict.metric},
          {"verdict", std::string(stats::verdict_name(verdict.verdict))},
          {"reason", verdict.reason},
          {"margin", verdict.margin},
          {"spent", verdict.spent},
          {"loss", verdict.loss},
          {"lower_bound", verdict.lower_bound},
          {"upper_bound", verdict.upper_bound}};
}

}  // namespace tare::forced

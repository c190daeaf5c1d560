#include "forced/fidelity_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/file.h"

namespace tare::forced {
namespace {

FidelityExpense parse_expense(std::string_view line, const std::string& where) {
  const Json json = parse_json(line, where);
  JsonReader reader(json, where);
  FidelityExpense expense{reader.text("time_utc"), reader.text("change"),    reader.text("arm"),
                          reader.text("policy"),   reader.text("reference"), {}};
  const JsonReader spent = reader.object("spent");
  for (const auto& [metric, value] : spent.json().items()) {
    if (!value.is_number() || !(value.get<double>() >= 0)) throw spent.error(metric, "must be a number, at least 0");
    expense.spent[metric] = value.get<double>();
  }
  reader.refuse_unknown_keys();
  return expense;
}

}  // namespace

SpentMargins expense_of(const std::vector<FidelityVerdict>& verdicts, const std::string& arm) {
  SpentMargins spent;
  for (const FidelityVerdict& verdict : verdicts) {
    if (verdict.arm != arm) continue;
    if (verdict.verdict != stats::Verdict::kBetter && verdict.verdict != stats::Verdict::kNonInferior)
      throw Error(ErrorKind::kInvalid, fmt::format("arm {} is not accepted: {} of {} is {}", arm, verdict.metric,
                                                   verdict.kind, stats::verdict_name(verdict.verdict)));
    double& most = spent[verdict.metric];
    most = std::max({most, verdict.upper_bound, 0.0});
  }
  if (spent.empty()) throw Error(ErrorKind::kInvalid, fmt::format("arm {} was not judged", arm));
  return spent;
}

std::vector<FidelityExpense> read_budget(const std::filesystem::path& file, const std::string& reference) {
  std::vector<FidelityExpense> expenses;
  if (!std::filesystem::exists(file)) return expenses;
  const std::string content = read_text_file(file);
  std::size_t begin = 0;
  for (int line = 1; begin < content.size(); ++line) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    const std::string where = fmt::format("{} line {}", file.string(), line);
    expenses.push_back(parse_expense(std::string_view(content).substr(begin, end - begin), where));
    if (expenses.back().reference != reference)
      throw input_error(where, "was spent under another reference",
                        "a budget belongs to one reference: begin another file");
    begin = end + 1;
  }
  return expenses;
}

SpentMargins total(const std::vector<FidelityExpense>& expenses) {
  SpentMargins sum;
  for (const FidelityExpense& expense : expenses)
    for (const auto& [metric, value] : expense.spent) sum[metric] += value;
  return sum;
}

void record_expense(const std::filesystem::path& file, const FidelityExpense& expense) {
  std::string content = std::filesystem::exists(file) ? read_text_file(file) : std::string();
  if (!content.empty() && content.back() != '\n') content += '\n';
  const Json json = {{"time_utc", expense.time_utc}, {"change", expense.change},       {"arm", expense.arm},
                     {"policy", expense.policy},     {"reference", expense.reference}, {"spent", expense.spent}};
  content += json.dump() + "\n";
  write_file_atomically(file, content);
}

}  // namespace tare::forced

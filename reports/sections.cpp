#include "reports/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "reports/escape.h"
#include "reports/numbers.h"
#include "reports/sentences.h"

namespace tare::reports {
namespace {

std::string measure_name(const Findings& findings) {
  return findings.effect_measure < findings.measures.size()
             ? visible_text(findings.measures[findings.effect_measure].name)
             : "the measure";
}

// One verdict a line: the word, the flag, the p values, the known truth.
Table verdict_table(const Findings& findings) {
  Table table;
  table.id = "verdicts";
  table.caption = fmt::format("Verdicts on {}, each arm against the baseline", measure_name(findings));
  table.columns = {{"Arm"},        {"Verdict"},  {"Difference shown"}, {"Effect, %", true},
                   {"from", true}, {"to", true}, {"p", true},          {"p, Holm", true}};
  const bool has_truth = std::any_of(findings.effects.begin(), findings.effects.end(),
                                     [](const Effect& e) { return e.truth.has_value(); });
  if (has_truth) {
    table.columns.push_back({"Known truth, %", true});
    table.columns.push_back({"Interval holds it"});
  }
  for (const Effect& effect : findings.effects) {
    if (effect.measure != findings.effect_measure || effect.verdict.empty()) continue;
    const Interval* interval = verdict_interval(effect);
    Interval shown;
    shown.estimate_log = effect.estimate_log;
    if (interval != nullptr) shown = *interval;
    const PercentTexts texts = percent_texts(shown);
    Row row;
    row.cells = {{arm_name(findings, effect.arm)},
                 {printed_verdict(effect.verdict)},
                 {effect.difference_shown ? "yes" : "no"},
                 {texts.estimate},
                 {texts.low},
                 {texts.high},
                 {p_text(effect.p)},
                 {effect.in_family ? p_text(effect.p_adjusted) : "\u2013"}};
    if (has_truth) {
      const auto holds = effect.truth ? holds_truth(shown, *effect.truth) : std::nullopt;
      row.cells.push_back(
          {effect.truth ? percent_texts(effect.truth->effect_log, shown.low_log, shown.high_log).estimate : "\u2013"});
      row.cells.push_back({holds ? (*holds ? "yes" : "NO") : "\u2013"});
    }
    table.rows.push_back(std::move(row));
  }
  table.said_when_empty = "No verdict was reached.";
  table.note = fmt::format("95{}% interval of the verdict. p is two-sided; Holm over a family of {}; alpha {}.",
                           kNoBreakSpace, findings.methods.family_size, shortest(findings.methods.alpha));
  return table;
}

// Every interval, grouped by arm.
Table interval_table(const Findings& findings) {
  Table table;
  table.id = "intervals";
  table.caption = fmt::format("Effect on {}: what each interval answers", measure_name(findings));
  table.columns = {{"The question it answers"},
                   {"Method"},
                   {"Effect, %", true},
                   {"from", true},
                   {"to", true},
                   {"Level", true},
                   {"df", true}};
  for (const Effect& effect : findings.effects) {
    if (effect.measure != findings.effect_measure || effect.intervals.empty()) continue;
    table.rows.push_back(
        {.cells = {{fmt::format("{} against {}", arm_name(findings, effect.arm), arm_name(findings, 0))}},
         .group_heading = true});
    for (const Interval& interval : ordered_intervals(effect)) {
      const PercentTexts texts = percent_texts(interval);
      std::string question = question_of(interval.estimand);
      if (interval.of_verdict) question += " \u2013 the verdict\u2019s";
      if (interval.robustness) question += " \u2013 a check";
      std::string method = visible_text(interval.method);
      if (!is_known(interval) && !interval.why_missing.empty())
        method += fmt::format(" (none: {})", running_text(interval.why_missing));
      const double df = interval.degrees_of_freedom;
      table.rows.push_back({.cells = {{question},
                                      {method},
                                      {texts.estimate},
                                      {texts.low},
                                      {texts.high},
                                      {share_text(interval.level)},
                                      {std::isnan(df) ? "\u2013" : shortest(std::round(df * 10.0) / 10.0)}},
                            .emphasis = interval.of_verdict});
    }
  }
  table.said_when_empty = "No effect was computed.";
  table.note =
      "Positive: the arm\u2019s value is larger than the baseline\u2019s. Intervals that answer different questions "
      "may differ in width without contradiction.";
  return table;
}

std::string value_text(double value, const Measure& measure, int decimals) {
  if (std::isnan(value)) return kNotAvailable;
  return measure.unit == "bytes" ? bytes_text(value) : fixed(value, decimals);
}

Table measure_table(const Findings& findings) {
  Table table;
  table.id = "measures";
  table.caption = "What was measured, by arm";
  table.columns = {{"Measure and arm"},   {"Value", true}, {"lowest run", true},
                   {"highest run", true}, {"Runs", true},  {"against baseline, %", true},
                   {"from", true},        {"to", true}};
  for (std::size_t m = 0; m < findings.measures.size(); ++m) {
    const Measure& measure = findings.measures[m];
    std::string heading = visible_text(measure.name);
    heading += measure.unit == "bytes" ? std::string() : ", " + visible_text(measure.unit);
    heading += measure.higher_is_better ? " (higher is better)" : " (lower is better)";
    table.rows.push_back({.cells = {{heading}}, .group_heading = true});
    const MeasureValue* of_baseline = find_value(findings, 0, m);
    for (std::size_t arm = 0; arm < findings.arms.size(); ++arm) {
      const MeasureValue* value = find_value(findings, arm, m);
      const MeasureValue shown = value != nullptr ? *value : MeasureValue{};
      const int decimals = decimals_of_value(of_baseline != nullptr ? of_baseline->value : shown.value, 4);
      std::vector<Cell> cells = {{arm_name(findings, arm) + (arm == 0 ? " (baseline)" : "")},
                                 {value_text(shown.value, measure, decimals)},
                                 {value_text(shown.lowest_run, measure, decimals)},
                                 {value_text(shown.highest_run, measure, decimals)},
                                 {count_text(shown.run_count)}};
      const Effect* effect = find_effect(findings, arm, m);
      const Interval* interval = effect != nullptr ? verdict_interval(*effect) : nullptr;
      if (interval != nullptr) {
        const PercentTexts texts = percent_texts(*interval);
        for (const std::string& text : {texts.estimate, texts.low, texts.high}) cells.push_back({text});
      } else if (effect != nullptr && !std::isnan(effect->estimate_log)) {
        const double percent = percent_of_log(effect->estimate_log);
        cells.push_back({signed_fixed(percent, std::min(2, decimals_of_value(percent, 3)))});
        cells.insert(cells.end(), 2, Cell{"\u2013"});
      } else {
        cells.insert(cells.end(), 3, Cell{"\u2013"});
      }
      table.rows.push_back({.cells = std::move(cells)});
    }
  }
  table.said_when_empty = "Nothing was measured.";
  std::vector<std::string> definitions;
  for (const Measure& measure : findings.measures)
    if (!measure.definition.empty())
      definitions.push_back(fmt::format("{}: {}.", visible_text(measure.name), running_text(measure.definition)));
  table.note = join(definitions, " ");
  return table;
}

Table run_table(const Findings& findings) {
  Table table;
  table.id = "runs-table";
  table.caption = "Runs in the order in which they started";
  table.folded = fmt::format("All {} runs as a table", count_text(findings.runs.size()));
  const bool has_measure = findings.effect_measure < findings.measures.size();
  const std::string unit = has_measure ? visible_text(findings.measures[findings.effect_measure].unit) : "";
  table.columns = {{"Run", true},
                   {"Block", true},
                   {"Slot", true},
                   {"Arm"},
                   {"Launch", true},
                   {"Start, s", true},
                   {"Decode, s", true},
                   {"Tokens", true},
                   {measure_name(findings) + ", " + unit, true},
                   {"fitted", true},
                   {"State"}};
  for (std::size_t i = 0; i < findings.runs.size(); ++i) {
    const Run& run = findings.runs[i];
    const double value = findings.effect_measure < run.values.size() ? run.values[findings.effect_measure] : kMissing;
    const int decimals = std::isfinite(value) ? decimals_of_value(value, 5) : 0;
    std::string state = word_of(run.state);
    if (!run.note.empty()) state += ": " + running_text(run.note);
    table.rows.push_back({.cells = {{count_text(i + 1)},
                                    {count_text(run.block + 1)},
                                    {count_text(run.slot + 1)},
                                    {arm_name(findings, run.arm)},
                                    {count_text(run.launch_order + 1)},
                                    {fixed(run.start_s, 1)},
                                    {fixed(run.decode_s, 3)},
                                    {count_text(run.tokens)},
                                    {fixed(value, decimals)},
                                    {std::isnan(run.fitted) ? "\u2013" : fixed(run.fitted, decimals)},
                                    {state}}});
  }
  table.said_when_empty = "There are no runs.";
  return table;
}

Table prompt_table(const Findings& findings) {
  Table table;
  table.id = "prompts-table";
  table.caption = "Seconds a run and effect, prompt by prompt";
  table.folded = fmt::format("All {} prompts as a table", count_text(findings.prompts.size()));
  table.columns = {{"Prompt"}, {"Category"}, {"Tokens", true}};
  for (std::size_t arm = 0; arm < findings.arms.size(); ++arm)
    table.columns.push_back({arm_name(findings, arm) + ", s", true});
  for (std::size_t arm = 1; arm < findings.arms.size(); ++arm)
    table.columns.push_back({arm_name(findings, arm) + ", %", true});
  for (const Prompt& prompt : findings.prompts) {
    Row row;
    row.cells = {{visible_text(prompt.id)}, {visible_text(prompt.category)}, {count_text(prompt.tokens)}};
    for (std::size_t arm = 0; arm < findings.arms.size(); ++arm)
      row.cells.push_back({arm < prompt.seconds.size() ? fixed(prompt.seconds[arm], 4) : kNotAvailable});
    for (std::size_t arm = 1; arm < findings.arms.size(); ++arm)
      row.cells.push_back(
          {arm < prompt.log_ratio.size() ? signed_fixed(percent_of_log(prompt.log_ratio[arm]), 2) : kNotAvailable});
    table.rows.push_back(std::move(row));
  }
  table.said_when_empty = "There are no prompts.";
  return table;
}

// Puts a figure where it belongs; one whose section is not in this report is left out.
void place(const Figure& figure, std::vector<Section>& sections) {
  const std::string& id = figure.section.empty() ? figure.name : figure.section;
  const auto section =
      std::find_if(sections.begin(), sections.end(), [&](const Section& candidate) { return candidate.id == id; });
  if (section == sections.end()) return;
  const auto table = std::find_if(section->blocks.begin(), section->blocks.end(), [&](const Block& block) {
    const auto* found = std::get_if<Table>(&block);
    return found != nullptr && found->id == figure.before;
  });
  section->blocks.insert(table == section->blocks.end() ? section->blocks.begin() : table, figure);
}

}  // namespace

Section effects_section(const Findings& findings) {
  return {"effects", "Effects", {verdict_table(findings), interval_table(findings)}};
}

Section measures_section(const Findings& findings) {
  return {"measures-section", "Measures", {measure_table(findings)}};
}

Section runs_section(const Findings& findings) {
  Section section{"runs", "Runs in order", {Paragraph{drift_sentence(findings)}}};
  std::vector<std::string> left_out;
  for (const RunState state : {RunState::kWarmUp, RunState::kInterrupted, RunState::kExcluded, RunState::kFailed}) {
    const auto count =
        std::count_if(findings.runs.begin(), findings.runs.end(), [&](const Run& run) { return run.state == state; });
    if (count > 0) left_out.push_back(fmt::format("{} {}", count, word_of(state)));
  }
  if (!left_out.empty())
    section.blocks.emplace_back(Paragraph{fmt::format("Stored but not counted: {}.", listed(left_out))});
  section.blocks.emplace_back(run_table(findings));
  return section;
}

Section prompts_section(const Findings& findings) {
  return {"prompts", "Prompts", {prompt_table(findings)}};
}

Document make_document(const Findings& findings, const std::vector<Figure>& figures) {
  Document document;
  Lead& lead = document.lead;
  lead.title = running_text(findings.title.empty() ? findings.experiment : findings.title);
  if (lead.title.empty()) lead.title = "Untitled experiment";
  lead.experiment =
      fmt::format("{}, digest {}", or_not_available(findings.experiment), or_not_available(findings.experiment_digest));
  lead.description = running_text(findings.description);
  lead.compared = compared_sentence(findings);
  lead.machine = machine_line(findings);
  lead.created = or_not_available(findings.created_utc);
  lead.valid = is_trusted(findings.validity);
  lead.validity = validity_sentence(findings.validity);
  for (const Effect& effect : findings.effects)
    if (effect.measure == findings.effect_measure && !effect.verdict.empty())
      lead.verdicts.push_back(verdict_line(findings, effect));
  lead.no_verdicts =
      lead.valid ? "No verdict was reached: there is no effect to judge." : "No verdict: the experiment is not valid.";
  lead.warnings = warning_lines(findings);
  if (!findings.complete)
    lead.warnings.insert(lead.warnings.begin(), {"warning", "",
                                                 "the schedule is not finished; these are the findings "
                                                 "from the blocks that are",
                                                 "incomplete"});

  document.sections = {effects_section(findings),  matrix_section(findings),     front_section(findings),
                       measures_section(findings), rounds_section(findings),     times_section(findings),
                       runs_section(findings),     prompts_section(findings),    instrument_section(findings),
                       arms_section(findings),     conditions_section(findings), methods_section(findings)};
  std::erase_if(document.sections, [](const Section& section) { return section.blocks.empty(); });
  for (const Figure& figure : figures) place(figure, document.sections);
  document.colophon =
      fmt::format("Made {} by {} from findings.json.", lead.created, or_not_available(findings.harness_version));
  return document;
}

}  // namespace tare::reports

// The sections that say under which conditions the numbers hold: instrument, arms, texts, machine, methods.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "reports/escape.h"
#include "reports/numbers.h"
#include "reports/sections.h"
#include "reports/sentences.h"

namespace tare::reports {
namespace {

std::string capitalised(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

Table fact_table(std::string id, std::string caption, const std::vector<std::pair<std::string, std::string>>& facts) {
  Table table;
  table.id = std::move(id);
  table.caption = std::move(caption);
  table.columns = {{"What"}, {"Value"}};
  for (const auto& [name, value] : facts) table.rows.push_back({.cells = {{name}, {or_not_available(value)}}});
  table.said_when_empty = "Nothing was recorded.";
  return table;
}

// The first digits of a digest, enough to tell two apart by eye; findings.json has all of them.
constexpr std::size_t kDigestShown = 13;

std::string short_digest(const std::string& digest) {
  return shortened(visible_text(digest), kDigestShown);
}

// A commit's hash shortened, what is said after it ("+changes") kept.
std::string short_commit(const std::string& commit) {
  const std::size_t hash = std::min(commit.find('+'), commit.size());
  return short_digest(commit.substr(0, hash)) + visible_text(commit.substr(hash));
}

std::string number_or_dash(double value) {
  return std::isnan(value) ? kNotAvailable : shortest(value);
}

Table control_table(const Validity& validity) {
  Table table;
  table.id = "controls";
  table.caption = "Positive controls: known to be bad, and must be caught";
  table.columns = {{"Control"}, {"Caught"}, {"Where"}};
  for (const PositiveControl& control : validity.controls)
    table.rows.push_back(
        {.cells = {{visible_text(control.name)}, {control.caught ? "yes" : "NO"}, {or_not_available(control.detail)}}});
  table.said_when_empty = "No positive control was run: that the validation can fail is not shown.";
  return table;
}

std::string clock_sentence(const Validity& validity) {
  if (!validity.clock) return "The inner clock was not compared with the harness\u2019s.";
  const ClockAgreement& clock = *validity.clock;
  return fmt::format(
      "Clocks: the engine\u2019s time of a request and the harness\u2019s time of the same request {} {} "
      "requests {} 0.2{}% {} 1{}ms; largest difference {} ({} ms).",
      clock.agreed ? "agree in all" : "do NOT agree: in some of", count_text(clock.compared),
      clock.agreed ? "to within" : "they differ by more than", kNoBreakSpace, clock.agreed ? "or" : "and",
      kNoBreakSpace, share_text(clock.worst_share),
      std::isnan(clock.worst_ns) ? kNotAvailable : fixed(clock.worst_ns / 1e6, 3));
}

Table text_table(const Texts& texts) {
  std::string mode = visible_text(texts.mode);
  if (texts.mode == "sampled")
    mode += fmt::format(", temperature {}, seed {}",
                        std::isnan(texts.temperature) ? kNotAvailable : shortest(texts.temperature), texts.seed);
  std::vector<std::string> outcomes;
  for (const OutcomeCount& outcome : texts.outcomes)
    outcomes.push_back(fmt::format("{}: {}", visible_text(outcome.outcome), count_text(outcome.prompts)));
  std::string worst = share_text(texts.repetition_highest);
  if (!texts.most_repetitive_prompt.empty())
    worst += fmt::format(" (prompt {})", visible_text(texts.most_repetitive_prompt));
  Table table = fact_table("texts", "The forced texts",
                           {{"How they were made", mode},
                            {"Texts", count_text(texts.texts)},
                            {"Tokens", count_text(texts.tokens)},
                            {"Shortest, median, longest",
                             fmt::format("{}, {}, {} tokens", number_or_dash(texts.shortest_tokens),
                                         number_or_dash(texts.median_tokens), number_or_dash(texts.longest_tokens))},
                            {"How they ended", join(outcomes, "; ")},
                            {"Repetition, median", share_text(texts.repetition_median)},
                            {"Repetition, highest", worst},
                            {"Digest", texts.digest}});
  if (!texts.repetition_definition.empty())
    table.note = fmt::format("Repetition: {}.", running_text(texts.repetition_definition));
  return table;
}

Table arm_table(const Findings& findings) {
  Table table;
  table.id = "arms-table";
  table.caption = "The arms; options are those that differ from the baseline\u2019s";
  table.columns = {{"Arm"},        {"Options"},        {"Program"},          {"Build"},
                   {"Checkpoint"}, {"Launches", true}, {"Peak memory", true}};
  for (std::size_t i = 0; i < findings.arms.size(); ++i) {
    const Arm& arm = findings.arms[i];
    std::vector<std::string> build;
    for (const std::string& part :
         {visible_text(arm.build.version), short_commit(arm.build.commit), visible_text(arm.build.compiler),
          visible_text(arm.build.type), visible_text(arm.build.flags)})
      if (!part.empty()) build.push_back(part);
    std::vector<std::string> checkpoint;
    if (!arm.checkpoint.name.empty()) checkpoint.push_back(visible_text(arm.checkpoint.name));
    if (!arm.checkpoint.digest.empty()) checkpoint.push_back(short_digest(arm.checkpoint.digest));
    std::string name = arm_name(findings, i) + (i == 0 ? " (baseline)" : "");
    if (!arm.display_name.empty() && arm.display_name != arm.name) name += " = " + visible_text(arm.name);
    const std::string& options = arm.options_differing_json;
    const bool same = i == 0 || options.empty() || options == "{}";
    table.rows.push_back(
        {.cells = {{name},
                   {same ? (i == 0 ? "the baseline\u2019s own" : "none") : running_text(options), !same},
                   {arm.program.empty() ? "tare worker" : visible_text(arm.program), !arm.program.empty()},
                   {build.empty() ? kNotAvailable : join(build, ", ")},
                   {checkpoint.empty() ? kNotAvailable : join(checkpoint, ", ")},
                   {count_text(arm.launch_count)},
                   {bytes_text(arm.peak_memory_bytes)}}});
  }
  table.said_when_empty = "No arm was measured.";
  return table;
}

Table reading_table(const Conditions& conditions) {
  Table table;
  table.id = "readings";
  table.caption = "Load and state of the machine while it was measured";
  table.columns = {{"Reading"}, {"before", true}, {"lowest", true}, {"highest", true}, {"after", true}};
  for (const Reading& reading : conditions.readings) {
    std::string name = capitalised(visible_text(reading.name));
    const bool is_bytes = reading.unit == "bytes";
    if (!reading.unit.empty() && !is_bytes) name += ", " + visible_text(reading.unit);
    const int decimals = std::abs(reading.highest) < 1000 ? 2 : 0;
    Row row;
    row.cells = {{name}};
    for (const double value : {reading.before, reading.lowest, reading.highest, reading.after})
      row.cells.push_back({is_bytes ? bytes_text(value) : fixed(value, decimals)});
    table.rows.push_back(std::move(row));
  }
  table.said_when_empty = "No reading of the machine\u2019s state is available.";
  return table;
}

std::string clock_text(const RunConditions& run) {
  if (std::isnan(run.clock_mhz)) return kNotAvailable;
  return fmt::format("{} ({}\u2013{})", fixed(run.clock_mhz, 0), fixed(run.clock_lowest_mhz, 0),
                     fixed(run.clock_highest_mhz, 0));
}

Table run_conditions_table(const Findings& findings) {
  const Conditions& conditions = findings.conditions;
  Table table;
  table.id = "run-conditions";
  table.caption = "The machine during each counted run";
  table.folded = fmt::format("The machine during each of {} counted runs", count_text(conditions.runs.size()));
  table.columns = {{"Run", true},
                   {"Arm"},
                   {visible_text(conditions.clock_name) + ", MHz (lowest\u2013highest)", true},
                   {"Temperature, \u00b0C", true},
                   {"Power, W", true},
                   {"Energy, J", true},
                   {"Load", true},
                   {"Others\u2019 cores", true},
                   {"A task waited", true},
                   {"Samples", true}};
  for (const RunConditions& run : conditions.runs)
    table.rows.push_back({.cells = {{count_text(run.run + 1)},
                                    {arm_name(findings, findings.runs[run.run].arm)},
                                    {clock_text(run)},
                                    {fixed(run.temperature_c, 0)},
                                    {fixed(run.power_w, 0)},
                                    {fixed(run.energy_j, 0)},
                                    {fixed(run.load, 2)},
                                    {fixed(run.others_cores, 2)},
                                    {share_text(run.waited_share)},
                                    {count_text(run.samples)}}});
  table.said_when_empty = "No counted run has readings before and after it.";
  return table;
}

}  // namespace

Section instrument_section(const Findings& findings) {
  return {"instrument",
          "The instrument",
          {Paragraph{validity_sentence(findings.validity)}, control_table(findings.validity),
           Paragraph{clock_sentence(findings.validity)}, text_table(findings.texts)}};
}

Section arms_section(const Findings& findings) {
  Section section{"arms", "Arms", {arm_table(findings)}};
  for (std::size_t i = 0; i < findings.arms.size(); ++i)
    if (!findings.arms[i].options_json.empty())
      section.blocks.emplace_back(
          Listing{fmt::format("Every option of {}", arm_name(findings, i)), findings.arms[i].options_json});
  return section;
}

Section conditions_section(const Findings& findings) {
  const Conditions& conditions = findings.conditions;
  const ScheduleFacts& schedule = findings.schedule;
  std::vector<std::string> orders;
  for (const std::string& order : schedule.block_orders) orders.push_back(visible_text(order));
  std::vector<std::pair<std::string, std::string>> facts = {
      {"Host", conditions.hostname},
      {"Machine", conditions.machine},
      {"CPU", conditions.cpu},
      {"Usable cores", conditions.cores_usable == 0 ? "" : count_text(conditions.cores_usable)},
      {"Pinned to cores", conditions.cores_pinned.empty() ? "not pinned" : conditions.cores_pinned},
      {"Memory", bytes_text(conditions.memory_bytes)},
      {"Kernel", conditions.kernel},
      {"Clock governor", conditions.governor},
      {"Harness", findings.harness_version},
      {"Granularity", schedule.granularity},
      {"Order",
       fmt::format("{} ({})", orders.empty() ? kNotAvailable : join(orders, " "), or_not_available(schedule.letters))},
      {"Seed of the order", fmt::format("{}", schedule.seed)},
      {"Experiment", findings.experiment},
      {"Experiment digest", findings.experiment_digest},
      {"Command", findings.command}};
  if (!findings.blinding.unblinded_utc.empty())
    facts.emplace_back("Unblinded", fmt::format("{}, findings digest {}", findings.blinding.unblinded_utc,
                                                findings.blinding.findings_digest));
  for (const Fact& fact : conditions.facts) facts.emplace_back(capitalised(visible_text(fact.name)), fact.value);
  Section section{"conditions",
                  "Conditions",
                  {fact_table("machine", "Machine, order and command", facts), reading_table(conditions),
                   run_conditions_table(findings)}};
  if (!findings.experiment_json.empty())
    section.blocks.emplace_back(Listing{"The experiment as it was read", findings.experiment_json});
  return section;
}

Section methods_section(const Findings& findings) {
  Section section{"methods", "Methods", {}};
  for (const std::string& text : methods_paragraphs(findings)) section.blocks.emplace_back(Paragraph{text});
  section.blocks.emplace_back(
      fact_table("files", "Files beside this report",
                 {{"findings.json", "everything in this report, for machines"},
                  {"effects.csv", "one line an interval"},
                  {"runs.csv", "one line a run, counted or not"},
                  {"prompts.csv", "one line a prompt and arm"},
                  {"figures/", "each figure as SVG, with the gnuplot script and the data it was drawn from"},
                  {"tables.tex", "the tables that are not folded, for LaTeX (booktabs)"},
                  {"methods.txt", "the paragraphs above, to copy from"},
                  {"report.md", "this report as Markdown"}}));
  return section;
}

}  // namespace tare::reports

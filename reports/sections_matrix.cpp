// The section of a matrix: every combination, what single factors do, and where they do not add up.
#include <fmt/format.h>

#include <cmath>

#include "base/text.h"
#include "reports/escape.h"
#include "reports/numbers.h"
#include "reports/sections.h"
#include "reports/sentences.h"

namespace tare::reports {
namespace {

std::string adjusted_by(const Findings& findings) {
  return findings.methods.multiplicity == "screen" ? "Benjamini-Hochberg" : "Holm";
}

std::string level_name(const Factor& factor, std::size_t level) {
  return fmt::format("{} {}", visible_text(factor.name), visible_text(factor.levels[level]));
}

Table combination_table(const Findings& findings) {
  Table table;
  table.id = "matrix-table";
  table.caption = "Every combination against the baseline";
  table.columns = {{"Arm"}};
  for (const Factor& factor : findings.matrix.factors) table.columns.push_back({visible_text(factor.name)});
  const std::string p = "p, " + adjusted_by(findings);
  for (const Column& column : {Column{"Effect, %", true}, Column{"from", true}, Column{"to", true}, Column{p, true},
                               Column{"Shown"}, Column{"Verdict"}})
    table.columns.push_back(column);
  for (std::size_t arm = 0; arm < findings.arms.size(); ++arm) {
    Row row;
    row.cells = {{arm_name(findings, arm) + (arm == 0 ? " (baseline)" : "")}};
    for (std::size_t f = 0; f < findings.matrix.factors.size(); ++f)
      row.cells.push_back({f < findings.arms[arm].levels.size()
                               ? visible_text(findings.matrix.factors[f].levels[findings.arms[arm].levels[f]])
                               : kNotAvailable});
    const Effect* effect = find_effect(findings, arm, findings.effect_measure);
    if (effect == nullptr) {
      row.cells.insert(row.cells.end(), 6, Cell{"\u2013"});
    } else {
      const Interval* interval = verdict_interval(*effect);
      Interval shown;
      shown.estimate_log = effect->estimate_log;
      if (interval != nullptr) shown = *interval;
      const PercentTexts texts = percent_texts(shown);
      for (const std::string& text :
           {texts.estimate, texts.low, texts.high, p_text(effect->p_adjusted),
            std::string(effect->difference_shown ? "yes" : "no"), printed_verdict(effect->verdict)})
        row.cells.push_back({text});
    }
    row.emphasis = arm == 0;
    table.rows.push_back(std::move(row));
  }
  if (!findings.matrix.excluded.empty()) {
    std::vector<std::string> left_out;
    for (const std::string& text : findings.matrix.excluded) left_out.push_back(visible_text(text));
    table.note = fmt::format("Left out by the experiment: {}.", join(left_out, "; "));
  }
  return table;
}

// The cells that effects and interactions share.
void add_interval(Row& row, const Interval& interval, std::size_t combinations, double p, double p_adjusted,
                  bool shown) {
  const PercentTexts texts = percent_texts(interval);
  for (const std::string& text : {texts.estimate, texts.low, texts.high, count_text(combinations), p_text(p),
                                  p_text(p_adjusted), std::string(shown ? "yes" : "no")})
    row.cells.push_back({text});
}

std::vector<Column> interval_columns(const Findings& findings) {
  return {{"Effect, %", true},
          {"from", true},
          {"to", true},
          {"Combinations", true},
          {"p", true},
          {"p, " + adjusted_by(findings), true},
          {"Shown"}};
}

Table factor_table(const Findings& findings) {
  Table table;
  table.id = "factor-effects";
  table.caption = "What each level does against the baseline\u2019s";
  table.columns = {{"Level"}};
  for (const Column& column : interval_columns(findings)) table.columns.push_back(column);
  std::size_t last = findings.matrix.factors.size();
  for (const FactorEffect& effect : findings.matrix.effects) {
    const Factor& factor = findings.matrix.factors[effect.factor];
    if (effect.factor != last)
      table.rows.push_back({.cells = {{fmt::format("{} (baseline: {})", visible_text(factor.name),
                                                   visible_text(factor.levels[factor.reference]))}},
                            .group_heading = true});
    last = effect.factor;
    Row row;
    row.cells = {{visible_text(factor.levels[effect.level])}};
    add_interval(row, effect.interval, effect.combinations, effect.p, effect.p_adjusted, effect.shown);
    table.rows.push_back(std::move(row));
  }
  table.said_when_empty = "No effect of a factor was computed.";
  table.note = fmt::format(
      "Averaged over so many combinations of the other factors; p adjusted by {} over the factor "
      "effects of this matrix.",
      adjusted_by(findings));
  return table;
}

Table interaction_table(const Findings& findings) {
  Table table;
  table.id = "interactions-table";
  table.caption = "Where two factors do not add up";
  table.columns = {{"Level"}, {"with"}};
  for (const Column& column : interval_columns(findings)) table.columns.push_back(column);
  for (const Interaction& interaction : findings.matrix.interactions) {
    Row row;
    row.cells = {{level_name(findings.matrix.factors[interaction.factor], interaction.level)},
                 {level_name(findings.matrix.factors[interaction.other_factor], interaction.other_level)}};
    add_interval(row, interaction.interval, interaction.combinations, interaction.p, interaction.p_adjusted,
                 interaction.shown);
    table.rows.push_back(std::move(row));
  }
  table.said_when_empty = "The design tells no interactions.";
  table.note =
      "By how much the first level\u2019s effect differs where the other factor is at the second level. 0: the two "
      "add up.";
  return table;
}

Table front_table(const Findings& findings) {
  Table table;
  table.id = "front-table";
  table.caption = "What a gain costs: effect and divergence of every arm that was scored";
  table.columns = {{"Arm"},        {"Effect, %", true}, {"from", true},  {"to", true}, {"KL64+tail, nats", true},
                   {"from", true}, {"to", true},        {"On the front"}};
  const auto nats = [](double value) {
    return std::isnan(value) ? std::string(kNotAvailable) : fmt::format("{:.3g}", value);
  };
  for (const ArmFidelity& fidelity : findings.fidelity) {
    Row row;
    row.cells = {{arm_name(findings, fidelity.arm) + (fidelity.arm == 0 ? " (baseline)" : "")}};
    const Effect* effect = find_effect(findings, fidelity.arm, findings.effect_measure);
    const Interval* interval = effect == nullptr ? nullptr : verdict_interval(*effect);
    if (interval != nullptr) {
      const PercentTexts texts = percent_texts(*interval);
      for (const std::string& text : {texts.estimate, texts.low, texts.high}) row.cells.push_back({text});
    } else {
      row.cells.insert(row.cells.end(), 3, Cell{"\u2013"});
    }
    for (const double value : {fidelity.divergence, fidelity.low, fidelity.high}) row.cells.push_back({nats(value)});
    row.cells.push_back({fidelity.on_front ? "yes" : "no"});
    table.rows.push_back(std::move(row));
  }
  table.note =
      "On the front: no other arm is at least as fast and as faithful. Estimates are compared as they are; whether two "
      "arms differ is what their intervals say.";
  return table;
}

}  // namespace

Section front_section(const Findings& findings) {
  Section section{"front", "Fidelity against speed", {}};
  if (!findings.fidelity.empty()) section.blocks = {front_table(findings)};
  return section;
}

Section matrix_section(const Findings& findings) {
  Section section{"matrix", "Matrix", {}};
  if (findings.matrix.design.empty()) return section;
  section.blocks = {combination_table(findings), factor_table(findings)};
  if (findings.matrix.design == "one_at_a_time")
    section.blocks.emplace_back(
        Paragraph{"One factor at a time: nothing is known of levels together, and no interaction is claimed."});
  else
    section.blocks.emplace_back(interaction_table(findings));
  return section;
}

}  // namespace tare::reports

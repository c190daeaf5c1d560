// The heat map of a matrix: a cell a combination, or with one factor at a time a row a factor and a cell a level. Its
// colour says which way and how far a difference that was shown goes, its numbers say so again.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/text.h"
#include "reports/escape.h"
#include "reports/figures.h"
#include "reports/gnuplot_script.h"
#include "reports/numbers.h"
#include "reports/sentences.h"

namespace tare::reports {
namespace {

constexpr double kWidth = 960;
constexpr double kCellsLeft = 250;
constexpr double kCellHeight = 52;
constexpr double kMostCellWidth = 190;
constexpr double kHeadingHeight = 46;
constexpr double kKeyHeight = 56;
constexpr double kGap = 2;  // between cells
constexpr double kKeySquare = 18;

struct GridCell {
  std::optional<std::size_t> arm;  // none: not measured
  std::string heading;             // above its number; empty: the column's heading says it
};

struct Grid {
  std::string rows_name;
  std::string columns_name;
  std::vector<std::string> rows;
  std::vector<std::string> columns;  // empty: every cell has its own heading
  std::vector<std::vector<GridCell>> cells;
};

std::optional<std::size_t> arm_of(const Findings& findings, const std::vector<std::size_t>& levels) {
  const auto found =
      std::find_if(findings.arms.begin(), findings.arms.end(), [&](const Arm& arm) { return arm.levels == levels; });
  if (found == findings.arms.end()) return std::nullopt;
  return static_cast<std::size_t>(found - findings.arms.begin());
}

// A row a factor: each of its levels beside the baseline's others.
Grid grid_of_single_factors(const Findings& findings) {
  Grid grid;
  grid.rows_name = "factor";
  for (std::size_t f = 0; f < findings.matrix.factors.size(); ++f) {
    const Factor& factor = findings.matrix.factors[f];
    grid.rows.push_back(visible_text(factor.name));
    std::vector<GridCell> cells;
    for (std::size_t level = 0; level < factor.levels.size(); ++level) {
      std::vector<std::size_t> levels = findings.arms.front().levels;
      levels[f] = level;
      cells.push_back({arm_of(findings, levels), visible_text(factor.levels[level])});
    }
    grid.cells.push_back(std::move(cells));
  }
  return grid;
}

// Columns are the levels of the factor with the most of them, rows the combinations of the others that were measured.
Grid grid_of_combinations(const Findings& findings) {
  const std::vector<Factor>& factors = findings.matrix.factors;
  const auto across = static_cast<std::size_t>(
      std::max_element(factors.begin(), factors.end(),
                       [](const Factor& a, const Factor& b) { return a.levels.size() < b.levels.size(); }) -
      factors.begin());
  Grid grid;
  grid.columns_name = visible_text(factors[across].name);
  for (const std::string& level : factors[across].levels) grid.columns.push_back(visible_text(level));
  std::vector<std::string> names;
  for (std::size_t f = 0; f < factors.size(); ++f)
    if (f != across) names.push_back(visible_text(factors[f].name));
  grid.rows_name = join(names, ", ");
  std::vector<std::vector<std::size_t>> others;  // levels of a row, without the factor across
  for (const Arm& arm : findings.arms) {
    std::vector<std::size_t> levels = arm.levels;
    levels[across] = 0;
    if (std::find(others.begin(), others.end(), levels) == others.end()) others.push_back(std::move(levels));
  }
  std::sort(others.begin(), others.end());
  for (std::vector<std::size_t> levels : others) {
    std::vector<std::string> words;
    for (std::size_t f = 0; f < factors.size(); ++f)
      if (f != across) words.push_back(visible_text(factors[f].levels[levels[f]]));
    grid.rows.push_back(join(words, ", "));
    std::vector<GridCell> cells;
    for (std::size_t level = 0; level < factors[across].levels.size(); ++level) {
      levels[across] = level;
      cells.push_back({arm_of(findings, levels), {}});
    }
    grid.cells.push_back(std::move(cells));
  }
  return grid;
}

// Largest difference that was shown, either way.
double largest_shown(const Findings& findings) {
  double largest = 0;
  for (const Effect& effect : findings.effects)
    if (effect.measure == findings.effect_measure && effect.difference_shown && std::isfinite(effect.estimate_log))
      largest = std::max(largest, std::abs(effect.estimate_log));
  return largest;
}

Colour cell_colour(const Effect& effect, double largest) {
  if (!effect.difference_shown || !(largest > 0)) return kNotShown;
  const auto& steps = effect.estimate_log > 0 ? kFaster : kSlower;
  const double share = std::abs(effect.estimate_log) / largest;
  const auto step = static_cast<std::size_t>(std::ceil(share * static_cast<double>(steps.size()))) - 1;
  return steps[std::min(step, steps.size() - 1)];
}

void draw_cell(PlotScript& script, const Findings& findings, const GridCell& cell, double left, double top,
               double width, double largest) {
  const double right = left + width - kGap;
  const double middle = (left + right) / 2;
  const double room = right - left - 8;
  const TextStyle small{.colour = kInk, .size = 11, .align = Align::kCentre, .room = room};
  double y = top + (cell.heading.empty() ? 19 : 14);
  const auto fill = [&](Colour colour) { script.rectangle(left, top, right, top + kCellHeight - kGap, colour, true); };
  if (!cell.arm) {
    script.label(middle, y + 6, "not measured", {.colour = kMuted, .size = 11, .align = Align::kCentre, .room = room});
    return;
  }
  const Effect* effect = find_effect(findings, *cell.arm, findings.effect_measure);
  fill(effect == nullptr ? kBand : cell_colour(*effect, largest));
  if (!cell.heading.empty()) {
    script.label(middle, y, cell.heading, {.bold = true, .size = 12, .align = Align::kCentre, .room = room});
    y += 15;
  }
  if (effect == nullptr) {
    script.label(middle, y + 6, *cell.arm == 0 ? "baseline" : "no effect", small);
    return;
  }
  const Interval* interval = verdict_interval(*effect);
  Interval shown;
  shown.estimate_log = effect->estimate_log;
  if (interval != nullptr) shown = *interval;
  const PercentTexts texts = percent_texts(shown);
  script.label(middle, y, texts.estimate + kNoBreakSpace + "%",
               {.bold = effect->difference_shown, .size = 13, .align = Align::kCentre, .room = room});
  const std::string below = !is_known(shown)           ? "no interval"
                            : effect->difference_shown ? fmt::format("{} to {}", texts.low, texts.high)
                                                       : fmt::format("{} to {}, not shown", texts.low, texts.high);
  script.label(middle, y + 15, below, {.colour = kInk, .size = 11, .align = Align::kCentre, .room = room});
}

void draw_key(PlotScript& script, double top, double largest) {
  double x = 8;
  const auto square = [&](Colour colour) {
    script.rectangle(x, top, x + kKeySquare - kGap, top + kKeySquare - kGap, colour, true);
    x += kKeySquare;
  };
  const auto words = [&](const std::string& text, double room) {
    script.label(x + 6, top + 8, text, {.colour = kMuted, .size = 12});
    x += room;
  };
  square(kBand);
  words("baseline", 84);
  square(kNotShown);
  words("no difference shown", 170);
  if (!(largest > 0)) return;
  for (const Colour& colour : kSlower) square(colour);
  words(fmt::format("slower, to {}", signed_fixed(percent_of_log(-largest), 1) + kNoBreakSpace + "%"), 160);
  for (const Colour& colour : kFaster) square(colour);
  words(fmt::format("faster, to {}", signed_fixed(percent_of_log(largest), 1) + kNoBreakSpace + "%"), 160);
}

}  // namespace

Plot matrix_plot(const Findings& findings) {
  Plot plot;
  plot.name = "matrix";
  plot.title = "Heat map of the matrix";
  plot.optional = true;
  if (findings.matrix.design.empty() || findings.effect_measure >= findings.measures.size()) {
    plot.nothing = "the experiment has no factors";
    return plot;
  }
  const bool single = findings.matrix.design == "one_at_a_time";
  const Grid grid = single ? grid_of_single_factors(findings) : grid_of_combinations(findings);
  std::size_t columns = 1;
  for (const auto& row : grid.cells) columns = std::max(columns, row.size());
  const double width = std::min(kMostCellWidth, (kWidth - kCellsLeft - 8) / static_cast<double>(columns));
  const double bottom = kHeadingHeight + kCellHeight * static_cast<double>(grid.rows.size());
  const double largest = largest_shown(findings);
  const std::string measure = visible_text(findings.measures[findings.effect_measure].name);
  plot.caption = fmt::format(
      "Effect on {} against {}, in percent, with the verdict\u2019s interval. {} A cell is coloured where a difference "
      "is shown; its colour says which way and, in quarters of the largest, how far.",
      measure, arm_name(findings, 0),
      single ? "A row a factor: each level alone, the others as in the baseline." : "A cell a combination of levels.");

  PlotScript script(plot.name, kWidth, bottom + kKeyHeight);
  script.panel({0, kWidth, 0, bottom + kKeyHeight});
  script.label(8, kHeadingHeight - 14, grid.rows_name, {.colour = kMuted, .size = 12, .room = kCellsLeft - 16});
  if (!grid.columns_name.empty())
    script.label(kCellsLeft, 12, grid.columns_name, {.colour = kMuted, .size = 12, .room = kWidth - kCellsLeft - 8});
  for (std::size_t c = 0; c < grid.columns.size(); ++c)
    script.label(kCellsLeft + width * (static_cast<double>(c) + 0.5) - kGap / 2, kHeadingHeight - 14, grid.columns[c],
                 {.bold = true, .align = Align::kCentre, .room = width - 8});
  plot.data = "# row column arm estimate_percent shown\n";
  for (std::size_t r = 0; r < grid.rows.size(); ++r) {
    const double top = kHeadingHeight + kCellHeight * static_cast<double>(r);
    script.label(8, top + kCellHeight / 2, grid.rows[r], {.bold = true, .room = kCellsLeft - 16});
    for (std::size_t c = 0; c < grid.cells[r].size(); ++c) {
      const GridCell& cell = grid.cells[r][c];
      draw_cell(script, findings, cell, kCellsLeft + width * static_cast<double>(c), top, width, largest);
      if (!cell.arm) continue;
      const Effect* effect = find_effect(findings, *cell.arm, findings.effect_measure);
      plot.data += fmt::format("{} {} {} {} {}\n", r, c, *cell.arm,
                               gnuplot_number(effect == nullptr ? kMissing : percent_of_log(effect->estimate_log)),
                               effect != nullptr && effect->difference_shown ? 1 : 0);
      if (effect != nullptr)
        plot.description += fmt::format("{}: {}, {}. ", arm_name(findings, *cell.arm),
                                        percent_texts(effect->estimate_log, kMissing, kMissing).estimate + " %",
                                        effect->difference_shown ? "shown" : "not shown");
    }
  }
  draw_key(script, bottom + 24, largest);
  script.plot_annotations();
  plot.script = script.done();
  return plot;
}

}  // namespace tare::reports

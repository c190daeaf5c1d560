// What each factor does by itself, and where two of them do not add up.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "reports/escape.h"
#include "reports/figures.h"
#include "reports/gnuplot_script.h"
#include "reports/numbers.h"
#include "reports/sentences.h"

namespace tare::reports {
namespace {

constexpr double kWidth = 960;
constexpr double kPlotLeft = 330;
constexpr double kPlotRight = 700;
constexpr double kRowHeight = 25;
constexpr double kTitleHeight = 34;
constexpr double kAxisHeight = 38;
constexpr double kRoom = 0.08;  // of the range, on either side

// Interaction panels.
constexpr double kPanelWidth = 300;
constexpr double kPanelHeight = 210;
constexpr double kPanelLeft = 62;
constexpr double kPanelTop = 44;
constexpr double kPanelFoot = 66;
constexpr double kKeyLine = 18;
constexpr std::size_t kPanelsInARow = 3;
constexpr std::size_t kMostPanels = 6;

struct Line {
  std::string label;
  const Interval* interval = nullptr;
  bool shown = false;
};

std::string versus(const Factor& factor, std::size_t level) {
  return fmt::format("{}: {} against {}", visible_text(factor.name), visible_text(factor.levels[level]),
                     visible_text(factor.levels[factor.reference]));
}

std::vector<Line> factor_lines(const Findings& findings) {
  std::vector<Line> lines;
  for (const FactorEffect& effect : findings.matrix.effects)
    lines.push_back({versus(findings.matrix.factors[effect.factor], effect.level), &effect.interval, effect.shown});
  return lines;
}

std::vector<Line> interaction_lines(const Findings& findings) {
  std::vector<Line> lines;
  for (const Interaction& interaction : findings.matrix.interactions) {
    const Factor& factor = findings.matrix.factors[interaction.factor];
    const Factor& other = findings.matrix.factors[interaction.other_factor];
    lines.push_back(
        {fmt::format("{} {} with {} {}", visible_text(factor.name), visible_text(factor.levels[interaction.level]),
                     visible_text(other.name), visible_text(other.levels[interaction.other_level])),
         &interaction.interval, interaction.shown});
  }
  return lines;
}

// One panel of intervals in percent with 0 in view; returns the pixel row below it.
double draw_lines(PlotScript& script, Plot& plot, double top, const std::string& heading,
                  const std::vector<Line>& lines, std::size_t data_index, Colour colour) {
  double low = 0;
  double high = 0;
  plot.data += fmt::format("# {}\n# row estimate_percent low_percent high_percent shown\n", heading);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Interval& interval = *lines[i].interval;
    for (const double log : {interval.low_log, interval.high_log, interval.estimate_log}) {
      if (!std::isfinite(log)) continue;
      low = std::min(low, percent_of_log(log));
      high = std::max(high, percent_of_log(log));
    }
    plot.data +=
        fmt::format("{} {} {} {} {}\n", lines.size() - 1 - i, gnuplot_number(percent_of_log(interval.estimate_log)),
                    gnuplot_number(percent_of_log(interval.low_log)), gnuplot_number(percent_of_log(interval.high_log)),
                    lines[i].shown ? 1 : 0);
    plot.description += fmt::format("{}: {}, {}. ", lines[i].label, percent_with_interval(interval),
                                    lines[i].shown ? "shown" : "not shown");
  }
  plot.data += "\n\n";
  const double span = std::max(high - low, 1e-6);
  const double first = top + kTitleHeight;
  const double bottom = first + kRowHeight * static_cast<double>(lines.size());
  script.panel({kPlotLeft, kPlotRight, first, bottom});
  script.label(8, top + 16, heading, {.bold = true, .size = 14, .room = kWidth - 340});
  script.label(kPlotRight, top + 16, "percent; the line is none",
               {.colour = kMuted, .size = 12, .align = Align::kRight});
  script.axis('x', low - kRoom * span, high + kRoom * span);
  script.line(fmt::format("set yrange [-0.5:{}.5]", lines.size() - 1));
  script.line("unset ytics");
  script.line(fmt::format("set grid xtics lc rgb '{}' lw 1 dt 1 back", kBand.light));
  script.vertical(0, kMuted, 1.5);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double y = static_cast<double>(lines.size() - 1 - i);
    script.label_beside(8, y, lines[i].label, {.bold = lines[i].shown, .room = kPlotLeft - 16});
    script.label_beside(kPlotRight + 16, y,
                        is_known(*lines[i].interval)
                            ? percent_with_interval(*lines[i].interval) + (lines[i].shown ? "" : ", not shown")
                            : std::string("no interval"),
                        {.colour = lines[i].shown ? kInk : kMuted, .bold = lines[i].shown, .size = 12});
  }
  const std::string file = fmt::format("'{}.dat' index {}", plot.name, data_index);
  script.line(
      fmt::format("plot {0} using 3:1:($4-$3):(0) with vectors nohead lw 2 lc rgb '{1}' title {2}, \\\n"
                  "  {0} using ($5==1?$2:NaN):1 with points pt 7 ps 0.9 lc rgb '{1}' title {2}, \\\n"
                  "  {0} using ($5==0?$2:NaN):1 with points pt 6 ps 0.9 lc rgb '{1}' title {2}",
                  file, colour.light, gnuplot_string(heading)));
  return bottom + kAxisHeight;
}

struct Pair {
  std::size_t factor = 0;  // a line a level
  std::size_t other = 0;   // its levels are the x axis
};

std::vector<Pair> pairs_of(const Matrix& matrix) {
  std::vector<Pair> pairs;
  for (const Interaction& interaction : matrix.interactions) {
    const bool known = std::any_of(pairs.begin(), pairs.end(), [&](const Pair& pair) {
      return pair.factor == interaction.factor && pair.other == interaction.other_factor;
    });
    if (!known) pairs.push_back({interaction.factor, interaction.other_factor});
  }
  return pairs;
}

// The arms by the levels of the other factors: only arms that differ in nothing else are set side by side.
std::map<std::vector<std::size_t>, std::vector<std::size_t>> arms_by_others(const Findings& findings,
                                                                            const Pair& pair) {
  std::map<std::vector<std::size_t>, std::vector<std::size_t>> groups;
  for (std::size_t arm = 0; arm < findings.arms.size(); ++arm) {
    const MeasureValue* value = find_value(findings, arm, findings.effect_measure);
    if (value == nullptr || !(value->value > 0)) continue;
    std::vector<std::size_t> others = findings.arms[arm].levels;
    others[pair.factor] = others[pair.other] = 0;
    groups[others].push_back(arm);
  }
  return groups;
}

using Cell = std::pair<std::size_t, std::size_t>;  // level, other level

// Geometric mean of the measure for every pair of levels, over those combinations of the other factors that have all
// pairs that there are: a mean over other combinations for each pair would compare those instead.
std::map<Cell, double> cell_means(const Findings& findings, const Pair& pair) {
  const auto groups = arms_by_others(findings, pair);
  const auto cell_of = [&](std::size_t arm) {
    return Cell{findings.arms[arm].levels[pair.factor], findings.arms[arm].levels[pair.other]};
  };
  std::set<Cell> cells;
  for (const auto& [others, arms] : groups)
    for (const std::size_t arm : arms) cells.insert(cell_of(arm));
  std::map<Cell, double> sums;
  double complete = 0;
  for (const auto& [others, arms] : groups) {
    if (arms.size() != cells.size()) continue;
    ++complete;
    for (const std::size_t arm : arms)
      sums[cell_of(arm)] += std::log(find_value(findings, arm, findings.effect_measure)->value);
  }
  for (auto& [cell, sum] : sums) sum = std::exp(sum / complete);
  return sums;
}

void draw_pair(PlotScript& script, Plot& plot, const Findings& findings, const Pair& pair, double left, double top,
               std::size_t data_index) {
  const Factor& lines = findings.matrix.factors[pair.factor];
  const Factor& across = findings.matrix.factors[pair.other];
  double low = std::numeric_limits<double>::infinity();
  double high = 0;
  plot.data += fmt::format("# {} by {}\n# x, then a column a level of {}\n", visible_text(lines.name),
                           visible_text(across.name), visible_text(lines.name));
  const std::map<Cell, double> means = cell_means(findings, pair);
  for (std::size_t x = 0; x < across.levels.size(); ++x) {
    plot.data += fmt::format("{}", x);
    for (std::size_t level = 0; level < lines.levels.size(); ++level) {
      const auto found = means.find({level, x});
      const double mean = found == means.end() ? kMissing : found->second;
      plot.data += " " + gnuplot_number(mean);
      if (!std::isfinite(mean)) continue;
      low = std::min(low, mean);
      high = std::max(high, mean);
    }
    plot.data += "\n";
  }
  plot.data += "\n\n";
  if (low > high) return;
  const double span = std::max(high - low, 1e-6 * high);
  script.panel({left + kPanelLeft, left + kPanelWidth - 12, top + kPanelTop, top + kPanelTop + kPanelHeight});
  script.label(left + 8, top + 16, fmt::format("{} by {}", visible_text(lines.name), visible_text(across.name)),
               {.bold = true, .room = kPanelWidth - 16});
  script.line(fmt::format("set border 3 lc rgb '{}' lw 1", kRule.light));
  script.axis('y', low - kRoom * span, high + kRoom * span, 5);
  script.line(fmt::format("set grid ytics lc rgb '{}' lw 1 dt 1 back", kBand.light));
  script.line(fmt::format("set xrange [-0.4:{}.4]", across.levels.size() - 1));
  std::string tics;
  for (std::size_t x = 0; x < across.levels.size(); ++x)
    tics +=
        fmt::format("{}{} {}", x == 0 ? "" : ", ", gnuplot_string(shortened(visible_text(across.levels[x]), 12)), x);
  script.line("set xtics (" + tics + ")");
  std::string plots;
  for (std::size_t level = 0; level < lines.levels.size(); ++level) {
    plots += fmt::format("{}'{}.dat' index {} using 1:{} with linespoints lw 1.6 pt {} ps 0.8 lc rgb '{}' title {}",
                         level == 0 ? "" : ", \\\n  ", plot.name, data_index, level + 2, point_type(level),
                         series_colour(level).light, gnuplot_string(visible_text(lines.levels[level])));
    const double y = top + kPanelTop + kPanelHeight + 42 + kKeyLine * static_cast<double>(level);
    script.line(fmt::format("set label '' at screen {:.5f},{:.5f} point pt {} ps 0.8 lc rgb '{}'",
                            (left + kPanelLeft + 6) / kWidth, 1.0 - y / script.height(), point_type(level),
                            series_colour(level).light));
    script.label(left + kPanelLeft + 18, y, visible_text(lines.levels[level]),
                 {.size = 12, .room = kPanelWidth - kPanelLeft - 30});
  }
  script.line("plot " + plots);
}

}  // namespace

Plot factors_plot(const Findings& findings) {
  Plot plot;
  plot.name = "factors";
  plot.title = "What each factor does";
  plot.section = "matrix";
  plot.before = "factor-effects";
  plot.optional = true;
  const std::vector<Line> effects = factor_lines(findings);
  const std::vector<Line> interactions = interaction_lines(findings);
  if (effects.empty()) {
    plot.nothing = "no factor has an effect with an interval";
    return plot;
  }
  const bool single = findings.matrix.design == "one_at_a_time";
  plot.caption = single ? "Each level against the baseline\u2019s, the other factors as in the baseline."
                        : "Each level against the baseline\u2019s, averaged over the combinations that have both.";
  if (!interactions.empty())
    plot.caption +=
        " Below: by how much more, or less, a level does where another factor is at another level too; "
        "none means that two effects add up (as logarithms).";
  plot.caption += " Filled: shown.";
  const auto height_of = [](std::size_t rows) {
    return kTitleHeight + kRowHeight * static_cast<double>(rows) + kAxisHeight;
  };
  double height = 8 + height_of(effects.size());
  if (!interactions.empty()) height += height_of(interactions.size());
  PlotScript script(plot.name, kWidth, height);
  const double next = draw_lines(script, plot, 0, "Effects of single factors", effects, 0, kSeries[0]);
  if (!interactions.empty()) draw_lines(script, plot, next, "Interactions", interactions, 1, kSeries[1]);
  plot.script = script.done();
  return plot;
}

Plot interactions_plot(const Findings& findings) {
  Plot plot;
  plot.name = "interactions";
  plot.title = "Two factors at a time";
  plot.section = "matrix";
  plot.before = "interactions-table";
  plot.optional = true;
  std::vector<Pair> pairs = pairs_of(findings.matrix);
  if (pairs.empty()) {
    plot.nothing = "the design tells no interactions";
    return plot;
  }
  const std::size_t left_out = pairs.size() > kMostPanels ? pairs.size() - kMostPanels : 0;
  pairs.resize(pairs.size() - left_out);
  std::size_t most_levels = 0;
  for (const Pair& pair : pairs)
    most_levels = std::max(most_levels, findings.matrix.factors[pair.factor].levels.size());
  const double panel = kPanelTop + kPanelHeight + kPanelFoot + kKeyLine * static_cast<double>(most_levels);
  const std::size_t rows = (pairs.size() + kPanelsInARow - 1) / kPanelsInARow;
  const Measure& measure = findings.measures[findings.effect_measure];
  plot.caption = fmt::format(
      "{}, {}: geometric mean over the combinations of the other factors that have every pair drawn. Lines that are "
      "not parallel: the factors interact.{}",
      visible_text(measure.name), visible_text(measure.unit),
      left_out == 0 ? "" : fmt::format(" {} more pairs are in the table.", left_out));
  PlotScript script(plot.name, kWidth, panel * static_cast<double>(rows));
  for (std::size_t i = 0; i < pairs.size(); ++i)
    draw_pair(script, plot, findings, pairs[i], (kPanelWidth + 20) * static_cast<double>(i % kPanelsInARow),
              panel * static_cast<double>(i / kPanelsInARow), i);
  plot.description = plot.caption;
  plot.script = script.done();
  return plot;
}

}  // namespace tare::reports

// The forest plot. An arm that is 34 % faster and one that is 0.02 % faster cannot share a scale on which their
// intervals are seen, so the first panel has all arms on one scale and each arm then has a panel of its own.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "reports/escape.h"
#include "reports/figures.h"
#include "reports/gnuplot_script.h"
#include "reports/numbers.h"
#include "reports/sentences.h"

namespace tare::reports {
namespace {

constexpr double kWidth = 960;
constexpr double kPlotLeft = 374;
constexpr double kPlotRight = 736;
constexpr double kHeadingRoom = 360;  // of a panel's heading, of the question and of the method of a row
constexpr double kLabelRoom = 236;
constexpr double kMethodRoom = 150;
constexpr double kRowHeight = 25;
constexpr double kAxisHeight = 34;      // tics and their labels below a panel
constexpr double kTitleHeight = 34;     // a panel's heading above it
constexpr double kBesideOffset = 0.32;  // of a row: how far below an interval the one beside it is drawn
constexpr std::size_t kMostPanels = 4;  // more arms than that share one panel; the table has all intervals
constexpr double kRoomForZero = 3.0;    // 0 is brought into view when it is at most so many spans away

struct ForestRow {
  std::string label;
  std::string method;
  Interval interval;
  bool strong = false;
  std::optional<Interval> beside = {};  // drawn thin, below the interval
};

struct Range {
  double low = 0;
  double high = 1;
};

// The percents of all known ends with room around them, and 0 where it is near enough.
Range range_of(const std::vector<ForestRow>& rows, bool always_zero) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  const auto hold = [&](const Interval& interval) {
    for (const double log : {interval.low_log, interval.high_log, interval.estimate_log}) {
      if (!std::isfinite(log)) continue;
      low = std::min(low, percent_of_log(log));
      high = std::max(high, percent_of_log(log));
    }
  };
  for (const ForestRow& row : rows) {
    hold(row.interval);
    if (row.beside) hold(*row.beside);
  }
  if (low > high) return {-1, 1};
  double span = std::max(high - low, 1e-6 * std::max(1.0, std::abs(high)));
  const double distance = std::max({0.0, low, -high});
  const bool zero = always_zero || distance <= kRoomForZero * span;
  if (zero) {
    low = std::min(low, 0.0);
    high = std::max(high, 0.0);
    span = std::max(high - low, span);
  }
  return {low - 0.08 * span, high + 0.08 * span};
}

std::string data_block(const std::string& name, const std::vector<ForestRow>& rows) {
  std::string text = fmt::format("# {}\n# row estimate_percent low_percent high_percent strong  # label, method\n",
                                 visible_text(name));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Interval& interval = rows[i].interval;
    text += fmt::format(
        "{} {} {} {} {}  # {}, {}\n", rows.size() - 1 - i, gnuplot_number(percent_of_log(interval.estimate_log)),
        gnuplot_number(percent_of_log(interval.low_log)), gnuplot_number(percent_of_log(interval.high_log)),
        rows[i].strong ? 1 : 0, rows[i].label, visible_text(rows[i].method));
    if (!rows[i].beside) continue;
    const Interval& beside = *rows[i].beside;
    text +=
        fmt::format("{} {} {} {} 0  # {}, {}\n", static_cast<double>(rows.size() - 1 - i) - kBesideOffset,
                    gnuplot_number(percent_of_log(beside.estimate_log)), gnuplot_number(percent_of_log(beside.low_log)),
                    gnuplot_number(percent_of_log(beside.high_log)), rows[i].label, question_of(beside.estimand));
  }
  return text + "\n\n";
}

// What was called tolerable beforehand, in percent: between both ends, or above the lower one.
struct Margin {
  std::optional<double> low;
  std::optional<double> high;
};

Margin margin_of(const Findings& findings) {
  const double equivalence = findings.methods.equivalence_margin_log;
  const double non_inferiority = findings.methods.non_inferiority_margin_log;
  if (std::isfinite(equivalence)) return {percent_of_log(-equivalence), percent_of_log(equivalence)};
  if (!std::isfinite(non_inferiority)) return {};
  const bool higher_is_better = findings.measures[findings.effect_measure].higher_is_better;
  if (higher_is_better) return {percent_of_log(-non_inferiority), std::nullopt};
  return {std::nullopt, percent_of_log(non_inferiority)};
}

void shade(PlotScript& script, const Margin& margin, const Range& range) {
  if (!margin.low && !margin.high) return;
  const double low = std::max(range.low, margin.low.value_or(range.low));
  const double high = std::min(range.high, margin.high.value_or(range.high));
  if (low >= high) return;
  script.line(
      fmt::format("set object rectangle from first {}, graph 0 to first {}, graph 1 behind fs solid 1.0 noborder "
                  "fc rgb '{}'",
                  gnuplot_number(low), gnuplot_number(high), kNotShown.light));
  for (const auto& end : {margin.low, margin.high})
    if (end && *end > range.low && *end < range.high) script.vertical(*end, kRule, 1, true);
}

// One panel of intervals; returns the pixel row below it.
double draw_panel(PlotScript& script, double top, const std::string& heading, const std::string& remark,
                  const std::vector<ForestRow>& rows, const Range& range, std::size_t data_index, Colour colour,
                  const Margin& margin = {}) {
  const double first = top + kTitleHeight;
  const double bottom = first + kRowHeight * static_cast<double>(rows.size());
  script.panel({kPlotLeft, kPlotRight, first, bottom});
  script.label(8, top + 16, heading, {.bold = true, .size = 14, .room = kHeadingRoom});
  script.label(kPlotRight, top + 16, remark, {.colour = kMuted, .size = 12, .align = Align::kRight});
  script.axis('x', range.low, range.high);
  script.line(fmt::format("set yrange [-0.5:{}.5]", rows.size() - 1));
  script.line("unset ytics");
  script.line(fmt::format("set grid xtics lc rgb '{}' lw 1 dt 1 back", kBand.light));
  shade(script, margin, range);
  if (range.low < 0 && range.high > 0) script.vertical(0, kMuted, 1.5);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double y = static_cast<double>(rows.size() - 1 - i);
    const ForestRow& row = rows[i];
    const bool known = is_known(row.interval);
    script.label_beside(8, y, row.label, {.bold = row.strong, .room = kLabelRoom});
    if (!row.method.empty())
      script.label_beside(kPlotLeft - 12, y, row.method,
                          {.colour = kMuted, .size = 12, .align = Align::kRight, .room = kMethodRoom});
    const std::string numbers = known ? percent_with_interval(row.interval) : "no interval";
    script.label_beside(kPlotRight + 16, y, numbers, {.colour = known ? kInk : kMuted, .bold = row.strong && known});
    if (!known)
      script.label_beside(kPlotLeft + 6, y, running_text(row.interval.why_missing),
                          {.colour = kMuted, .size = 12, .room = kPlotRight - kPlotLeft});
  }
  const std::string file = fmt::format("'effects.dat' index {}", data_index);
  script.line(
      fmt::format("plot {0} using ($5==0?$3:NaN):1:($4-$3):(0) with vectors nohead lw 1.6 lc rgb '{1}' title {2}, \\\n"
                  "  {0} using ($5==1?$3:NaN):1:($4-$3):(0) with vectors nohead lw 4 lc rgb '{1}' title {2}, \\\n"
                  "  {0} using ($5==0?$2:NaN):1 with points pt 7 ps 0.55 lc rgb '{1}' title {2}, \\\n"
                  "  {0} using ($5==1?$2:NaN):1 with points pt 7 ps 0.95 lc rgb '{1}' title {2}",
                  file, colour.light, gnuplot_string(heading)));
  return bottom + kAxisHeight;
}

std::vector<ForestRow> rows_of(const Effect& effect) {
  std::vector<ForestRow> rows;
  for (const Interval& interval : ordered_intervals(effect)) {
    std::string label =
        interval.robustness ? "check: " + question_of(interval.estimand) : question_of(interval.estimand);
    rows.push_back({label, visible_text(interval.method), interval, interval.of_verdict});
  }
  return rows;
}

// The per-prompt interval, when there is one with ends.
std::optional<Interval> these_launches(const Effect& effect) {
  const auto found = std::find_if(effect.intervals.begin(), effect.intervals.end(), [](const Interval& interval) {
    return interval.estimand == Estimand::kTheseLaunches && is_known(interval);
  });
  if (found == effect.intervals.end()) return std::nullopt;
  return *found;
}

std::string remark_of(const Range& range) {
  if (range.low < 0 && range.high > 0) return "percent; the line is no difference";
  const bool left = range.low > 0;
  return left ? "percent; own scale, 0 (no difference) lies off it, to the left"
              : "percent; own scale, 0 (no difference) lies off it, to the right";
}

}  // namespace

Plot effects_plot(const Findings& findings) {
  Plot plot;
  plot.name = "effects";
  plot.title = "Effect of each arm with its intervals";
  std::vector<const Effect*> effects;
  for (const Effect& effect : findings.effects)
    if (effect.measure == findings.effect_measure && !effect.intervals.empty()) effects.push_back(&effect);
  if (effects.empty()) {
    plot.nothing = "no effect with an interval was computed";
    return plot;
  }
  const std::string measure = visible_text(findings.measures[findings.effect_measure].name);
  plot.caption = fmt::format("Effect on {}, in percent of {}", measure, arm_name(findings, 0));
  const bool with_overview = effects.size() > 1;
  const bool with_panels = effects.size() <= kMostPanels;
  const Margin margin = margin_of(findings);
  if (with_overview)
    plot.caption +=
        ". All arms on one scale: heavy the verdict\u2019s interval, thin below it the one of these launches";
  if (margin.low || margin.high) plot.caption += "; shaded is the margin that was set beforehand";
  if (with_panels)
    plot.caption +=
        fmt::format("{}, with the question that each interval answers; the heavy one is the verdict\u2019s.",
                    with_overview ? ". Below: each arm on a scale of its own" : "");
  else
    plot.caption += ". The table below has all intervals.";

  std::vector<ForestRow> overview;
  for (const Effect* effect : effects) {
    const Interval* interval = verdict_interval(*effect);
    ForestRow row{arm_name(findings, effect->arm), printed_verdict(effect->verdict),
                  interval != nullptr ? *interval : Interval{}, true, these_launches(*effect)};
    plot.description += fmt::format("{}: {}. ", row.label, percent_with_interval(row.interval));
    overview.push_back(std::move(row));
  }
  double height = 8;
  const auto panel_height = [](std::size_t rows) {
    return kTitleHeight + kRowHeight * static_cast<double>(rows) + kAxisHeight;
  };
  if (with_overview) height += panel_height(overview.size());
  if (with_panels)
    for (const Effect* effect : effects) height += panel_height(effect->intervals.size());

  PlotScript script(plot.name, kWidth, height);
  double top = 0;
  std::size_t index = 0;
  if (with_overview) {
    const std::string heading = fmt::format("All arms against {}", arm_name(findings, 0));
    plot.data += data_block(heading, overview);
    top = draw_panel(script, top, heading, "percent; one scale, the line is no difference", overview,
                     range_of(overview, true), index++, kInk, margin);
  }
  for (const Effect* effect : effects) {
    if (!with_panels) break;
    const std::vector<ForestRow> rows = rows_of(*effect);
    const Range range = range_of(rows, false);
    const std::string heading = fmt::format("{} against {}", arm_name(findings, effect->arm), arm_name(findings, 0));
    plot.data += data_block(heading, rows);
    top = draw_panel(script, top, heading, remark_of(range), rows, range, index++, series_colour(effect->arm), margin);
  }
  plot.script = script.done();
  return plot;
}

}  // namespace tare::reports

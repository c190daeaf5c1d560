// Runs in order: what was measured, and what is left when each arm's level is taken out, with the fitted drift.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "reports/escape.h"
#include "reports/figures.h"
#include "reports/gnuplot_script.h"
#include "reports/numbers.h"
#include "reports/sentences.h"

namespace tare::reports {
namespace {

constexpr double kWidth = 960;
constexpr double kLeft = 78;
constexpr double kRight = 944;
constexpr double kKeyTop = 8;
constexpr double kKeyLine = 24;
constexpr double kKeyColumn = 216;
constexpr double kLevelHeight = 190;      // of the panel with the measure itself
constexpr double kDeviationHeight = 210;  // of the panel with deviations
constexpr double kGap = 70;               // between the panels: tics, heading
constexpr double kReach = 0.6;            // runs left out are drawn up to so many ranges of the counted ones

double value_of(const Findings& findings, const Run& run) {
  return findings.effect_measure < run.values.size() ? run.values[findings.effect_measure] : kMissing;
}

// ln of the arm's level: the fit without its drift.
double level_log(const Findings& findings, std::size_t arm) {
  for (const Run& run : findings.runs)
    if (run.arm == arm && std::isfinite(run.fitted) && std::isfinite(run.drift_log))
      return std::log(run.fitted) - run.drift_log;
  return kMissing;
}

struct Point {
  double x = 0;
  double value = kMissing;
  double fitted = kMissing;
  double deviation_percent = kMissing;
  double drift_percent = kMissing;
  std::size_t arm = 0;
  bool counted = true;
};

std::vector<Point> points_of(const Findings& findings) {
  std::vector<double> levels;
  for (std::size_t arm = 0; arm < findings.arms.size(); ++arm) levels.push_back(level_log(findings, arm));
  std::vector<Point> points;
  for (std::size_t i = 0; i < findings.runs.size(); ++i) {
    const Run& run = findings.runs[i];
    Point point;
    point.x = static_cast<double>(i + 1);
    point.value = value_of(findings, run);
    point.fitted = run.fitted;
    point.arm = run.arm;
    point.counted = run.state == RunState::kCounted;
    if (point.value > 0) point.deviation_percent = percent_of_log(std::log(point.value) - levels[run.arm]);
    if (point.counted) point.drift_percent = percent_of_log(run.drift_log);
    points.push_back(point);
  }
  return points;
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void take(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  [[nodiscard]] bool known() const { return low <= high; }
};

// The range of the counted runs, stretched towards the others as far as that does not hide what counts.
Range shown_range(const std::vector<Point>& points, double Point::*value, bool with_zero) {
  Range counted;
  for (const Point& point : points)
    if (point.counted) counted.take(point.*value);
  if (with_zero) counted.take(0);
  if (!counted.known())
    for (const Point& point : points) counted.take(point.*value);
  if (!counted.known()) return {0, 1};
  const double span = std::max(counted.high - counted.low, 1e-6 * std::max(1.0, std::abs(counted.high)));
  Range shown = counted;
  for (const Point& point : points)
    if (std::isfinite(point.*value))
      shown.take(std::clamp(point.*value, counted.low - kReach * span, counted.high + kReach * span));
  const double room = 0.09 * std::max(shown.high - shown.low, span);
  return {shown.low - room, shown.high + room};
}

std::string data_of(const Findings& findings, const std::vector<Point>& points) {
  std::string text;
  for (std::size_t arm = 0; arm < findings.arms.size(); ++arm) {
    text += fmt::format("# {}\n# run value fitted deviation_percent counted  # block slot state\n",
                        arm_name(findings, arm));
    for (std::size_t i = 0; i < points.size(); ++i) {
      const Point& point = points[i];
      const Run& run = findings.runs[i];
      if (point.arm != arm) continue;
      text += fmt::format("{} {} {} {} {}  # {} {} {}\n", point.x, gnuplot_number(point.value),
                          gnuplot_number(point.fitted), gnuplot_number(point.deviation_percent), point.counted ? 1 : 0,
                          run.block + 1, run.slot + 1, word_of(run.state));
    }
    text += "\n\n";
  }
  text += "# the fitted drift at every counted run\n# run drift_percent\n";
  for (const Point& point : points)
    if (point.counted && std::isfinite(point.drift_percent))
      text += fmt::format("{} {}\n", point.x, gnuplot_number(point.drift_percent));
  return text;
}

void start_panel(PlotScript& script, const Findings& findings, double top, double bottom, const Range& range,
                 const std::string& heading) {
  script.panel({kLeft, kRight, top, bottom});
  script.label(8, top - 20, heading, {.colour = kMuted, .room = kWidth - 16});
  script.line(fmt::format("set xrange [0.4:{}.6]", findings.runs.size()));
  script.axis('y', range.low, range.high);
  script.line(fmt::format("set border 3 lc rgb '{}' lw 1", kRule.light));
  script.line("set xtics autofreq format '%g'");
  if (findings.runs.size() <= 32) script.line("set xtics 1");
  script.line(fmt::format("set grid ytics lc rgb '{}' lw 1 dt 1 back", kBand.light));
  for (std::size_t i = 0; i < findings.runs.size(); ++i)  // gnuplot draws no point for what has no value
    if (findings.runs[i].state != RunState::kCounted && !std::isfinite(value_of(findings, findings.runs[i])))
      script.line(fmt::format("set label '' at first {}, graph 0 point pt 2 ps 0.8 lw 1.2 lc rgb '{}'", i + 1,
                              series_colour(findings.runs[i].arm).light));
  for (std::size_t i = 1; i < findings.runs.size(); ++i)
    if (findings.runs[i].block != findings.runs[i - 1].block)
      script.vertical(static_cast<double>(i) + 0.5, kRule, 1.2, true);
}

// Runs of every arm in column `column`. Those that are not counted are crosses, pushed to the edge when beyond it.
std::string series(const Findings& findings, int column, const Range& range, bool with_fit) {
  std::string plots;
  for (std::size_t arm = 0; arm < findings.arms.size(); ++arm) {
    const std::string title = gnuplot_string(arm_name(findings, arm));
    const std::string file = fmt::format("'runs.dat' index {}", arm);
    if (with_fit)
      plots += fmt::format("{} using ($5==1?$1:NaN):3 with lines lw 1 lc rgb '{}' title {}, \\\n  ", file,
                           series_colour(arm).light, gnuplot_string(arm_name(findings, arm) + ", fitted"));
    plots += fmt::format("{0} using ($5==1?$1:NaN):{1} with points pt {2} ps 0.8 lc rgb '{3}' title {4}, \\\n  ", file,
                         column, point_type(arm), series_colour(arm).light, title);
    plots += fmt::format(
        "{0} using ($5==0?$1:NaN):(${1}>{3}?{3}:${1}>{2}?${1}:{2}) with points pt {4} ps 0.8 lw 1.2 lc rgb '{5}' title "
        "{6}, \\\n  ",
        file, column, gnuplot_number(range.low), gnuplot_number(range.high), 2, series_colour(arm).light,
        gnuplot_string(arm_name(findings, arm) + ", not counted"));
  }
  return plots.substr(0, plots.size() - 6);  // without the last ", \\\n  "
}

void draw_key(PlotScript& script, const Findings& findings) {
  const auto columns = static_cast<std::size_t>((kWidth - 16) / kKeyColumn);
  std::size_t place = 0;
  const auto entry = [&](int type, double size, Colour colour, const std::string& text) {
    const std::size_t row = place / columns;
    const double x = 14 + kKeyColumn * static_cast<double>(place % columns);
    const double y = kKeyTop + 10 + kKeyLine * static_cast<double>(row);
    script.line(fmt::format("set label '' at screen {:.5f},{:.5f} point pt {} ps {} lw 1.2 lc rgb '{}'", x / kWidth,
                            1.0 - y / script.height(), type, size, colour.light));
    script.label(x + 14, y, text, {.room = kKeyColumn - 24});
    ++place;
  };
  for (std::size_t arm = 0; arm < findings.arms.size(); ++arm)
    entry(point_type(arm), 0.8, series_colour(arm), arm_name(findings, arm));
  entry(2, 0.8, kMuted, "warm-up or not counted");
}

double key_height(const Findings& findings) {
  const auto columns = static_cast<std::size_t>((kWidth - 16) / kKeyColumn);
  const std::size_t rows = (findings.arms.size() + 1 + columns - 1) / columns;
  return kKeyTop + kKeyLine * static_cast<double>(rows);
}

}  // namespace

Plot runs_plot(const Findings& findings) {
  Plot plot;
  plot.name = "runs";
  plot.title = "Runs in the order in which they started";
  const std::vector<Point> points = points_of(findings);
  const bool any = std::any_of(points.begin(), points.end(), [](const Point& p) { return std::isfinite(p.value); });
  if (!any) {
    plot.nothing = "no run has a value";
    return plot;
  }
  const Measure& measure = findings.measures[findings.effect_measure];
  const std::string name = visible_text(measure.name);
  const bool fitted = std::any_of(points.begin(), points.end(), [](const Point& point) {
    return point.counted && std::isfinite(point.drift_percent) && std::isfinite(point.deviation_percent);
  });
  plot.caption =
      fmt::format("Every run in order of start. {}: {}; {}. ", fitted ? "Above" : "Shown", name,
                  fitted ? "the thin lines are the regression\u2019s fit" : "no regression was fitted to the runs");
  plot.caption += fitted ? "Below: the same runs when each arm\u2019s level is taken out; the curve is the fitted "
                           "drift, and what is left around it is the scatter from which the verdict\u2019s interval "
                           "is made. "
                         : "";
  plot.caption +=
      "Dashed lines part the blocks. Runs that are not counted are crosses, drawn at the edge when they "
      "lie beyond it or have no value.";
  plot.description = fmt::format("{} runs. {}", count_text(findings.runs.size()), drift_sentence(findings));
  plot.data = data_of(findings, points);

  const double level_top = key_height(findings) + 30;
  const double level_bottom = level_top + kLevelHeight;
  const double deviation_top = level_bottom + kGap;
  const double deviation_bottom = deviation_top + kDeviationHeight;
  PlotScript script(plot.name, kWidth, (fitted ? deviation_bottom : level_bottom) + 66);

  const Range levels = shown_range(points, &Point::value, false);
  start_panel(script, findings, level_top, level_bottom, levels, name + ", " + visible_text(measure.unit));
  draw_key(script, findings);
  if (!fitted) script.line(fmt::format("set xlabel 'run, in order of start' tc rgb '{}'", kMuted.light));
  script.line("plot " + series(findings, 2, levels, true));
  if (fitted) {
    const Range deviations = shown_range(points, &Point::deviation_percent, true);
    start_panel(script, findings, deviation_top, deviation_bottom, deviations,
                "deviation from the arm\u2019s level, percent; the curve is the fitted drift");
    script.horizontal(0, kMuted, 1);
    script.line(fmt::format("set xlabel 'run, in order of start' tc rgb '{}'", kMuted.light));
    const auto counted = std::count_if(points.begin(), points.end(),
                                       [](const Point& p) { return p.counted && std::isfinite(p.drift_percent); });
    script.line(
        fmt::format("plot 'runs.dat' index {} using 1:2 {} with lines lw 1.8 lc rgb '{}' title 'fitted drift', "
                    "\\\n  {}",
                    findings.arms.size(), counted > 3 ? "smooth csplines" : "", kInk.light,
                    series(findings, 4, deviations, false)));
  }
  plot.script = script.done();
  return plot;
}

}  // namespace tare::reports

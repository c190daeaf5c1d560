#include "reports/figure_fidelity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/escape.h"
#include "reports/gnuplot_script.h"
#include "reports/numbers.h"

namespace tare::reports {
namespace {

constexpr double kWidth = 1180;
constexpr double kHeight = 500;
constexpr double kTop = 70;
constexpr double kBottom = 430;
constexpr PanelBox kBytesBox = {78, 450, kTop, kBottom};
constexpr PanelBox kSpeedBox = {530, 902, kTop, kBottom};
constexpr double kKeyLeft = 930;
constexpr double kKeyLine = 19;
constexpr double kMargin = 0.06;  // of the range, on either side

template <class Key>
std::vector<std::string> names_of(const std::vector<FidelityPoint>& points, const Key& key) {
  std::vector<std::string> names;
  for (const FidelityPoint& point : points)
    if (std::find(names.begin(), names.end(), key(point)) == names.end()) names.push_back(key(point));
  return names;
}

std::size_t index_of(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

double drawn_at(double divergence) {
  return std::max(divergence, kLeastDivergence);
}

struct Panel {
  PanelBox box;
  const char* words;
  int column;  // of the data
  double (*value)(const FidelityPoint&);
};

// Draws one panel; false when no point has a value there.
bool draw_panel(PlotScript& script, const Panel& panel, const FidelityFigure& figure,
                const std::vector<std::string>& kinds) {
  double low = HUGE_VAL;
  double high = -HUGE_VAL;
  double least = HUGE_VAL;
  double most = 0;
  for (const FidelityPoint& point : figure.points) {
    if (!(panel.value(point) > 0)) continue;
    low = std::min(low, panel.value(point));
    high = std::max(high, panel.value(point));
    least = std::min({least, drawn_at(point.divergence), std::isnan(point.low) ? HUGE_VAL : drawn_at(point.low)});
    most = std::max({most, drawn_at(point.divergence), std::isnan(point.high) ? 0 : drawn_at(point.high)});
  }
  script.panel(panel.box);
  if (low > high) return false;
  const double room = high > low ? kMargin * (high - low) : kMargin * high;
  script.axis('x', std::max(0.0, low - room), high + room);
  script.line("set logscale y");
  script.line(fmt::format("set yrange [{}:{}]", gnuplot_number(least / 2), gnuplot_number(2 * most)));
  script.line(fmt::format("set border 3 lc rgb '{}' lw 1", kRule.light));
  script.line("set ytics format '1e%T'");
  script.line(fmt::format("set grid ytics lc rgb '{}' lw 1 dt 1 back", kBand.light));
  script.label((panel.box.left + panel.box.right) / 2, kHeight - 22, panel.words,
               {.colour = kMuted, .align = Align::kCentre});
  std::string plots;
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    plots +=
        fmt::format("{}'fidelity.dat' index {} using {}:3:4:5 with yerrorbars pt {} ps 0.9 lw 1.2 lc rgb '{}' title {}",
                    plots.empty() ? "" : ", \\\n  ", kind, panel.column, point_type(kind), series_colour(kind).light,
                    gnuplot_string(visible_text(kinds[kind])));
    if (kind > 0) continue;  // an arm's number once: its kinds stand above one another
    plots +=
        fmt::format(", \\\n  'fidelity.dat' index {} using {}:3:6 with labels offset 1.1,0.35 tc rgb '{}' title ''",
                    kind, panel.column, kMuted.light);
  }
  script.line("plot " + plots);
  return true;
}

}  // namespace

Plot fidelity_plot(const FidelityFigure& figure) {
  Plot plot;
  plot.name = "fidelity";
  plot.title = "Fidelity against cost";
  FidelityFigure drawn = figure;
  std::erase_if(drawn.points,
                [](const FidelityPoint& point) { return !std::isfinite(point.divergence) || !(point.megabytes > 0); });
  if (drawn.points.empty()) {
    plot.nothing = "no arm has a finite divergence";
    return plot;
  }
  const std::vector<std::string> arms = names_of(drawn.points, [](const FidelityPoint& point) { return point.arm; });
  const std::vector<std::string> kinds = names_of(drawn.points, [](const FidelityPoint& point) { return point.kind; });
  plot.caption =
      "KL64 with the tail, logarithmic, with its interval over windows, over the bytes a token takes and over the "
      "speed of "
      "decoding. Lower is more faithful; left, or right in the second panel, is cheaper.";
  for (const std::string& kind : kinds) {
    plot.data += fmt::format("# {}\n# megabytes tokens_per_second divergence low high arm\n", visible_text(kind));
    for (const FidelityPoint& point : drawn.points) {
      if (point.kind != kind) continue;
      const double at = drawn_at(point.divergence);
      plot.data += fmt::format("{} {} {} {} {} {}\n", gnuplot_number(point.megabytes),
                               gnuplot_number(point.tokens_per_second > 0 ? point.tokens_per_second : kMissing),
                               gnuplot_number(at), gnuplot_number(std::isnan(point.low) ? at : drawn_at(point.low)),
                               gnuplot_number(std::isnan(point.high) ? at : drawn_at(point.high)),
                               index_of(arms, point.arm) + 1);
    }
    plot.data += "\n\n";
  }
  PlotScript script(plot.name, kWidth, kHeight);
  const bool bytes = draw_panel(
      script, {kBytesBox, "MB a token", 1, [](const FidelityPoint& p) { return p.megabytes; }}, drawn, kinds);
  const bool speeds =
      draw_panel(script, {kSpeedBox, "tokens a second", 2, [](const FidelityPoint& p) { return p.tokens_per_second; }},
                 drawn, kinds);
  // What is written last stands on no panel's axes.
  script.panel({0, kWidth, 0, kHeight});
  script.label(8, 18, visible_text(figure.heading), {.bold = true, .size = 14, .room = kWidth - 16});
  if (bytes) script.label(8, kTop - 18, "KL64+tail, nats", {.colour = kMuted});
  if (speeds)
    script.label(kSpeedBox.left - 60, kTop - 18, visible_text(figure.speed_words),
                 {.colour = kMuted, .room = kSpeedBox.right - kSpeedBox.left + 60});
  double y = kTop;
  for (std::size_t kind = 0; kind < kinds.size(); ++kind, y += kKeyLine) {
    script.line(fmt::format("set label '' at screen {:.5f},{:.5f} point pt {} ps 0.9 lc rgb '{}'", kKeyLeft / kWidth,
                            1.0 - y / kHeight, point_type(kind), series_colour(kind).light));
    script.label(kKeyLeft + 14, y, visible_text(kinds[kind]), {.size = 12});
  }
  y += kKeyLine / 2;
  for (std::size_t arm = 0; arm < arms.size(); ++arm, y += kKeyLine) {
    script.label(kKeyLeft, y, fmt::format("{}  {}", arm + 1, visible_text(arms[arm])),
                 {.size = 12, .room = kWidth - kKeyLeft - 8});
    for (const FidelityPoint& point : drawn.points)
      if (point.arm == arms[arm])
        plot.description += fmt::format("{}, {}: {} nats, {} MB a token. ", point.arm, point.kind,
                                        fmt::format("{:.2g}", point.divergence), plain(point.megabytes));
  }
  script.plot_annotations();
  plot.script = script.done();
  return plot;
}

}  // namespace tare::reports

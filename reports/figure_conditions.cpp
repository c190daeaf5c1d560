// The machine over the runs: clock, temperature, power, and what others used, one panel a quantity that was read.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/text.h"
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
constexpr double kKeyHeight = 32;
constexpr double kKeyColumn = 216;
constexpr double kPanelHeight = 160;
constexpr double kGap = 58;   // between panels: tics, heading
constexpr double kFoot = 66;  // below the last: tics, and room without which gnuplot leaves the label of the axis out
// A quantity that never moves is shown in the middle of a range of a thousandth, not as noise of the last digit.
constexpr double kLeastSpan = 1e-3;

struct Quantity {
  std::string heading;
  int column = 0;  // of conditions.dat
  double RunConditions::*value = nullptr;
  double scale = 1;
  bool from_zero = false;
  double RunConditions::*low = nullptr;  // ends of a whisker; null: none
  double RunConditions::*high = nullptr;
};

std::vector<Quantity> quantities_of(const Conditions& conditions) {
  std::vector<Quantity> all = {
      {visible_text(conditions.clock_name) + ", MHz; whiskers: lowest and highest reading of the run", 2,
       &RunConditions::clock_mhz, 1, false, &RunConditions::clock_lowest_mhz, &RunConditions::clock_highest_mhz},
      {"GPU temperature, \u00b0C", 5, &RunConditions::temperature_c},
      {"GPU power, W", 6, &RunConditions::power_w},
      {"cores used by others", 7, &RunConditions::others_cores, 1, true},
      {"time in which a task waited for a core, %", 8, &RunConditions::waited_share, 100, true},
  };
  std::erase_if(all, [&](const Quantity& quantity) {
    return std::none_of(conditions.runs.begin(), conditions.runs.end(),
                        [&](const RunConditions& run) { return std::isfinite(run.*quantity.value); });
  });
  return all;
}

std::string data_of(const Findings& findings) {
  std::string text;
  for (std::size_t arm = 0; arm < findings.arms.size(); ++arm) {
    text += fmt::format(
        "# {}\n# run clock_mhz clock_lowest_mhz clock_highest_mhz temperature_c power_w others_cores waited_percent\n",
        arm_name(findings, arm));
    for (const RunConditions& run : findings.conditions.runs) {
      if (findings.runs[run.run].arm != arm) continue;
      text += fmt::format("{}", run.run + 1);
      for (const double value : {run.clock_mhz, run.clock_lowest_mhz, run.clock_highest_mhz, run.temperature_c,
                                 run.power_w, run.others_cores, 100 * run.waited_share})
        text += " " + gnuplot_number(value);
      text += "\n";
    }
    text += "\n\n";
  }
  return text;
}

void draw_panel(PlotScript& script, const Findings& findings, const Quantity& quantity, double top) {
  double low = quantity.from_zero ? 0 : std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  const auto take = [&](double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, quantity.scale * value);
    high = std::max(high, quantity.scale * value);
  };
  for (const RunConditions& run : findings.conditions.runs) {
    take(run.*quantity.value);
    if (quantity.low != nullptr) take(run.*quantity.low);
    if (quantity.high != nullptr) take(run.*quantity.high);
  }
  const double span = std::max(high - low, kLeastSpan * std::max(1.0, std::abs(high)));
  script.panel({kLeft, kRight, top, top + kPanelHeight});
  script.label(8, top - 18, quantity.heading, {.colour = kMuted, .room = kWidth - 16});
  script.line(fmt::format("set xrange [0.4:{}.6]", findings.runs.size()));
  script.axis('y', quantity.from_zero ? 0 : low - 0.15 * span, high + 0.15 * span);
  script.line(fmt::format("set border 3 lc rgb '{}' lw 1", kRule.light));
  script.line("set xtics autofreq format '%g'");
  if (findings.runs.size() <= 32) script.line("set xtics 1");
  script.line(fmt::format("set grid ytics lc rgb '{}' lw 1 dt 1 back", kBand.light));
  for (std::size_t i = 1; i < findings.runs.size(); ++i)
    if (findings.runs[i].block != findings.runs[i - 1].block)
      script.vertical(static_cast<double>(i) + 0.5, kRule, 1.2, true);
}

std::string series_of(const Findings& findings, const Quantity& quantity) {
  std::vector<std::string> plots;
  for (std::size_t arm = 0; arm < findings.arms.size(); ++arm) {
    const std::string file = fmt::format("'conditions.dat' index {}", arm);
    if (quantity.low != nullptr)
      plots.push_back(fmt::format("{} using 1:{}:(0):(${}-${}) with vectors nohead lw 1 lc rgb '{}' notitle", file,
                                  quantity.column + 1, quantity.column + 2, quantity.column + 1,
                                  series_colour(arm).light));
    plots.push_back(fmt::format("{} using 1:{} with points pt {} ps 0.8 lc rgb '{}' title {}", file, quantity.column,
                                point_type(arm), series_colour(arm).light, gnuplot_string(arm_name(findings, arm))));
  }
  return join(plots, ", \\\n  ");
}

}  // namespace

Plot conditions_plot(const Findings& findings) {
  Plot plot;
  plot.name = "conditions";
  plot.title = "The machine over the runs";
  const std::vector<Quantity> quantities = quantities_of(findings.conditions);
  if (quantities.empty()) {
    plot.nothing = "neither clocks nor load were read";
    return plot;
  }
  plot.caption =
      "The machine during every counted run, in order of start. A clock, a temperature or a neighbour that moves with "
      "the arm is part of the effect. Dashed lines part the blocks.";
  std::vector<std::string> headings;
  headings.reserve(quantities.size());
  for (const Quantity& quantity : quantities) headings.push_back(quantity.heading);
  plot.description =
      fmt::format("{} runs; panels: {}", count_text(findings.conditions.runs.size()), join(headings, "; "));
  plot.data = data_of(findings);
  const auto panels = static_cast<double>(quantities.size());
  PlotScript script(plot.name, kWidth, kKeyHeight + 30 + panels * kPanelHeight + (panels - 1) * kGap + kFoot);
  double top = kKeyHeight + 30;
  for (const Quantity& quantity : quantities) {
    draw_panel(script, findings, quantity, top);
    if (&quantity == &quantities.front())
      for (std::size_t arm = 0; arm < findings.arms.size(); ++arm) {
        const double x = 14 + kKeyColumn * static_cast<double>(arm);
        script.line(fmt::format("set label '' at screen {:.5f},{:.5f} point pt {} ps 0.8 lw 1.2 lc rgb '{}'",
                                x / kWidth, 1.0 - 18 / script.height(), point_type(arm), series_colour(arm).light));
        script.label(x + 14, 18, arm_name(findings, arm), {.room = kKeyColumn - 40});
      }
    if (&quantity == &quantities.back())
      script.line(fmt::format("set xlabel 'run, in order of start' tc rgb '{}'", kMuted.light));
    script.line("plot " + series_of(findings, quantity));
    top += kPanelHeight + kGap;
  }
  plot.script = script.done();
  return plot;
}

}  // namespace tare::reports

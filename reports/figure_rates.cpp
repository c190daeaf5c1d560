// The roof over a report's kernels or ops: at one token a round nearly all of them do less than a hundred operations a
// byte, so the roof is the read rate, and a point's distance from its line is what there is to gain.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/escape.h"
#include "reports/figures.h"
#include "reports/gnuplot_script.h"
#include "reports/numbers.h"
#include "reports/time_parts.h"

namespace tare::reports {
namespace {

constexpr double kWidth = 960;
constexpr double kLeft = 400;
constexpr double kRight = 930;
constexpr double kRowHeight = 22;
constexpr double kKeyHeight = 34;
constexpr double kKeyColumn = 180;
constexpr double kHeadingHeight = 30;
constexpr double kAxisHeight = 62;
constexpr std::size_t kMostRows = 16;
constexpr double kHeadroom = 1.06;

}  // namespace

Plot rates_plot(const Findings& findings) {
  const Times& times = findings.times;
  Plot plot;
  plot.name = "rates";
  plot.title = "Bytes over time against the read rate";
  plot.section = "times";
  plot.before = "time-rates";
  plot.optional = true;
  const TimeParts all = time_parts(times, static_cast<std::size_t>(-1));
  std::vector<TimePart> rows;
  double high = times.read_gb_per_s;
  for (const TimePart& part : all.parts) {
    bool known = false;
    for (std::size_t i = 0; i < times.arms.size(); ++i) {
      const double rate = gb_per_s(part.bytes[i], part.bytes_us[i]);
      if (!std::isfinite(rate)) continue;
      known = true;
      if (rows.size() < kMostRows) high = std::max(high, rate);
    }
    if (known && rows.size() < kMostRows) rows.push_back(part);
  }
  if (rows.empty() || !(times.read_gb_per_s > 0)) {
    plot.nothing = "declared bytes or the read rate are not known";
    return plot;
  }
  plot.caption = fmt::format(
      "Declared bytes of a part over its time, the parts that take most time first. The line is the read rate that was "
      "measured, {} GB/s ({}): what lies near it cannot be faster without reading less, and what lies far left of it "
      "is held back by something else (start and end of kernels, arithmetic, one core). Above it, bytes come from a "
      "cache.",
      rate_text(times.read_gb_per_s), running_text(times.read_rate_source));

  const double top = kKeyHeight + kHeadingHeight;
  const double bottom = top + kRowHeight * static_cast<double>(rows.size());
  PlotScript script(plot.name, kWidth, bottom + kAxisHeight);
  script.panel({kLeft, kRight, top, bottom});
  script.axis('x', 0, high * kHeadroom);
  script.line(fmt::format("set yrange [-0.5:{}.5]", rows.size() - 1));
  script.line("unset ytics");
  script.line(fmt::format("set grid xtics lc rgb '{}' lw 1 dt 1 back", kBand.light));
  script.line(fmt::format("set xlabel 'GB/s' tc rgb '{}'", kMuted.light));
  script.vertical(times.read_gb_per_s, kInk, 2);
  script.line(fmt::format("set label {} at first {}, graph 1 center offset 0,0.8 font 'sans-serif,12' tc rgb '{}'",
                          gnuplot_string(fmt::format("read rate {}", rate_text(times.read_gb_per_s))),
                          gnuplot_number(times.read_gb_per_s), kInk.light));
  for (std::size_t r = 0; r < rows.size(); ++r)
    script.label_beside(8, static_cast<double>(rows.size() - 1 - r), rows[r].name, {.size = 12, .room = kLeft - 24});
  std::string plots;
  std::size_t index = 0;
  for (std::size_t i = 0; i < times.arms.size(); ++i) {
    if (!all.profiled[i]) continue;
    const std::string name = visible_text(times.arms[i].arm);
    script.line(fmt::format("set label '' at screen {:.5f},{:.5f} point pt {} ps 0.8 lw 1.2 lc rgb '{}'",
                            (14 + kKeyColumn * static_cast<double>(index)) / kWidth, 1.0 - 18 / script.height(),
                            point_type(i), series_colour(i).light));
    script.label(28 + kKeyColumn * static_cast<double>(index), 18, name, {.room = kKeyColumn - 40});
    plot.data += fmt::format("# {}\n# row gb_per_s bytes us  # part\n", name);
    plot.description += fmt::format("{}:", name);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const double rate = gb_per_s(rows[r].bytes[i], rows[r].bytes_us[i]);
      plot.data += fmt::format("{} {} {} {}  # {}\n", rows.size() - 1 - r, gnuplot_number(rate),
                               gnuplot_number(rows[r].bytes[i]), gnuplot_number(rows[r].bytes_us[i]), rows[r].name);
      if (std::isfinite(rate)) plot.description += fmt::format(" {} {} GB/s;", rows[r].name, rate_text(rate));
    }
    plot.description += " ";
    plot.data += "\n\n";
    plots += fmt::format("{}'rates.dat' index {} using 2:1 with points pt {} ps 0.9 lw 1.2 lc rgb '{}' title {}",
                         plots.empty() ? "" : ", \\\n  ", index++, point_type(i), series_colour(i).light,
                         gnuplot_string(name));
  }
  script.line("plot " + plots);
  plot.script = script.done();
  return plot;
}

}  // namespace tare::reports

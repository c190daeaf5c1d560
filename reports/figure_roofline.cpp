#include "reports/figure_roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/escape.h"
#include "reports/gnuplot_script.h"
#include "reports/numbers.h"

namespace tare::reports {
namespace {

constexpr double kWidth = 960;
constexpr double kHeight = 470;
constexpr double kLeft = 78;
constexpr double kRight = 610;
constexpr double kTop = 52;
constexpr double kBottom = 404;
constexpr double kKeyLeft = 636;
constexpr double kKeyLine = 44;
constexpr double kRoom = 4;  // factor beyond the outermost points, on either side

constexpr int kDigits = 3;
constexpr int kRing = 6;                 // gnuplot's open circle: what could be done
constexpr std::size_t kFilledMarks = 5;  // of kPointTypes; the ring comes after them

std::string digits_text(double value) {
  return std::isnan(value) ? kNotAvailable : fixed(value, decimals_of_value(value, kDigits));
}

// A mark for what is done, never the ring.
int mark_of(std::size_t i) {
  return point_type(i < kFilledMarks ? i : i + 1);
}

}  // namespace

Plot roofline_plot(const RooflineFigure& roofline) {
  Plot plot;
  plot.name = "roofline";
  plot.title = "Roofline";
  std::vector<RooflinePoint> points;
  for (const RooflinePoint& point : roofline.points)
    if (point.intensity > 0 && point.attainable_gops > 0) points.push_back(point);
  if (points.empty() || !(roofline.read_gb_per_s > 0)) {
    plot.nothing = "nothing is read, or no read rate is known";
    return plot;
  }
  double low = points[0].intensity;
  double high = points[0].intensity;
  double least = points[0].attainable_gops;
  for (const RooflinePoint& point : points) {
    low = std::min(low, point.intensity);
    high = std::max(high, point.intensity);
    least = std::min({least, point.attainable_gops, point.measured_gops > 0 ? point.measured_gops : least});
  }
  const bool flat = roofline.compute_gops > 0;
  low /= kRoom;
  high = kRoom * (flat ? std::max(high, roofline.compute_gops / roofline.read_gb_per_s) : high);
  const double roof = flat ? roofline.compute_gops : high * roofline.read_gb_per_s;
  plot.caption =
      "Operations a second over operations a byte, both logarithmic. What lies above the roof "
      "came from a cache faster than that rate, or was measured while the machine ran faster.";

  PlotScript script(plot.name, kWidth, kHeight);
  script.panel({kLeft, kRight, kTop, kBottom});
  script.label(8, 18, visible_text(roofline.heading), {.bold = true, .size = 14, .room = kWidth - 16});
  script.line("set logscale xy");
  script.line(fmt::format("set xrange [{}:{}]", gnuplot_number(low), gnuplot_number(high)));
  script.line(fmt::format("set yrange [{}:{}]", gnuplot_number(std::min(least, low * roofline.read_gb_per_s) / 2),
                          gnuplot_number(2 * roof)));
  script.line(fmt::format("set border 3 lc rgb '{}' lw 1", kRule.light));
  script.line("set xtics format '%g'");
  script.line("set ytics format '%g'");
  script.line(fmt::format("set grid xtics ytics lc rgb '{}' lw 1 dt 1 back", kBand.light));
  script.line(fmt::format("set xlabel 'operations a byte' tc rgb '{}'", kMuted.light));
  script.label(8, kTop - 16, "10\u2079 operations a second", {.colour = kMuted});
  std::string roof_words = fmt::format("roof: read rate {} GB/s", plain(roofline.read_gb_per_s));
  if (flat) roof_words += fmt::format(", arithmetic {}", plain(roofline.compute_gops));
  script.label(kRight, kTop - 16, roof_words, {.colour = kMuted, .align = Align::kRight});

  plot.data = "# the roof\n# intensity gops\n";
  const double ridge = flat ? roofline.compute_gops / roofline.read_gb_per_s : high;
  for (const double x : {low, std::clamp(ridge, low, high), high})
    plot.data += fmt::format("{} {}\n", gnuplot_number(x), gnuplot_number(std::min(x * roofline.read_gb_per_s, roof)));
  plot.data += "\n\n";
  plot.description = roof_words + ". ";
  std::string plots =
      fmt::format("'roofline.dat' index 0 using 1:2 with lines lw 2.4 lc rgb '{}' title 'roof'", kInk.light);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const RooflinePoint& point = points[i];
    const bool measured = point.measured_gops > 0;
    const std::string name = visible_text(point.name);
    plot.data += fmt::format("# {}\n# intensity attainable_gops measured_gops\n{} {} {}\n\n\n", name,
                             gnuplot_number(point.intensity), gnuplot_number(point.attainable_gops),
                             gnuplot_number(point.measured_gops));
    // What could be done is a ring on the roof, what is done a filled mark below it, on one dropped line.
    if (measured)
      plots += fmt::format(
          ", \\\n  'roofline.dat' index {} using 1:3:(0):($2-$3) with vectors nohead lw 1 lc rgb '{}' title {}", i + 1,
          series_colour(i).light, gnuplot_string(name));
    plots +=
        fmt::format(", \\\n  'roofline.dat' index {} using 1:2 with points pt {} ps 0.9 lw 1.4 lc rgb '{}' title {}",
                    i + 1, kRing, series_colour(i).light, gnuplot_string(name));
    if (measured)
      plots += fmt::format(", \\\n  'roofline.dat' index {} using 1:3 with points pt {} ps 0.9 lc rgb '{}' title {}",
                           i + 1, mark_of(i), series_colour(i).light, gnuplot_string(name));
    const double y = kTop + 4 + kKeyLine * static_cast<double>(i);
    script.line(fmt::format("set label '' at screen {:.5f},{:.5f} point pt {} ps 0.9 lw 1.4 lc rgb '{}'",
                            kKeyLeft / kWidth, 1.0 - y / kHeight, measured ? mark_of(i) : kRing,
                            series_colour(i).light));
    script.label(kKeyLeft + 14, y, name, {.bold = true, .size = 12, .room = kWidth - kKeyLeft - 24});
    std::string words =
        fmt::format("{} op/byte, at most {}", digits_text(point.intensity), digits_text(point.attainable_gops));
    if (measured)
      words += fmt::format(", does {} ({} %)", digits_text(point.measured_gops),
                           fixed(point.measured_gops / point.attainable_gops * 100, 0));
    script.label(kKeyLeft + 14, y + 17, words, {.colour = kMuted, .size = 11, .room = kWidth - kKeyLeft - 20});
    plot.description += fmt::format("{}: {}. ", name, words);
  }
  script.line("plot " + plots);
  plot.script = script.done();
  return plot;
}

}  // namespace tare::reports

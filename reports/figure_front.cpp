// Fidelity against speed: what a gain costs. Arms that no other beats in both are joined by the front.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "reports/escape.h"
#include "reports/figures.h"
#include "reports/gnuplot_script.h"
#include "reports/numbers.h"
#include "reports/sentences.h"

namespace tare::reports {
namespace {

constexpr double kWidth = 960;
constexpr double kLeft = 92;
constexpr double kRight = 690;
constexpr double kTop = 40;
constexpr double kPlotHeight = 340;
constexpr double kFoot = 64;
constexpr double kKeyLeft = 716;
constexpr double kKeyLine = 21;
constexpr double kRoom = 0.07;              // of the range of effects, on either side
constexpr double kLeastDivergence = 1e-7;   // below it, zero among them, is drawn here: rounding of the reference
constexpr double kRoomForDivergence = 2.0;  // factor above the highest and below the lowest

double drawn_at(double divergence) {
  return std::max(divergence, kLeastDivergence);
}

Interval speed_of(const Findings& findings, std::size_t arm) {
  Interval speed;
  speed.estimate_log = speed.low_log = speed.high_log = 0;  // the baseline against itself
  if (arm == 0) return speed;
  const Effect* effect = find_effect(findings, arm, findings.effect_measure);
  if (effect == nullptr) return {};
  if (const Interval* interval = verdict_interval(*effect)) return *interval;
  speed = {};
  speed.estimate_log = effect->estimate_log;
  return speed;
}

}  // namespace

Plot front_plot(const Findings& findings) {
  Plot plot;
  plot.name = "front";
  plot.title = "Fidelity against speed";
  plot.optional = true;
  if (findings.fidelity.empty() || findings.effect_measure >= findings.measures.size()) {
    plot.nothing = "no arm has a score of fidelity";
    return plot;
  }
  struct Point {
    const ArmFidelity* fidelity;
    Interval speed;
  };
  std::vector<Point> points;
  for (const ArmFidelity& fidelity : findings.fidelity) {
    const Interval speed = speed_of(findings, fidelity.arm);
    if (std::isfinite(speed.estimate_log) && std::isfinite(fidelity.divergence)) points.push_back({&fidelity, speed});
  }
  if (points.empty()) {
    plot.nothing = "no arm has both an effect and a score of fidelity";
    return plot;
  }
  // From the slowest to the fastest, so that the front is a line.
  std::sort(points.begin(), points.end(),
            [](const Point& a, const Point& b) { return a.speed.estimate_log < b.speed.estimate_log; });
  double low = 0;
  double high = 0;
  double least = HUGE_VAL;
  double most = 0;
  const auto lines_of = [&](bool on_front) {
    std::string lines = "# effect_percent low high divergence low high number\n";
    for (std::size_t i = 0; i < points.size(); ++i) {
      const auto& [fidelity, speed] = points[i];
      if (fidelity->on_front != on_front) continue;
      const double percent = percent_of_log(speed.estimate_log);
      const double from = is_known(speed) ? percent_of_log(speed.low_log) : percent;
      const double to = is_known(speed) ? percent_of_log(speed.high_log) : percent;
      const double at = drawn_at(fidelity->divergence);
      const double below = std::isnan(fidelity->low) ? at : drawn_at(fidelity->low);
      const double above = std::isnan(fidelity->high) ? at : drawn_at(fidelity->high);
      low = std::min(low, from);
      high = std::max(high, to);
      least = std::min({least, at, below});
      most = std::max({most, at, above});
      lines += fmt::format("{} {} {} {} {} {} {}\n", gnuplot_number(percent), gnuplot_number(from), gnuplot_number(to),
                           gnuplot_number(at), gnuplot_number(below), gnuplot_number(above), i + 1);
      plot.description += fmt::format("{}: {}, {} nats{}. ", arm_name(findings, fidelity->arm),
                                      fidelity->arm == 0 ? "the baseline" : percent_with_interval(speed),
                                      fmt::format("{:.2g}", fidelity->divergence), on_front ? ", on the front" : "");
    }
    return lines.find('\n') + 1 == lines.size() ? lines + "NaN NaN NaN NaN NaN NaN NaN\n\n\n" : lines + "\n\n";
  };
  plot.data = lines_of(true) + lines_of(false);
  const Measure& measure = findings.measures[findings.effect_measure];
  plot.caption = fmt::format(
      "Effect on {} against {}, with the verdict\u2019s interval, and divergence from the FP32 reference (KL64 with "
      "the "
      "tail, logarithmic, with its interval over windows; {}). Right is faster, lower is more faithful. Filled and "
      "joined: no other arm is at least as fast and as faithful; the open ones are beaten in both.",
      visible_text(measure.name), arm_name(findings, 0), visible_text(findings.fidelity_source));
  const double bottom = kTop + std::max(kPlotHeight, kKeyLine * static_cast<double>(points.size()));
  PlotScript script(plot.name, kWidth, bottom + kFoot);
  script.panel({kLeft, kRight, kTop, bottom});
  script.label(8, 18, "KL64+tail, nats", {.colour = kMuted});
  script.label((kLeft + kRight) / 2, bottom + 46, fmt::format("effect on {}, percent", visible_text(measure.name)),
               {.colour = kMuted, .align = Align::kCentre, .room = kRight - kLeft});
  script.line(fmt::format("set border 3 lc rgb '{}' lw 1", kRule.light));
  const double span = std::max(high - low, 1e-6);
  script.axis('x', low - kRoom * span, high + kRoom * span);
  script.line("set logscale y");
  script.line(fmt::format("set yrange [{}:{}]", gnuplot_number(least / kRoomForDivergence),
                          gnuplot_number(most * kRoomForDivergence)));
  script.line("set ytics format '1e%T'");
  script.line(fmt::format("set grid ytics lc rgb '{}' lw 1 dt 1 back", kBand.light));
  script.vertical(0, kMuted, 1);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double y = kTop + kKeyLine * static_cast<double>(i);
    script.label(kKeyLeft, y + 6, fmt::format("{}  {}", i + 1, arm_name(findings, points[i].fidelity->arm)),
                 {.bold = points[i].fidelity->on_front, .size = 12, .room = kWidth - kKeyLeft - 8});
  }
  // Neighbours get their numbers on different sides: arms that differ in nothing that matters lie on one another.
  constexpr std::array<const char*, 4> kSides = {"1.4,0.7", "-1.4,-0.7", "1.4,-0.7", "-1.4,0.7"};
  for (std::size_t i = 0; i < points.size(); ++i)
    script.line(fmt::format("set label '{}' at first {}, first {} center offset {} font 'sans-serif,12' tc rgb '{}'",
                            i + 1, gnuplot_number(percent_of_log(points[i].speed.estimate_log)),
                            gnuplot_number(drawn_at(points[i].fidelity->divergence)), kSides[i % kSides.size()],
                            kInk.light));
  script.line(fmt::format(
      "plot 'front.dat' index 0 using 1:4 with steps lw 1.4 lc rgb '{0}' notitle, \\\n"
      "  'front.dat' index 0 using 1:4:2:3:5:6 with xyerrorbars pt 7 ps 1 lw 1.2 lc rgb '{0}' title 'on the front', "
      "\\\n"
      "  'front.dat' index 1 using 1:4:2:3:5:6 with xyerrorbars pt 6 ps 1 lw 1.2 lc rgb '{1}' title 'beaten'",
      kSeries[0].light, kOtherParts.light));
  plot.script = script.done();
  return plot;
}

}  // namespace tare::reports

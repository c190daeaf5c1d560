// One round of every arm: a lane a kind of kernel or op, in the order in which they first begin. A thin bar is a launch
// from begin to end, the full one from when nothing before it was unfinished: under programmatic launch kernels wait
// while their predecessors still run, and only the full bars add up.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "reports/escape.h"
#include "reports/figures.h"
#include "reports/gnuplot_script.h"
#include "reports/numbers.h"
#include "reports/time_parts.h"

namespace tare::reports {
namespace {

constexpr double kWidth = 960;
constexpr double kLeft = 330;
constexpr double kRight = 944;
constexpr double kLaneHeight = 17;
constexpr double kTitleHeight = 32;
constexpr double kAxisHeight = 40;
constexpr double kLastAxisHeight = 70;
constexpr std::size_t kMostLanes = 16;
constexpr double kThin = 0.12;  // half heights, of a lane
constexpr double kFull = 0.38;

struct Lane {
  std::string name;
  std::size_t part = 0;  // place of its colour; kColouredParts for the others
  std::vector<RoundSpan> spans;
  double total_us = 0;
  double first_us = std::numeric_limits<double>::infinity();
};

Lane lane_of(const RoundLane& lane, const TimeParts& parts) {
  Lane result{visible_text(lane.what), std::min(parts.index_of(lane.what, lane.part), kColouredParts), lane.spans};
  for (const RoundSpan& span : lane.spans) {
    result.total_us += span.end_us - span.alone_us;
    result.first_us = std::min(result.first_us, span.begin_us);
  }
  return result;
}

// The lanes with most time, the others in one, by their first begin.
std::vector<Lane> lanes_of(const ArmTimes& arm, const TimeParts& parts) {
  std::vector<Lane> lanes;
  for (const RoundLane& lane : arm.round) lanes.push_back(lane_of(lane, parts));
  std::stable_sort(lanes.begin(), lanes.end(), [](const Lane& a, const Lane& b) { return a.total_us > b.total_us; });
  if (lanes.size() > kMostLanes) {
    Lane others{fmt::format("{} others", lanes.size() - kMostLanes + 1), kColouredParts, {}};
    for (std::size_t i = kMostLanes - 1; i < lanes.size(); ++i) {
      others.spans.insert(others.spans.end(), lanes[i].spans.begin(), lanes[i].spans.end());
      others.total_us += lanes[i].total_us;
    }
    lanes.resize(kMostLanes - 1);
    std::stable_sort(lanes.begin(), lanes.end(), [](const Lane& a, const Lane& b) { return a.first_us < b.first_us; });
    lanes.push_back(std::move(others));
    return lanes;
  }
  std::stable_sort(lanes.begin(), lanes.end(), [](const Lane& a, const Lane& b) { return a.first_us < b.first_us; });
  return lanes;
}

Colour colour_of(std::size_t part) {
  return part < kColouredParts ? kParts[part] : kOtherParts;
}

}  // namespace

Plot round_plot(const Findings& findings) {
  const Times& times = findings.times;
  Plot plot;
  plot.name = "round";
  plot.title = "One round, kernel by kernel or op by op";
  plot.section = "times";
  plot.before = "time-rates";
  plot.optional = true;
  const TimeParts parts = time_parts(times, kColouredParts);
  std::vector<const ArmTimes*> shown;
  std::vector<std::vector<Lane>> lanes;
  double end_us = 0;
  double height = 0;
  for (const ArmTimes& arm : times.arms) {
    std::vector<Lane> own = lanes_of(arm, parts);
    if (own.empty()) continue;
    for (const Lane& lane : own)
      for (const RoundSpan& span : lane.spans) end_us = std::max(end_us, span.end_us);
    height += kTitleHeight + kLaneHeight * static_cast<double>(own.size()) + kAxisHeight;
    shown.push_back(&arm);
    lanes.push_back(std::move(own));
  }
  if (shown.empty() || end_us <= 0) {
    plot.nothing = "no profile holds a round launch by launch";
    return plot;
  }
  plot.caption =
      "One round of every arm under the collector, the one of median span of its first profiled prompt; all on one "
      "scale. A lane is a kind of kernel or op, in the order in which they first begin, in the colours of the bars "
      "above. Full bars: nothing before the launch was unfinished; they add up to the round. Thin ones: it had begun "
      "and its predecessors still ran. Nothing is drawn narrower than a pixel.";

  const double pixel_us = end_us / (kRight - kLeft);  // nothing is drawn narrower: gnuplot would leave it out
  PlotScript script(plot.name, kWidth, height - kAxisHeight + kLastAxisHeight);
  double top = 0;
  std::size_t index = 0;
  for (std::size_t a = 0; a < shown.size(); ++a) {
    const std::vector<Lane>& own = lanes[a];
    const std::string name = visible_text(shown[a]->arm);
    const double first = top + kTitleHeight;
    const double bottom = first + kLaneHeight * static_cast<double>(own.size());
    script.panel({kLeft, kRight, first, bottom});
    script.label(8, top + 18, name, {.bold = true, .size = 14, .room = kLeft - 16});
    script.label(kRight, top + 18, fmt::format("prompt {}", visible_text(shown[a]->round_of)),
                 {.colour = kMuted, .size = 12, .align = Align::kRight, .room = kRight - kLeft});
    script.axis('x', 0, end_us);
    script.line(fmt::format("set yrange [-0.5:{}.5]", own.size() - 1));
    script.line("unset ytics");
    script.line(fmt::format("set grid xtics lc rgb '{}' lw 1 dt 1 back", kBand.light));
    script.line("set style fill solid 1.0 noborder");
    if (a + 1 == shown.size()) script.line(fmt::format("set xlabel 'microseconds' tc rgb '{}'", kMuted.light));
    std::string plots;
    plot.description += fmt::format("{}:", name);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const Lane& lane = own[i];
      const double y = static_cast<double>(own.size() - 1 - i);
      script.label_beside(8, y, lane.name, {.size = 11, .room = kLeft - 20, .both_ends = true});
      plot.data += fmt::format("# {}: {}\n# begin_us alone_us end_us\n", name, lane.name);
      for (const RoundSpan& span : lane.spans)
        plot.data += fmt::format("{} {} {}\n", gnuplot_number(span.begin_us), gnuplot_number(span.alone_us),
                                 gnuplot_number(span.end_us));
      plot.data += "\n\n";
      plots += fmt::format(
          "{0}'round.dat' index {1} using 2:({2}):1:3:({3}):({4}) with boxxyerror lc rgb '{7}' title {8}, \\\n"
          "  'round.dat' index {1} using 2:({2}):2:($3-$2<{9}?$2+{9}:$3):({5}):({6}) with boxxyerror lc rgb '{7}' "
          "title "
          "{8}",
          plots.empty() ? "" : ", \\\n  ", index++, gnuplot_number(y), gnuplot_number(y - kThin),
          gnuplot_number(y + kThin), gnuplot_number(y - kFull), gnuplot_number(y + kFull), colour_of(lane.part).light,
          gnuplot_string(lane.name), gnuplot_number(pixel_us));
      plot.description += fmt::format(" {} {} times, {} us;", lane.name, lane.spans.size(), micros_text(lane.total_us));
    }
    plot.description += " ";
    script.line("plot " + plots);
    top = bottom + kAxisHeight;
  }
  plot.script = script.done();
  return plot;
}

}  // namespace tare::reports

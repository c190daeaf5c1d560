// A bar an arm, as long as its timed round: its largest parts, the rest, idle time, and the host, which is what is
// left. A number above each piece names it in the key, so the bar is read without colours.
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
constexpr double kLeft = 150;
constexpr double kRight = 944;
constexpr double kRowHeight = 56;
constexpr double kBarShare = 0.5;    // of the row's height; the numbers stand above the bar
constexpr double kBelowBar = 0.12;   // of it
constexpr double kBeyondBar = 0.06;  // what the line at the end of the round is longer
constexpr double kKeyTop = 14;
constexpr double kKeyLine = 21;
constexpr double kKeyColumns = 2;
constexpr double kAxisHeight = 62;
constexpr double kLeastLabelled = 13;  // pixels of a piece that has its number above it
constexpr double kHeadroom = 1.02;     // of the axis beyond the longest bar

struct Piece {
  std::string mark;  // above the piece and in the key
  std::string name;
  Colour colour;
  std::vector<double> us;  // an arm each
};

std::vector<Piece> pieces_of(const Times& times, const TimeParts& parts) {
  std::vector<Piece> pieces;
  for (std::size_t k = 0; k < parts.parts.size(); ++k)
    pieces.push_back({fmt::format("{}", k + 1), parts.parts[k].name, kParts[k], parts.parts[k].us});
  if (parts.summed > 0) pieces.push_back({"+", parts.others.name, kOtherParts, parts.others.us});
  Piece idle{"i", "idle: nothing runs between two kernels or ops", kIdle, {}};
  Piece host{"h", "host: what of the timed round the profile does not cover", kHost, {}};
  for (std::size_t i = 0; i < times.arms.size(); ++i) {
    idle.us.push_back(parts.profiled[i] ? times.arms[i].idle_us : kMissing);
    host.us.push_back(parts.profiled[i] ? times.arms[i].host_us : kMissing);
  }
  pieces.push_back(std::move(idle));
  pieces.push_back(std::move(host));
  return pieces;
}

void draw_key(PlotScript& script, const std::vector<Piece>& pieces) {
  const double column = (kWidth - 16) / kKeyColumns;
  const auto rows = static_cast<std::size_t>(std::ceil(static_cast<double>(pieces.size()) / kKeyColumns));
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const double x = 10 + column * static_cast<double>(i / rows);
    const double y = kKeyTop + kKeyLine * static_cast<double>(i % rows);
    script.rectangle(x, y - 6, x + 12, y + 6, pieces[i].colour);
    script.label(x + 20, y, pieces[i].mark, {.colour = kMuted, .bold = true, .size = 12});
    script.label(x + 36, y, pieces[i].name, {.size = 12, .room = column - 48});
  }
}

}  // namespace

Plot times_plot(const Findings& findings) {
  const Times& times = findings.times;
  Plot plot;
  plot.name = "times";
  plot.title = "What a round is made of";
  plot.section = "times";
  plot.before = "time-parts";
  plot.optional = true;
  const TimeParts parts = time_parts(times, kColouredParts);
  if (!parts.any()) {
    plot.nothing = "no arm was profiled";
    return plot;
  }
  plot.caption =
      "A round of every arm in microseconds: a bar is as long as the timed round, and the pieces add up to it. Host is "
      "what is left of the timed round when the twin launch\u2019s kernels or ops and idle time are taken off; where "
      "it "
      "is negative the profile is longer than the timed round, which ends at the heavy line.";

  const std::vector<Piece> pieces = pieces_of(times, parts);
  const std::size_t arms = times.arms.size();
  std::vector<double> ends(arms, 0);  // of the pieces so far
  double longest = 0;
  for (std::size_t i = 0; i < arms; ++i) {
    if (!parts.profiled[i]) continue;
    longest = std::max({longest, times.arms[i].timed_us, times.arms[i].timed_us - times.arms[i].host_us});
  }
  const double high = longest > 0 ? longest * kHeadroom : 1;
  const double microsecond = (kRight - kLeft) / high;

  const auto key_rows = std::ceil(static_cast<double>(pieces.size()) / kKeyColumns);
  const double top = kKeyTop + kKeyLine * key_rows + 4;
  const double bottom = top + kRowHeight * static_cast<double>(arms);
  PlotScript script(plot.name, kWidth, bottom + kAxisHeight);
  script.panel({kLeft, kRight, top, bottom});
  draw_key(script, pieces);
  script.axis('x', 0, high);
  script.line(fmt::format("set yrange [0:{}]", arms));
  script.line("unset ytics");
  script.line(fmt::format("set grid xtics lc rgb '{}' lw 1 dt 1 back", kBand.light));
  script.line(fmt::format("set xlabel 'microseconds a round' tc rgb '{}'", kMuted.light));
  script.line(fmt::format("set style fill solid 1.0 border lc rgb '{}'", kPaper.light));

  std::vector<std::string> plots;
  for (std::size_t k = 0; k < pieces.size(); ++k) {
    const Piece& piece = pieces[k];
    const bool is_host = k + 1 == pieces.size();
    plot.data += fmt::format("# {}: {}\n# arm from_us to_us us low high\n", piece.mark, piece.name);
    for (std::size_t i = 0; i < arms; ++i) {
      if (!parts.profiled[i]) continue;
      const double from = ends[i];
      ends[i] += std::isfinite(piece.us[i]) ? piece.us[i] : 0;
      const double low = static_cast<double>(arms - 1 - i) + kBelowBar;
      plot.data += fmt::format("{} {} {} {} {} {}  # {}\n", i, gnuplot_number(from), gnuplot_number(ends[i]),
                               gnuplot_number(piece.us[i]), gnuplot_number(low), gnuplot_number(low + kBarShare),
                               visible_text(times.arms[i].arm));
      const double width = (ends[i] - from) * microsecond;
      const double y = top + kRowHeight * (static_cast<double>(i) + 1 - kBelowBar - kBarShare);
      if (width >= kLeastLabelled)
        script.label(kLeft + from * microsecond + width / 2, y - 9, piece.mark,
                     {.colour = kMuted, .size = 12, .align = Align::kCentre});
      if (width < 0)  // reaches back over the others: its mark stands behind them
        script.label(kLeft + from * microsecond + 7, y + kRowHeight * kBarShare / 2, piece.mark,
                     {.colour = kMuted, .size = 12});
    }
    plot.data += "\n\n";
    // What reaches back over the other pieces is an outline.
    const std::string style = fmt::format("lc rgb '{}'", piece.colour.light);
    if (is_host)
      plots.push_back(
          fmt::format("'times.dat' index {0} using ($4<0?($2+$3)/2:NaN):(($5+$6)/2):3:2:5:6 with boxxyerror fs empty "
                      "border lc rgb '{1}' lc rgb '{1}' lw 1.2 title {2}",
                      k, kInk.light, gnuplot_string(piece.name)));
    plots.push_back(
        fmt::format("'times.dat' index {} using ({}?($2+$3)/2:NaN):(($5+$6)/2):2:3:5:6 with boxxyerror {} title {}", k,
                    is_host ? "$4>=0" : "1", style, gnuplot_string(piece.name)));
  }
  for (std::size_t i = 0; i < arms; ++i) {
    const ArmTimes& arm = times.arms[i];
    const double y = top + kRowHeight * (static_cast<double>(i) + 1 - kBelowBar - kBarShare / 2);
    script.label(8, y - 8, visible_text(arm.arm), {.bold = true, .room = kLeft - 20});
    script.label(8, y + 9, parts.profiled[i] ? micros_text(arm.timed_us) + " \u00b5s" : "not profiled",
                 {.colour = kMuted, .size = 12, .room = kLeft - 20});
    if (!parts.profiled[i]) {
      script.label(kLeft + 8, y, running_text(arm.fault), {.colour = kMuted, .size = 12, .room = kRight - kLeft - 16});
      continue;
    }
    const double low = static_cast<double>(arms - 1 - i) + kBelowBar - kBeyondBar;
    script.line(
        fmt::format("set arrow from first {0}, first {1} to first {0}, first {2} nohead front lc rgb '{3}' lw 3",
                    gnuplot_number(arm.timed_us), gnuplot_number(low), gnuplot_number(low + kBarShare + 2 * kBeyondBar),
                    kInk.light));
    plot.description += fmt::format("{}: {} us", visible_text(arm.arm), micros_text(arm.timed_us));
    for (const Piece& piece : pieces)
      if (std::isfinite(piece.us[i]) && piece.us[i] != 0)
        plot.description +=
            fmt::format(", {} {}", piece.name.substr(0, piece.name.find(':')), micros_text(piece.us[i]));
    plot.description += ". ";
  }
  std::string all;
  for (const std::string& each : plots) all += (all.empty() ? "" : ", \\\n  ") + each;
  script.line("plot " + all);
  plot.script = script.done();
  return plot;
}

}  // namespace tare::reports

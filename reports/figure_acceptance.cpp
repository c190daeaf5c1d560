// How far drafts are accepted, position by position: what an arm's drafter and trees are worth, apart from what its
// rounds cost.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/escape.h"
#include "reports/figures.h"
#include "reports/gnuplot_script.h"
#include "reports/numbers.h"
#include "stats/proportions.h"

namespace tare::reports {
namespace {

constexpr double kWidth = 960;
constexpr double kPanelHeight = 260;
constexpr double kKeyHeight = 34;
constexpr double kKeyColumn = 220;
constexpr double kHeadingHeight = 34;
constexpr double kAxisHeight = 62;
constexpr double kLeft = 70;
constexpr double kMiddle = 490;
constexpr double kPanelWidth = 400;
constexpr double kHeadroom = 1.03;
constexpr double kAside = 0.12;  // of a position: arms stand beside each other
constexpr double kPercent = 100;
constexpr double kLevel = 0.95;

struct Share {
  std::int64_t part = 0;
  std::int64_t whole = 0;
};
Share of_rounds(const DraftPosition& position) {
  return {position.accepted, position.reached};
}
Share of_tried(const DraftPosition& position) {
  return {position.accepted, position.tried};
}

// Position, place of the point, share, ends of its interval in percent, the counts.
std::string rows_of(const ArmRounds& rounds, double aside, Share (*share_of)(const DraftPosition&)) {
  std::string rows;
  for (std::size_t i = 0; i < rounds.positions.size(); ++i) {
    const Share share = share_of(rounds.positions[i]);
    if (share.whole == 0) continue;
    const stats::Interval interval =
        stats::wilson_interval(static_cast<std::uint64_t>(share.part), static_cast<std::uint64_t>(share.whole), kLevel);
    rows += fmt::format("{} {} {} {} {} {} {}\n", i + 1, gnuplot_number(static_cast<double>(i + 1) + aside),
                        gnuplot_number(kPercent * static_cast<double>(share.part) / static_cast<double>(share.whole)),
                        gnuplot_number(kPercent * interval.low), gnuplot_number(kPercent * interval.high), share.part,
                        share.whole);
  }
  return rows;
}

bool has_drafts(const ArmRounds& rounds) {
  return std::any_of(rounds.positions.begin(), rounds.positions.end(),
                     [](const DraftPosition& position) { return position.reached > 0; });
}

}  // namespace

Plot acceptance_plot(const Findings& findings) {
  Plot plot;
  plot.name = "acceptance";
  plot.title = "How far drafts are accepted";
  plot.section = "rounds";
  plot.before = "acceptance";
  plot.optional = true;
  std::vector<const ArmRounds*> arms;
  std::size_t deepest = 1;
  for (const ArmRounds& rounds : findings.rounds) {
    if (!has_drafts(rounds)) continue;
    arms.push_back(&rounds);
    deepest = std::max(deepest, rounds.positions.size());
  }
  if (arms.empty()) {
    plot.nothing = "no draft was decided on";
    return plot;
  }
  plot.caption =
      "Left: share of rounds that accept the i-th drafted token; the area under it is the drafted tokens a round. "
      "Right: "
      "the same of those rounds that accepted all before it, the drafter's own quality at that depth. Whiskers: "
      "Wilson, "
      "95 %, as if rounds were independent; they are not, so read them as a lower bound of what chance does.";
  const double top = kKeyHeight + kHeadingHeight;
  const double bottom = top + kPanelHeight;
  PlotScript script(plot.name, kWidth, bottom + kAxisHeight);
  struct Panel {
    const char* heading;
    double left;
    Share (*share_of)(const DraftPosition&);
  };
  const Panel panels[] = {{"of all rounds", kLeft, of_rounds}, {"of rounds that came so far", kMiddle, of_tried}};
  std::size_t block = 0;
  for (const Panel& panel : panels) {
    script.panel({panel.left, panel.left + kPanelWidth, top, bottom});
    script.label(panel.left, top - 12, panel.heading, {.bold = true});
    script.line(fmt::format("set xrange [0.5:{}.5]", deepest));
    script.line(fmt::format("set xtics 1 nomirror tc rgb '{}'", kMuted.light));
    script.axis('y', 0, kPercent * kHeadroom);
    script.line(fmt::format("set grid ytics lc rgb '{}' lw 1 dt 1 back", kBand.light));
    script.line(fmt::format("set xlabel 'drafted token' tc rgb '{}'", kMuted.light));
    script.line(fmt::format("set ylabel '%' tc rgb '{}'", kMuted.light));
    std::string plots;
    for (std::size_t a = 0; a < arms.size(); ++a) {
      const std::size_t arm = arms[a]->arm;
      const std::string name = visible_text(shown_name(findings.arms[arm]));
      if (panel.share_of == of_rounds) {
        const double key = 14 + kKeyColumn * static_cast<double>(a);
        script.line(fmt::format("set label '' at screen {:.5f},{:.5f} point pt {} ps 0.8 lw 1.2 lc rgb '{}'",
                                key / kWidth, 1.0 - 18 / script.height(), point_type(arm), series_colour(arm).light));
        script.label(key + 14, 18, name, {.room = kKeyColumn - 40});
      }
      const double aside = kAside * (static_cast<double>(a) - static_cast<double>(arms.size() - 1) / 2);
      const std::string rows = rows_of(*arms[a], aside, panel.share_of);
      plot.data +=
          fmt::format("# {}, {}\n# token place percent low high accepted rounds\n{}\n\n", name, panel.heading, rows);
      plots += fmt::format(
          "{}'acceptance.dat' index {} using 2:3 with lines lw 1.2 lc rgb '{}' notitle, "
          "'acceptance.dat' index {} using 2:3:4:5 with yerrorbars pt {} ps 0.8 lw 1.2 lc rgb '{}' notitle",
          plots.empty() ? "" : ", \\\n  ", block, series_colour(arm).light, block, point_type(arm),
          series_colour(arm).light);
      ++block;
    }
    script.line("plot " + plots);
  }
  for (const ArmRounds* rounds : arms) {
    plot.description += visible_text(shown_name(findings.arms[rounds->arm])) + ":";
    for (std::size_t i = 0; i < rounds->positions.size(); ++i) {
      const Share share = of_rounds(rounds->positions[i]);
      if (share.whole > 0) plot.description += fmt::format(" token {} {} of {};", i + 1, share.part, share.whole);
    }
    plot.description += " ";
  }
  plot.script = script.done();
  return plot;
}

}  // namespace tare::reports

// What a difference of two arms is made of: kernels or ops by size with their intervals, idle time, host and residual,
// and last the timed difference beside what adds up to it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "reports/escape.h"
#include "reports/figures.h"
#include "reports/gnuplot_script.h"
#include "reports/numbers.h"
#include "reports/time_parts.h"
#include "reports/times_rows.h"

namespace tare::reports {
namespace {

constexpr double kWidth = 960;
constexpr double kPlotLeft = 464;
constexpr double kPlotRight = 752;
constexpr double kRowHeight = 21;
constexpr double kTitleHeight = 36;
constexpr double kAxisHeight = 44;
constexpr double kTics = 4;       // some: numbers may have five digits and a sign
constexpr double kMargin = 0.06;  // of the range, on either side
constexpr int kEstimateOnly = 0, kInterval = 1, kWhole = 2;

struct ForestRow {
  TimeRow row;
  bool strong = false;
};

// Rows as the table has them; the timed difference last.
std::vector<ForestRow> rows_of(const TimeDifference& difference) {
  std::vector<ForestRow> rows;
  for (TimeRow& row : shown_rows(difference)) rows.push_back({std::move(row)});
  rows.push_back({difference.idle});
  rows.push_back({difference.host});
  if (!std::isnan(difference.stalls.difference_us)) rows.push_back({difference.stalls});
  rows.push_back({difference.residual});
  rows.push_back({difference.timed, true});
  return rows;
}

std::string numbers_of(const TimeRow& row) {
  if (std::isnan(row.difference_us)) return kNotAvailable;
  const std::string estimate = signed_fixed(row.difference_us, 2);
  if (std::isnan(row.low_us) || std::isnan(row.high_us)) return estimate;
  return fmt::format("{} [{}, {}]", estimate, signed_fixed(row.low_us, 2), signed_fixed(row.high_us, 2));
}

struct Range {
  double low = 0;
  double high = 0;
  void take(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

double draw_panel(PlotScript& script, double top, const TimeDifference& difference, const std::string& heading,
                  std::size_t index, Colour colour) {
  const std::vector<ForestRow> rows = rows_of(difference);
  Range range;
  for (const ForestRow& row : rows)
    for (const double value : {row.row.difference_us, row.row.low_us, row.row.high_us}) range.take(value);
  range.take(explained_us(difference));
  const double span = std::max(range.high - range.low, 1e-3);
  const double first = top + kTitleHeight;
  const double bottom = first + kRowHeight * static_cast<double>(rows.size());
  script.panel({kPlotLeft, kPlotRight, first, bottom});
  script.label(8, top + 18, heading, {.bold = true, .size = 14, .room = kPlotLeft - 16});
  script.label(kPlotRight, top + 18, "microseconds a round; right of the line: takes longer",
               {.colour = kMuted, .size = 12, .align = Align::kRight});
  script.axis('x', range.low - kMargin * span, range.high + kMargin * span, kTics);
  script.line(fmt::format("set yrange [-0.5:{}.5]", rows.size() - 1));
  script.line("unset ytics");
  script.line(fmt::format("set grid xtics lc rgb '{}' lw 1 dt 1 back", kBand.light));
  script.vertical(0, kMuted, 1.5);
  script.horizontal(0.5, kRule, 1);
  const std::size_t beside = rows.size() - shown_rows(difference).size();  // idle and all below it
  script.horizontal(static_cast<double>(beside) - 0.5, kRule, 1);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double y = static_cast<double>(rows.size() - 1 - i);
    const TimeRow& row = rows[i].row;
    script.label_beside(8, y, rows[i].strong ? row.what + ", and what adds up to it" : row.what,
                        {.bold = rows[i].strong, .size = 11.5, .room = kPlotLeft - 20, .both_ends = true});
    script.label_beside(kPlotRight + 14, y, numbers_of(row), {.bold = rows[i].strong, .size = 12});
  }
  const std::string file = fmt::format("'time_differences.dat' index {}", index);
  script.line(fmt::format(
      "plot {0} using ($5>0&&$3==$3?$3:NaN):1:($4-$3):(0) with vectors nohead lw 1.6 lc rgb '{1}' title {2}, \\\n"
      "  {0} using ($5==2&&$3==$3?$3:NaN):1:($4-$3):(0) with vectors nohead lw 4 lc rgb '{1}' title {2}, \\\n"
      "  {0} using ($5<2?$2:NaN):1 with points pt 7 ps 0.6 lc rgb '{1}' title {2}, \\\n"
      "  {0} using ($5==2?$2:NaN):1 with points pt 7 ps 0.95 lc rgb '{1}' title {2}, \\\n"
      "  {0} using ($5==2?$6:NaN):1 with points pt 12 ps 1.3 lw 1.6 lc rgb '{3}' title 'rows, idle and host added up'",
      file, colour.light, gnuplot_string(heading), kInk.light));
  return bottom + kAxisHeight;
}

std::string data_block(const TimeDifference& difference, const std::string& heading) {
  const std::vector<ForestRow> rows = rows_of(difference);
  std::string text = fmt::format("# {}\n# row difference_us low_us high_us kind explained_us  # what\n", heading);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const TimeRow& row = rows[i].row;
    const bool known = !std::isnan(row.low_us) && !std::isnan(row.high_us);
    text += fmt::format("{} {} {} {} {} {}  # {}\n", rows.size() - 1 - i, gnuplot_number(row.difference_us),
                        gnuplot_number(row.low_us), gnuplot_number(row.high_us),
                        rows[i].strong ? kWhole
                        : known        ? kInterval
                                       : kEstimateOnly,
                        rows[i].strong ? gnuplot_number(explained_us(difference)) : "NaN", visible_text(row.what));
  }
  return text + "\n\n";
}

}  // namespace

Plot time_differences_plot(const Findings& findings) {
  const Times& times = findings.times;
  Plot plot;
  plot.name = "time_differences";
  plot.title = "What the differences are made of";
  plot.section = "times";
  plot.before = "time-difference-1";
  plot.optional = true;
  double height = 0;
  std::vector<const TimeDifference*> shown;
  for (const TimeDifference& difference : times.differences) {
    if (std::isnan(difference.timed.difference_us)) continue;
    shown.push_back(&difference);
    height += kTitleHeight + kRowHeight * static_cast<double>(rows_of(difference).size()) + kAxisHeight;
  }
  if (shown.empty()) {
    plot.nothing = "no two arms were profiled on the same prompts";
    return plot;
  }
  plot.caption =
      "What an arm\u2019s kernels or ops take more or less than the baseline\u2019s, largest first, with 95 % "
      "intervals "
      "paired over the prompts; then idle time, the host, and the residual. Last the timed difference; the open "
      "diamond "
      "beside it is what rows, idle time and host add up to, so the gap between the two is the residual.";
  PlotScript script(plot.name, kWidth, height);
  double top = 0;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const TimeDifference& difference = *shown[i];
    const std::string heading =
        fmt::format("{} less {}", visible_text(difference.arm), visible_text(times.arms.front().arm));
    std::size_t arm = 0;
    while (arm < times.arms.size() && times.arms[arm].arm != difference.arm) ++arm;
    plot.data += data_block(difference, heading);
    plot.description += fmt::format("{}: timed {} us; rows, idle and host add up to {} us, residual {} us. ", heading,
                                    numbers_of(difference.timed), signed_fixed(explained_us(difference), 2),
                                    signed_fixed(difference.residual.difference_us, 2));
    top = draw_panel(script, top, difference, heading, i, series_colour(arm));
  }
  plot.script = script.done();
  return plot;
}

}  // namespace tare::reports

// Each prompt's ratio to the baseline: whether an effect is that of all prompts or of a few.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

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
constexpr double kKeyLine = 24;
constexpr double kKeyColumn = 216;
constexpr double kPanelHeight = 190;
constexpr double kHeadingHeight = 36;
constexpr double kAxisHeight = 34;
constexpr double kLabelHeight = 32;   // of the name of the last panel's x axis
constexpr double kRoomForZero = 1.5;  // 0 is brought into view when it is at most so many spans away

struct Point {
  std::size_t rank = 0;  // from 1, by ratio
  double percent = kMissing;
  std::size_t category = 0;
  const Prompt* prompt = nullptr;
};

std::vector<std::string> categories_of(const Findings& findings) {
  std::vector<std::string> categories;
  for (const Prompt& prompt : findings.prompts)
    if (std::find(categories.begin(), categories.end(), prompt.category) == categories.end())
      categories.push_back(prompt.category);
  return categories;
}

// The prompts that have a ratio for this arm, from the smallest to the largest.
std::vector<Point> sorted_points(const Findings& findings, std::size_t arm,
                                 const std::vector<std::string>& categories) {
  std::vector<Point> points;
  for (const Prompt& prompt : findings.prompts) {
    if (arm >= prompt.log_ratio.size() || !std::isfinite(prompt.log_ratio[arm])) continue;
    Point point;
    point.percent = percent_of_log(prompt.log_ratio[arm]);
    point.category =
        static_cast<std::size_t>(std::find(categories.begin(), categories.end(), prompt.category) - categories.begin());
    point.prompt = &prompt;
    points.push_back(point);
  }
  std::stable_sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.percent < b.percent; });
  for (std::size_t i = 0; i < points.size(); ++i) points[i].rank = i + 1;
  return points;
}

std::string category_name(const std::string& category) {
  return category.empty() ? "no category" : visible_text(category);
}

// One data block a category, so that each can have its colour.
std::string data_of(const std::string& arm, const std::vector<Point>& points,
                    const std::vector<std::string>& categories) {
  std::string text;
  for (std::size_t c = 0; c < categories.size(); ++c) {
    text += fmt::format("# {}, {}\n# rank ratio_percent  # prompt\n", arm, category_name(categories[c]));
    for (const Point& point : points)
      if (point.category == c)
        text += fmt::format("{} {}  # {}\n", point.rank, gnuplot_number(point.percent), visible_text(point.prompt->id));
    text += "\n\n";
  }
  return text;
}

void draw_key(PlotScript& script, const std::vector<std::string>& categories) {
  const auto columns = static_cast<std::size_t>((kWidth - 16) / kKeyColumn);
  for (std::size_t c = 0; c < categories.size(); ++c) {
    const std::size_t row = c / columns;
    const double x = 14 + kKeyColumn * static_cast<double>(c % columns);
    const double y = 18 + kKeyLine * static_cast<double>(row);
    script.line(fmt::format("set label '' at screen {:.5f},{:.5f} point pt {} ps 0.7 lc rgb '{}'", x / kWidth,
                            1.0 - y / script.height(), point_type(c), series_colour(c).light));
    script.label(x + 14, y, category_name(categories[c]), {.room = kKeyColumn - 24});
  }
}

void draw_arm(PlotScript& script, const Findings& findings, std::size_t arm, const std::vector<Point>& points,
              const std::vector<std::string>& categories, double top, std::size_t first_block, bool last) {
  const Effect* effect = find_effect(findings, arm, findings.effect_measure);
  const Interval* interval = effect != nullptr ? verdict_interval(*effect) : nullptr;
  const bool known = interval != nullptr && is_known(*interval);
  double low = points.front().percent;
  double high = points.back().percent;
  if (known) {
    low = std::min(low, percent_of_log(interval->low_log));
    high = std::max(high, percent_of_log(interval->high_log));
  }
  double span = std::max(high - low, 1e-6 * std::max(1.0, std::abs(high)));
  if (std::max({0.0, low, -high}) <= kRoomForZero * span) {
    low = std::min(low, 0.0);
    high = std::max(high, 0.0);
    span = std::max(high - low, span);
  }
  low -= 0.08 * span;
  high += 0.08 * span;
  const double axes_top = top + kHeadingHeight;
  script.panel({kLeft, kRight, axes_top, axes_top + kPanelHeight});
  script.label(8, top + 18, fmt::format("{} against {}", arm_name(findings, arm), arm_name(findings, 0)),
               {.bold = true, .size = 14, .room = 400});
  const std::string remark = known ? fmt::format("percent, by prompt; the band is the verdict\u2019s interval, {}",
                                                 percent_with_interval(*interval))
                                   : std::string("percent, by prompt; there is no interval");
  script.label(kRight, top + 18, remark, {.colour = kMuted, .size = 12, .align = Align::kRight});
  script.line(fmt::format("set xrange [0.2:{}.8]", points.size()));
  script.axis('y', low, high);
  script.line(fmt::format("set border 3 lc rgb '{}' lw 1", kRule.light));
  script.line(points.size() <= 12 ? "set xtics 1 format '%g'" : "set xtics autofreq format '%g'");
  if (known) {
    script.line(
        fmt::format("set object 1 rectangle from graph 0, first {} to graph 1, first {} back fc rgb '{}' fs "
                    "solid noborder",
                    gnuplot_number(percent_of_log(interval->low_log)),
                    gnuplot_number(percent_of_log(interval->high_log)), kBand.light));
    script.horizontal(percent_of_log(interval->estimate_log), kInk, 1);
  }
  if (low < 0 && high > 0) script.horizontal(0, kMuted, 1, true);
  std::string plots;
  for (std::size_t c = 0; c < categories.size(); ++c) {
    const bool here = std::any_of(points.begin(), points.end(), [&](const Point& p) { return p.category == c; });
    if (!here) continue;
    if (!plots.empty()) plots += ", \\\n  ";
    plots +=
        fmt::format("'prompts.dat' index {} using 1:2 with points pt {} ps 0.65 lc rgb '{}' title {}", first_block + c,
                    point_type(c), series_colour(c).light, gnuplot_string(category_name(categories[c])));
  }
  // Labels are drawn with the next plot: the key, though it stands above all panels, belongs to the first.
  if (first_block == 0) draw_key(script, categories);
  if (last) script.line(fmt::format("set xlabel 'prompts, sorted by their ratio' tc rgb '{}'", kMuted.light));
  script.line("plot " + plots);
}

}  // namespace

Plot prompts_plot(const Findings& findings) {
  Plot plot;
  plot.name = "prompts";
  plot.title = "Effect prompt by prompt";
  const std::vector<std::string> categories = categories_of(findings);
  std::vector<std::size_t> arms;
  std::vector<std::vector<Point>> points;
  for (std::size_t arm = 1; arm < findings.arms.size(); ++arm) {
    std::vector<Point> sorted = sorted_points(findings, arm, categories);
    if (sorted.empty()) continue;
    plot.description += fmt::format("{}: {} prompts from {} to {} percent. ", arm_name(findings, arm), sorted.size(),
                                    signed_fixed(sorted.front().percent, 2), signed_fixed(sorted.back().percent, 2));
    arms.push_back(arm);
    points.push_back(std::move(sorted));
  }
  if (arms.empty()) {
    plot.nothing = "no prompt has a ratio to the baseline";
    return plot;
  }
  plot.caption = fmt::format(
      "Effect on {} prompt by prompt, sorted; every arm on a scale of its own. The line is the estimate over all "
      "prompts, the band its verdict\u2019s interval; a dashed line is no difference.",
      findings.effect_measure < findings.measures.size() ? visible_text(findings.measures[findings.effect_measure].name)
                                                         : std::string("the measure"));
  const auto columns = static_cast<std::size_t>((kWidth - 16) / kKeyColumn);
  const std::size_t key_rows = (categories.size() + columns - 1) / columns;
  const double key = 8 + kKeyLine * static_cast<double>(key_rows);
  const double panel = kHeadingHeight + kPanelHeight + kAxisHeight;
  PlotScript script(plot.name, kWidth, key + panel * static_cast<double>(arms.size()) + kLabelHeight);
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const std::size_t first_block = i * categories.size();
    plot.data += data_of(arm_name(findings, arms[i]), points[i], categories);
    draw_arm(script, findings, arms[i], points[i], categories, key + panel * static_cast<double>(i), first_block,
             i + 1 == arms.size());
  }
  plot.script = script.done();
  return plot;
}

}  // namespace tare::reports

// The figures of "Where the time goes": what is drawn are the findings' numbers, and odd findings are drawn too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "markup.h"
#include "reports/figure_roofline.h"
#include "reports/figures.h"
#include "reports/gnuplot.h"
#include "reports/palette.h"
#include "reports/report.h"
#include "reports/svg.h"
#include "reports/time_parts.h"
#include "reports/times_rows.h"
#include "sample_findings.h"
#include "sample_times.h"
#include "temporary_directory.h"

namespace tare::reports {
namespace {

using testing::HasSubstr;
using testing::Not;

Findings ops() {
  Findings findings = sample::three_arms();
  sample::add_op_times(findings);
  return findings;
}
Findings kernels(std::size_t kinds) {
  Findings findings = sample::handicap();
  sample::add_kernel_times(findings, kinds);
  return findings;
}

std::string drawn(const Plot& plot) {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / (plot.name + ".gp"), plot.script);
  write_file_atomically(directory.path() / (plot.name + ".dat"), plot.data);
  run_gnuplot("gnuplot", directory.path(), plot.name + ".gp");
  return finished_svg(read_text_file(directory.path() / (plot.name + ".svg")), plot.name, plot.title, plot.description);
}

// The numbers of a data file, block by block, line by line.
using Block = std::vector<std::vector<double>>;
std::vector<Block> blocks_of(const std::string& data) {
  std::vector<Block> blocks(1);
  std::istringstream stream(data);
  std::string line;
  std::size_t blanks = 0;
  while (std::getline(stream, line)) {
    if (line.empty()) {
      if (++blanks == 2) blocks.emplace_back();
      continue;
    }
    blanks = 0;
    if (line[0] == '#') continue;
    std::istringstream words(line.substr(0, line.find('#')));
    std::vector<double>& numbers = blocks.back().emplace_back();
    std::string word;
    while (words >> word) numbers.push_back(std::stod(word));
  }
  if (blocks.back().empty()) blocks.pop_back();
  return blocks;
}

// What a bar of `arm` adds up to, its pieces one after the other.
double length_of(const std::vector<Block>& pieces, double arm) {
  double end = 0;
  for (const Block& piece : pieces)
    for (const std::vector<double>& row : piece) {
      if (row[0] != arm) continue;
      EXPECT_NEAR(row[1], end, 1e-9) << "pieces follow one another";
      EXPECT_NEAR(row[2] - row[1], std::isnan(row[3]) ? 0 : row[3], 1e-9);
      end = row[2];
    }
  return end;
}

TEST(TimesFigure, ABarIsAsLongAsItsTimedRound) {
  const Findings findings = ops();
  const Plot plot = times_plot(findings);
  const std::vector<Block> pieces = blocks_of(plot.data);
  ASSERT_EQ(pieces.size(), 11U);  // eight parts, the others, idle, host
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(length_of(pieces, static_cast<double>(i)), findings.times.arms[i].timed_us, 1e-6) << i;
  EXPECT_LT(pieces.back()[2][3], 0) << "the third arm's host is negative, and said to be";
  const markup::Page page = markup::read(drawn(plot));
  EXPECT_EQ(page.fault, "");
  for (const char* label : {"layers.*.mlp.gate_proj.weight", "4 others", "q8-null", "240.60", "host: what"})
    EXPECT_THAT(page.text, HasSubstr(label));
}

TEST(TimesFigure, ARowThatIsMissingIsSeen) {  // a positive control of the sums above
  Findings findings = ops();
  findings.times.arms[1].rows.pop_back();
  findings.times.arms[1].rows.erase(findings.times.arms[1].rows.begin());
  EXPECT_LT(length_of(blocks_of(times_plot(findings).data), 1), findings.times.arms[1].timed_us - 40);
}

TEST(TimesFigure, APartHasOneColourInEveryArmAndInTheRound) {
  const Findings findings = ops();
  const TimeParts parts = time_parts(findings.times, kColouredParts);
  EXPECT_EQ(parts.parts[0].name, "layers.*.mlp.gate_proj.weight") << "q8 and q4 launch other kernels there";
  EXPECT_EQ(parts.parts[3].name, "gdn  layers.*.linear_attn") << "all launch the one";
  EXPECT_EQ(parts.summed, 4U);
  EXPECT_NEAR(parts.parts[0].us[1], 43, 1e-9);
  EXPECT_EQ(parts.index_of("product q4 + activation  layers.*.mlp.gate_proj.weight", "layers.*.mlp.gate_proj.weight"),
            0U);
  EXPECT_EQ(parts.index_of("unheard of", ""), parts.parts.size());
  const std::string script = round_plot(findings).script;
  for (const char* product : {"product q8 + activation", "product q4 + activation"}) {
    const std::size_t title = script.find(std::string("title '") + product);
    ASSERT_NE(title, std::string::npos);
    EXPECT_THAT(script.substr(title - 12, 12), HasSubstr(kParts[0].light)) << product;
  }
}

TEST(TimesFigure, OneArmAndManyKernelsAreDrawn) {
  const Plot plot = times_plot(kernels(60));
  EXPECT_EQ(blocks_of(plot.data).size(), 11U);
  EXPECT_NEAR(length_of(blocks_of(plot.data), 0), kernels(60).times.arms[0].timed_us, 1e-6);
  const markup::Page page = markup::read(drawn(plot));
  EXPECT_EQ(page.fault, "");
  EXPECT_THAT(page.text, HasSubstr("52 others"));
  EXPECT_EQ(blocks_of(times_plot(kernels(8)).data).size(), 10U) << "nothing to sum up";
  EXPECT_EQ(time_parts(kernels(9).times, kColouredParts).others.name, "1 other");
}

TEST(TimesFigure, AnArmThatCouldNotBeProfiledSaysWhy) {
  Findings findings = ops();
  findings.times.arms[1] = {.arm = "q4", .fault = "no CUPTI here", .source = ""};
  for (const Plot& plot : {times_plot(findings), round_plot(findings), rates_plot(findings)}) {
    const markup::Page page = markup::read(drawn(plot));
    EXPECT_EQ(page.fault, "") << plot.name;
    EXPECT_EQ(page.text.find("no CUPTI here") != std::string::npos, plot.name == "times");
  }
}

TEST(TimeDifferencesFigure, HasEveryRowAndEndsWithTheTimedDifferenceBesideItsParts) {
  const Findings findings = ops();
  const Plot plot = time_differences_plot(findings);
  const std::vector<Block> panels = blocks_of(plot.data);
  ASSERT_EQ(panels.size(), 2U);
  for (std::size_t d = 0; d < 2; ++d) {
    const TimeDifference& difference = findings.times.differences[d];
    ASSERT_EQ(panels[d].size(), difference.rows.size() + 4);
    double sum = 0;
    for (std::size_t i = 0; i + 2 < panels[d].size(); ++i) sum += panels[d][i][1];
    const std::vector<double>& last = panels[d].back();
    EXPECT_NEAR(last[5], sum, 1e-9) << "the diamond: rows, idle and host";
    EXPECT_NEAR(last[1], sum + difference.residual.difference_us, 1e-9) << "and the residual make the timed difference";
    EXPECT_EQ(last[1], difference.timed.difference_us);
    EXPECT_EQ(panels[d][0][1], difference.rows[0].difference_us);
    EXPECT_EQ(panels[d][0][2], difference.rows[0].low_us);
    EXPECT_EQ(panels[d][0][3], difference.rows[0].high_us);
  }
  const std::string svg = drawn(plot);
  const markup::Page page = markup::read(svg);
  EXPECT_EQ(page.fault, "");
  for (const char* label : {"q4 less q8", "q8-null less q8", "idle", "host", "residual", "timed round",
                            "\u221218.00 [\u221218.82, \u221217.18]"})
    EXPECT_THAT(page.text, HasSubstr(label));
  // Both ends of a name that is too long are kept: what changed, and where.
  EXPECT_THAT(page.text, testing::ContainsRegex("product q8 \\+ activation ->.*\u2026.*gate_proj.weight"));
}

TEST(TimeDifferencesFigure, SumsUpWhatItsTableSumsUp) {
  Findings findings = ops();
  TimeDifference& difference = findings.times.differences[0];
  while (difference.rows.size() < 60) difference.rows.push_back({"more", 1, 1.5, 0.5, kMissing, kMissing});
  const std::vector<TimeRow> rows = shown_rows(difference);
  ASSERT_EQ(rows.size(), kMostTimeRows + 1);
  EXPECT_EQ(rows.back().what, "40 others");
  EXPECT_NEAR(rows.back().difference_us, 40 * 0.5, 1e-9);
  const Plot plot = time_differences_plot(findings);
  EXPECT_EQ(blocks_of(plot.data)[0].size(), kMostTimeRows + 1 + 4);
  EXPECT_EQ(markup::read(drawn(plot)).fault, "");
}

TEST(TimeDifferencesFigure, ADifferenceWithoutIntervalsOrOfNothingIsDrawn) {
  Findings findings = ops();
  for (TimeDifference& difference : findings.times.differences) {
    for (TimeRow& row : difference.rows) row.low_us = row.high_us = kMissing;
    difference.timed.difference_us = difference.residual.difference_us = difference.host.difference_us = 0;
  }
  EXPECT_EQ(markup::read(drawn(time_differences_plot(findings))).fault, "");
  findings.times.differences.resize(1);
  findings.times.differences[0].timed.difference_us = kMissing;  // no prompt that both were profiled on
  EXPECT_NE(time_differences_plot(findings).nothing, "");
}

TEST(RoundFigure, HasEveryLaunchInOrderAndTheLastPartsDoNotOverlap) {
  const Findings findings = kernels(5);
  const std::vector<Block> lanes = blocks_of(round_plot(findings).data);
  ASSERT_EQ(lanes.size(), 5U);
  std::map<double, double> alone;
  double sum = 0;
  for (const Block& lane : lanes) {
    EXPECT_EQ(lane.size(), 64U);
    for (const std::vector<double>& span : lane) {
      EXPECT_LE(span[0], span[1]);
      alone[span[1]] = span[2];
      sum += span[2] - span[1];
    }
  }
  for (auto next = std::next(alone.begin()); next != alone.end(); ++next)
    EXPECT_LE(std::prev(next)->second, next->first + 1e-6);
  EXPECT_NEAR(sum, findings.times.arms[0].busy_us, 1e-6);
  for (std::size_t i = 1; i < lanes.size(); ++i) EXPECT_GE(lanes[i][0][0], lanes[i - 1][0][0]) << "by first begin";
}

TEST(RoundFigure, ManyKindsShareALaneAndNoneIsLost) {
  const Plot plot = round_plot(kernels(60));
  const std::vector<Block> lanes = blocks_of(plot.data);
  ASSERT_EQ(lanes.size(), 16U);
  std::size_t launches = 0;
  for (const Block& lane : lanes) launches += lane.size();
  EXPECT_EQ(launches, 60U * 64);
  const std::string svg = drawn(plot);
  EXPECT_EQ(markup::read(svg).fault, "");
  // A launch of a fraction of a pixel is drawn: more polygons than there would be room for at their true widths.
  std::size_t polygons = 0;
  for (std::size_t at = svg.find("<polygon"); at != std::string::npos; at = svg.find("<polygon", at + 1)) ++polygons;
  EXPECT_GE(polygons, 60U * 64);
}

TEST(RatesFigure, IsBytesOverTimeAndNeedsARate) {
  Findings findings = ops();
  const Plot plot = rates_plot(findings);
  const std::vector<Block> arms = blocks_of(plot.data);
  ASSERT_EQ(arms.size(), 3U);
  for (const std::vector<double>& row : arms[1]) {
    if (std::isnan(row[1])) continue;
    EXPECT_NEAR(row[1], row[2] / row[3] * 1e-3, 1e-9);
  }
  EXPECT_NEAR(arms[1][0][1], 1.67e6 / 43 * 1e-3, 1e-9);
  EXPECT_EQ(arms[0].size(), 11U) << "one op declares no bytes";
  EXPECT_THAT(markup::read(drawn(plot)).text, HasSubstr("read rate 62.3"));
  findings.times.read_gb_per_s = kMissing;
  EXPECT_NE(rates_plot(findings).nothing, "");
}

TEST(TimeFigures, AreLeftOutOfAReportWithoutProfiles) {
  for (const Plot& plot : {times_plot({}), time_differences_plot({}), round_plot({}), rates_plot({})}) {
    EXPECT_NE(plot.nothing, "");
    EXPECT_TRUE(plot.optional);
  }
  const TemporaryDirectory directory;
  (void)write_report(ops(), directory.path());
  EXPECT_TRUE(std::filesystem::exists(directory.path() / "figures" / "round.svg"));
  const std::string page = read_text_file(directory.path() / "report.html");
  EXPECT_EQ(markup::read(page).fault, "");
  const std::size_t figure = page.find("id=\"times-title\"");
  EXPECT_NE(figure, std::string::npos);
  EXPECT_LT(page.find("id=\"arm-times\""), figure);
  EXPECT_LT(figure, page.find("id=\"time-parts\"")) << "a figure stands before its table";
  EXPECT_LT(page.find("id=\"time_differences-title\""), page.find("id=\"time-difference-1\""));
  EXPECT_LT(page.find("id=\"rates-title\""), page.find("id=\"time-rates\""));

  Findings old = ops();  // of a ledger without rounds
  for (ArmTimes& arm : old.times.arms) arm.round.clear();
  (void)write_report(old, directory.path());
  EXPECT_FALSE(std::filesystem::exists(directory.path() / "figures" / "round.svg"));
  EXPECT_THAT(read_text_file(directory.path() / "report.html"), Not(HasSubstr("Figure missing: One round")));
}

TEST(TimeFigures, NamesFromOutsideAreTextAndRunNothing) {
  for (const std::string& name :
       {std::string("<b> & \" ' ` $(touch pwned) `touch pwned` '; system('touch pwned'); x='"), sample::hostile_name(),
        std::string("'\nsystem 'touch pwned'\nx='")}) {
    Findings findings = ops();
    sample::rename_times(findings.times, name);
    for (const Plot& plot :
         {times_plot(findings), time_differences_plot(findings), round_plot(findings), rates_plot(findings)}) {
      const TemporaryDirectory directory;
      const markup::Page page = markup::read(drawn(plot));
      EXPECT_EQ(page.fault, "") << plot.name << ": " << name;
      EXPECT_FALSE(std::filesystem::exists(directory.path() / "pwned"));
    }
  }
}

TEST(TimeFigures, EveryColourTurnsInTheDark) {
  const std::string svg = drawn(times_plot(ops()));
  EXPECT_THAT(svg, Not(HasSubstr("rgb(")));
  for (const Colour& colour : {kParts[0], kParts[7], kOtherParts, kIdle, kHost})
    EXPECT_THAT(svg, HasSubstr("'" + std::string(colour.light) + "']{fill:" + colour.dark + "}"));
  std::set<std::string> lights;
  for (const Colour& colour : kParts) EXPECT_TRUE(lights.insert(colour.light).second) << colour.light;
  for (const Colour& colour : {kOtherParts, kIdle, kHost, kPaper, kInk, kMuted, kRule, kBand})
    EXPECT_TRUE(lights.insert(colour.light).second) << colour.light;
}

RooflineFigure roofline() {
  return {"A round of 1 token <&>", 60, 200, {{"mlp", 3.7, 200, 90}, {"gdn", 1.75, 105, kMissing}, {"none", 0, 0, 0}}};
}

TEST(RooflineFigure, HasTheRoofAndEveryClassUnderIt) {
  const Plot plot = roofline_plot(roofline());
  const std::vector<Block> blocks = blocks_of(plot.data);
  ASSERT_EQ(blocks.size(), 3U) << "the roof and two classes: the third has no operations";
  for (const std::vector<double>& corner : blocks[0]) EXPECT_NEAR(corner[1], std::min(60 * corner[0], 200.0), 1e-9);
  EXPECT_NEAR(blocks[0][1][0], 200.0 / 60, 1e-12) << "the ridge";
  EXPECT_EQ(blocks[1][0][2], 90);
  EXPECT_TRUE(std::isnan(blocks[2][0][2]));
  const markup::Page page = markup::read(drawn(plot));
  EXPECT_EQ(page.fault, "");
  for (const char* label : {"mlp", "gdn", "does 90.0 (45 %)", "read rate 60.00 GB/s", "A round of 1 token <&>"})
    EXPECT_THAT(page.text, HasSubstr(label));
}

TEST(RooflineFigure, WithoutAKnownComputeRateTheRoofGoesOn) {
  RooflineFigure figure = roofline();
  figure.compute_gops = kMissing;
  const Plot plot = roofline_plot(figure);
  const std::vector<Block> blocks = blocks_of(plot.data);
  for (const std::vector<double>& corner : blocks[0]) EXPECT_NEAR(corner[1], 60 * corner[0], 1e-9);
  EXPECT_EQ(markup::read(drawn(plot)).fault, "");
  EXPECT_NE(roofline_plot({}).nothing, "");
}

TEST(RooflineFigure, IsWrittenAsAFileOfItsOwn) {
  const TemporaryDirectory directory;
  write_figure(roofline_plot(roofline()), directory.path() / "r.svg");
  const std::string svg = read_text_file(directory.path() / "r.svg");
  EXPECT_TRUE(svg.starts_with("<?xml"));
  EXPECT_THROW(write_figure(roofline_plot({}), directory.path() / "none.svg"), Error);
  EXPECT_FALSE(std::filesystem::exists(directory.path() / "none.svg"));
  EXPECT_THROW(write_figure(roofline_plot(roofline()), directory.path() / "n.svg", {"/nowhere/gnuplot"}), Error);
}

}  // namespace
}  // namespace tare::reports

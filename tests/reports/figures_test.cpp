#include "reports/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "markup.h"
#include "reports/gnuplot.h"
#include "reports/palette.h"
#include "reports/svg.h"
#include "sample_findings.h"
#include "temporary_directory.h"

namespace tare::reports {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

std::string drawn(const Plot& plot, const fs::path& directory) {
  write_file_atomically(directory / (plot.name + ".gp"), plot.script);
  write_file_atomically(directory / (plot.name + ".dat"), plot.data);
  run_gnuplot("gnuplot", directory, plot.name + ".gp");
  return finished_svg(read_text_file(directory / (plot.name + ".svg")), plot.name, plot.title, plot.description);
}

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++count;
  return count;
}

// Data lines (not comments, not blank) of the i-th block of a gnuplot data file.
std::size_t lines_of_block(const std::string& data, std::size_t block) {
  std::istringstream stream(data);
  std::string line;
  std::size_t present = 0;
  std::size_t blanks = 0;
  std::size_t lines = 0;
  while (std::getline(stream, line)) {
    if (line.empty()) {
      if (++blanks == 2) ++present;
      continue;
    }
    blanks = 0;
    if (line[0] != '#' && present == block) ++lines;
  }
  return lines;
}

TEST(EffectsFigure, HasEveryIntervalOfEveryArm) {
  const TemporaryDirectory directory;
  const Plot plot = effects_plot(sample::three_arms());
  EXPECT_EQ(lines_of_block(plot.data, 0), 4U);  // all arms on one scale: the verdict's, and that of these launches
  EXPECT_EQ(lines_of_block(plot.data, 1), 5U);
  EXPECT_EQ(lines_of_block(plot.data, 2), 5U);
  const std::string svg = drawn(plot, directory.path());
  const markup::Page page = markup::read(svg);
  EXPECT_EQ(page.fault, "");
  for (const char* label : {"q4 against q8", "q8-null against q8", "this suite, any launch", "prompts like these",
                            "these prompts, these launches", "check: this suite", "BCa", "two-way"})
    EXPECT_THAT(page.text, HasSubstr(label));
  EXPECT_THAT(page.text, HasSubstr("+34.1\u00A0% [+33.6,\u00A0+34.6]"));
  EXPECT_THAT(page.text, HasSubstr("+0.02\u00A0% [\u22120.11,\u00A0+0.15]"));
  // One dot an interval, in the panel's colour.
  EXPECT_EQ(count_of(svg, "color='" + std::string(series_colour(1).light) + "'/>"), 5U);
  EXPECT_EQ(count_of(svg, "color='" + std::string(series_colour(2).light) + "'/>"), 5U);
}

TEST(EffectsFigure, OneArmNeedsNoOverview) {
  const Plot plot = effects_plot(sample::handicap());
  EXPECT_EQ(lines_of_block(plot.data, 0), 5U);
  EXPECT_EQ(lines_of_block(plot.data, 1), 0U);
  EXPECT_THAT(plot.caption, Not(HasSubstr("Above")));
}

TEST(EffectsFigure, SaysWhereNoDifferenceLiesWhenItIsOffTheScale) {
  EXPECT_THAT(effects_plot(sample::handicap()).script, HasSubstr("0 (no difference) lies off it, to the right"));
  EXPECT_THAT(effects_plot(sample::three_arms()).script, HasSubstr("lies off it, to the left"));
}

TEST(EffectsFigure, AnIntervalWithoutEndsIsSaidNotDrawn) {
  const TemporaryDirectory directory;
  Findings findings = sample::handicap();
  for (Interval& interval : findings.effects[0].intervals) {
    interval.low_log = interval.high_log = kMissing;
    interval.why_missing = "one block only";
  }
  const markup::Page page = markup::read(drawn(effects_plot(findings), directory.path()));
  EXPECT_EQ(page.fault, "");
  EXPECT_THAT(page.text, HasSubstr("one block only"));
}

TEST(EffectsFigure, NothingKnownIsStillDrawn) {
  const TemporaryDirectory directory;
  Findings findings = sample::handicap();
  for (Interval& interval : findings.effects[0].intervals)
    interval.estimate_log = interval.low_log = interval.high_log = kMissing;
  EXPECT_EQ(markup::read(drawn(effects_plot(findings), directory.path())).fault, "");
}

TEST(EffectsFigure, APointForAnIntervalIsDrawn) {
  const TemporaryDirectory directory;
  Findings findings = sample::handicap();
  for (Interval& interval : findings.effects[0].intervals)
    interval.estimate_log = interval.low_log = interval.high_log = 0.0;
  EXPECT_EQ(markup::read(drawn(effects_plot(findings), directory.path())).fault, "");
}

TEST(RunsFigure, HasEveryRunAndTheDrift) {
  const TemporaryDirectory directory;
  const Plot plot = runs_plot(sample::three_arms());
  EXPECT_EQ(lines_of_block(plot.data, 0), 8U);  // six counted, a warm-up, an interrupted one
  EXPECT_EQ(lines_of_block(plot.data, 1), 7U);
  EXPECT_EQ(lines_of_block(plot.data, 2), 7U);
  EXPECT_EQ(lines_of_block(plot.data, 3), 18U);  // the drift at every counted run
  const std::string svg = drawn(plot, directory.path());
  const markup::Page page = markup::read(svg);
  EXPECT_EQ(page.fault, "");
  for (const char* label : {"q8", "q4", "q8-null", "warm-up or not counted", "decode speed, tok/s", "fitted drift"})
    EXPECT_THAT(page.text, HasSubstr(label));
  // Six counted runs of the third arm in both panels and its entry in the key.
  EXPECT_EQ(count_of(svg, "href='#runs-gpPt8'"), 13U);
}

TEST(RunsFigure, DeviationsAreFromTheArmsLevel) {
  Findings findings = sample::three_arms();
  reports::Run& run = findings.runs.back();
  run.values[0] = 1.01 * run.fitted;  // 1 % above the fit, whose drift there is known
  const double expected = percent_of_log(std::log(1.01) + run.drift_log);
  const std::string data = runs_plot(findings).data;
  const std::string start = "\n" + std::to_string(findings.runs.size()) + " ";
  const std::size_t line = data.find(start);
  ASSERT_NE(line, std::string::npos);
  std::istringstream stream(data.substr(line));
  double x = 0;
  double value = 0;
  double fitted = 0;
  double deviation = 0;
  stream >> x >> value >> fitted >> deviation;
  EXPECT_NEAR(deviation, expected, 1e-9);
}

TEST(RunsFigure, WithoutARegressionThereIsNoSecondPanel) {
  const TemporaryDirectory directory;
  const Plot plot = runs_plot(sample::handicap());
  EXPECT_THAT(plot.script, Not(HasSubstr("fitted drift")));
  EXPECT_THAT(plot.caption, HasSubstr("no regression was fitted"));
  EXPECT_EQ(markup::read(drawn(plot, directory.path())).fault, "");
}

TEST(RunsFigure, BlocksAreParted) {
  EXPECT_EQ(count_of(runs_plot(sample::handicap()).script, "graph 0 to first"), 9U);  // ten blocks
}

TEST(RunsFigure, OneRunIsDrawn) {
  const TemporaryDirectory directory;
  Findings findings = sample::handicap();
  findings.runs.resize(1);
  EXPECT_EQ(markup::read(drawn(runs_plot(findings), directory.path())).fault, "");
}

// A GPU's readings of every counted run: the clock steps down by 15 MHz in the second half.
Findings with_conditions() {
  Findings findings = sample::three_arms();
  findings.conditions.clock_name = "GPU SM clock";
  for (std::size_t i = 0; i < findings.runs.size(); ++i) {
    if (findings.runs[i].state != RunState::kCounted) continue;
    RunConditions run;
    run.run = i;
    run.clock_mhz = i < 12 ? 1980 : 1965;
    run.clock_lowest_mhz = 1950;
    run.clock_highest_mhz = 1980;
    run.temperature_c = 40 + static_cast<double>(i);
    run.others_cores = 0.02;
    run.samples = 55;
    findings.conditions.runs.push_back(run);
  }
  return findings;
}

TEST(ConditionsFigure, HasAPanelForWhatWasReadAndNoneForWhatWasNot) {
  const TemporaryDirectory directory;
  const Plot plot = conditions_plot(with_conditions());
  for (std::size_t arm = 0; arm < 3; ++arm) EXPECT_EQ(lines_of_block(plot.data, arm), 6U) << arm;
  const std::string svg = drawn(plot, directory.path());
  const markup::Page page = markup::read(svg);
  EXPECT_EQ(page.fault, "");
  for (const char* label : {"GPU SM clock, MHz", "GPU temperature", "cores used by others", "q8-null", "run, in order"})
    EXPECT_THAT(page.text, HasSubstr(label));
  for (const char* label : {"GPU power", "waited for a core"}) EXPECT_THAT(page.text, Not(HasSubstr(label)));
  // Six runs of the third arm in each of three panels, and its entry in the key.
  EXPECT_EQ(count_of(svg, "href='#conditions-gpPt8'"), 19U);
}

TEST(ConditionsFigure, AClockThatNeverMovesIsDrawn) {
  const TemporaryDirectory directory;
  Findings findings = with_conditions();
  for (RunConditions& run : findings.conditions.runs)
    run.clock_mhz = run.clock_lowest_mhz = run.clock_highest_mhz = 2596.102;
  EXPECT_EQ(markup::read(drawn(conditions_plot(findings), directory.path())).fault, "");
}

TEST(PromptsFigure, HasEveryPromptSortedAndByCategory) {
  const TemporaryDirectory directory;
  const Plot plot = prompts_plot(sample::three_arms());
  for (std::size_t block = 0; block < 4; ++block) EXPECT_EQ(lines_of_block(plot.data, block), 32U);
  const std::string svg = drawn(plot, directory.path());
  const markup::Page page = markup::read(svg);
  EXPECT_EQ(page.fault, "");
  for (const char* label : {"code", "prose", "q4 against q8", "q8-null against q8"})
    EXPECT_THAT(page.text, HasSubstr(label));
  EXPECT_EQ(count_of(svg, "href='#prompts-gpPt6'"), 65U);  // 32 of "code" for two arms and the key
}

TEST(PromptsFigure, OnePromptIsDrawn) {
  const TemporaryDirectory directory;
  Findings findings = sample::three_arms();
  findings.prompts.resize(1);
  EXPECT_EQ(markup::read(drawn(prompts_plot(findings), directory.path())).fault, "");
}

TEST(PromptsFigure, ManyCategoriesKeepDifferentMarks) {
  const TemporaryDirectory directory;
  Findings findings = sample::three_arms();
  for (std::size_t i = 0; i < findings.prompts.size(); ++i)
    findings.prompts[i].category = "category " + std::to_string(i % 13);
  EXPECT_EQ(markup::read(drawn(prompts_plot(findings), directory.path())).fault, "");
  for (std::size_t a = 0; a < 60; ++a)
    for (std::size_t b = 0; b < a; ++b)
      EXPECT_FALSE(series_colour(a).light == series_colour(b).light && point_type(a) == point_type(b)) << a << " " << b;
}

TEST(Figures, HaveNothingToDrawWithoutFindings) {
  for (const Plot& plot : {effects_plot({}), runs_plot({}), prompts_plot({}), conditions_plot({})}) {
    EXPECT_NE(plot.nothing, "");
    EXPECT_EQ(plot.script, "");
  }
}

TEST(Figures, NamesCannotRunCommands) {
  const TemporaryDirectory directory;
  Findings findings = with_conditions();
  for (const char* attack : {"`touch pwned`", "'; system('touch pwned'); x='", "\"; system(\"touch pwned\"); x=\"",
                             "'\nsystem 'touch pwned'\nx='", "\n!touch pwned\n", "@x \\\n"}) {
    for (Arm& arm : findings.arms) arm.name = arm.display_name = attack;
    for (Measure& measure : findings.measures) measure.name = measure.unit = attack;
    for (Prompt& prompt : findings.prompts) prompt.id = prompt.category = attack;
    findings.conditions.clock_name = attack;
    for (Effect& effect : findings.effects)
      for (Interval& interval : effect.intervals) interval.method = attack;
    for (const Plot& plot :
         {effects_plot(findings), runs_plot(findings), prompts_plot(findings), conditions_plot(findings)})
      EXPECT_EQ(markup::read(drawn(plot, directory.path())).fault, "") << attack;
    EXPECT_FALSE(fs::exists(directory.path() / "pwned")) << attack;
  }
}

TEST(Svg, NamesAreLeftAsTheyAre) {
  const std::string name = "rgb(1,2,3) id=\"x\" href=\"#y\"";
  Findings findings = sample::three_arms();
  findings.prompts[0].category = name;
  const TemporaryDirectory directory;
  const markup::Page page = markup::read(drawn(prompts_plot(findings), directory.path()));
  EXPECT_THAT(page.text, HasSubstr(name.substr(0, 20)));
}

TEST(Svg, IdsAreUniqueAcrossFiguresAndReferencesHold) {
  const TemporaryDirectory directory;
  const Findings findings = with_conditions();
  std::vector<std::string> ids;
  for (const Plot& plot :
       {effects_plot(findings), runs_plot(findings), prompts_plot(findings), conditions_plot(findings)}) {
    const markup::Page page = markup::read(drawn(plot, directory.path()));
    const std::vector<std::string> own = markup::attributes(page, "id");
    for (const std::string& reference : markup::attributes(page, "xlink:href"))
      EXPECT_THAT(own, testing::Contains(reference.substr(1)));
    ids.insert(ids.end(), own.begin(), own.end());
  }
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
}

TEST(Svg, EveryColourOfThePaletteTurnsInTheDark) {
  const TemporaryDirectory directory;
  const std::string svg = drawn(runs_plot(sample::three_arms()), directory.path());
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(svg, Not(HasSubstr("rgb(")));
  for (const Colour& colour : {kInk, kMuted, kRule, series_colour(0), series_colour(1), series_colour(2)})
    EXPECT_THAT(svg, HasSubstr("'" + std::string(colour.light) + "']{stroke:" + colour.dark + "}"));
}

TEST(Svg, RefusesWhatIsNoDrawing) {
  EXPECT_THROW(static_cast<void>(finished_svg("no drawing", "x", "t", "d")), Error);
  EXPECT_THROW(static_cast<void>(finished_svg("<svg></svg>", "x", "t", "d")), Error);
}

TEST(Gnuplot, MissingNamesThePackage) {
  const TemporaryDirectory directory;
  try {
    run_gnuplot("/nowhere/gnuplot", directory.path(), "x.gp");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
    EXPECT_THAT(error.parts().what, HasSubstr("'/nowhere/gnuplot' cannot be started"));
    EXPECT_THAT(error.parts().hint, HasSubstr("apt-get install gnuplot-nox"));
  }
}

TEST(Gnuplot, AFaultCarriesItsLastWords) {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "x.gp", "plot 'not there.dat'\nthis is no command\n");
  try {
    run_gnuplot("gnuplot", directory.path(), "x.gp");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
    EXPECT_THAT(error.parts().what, HasSubstr("gnuplot failed:"));
    EXPECT_THAT(error.parts().what, HasSubstr("line "));
    EXPECT_THAT(error.parts().where, HasSubstr("x.gp"));
  }
}

TEST(Gnuplot, OneThatHangsIsEnded) {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "x.gp", "pause 1000\n");
  try {
    run_gnuplot("gnuplot", directory.path(), "x.gp", 0.3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.parts().what, HasSubstr("took longer than 0.3 s"));
  }
}

}  // namespace
}  // namespace tare::reports

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "base/file.h"
#include "markup.h"
#include "reports/figures.h"
#include "reports/gnuplot.h"
#include "reports/html.h"
#include "reports/palette.h"
#include "reports/report.h"
#include "reports/sections.h"
#include "reports/svg.h"
#include "sample_findings.h"
#include "temporary_directory.h"

namespace tare::reports {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string drawn(const Plot& plot) {
  const TemporaryDirectory directory;
  write_figure(plot, directory.path() / "figure.svg");
  return read_text_file(directory.path() / "figure.svg");
}

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++count;
  return count;
}

TEST(MatrixFigure, HasACellForEveryCombinationAndSaysWhatIsLeftOut) {
  const Findings findings = sample::matrix();
  const Plot plot = matrix_plot(findings);
  const std::string svg = drawn(plot);
  const markup::Page page = markup::read(svg);
  EXPECT_EQ(page.fault, "");
  EXPECT_THAT(page.text, HasSubstr("bf16, 2t"));
  EXPECT_EQ(count_of(page.text, "not measured"), 2U);  // q3 with int8, one and two threads
  EXPECT_EQ(count_of(page.text, "baseline"), 2U);      // its cell and the key
  EXPECT_EQ(count_of(page.text, ", not shown"), 2U);   // int8 alone: its cell, and the description
  EXPECT_THAT(page.text, HasSubstr("+19.7\u00A0%"));   // q4: exp(0.18) - 1
  EXPECT_THAT(svg, HasSubstr(kFaster[3].dark));
  EXPECT_EQ(count_of(plot.data, "\n"), 1U + findings.arms.size());
}

TEST(MatrixFigure, ColoursOnlyWhatIsShown) {
  Findings findings = sample::matrix();
  const auto cells = [&](const Colour& colour) { return count_of(matrix_plot(findings).script, colour.light); };
  const std::size_t key = 1;
  EXPECT_EQ(cells(kNotShown), key + 1);
  EXPECT_EQ(cells(kSlower[3]), key);
  findings.effects[0].estimate_log = -1;
  EXPECT_EQ(cells(kSlower[3]), key + 1);
  for (Effect& effect : findings.effects) effect.difference_shown = false;
  EXPECT_EQ(cells(kNotShown), key + findings.effects.size());
  EXPECT_EQ(cells(kFaster[3]), 0U);  // nor in the key
}

TEST(MatrixFigure, OneFactorAtATimeHasARowAFactor) {
  const Plot plot = matrix_plot(sample::one_at_a_time());
  const markup::Page page = markup::read(drawn(plot));
  for (const char* word : {"weights", "kv", "threads", "q3", "int8", "2t"}) EXPECT_THAT(page.text, HasSubstr(word));
  EXPECT_EQ(count_of(page.text, "baseline"), 4U);  // in every row, and the key
  EXPECT_THAT(page.text, Not(HasSubstr("not measured")));
  EXPECT_FALSE(interactions_plot(sample::one_at_a_time()).nothing.empty());
  EXPECT_THAT(html_of(make_document(sample::one_at_a_time(), {})), HasSubstr("no interaction is claimed"));
}

TEST(FactorsFigure, HasEveryEffectAndInteraction) {
  const Plot plot = factors_plot(sample::matrix());
  const markup::Page page = markup::read(drawn(plot));
  for (const char* word : {"weights: q4 against q8", "kv: int8 against bf16", "threads: 2t against 1t",
                           "weights q3 with threads 2t", "Interactions", "not shown"})
    EXPECT_THAT(page.text, HasSubstr(word));
  EXPECT_EQ(count_of(plot.description, "shown. "), 8U);
}

TEST(InteractionsFigure, HasAPanelForEachPairAndMeansOfItsArms) {
  const Plot plot = interactions_plot(sample::matrix());
  const markup::Page page = markup::read(drawn(plot));
  for (const char* word : {"weights by kv", "weights by threads", "kv by threads"})
    EXPECT_THAT(page.text, HasSubstr(word));
  EXPECT_THAT(plot.data, HasSubstr("NaN"));  // q3 with int8 has no mean
  // Of kv by threads q3 is left out, which has no int8: 0.0003 is all that int8 does, not what q3 is faster.
  const std::size_t last = plot.data.find("# kv by threads");
  double x = 0;
  double bf16 = 0;
  double int8 = 0;
  std::istringstream(plot.data.substr(plot.data.find("\n0 ", last) + 1)) >> x >> bf16 >> int8;
  EXPECT_NEAR(std::log(int8 / bf16), 0.0003, 1e-9);
}

TEST(ForestOfManyArms, IsOnePanelWithMarginAndTheTableHasTheRest) {
  const Plot plot = effects_plot(sample::matrix());
  EXPECT_THAT(plot.caption, HasSubstr("shaded is the margin"));
  EXPECT_THAT(plot.caption, HasSubstr("The table below has all intervals"));
  EXPECT_THAT(plot.script, HasSubstr(std::string("fc rgb '") + kNotShown.light));
  EXPECT_EQ(count_of(plot.script, "\nreset\n"), 1U);
  Findings none = sample::matrix();
  none.methods.equivalence_margin_log = kMissing;
  EXPECT_THAT(effects_plot(none).script, Not(HasSubstr(kNotShown.light)));
}

TEST(FrontFigure, HasEveryArmThatWasScoredAndTheFrontIsALine) {
  Findings findings = sample::matrix();
  const Plot plot = front_plot(findings);
  const markup::Page page = markup::read(drawn(plot));
  EXPECT_EQ(page.fault, "");
  EXPECT_EQ(count_of(plot.description, ", on the front"), 3U);
  EXPECT_EQ(count_of(plot.description, " nats"), findings.arms.size());
  EXPECT_THAT(plot.description, HasSubstr("q8_bf16_1t: the baseline, 0.0002 nats"));
  EXPECT_THAT(html_of(make_document(findings, {})), HasSubstr("id=\"front-table\""));
  findings.fidelity.clear();
  EXPECT_FALSE(front_plot(findings).nothing.empty());
  EXPECT_THAT(html_of(make_document(findings, {})), Not(HasSubstr("id=\"front-table\"")));
}

TEST(MatrixSection, StandsWhereThereAreFactors) {
  EXPECT_TRUE(matrix_section(sample::three_arms()).blocks.empty());
  const std::string html = html_of(make_document(sample::matrix(), {}));
  for (const char* word : {"id=\"matrix-table\"", "id=\"factor-effects\"", "id=\"interactions-table\"",
                           "Left out by the experiment: weights q3, kv int8."})
    EXPECT_THAT(html, HasSubstr(word));
}

}  // namespace
}  // namespace tare::reports

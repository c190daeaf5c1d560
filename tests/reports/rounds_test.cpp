// "Rounds and drafts": the tables and the figure hold the findings' numbers, and odd findings are shown too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/file.h"
#include "reports/figures.h"
#include "reports/gnuplot.h"
#include "reports/markdown.h"
#include "reports/numbers.h"
#include "reports/sections.h"
#include "reports/svg.h"
#include "sample_findings.h"
#include "temporary_directory.h"

namespace tare::reports {
namespace {

using testing::HasSubstr;
using testing::Not;

// Two arms: one drafts up to three tokens, the other none.
Findings with_rounds() {
  Findings findings = sample::three_arms();
  ArmRounds tree;
  tree.arm = 1;
  tree.rounds = 40;
  tree.tokens = 100;
  tree.nodes = 640;
  tree.by_rounds = 2.5;
  tree.by_texts = 2.4;
  tree.by_categories = 2.6;
  tree.round_us = 1000;
  tree.categories = {{"prose", 30, 66}, {"code", 10, 34}};
  tree.positions = {{40, 40, 36}, {40, 36, 18}, {38, 18, 6}, {38, 6, 0}};
  tree.phases = {{"draft", 200}, {"verify", 700}};
  ArmRounds plain;
  plain.arm = 0;
  plain.rounds = plain.tokens = plain.nodes = 100;
  plain.by_rounds = plain.by_texts = plain.by_categories = 1;
  plain.round_us = 600;
  findings.rounds = {plain, tree};
  return findings;
}

std::string shown(const Findings& findings) {
  Document document;
  document.sections = {rounds_section(findings)};
  return markdown_of(document);
}

TEST(Rounds, TablesHoldTheFindingsNumbers) {
  const std::string text = shown(with_rounds());
  EXPECT_THAT(text, HasSubstr("| 2.500 | 2.400 | 2.600 | 16.0 | 40 | 100 | 1000.0 | 2500.0 |"));
  EXPECT_THAT(text, HasSubstr("| 1.000 | 1.000 | 1.000 | 1.0 | 100 | 100 | 600.0 | 1666.7 |"));
  // Of rounds that decided on it, and of those that had accepted all before it.
  EXPECT_THAT(text, HasSubstr(share_text(0.9) + " (" + share_text(0.9) + ")"));
  EXPECT_THAT(text, HasSubstr(share_text(0.45) + " (" + share_text(0.5) + ")"));
  EXPECT_THAT(text, HasSubstr(share_text(6.0 / 38) + " (" + share_text(6.0 / 18) + ")"));
  EXPECT_THAT(text, HasSubstr("| prose |"));
  EXPECT_THAT(text, HasSubstr("| 200.0 | 700.0 | 100.0 | 1000.0 |")) << "what no phase tells is the rest";
}

TEST(Rounds, WithoutRoundsThereIsNoSection) {
  EXPECT_THAT(shown(sample::three_arms()), Not(HasSubstr("Tokens a round")));
  EXPECT_NE(acceptance_plot(sample::three_arms()).nothing, "");
  Findings plain = with_rounds();
  plain.rounds.resize(1);
  EXPECT_NE(acceptance_plot(plain).nothing, "") << "nothing was drafted";
}

TEST(Rounds, TheFigureHoldsSharesAndWilsonIntervals) {
  const Plot plot = acceptance_plot(with_rounds());
  ASSERT_EQ(plot.nothing, "");
  // 36 of 40: Wilson's interval by the formula's other form, roots of (p - p^)^2 = z^2 p (1 - p) / n.
  EXPECT_THAT(plot.data, HasSubstr("\n1 1 90 76.9")) << plot.data;
  EXPECT_THAT(plot.data, HasSubstr(" 96.0")) << plot.data;
  EXPECT_THAT(plot.data, HasSubstr(" 18 40\n")) << "of all rounds";
  EXPECT_THAT(plot.data, HasSubstr(" 18 36\n")) << "of those that came so far";
  EXPECT_THAT(plot.data, HasSubstr("\n4 4 0 ")) << "never accepted is a point at 0";
  EXPECT_THAT(plot.description, HasSubstr("token 2 18 of 40"));
}

TEST(Rounds, TheFigureIsDrawn) {
  Findings findings = with_rounds();
  findings.rounds[0].positions = {{5, 5, 5}};  // an arm with one position beside one with four
  const Plot plot = acceptance_plot(findings);
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "acceptance.gp", plot.script);
  write_file_atomically(directory.path() / "acceptance.dat", plot.data);
  run_gnuplot("gnuplot", directory.path(), "acceptance.gp");
  const std::string svg =
      finished_svg(read_text_file(directory.path() / "acceptance.svg"), plot.name, plot.title, plot.description);
  EXPECT_THAT(svg, HasSubstr("of rounds that came so far"));
  EXPECT_THAT(svg, HasSubstr("drafted token"));
}

}  // namespace
}  // namespace tare::reports

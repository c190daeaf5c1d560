#include "reports/escape.h"

#include <gtest/gtest.h>

namespace tare::reports {
namespace {

TEST(VisibleText, ShowsControlsAndKeepsLetters) {
  EXPECT_EQ(visible_text("a\nb\x01\x7f"), "a\u240Ab\u2401\u2421");
  EXPECT_EQ(visible_text("\u00E9\u6F22\U0001F600"), "\u00E9\u6F22\U0001F600");
}

TEST(VisibleText, ReplacesInvalidBytesOneByOne) {
  EXPECT_EQ(visible_text("\xff"
                         "a"),
            "\uFFFDa");
  EXPECT_EQ(visible_text("\xC3"), "\uFFFD");                                // cut short
  EXPECT_EQ(visible_text("\xC0\xAF"), "\uFFFD\uFFFD");                      // overlong "/"
  EXPECT_EQ(visible_text("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");            // a surrogate
  EXPECT_EQ(visible_text("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // beyond U+10FFFF
}

TEST(VisibleText, ReplacesWhatActsUnseen) {
  for (const char* hidden : {"\u202E", "\u2066", "\u200F", "\u0085", "\uFEFF", "\u2028"})
    EXPECT_EQ(visible_text(hidden), "\uFFFD");
}

TEST(RunningText, MakesOneLine) {
  EXPECT_EQ(running_text("  a\r\n\tb \x02 "), "a b \u2402");
}

TEST(Shortened, CutsAtCodePoints) {
  EXPECT_EQ(shortened("\u00E9\u00E9\u00E9", 3), "\u00E9\u00E9\u00E9");
  EXPECT_EQ(shortened("\u00E9\u00E9\u00E9\u00E9", 3), "\u00E9\u00E9\u2026");
  EXPECT_EQ(shortened("", 3), "");
}

TEST(MarkdownText, EscapesEverySpecialCharacter) {
  EXPECT_EQ(markdown_text("a|b*c_d<e>[f]`g`\\~$#&"), "a\\|b\\*c\\_d\\<e\\>\\[f\\]\\`g\\`\\\\\\~\\$\\#\\&");
  EXPECT_EQ(markdown_text("a\nb"), "a\u240Ab");
}

TEST(MarkdownCode, FencesLongerThanWhatItHolds) {
  EXPECT_EQ(markdown_code("x"), "`x`");
  EXPECT_EQ(markdown_code("a``b"), "```a``b```");
  EXPECT_EQ(markdown_code("`a"), "`` `a ``");
  EXPECT_EQ(markdown_code("a|b"), "`a\\|b`");
  EXPECT_EQ(markdown_code(""), "");
}

TEST(CsvField, QuotesWhatNeedsIt) {
  EXPECT_EQ(csv_field("plain"), "plain");
  EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_field("say \"x\""), "\"say \"\"x\"\"\"");
  EXPECT_EQ(csv_field("a\nb"), "\"a\nb\"");
  EXPECT_EQ(csv_field(std::string_view("a\0b", 3)), "a\u2400b");
}

TEST(GnuplotString, HoldsNoQuoteThatCouldEndIt) {
  EXPECT_EQ(gnuplot_string("it's"), "'it\u2019s'");
  EXPECT_EQ(gnuplot_string("'"), "'\u2019'");
  EXPECT_EQ(gnuplot_string("`ls` \\n \"x\" $a @b"), "'`ls` \\n \"x\" $a @b'");
  EXPECT_EQ(gnuplot_string("a\nb"), "'a\u240Ab'");
}

TEST(XmlText, EscapesMarkup) {
  EXPECT_EQ(xml_text("<a b=\"c\">&"), "&lt;a b=&quot;c&quot;&gt;&amp;");
}

}  // namespace
}  // namespace tare::reports

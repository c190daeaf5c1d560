#include "reports/latex.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "base/file.h"
#include "reports/escape.h"
#include "reports/sections.h"
#include "sample_findings.h"
#include "temporary_directory.h"

namespace tare::reports {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(LatexText, NothingActs) {
  EXPECT_EQ(latex_text("50% & $x_1^2$ #3 {a} ~b\\c"),
            "50\\% \\& \\$x\\_1\\textasciicircum{}2\\$ \\#3 \\{a\\} \\textasciitilde{}b\\textbackslash{}c");
  EXPECT_EQ(latex_text("[2pt] *"), "{[}2pt{]} {*}");  // neither is taken for an argument of the line end before it
  EXPECT_EQ(latex_text("--flag ---"), "-{}-flag -{}-{}-");
  EXPECT_EQ(latex_text("a\nb"), "a\\tareunicode{240A}b");
}

TEST(LatexText, LettersStayOrAreNamed) {
  EXPECT_EQ(latex_text("\u00fcber \u017e"), "\u00fcber \u017e");
  EXPECT_EQ(latex_text("\u4e2d \U0001F600"), "\\tareunicode{4E2D} \\tareunicode{1F600}");
  EXPECT_EQ(latex_text("\u22120.11\u00A0%"), "\\textminus{}0.11~\\%");
}

TEST(Latex, HasEveryTableThatIsNotFolded) {
  const Document document = make_document(sample::three_arms(), {});
  const std::string text = latex_of(document);
  std::size_t tables = 0;
  for (const Section& section : document.sections) {
    for (const Block& block : section.blocks) {
      const auto* table = std::get_if<Table>(&block);
      if (table == nullptr || table->rows.empty()) continue;
      if (table->folded.empty()) {
        ++tables;
        EXPECT_THAT(text, HasSubstr("\\label{tab:" + table->id + "}"));
      } else {
        EXPECT_THAT(text, Not(HasSubstr("\\label{tab:" + table->id + "}")));
      }
    }
  }
  EXPECT_GE(tables, 8U);
  EXPECT_THAT(text, HasSubstr("q4 & better & yes & +34.1 & +33.6 & +34.6 & \\textless{}~0.0001"));
}

// Where LaTeX is found its own word counts; hostile names are in every cell.
TEST(Latex, Compiles) {
  if (std::system("command -v pdflatex >/dev/null 2>&1") != 0) GTEST_SKIP() << "no pdflatex here: texlive-latex-base";
  const TemporaryDirectory directory;
  const auto compile = [&](const std::string& tables) {
    write_file_atomically(directory.path() / "tables.tex", tables);
    write_file_atomically(
        directory.path() / "paper.tex",
        "\\documentclass{article}\n\\usepackage[T1]{fontenc}\n\\usepackage{textcomp,booktabs,graphicx}"
        "\n\\begin{document}\n\\input{tables}\n\\end{document}\n");
    return std::system(("cd '" + directory.path().string() +
                        "' && pdflatex -interaction=nonstopmode -halt-on-error paper.tex >/dev/null 2>&1")
                           .c_str());
  };
  const std::string tables = latex_of(make_document(sample::hostile(), {}));
  EXPECT_EQ(compile(tables), 0);
  EXPECT_NE(compile(tables + "a & b\n"), 0);
}

}  // namespace
}  // namespace tare::reports

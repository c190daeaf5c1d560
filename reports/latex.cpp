#include "reports/latex.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/escape.h"

namespace tare::reports {
namespace {

// Letters beyond the fonts of pdfLaTeX are named by number; with XeLaTeX or LuaLaTeX and a font that has them:
// \renewcommand{\tareunicode}[1]{\symbol{"#1}}.
constexpr const char* kPreamble =
    R"tex(% Tables by tare. In the preamble: \usepackage[T1]{fontenc} \usepackage{textcomp,booktabs,graphicx}
\providecommand{\tareunicode}[1]{[U+#1]}
% A table that is wider than the line is made as wide.
\ifdefined\tarebox\else\newsavebox{\tarebox}\fi
\ifdefined\tarefit\else\newenvironment{tarefit}{\begin{lrbox}{\tarebox}}{\end{lrbox}\ifdim\wd\tarebox>\linewidth
  \resizebox{\linewidth}{!}{\usebox{\tarebox}}\else\usebox{\tarebox}\fi}\fi
)tex";
constexpr std::size_t kWrapAt = 44;  // bytes of a cell of text; its column is broken into lines then
constexpr const char* kWrappedColumn = "p{0.4\\linewidth}";

std::string cell_text(const Cell& cell) {
  return cell.code && !cell.text.empty() ? "\\texttt{" + latex_text(cell.text) + "}" : latex_text(cell.text);
}

std::string row_text(const Table& table, const Row& row) {
  if (row.group_heading)
    return fmt::format("    \\addlinespace\n    \\multicolumn{{{}}}{{l}}{{\\textbf{{{}}}}} \\\\\n",
                       table.columns.size(), latex_text(row.cells.at(0).text));
  std::string text = "    ";
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const std::string shown = c < row.cells.size() ? cell_text(row.cells[c]) : std::string();
    if (c > 0) text += " & ";
    text += row.emphasis && !shown.empty() ? "\\textbf{" + shown + "}" : shown;
  }
  return text + " \\\\\n";
}

std::string table_text(const Table& table) {
  if (!table.folded.empty() || table.rows.empty()) return {};
  std::string columns;
  std::string headings;
  for (const Column& column : table.columns) {
    const std::size_t c = static_cast<std::size_t>(&column - table.columns.data());
    const bool wraps = std::any_of(table.rows.begin(), table.rows.end(), [&](const Row& row) {
      return !row.group_heading && c < row.cells.size() && row.cells[c].text.size() > kWrapAt;
    });
    columns += column.numeric ? "r" : wraps ? kWrappedColumn : "l";
    headings += (headings.empty() ? "" : " & ") + latex_text(column.heading);
  }
  std::string text = fmt::format(
      "\n\\begin{{table}}\n  \\centering\n  \\caption{{{}}}\n  \\label{{tab:{}}}\n  "
      "\\begin{{tarefit}}\\begin{{tabular}}{{{}}}\n    "
      "\\toprule\n    "
      "{} \\\\\n    \\midrule\n",
      latex_text(table.caption), table.id, columns, headings);
  for (const Row& row : table.rows) text += row_text(table, row);
  text += "    \\bottomrule\n  \\end{tabular}\\end{tarefit}\n";
  if (!table.note.empty())
    text += "  \\par\\smallskip\\begin{minipage}{\\linewidth}\\footnotesize " + latex_text(table.note) +
            "\\end{minipage}\n";
  return text + "\\end{table}\n";
}

}  // namespace

std::string latex_of(const Document& document) {
  std::string text = kPreamble;
  for (const Section& section : document.sections)
    for (const Block& block : section.blocks)
      if (const auto* table = std::get_if<Table>(&block)) text += table_text(*table);
  return text;
}

}  // namespace tare::reports

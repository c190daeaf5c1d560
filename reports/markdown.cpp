#include "reports/markdown.h"

#include <fmt/format.h>

#include "reports/escape.h"

namespace tare::reports {
namespace {

std::string cell_text(const Cell& cell) {
  return cell.code ? markdown_code(cell.text) : markdown_text(cell.text);
}

std::string table_text(const Table& table) {
  if (!table.folded.empty()) return {};
  std::string text = fmt::format("**{}**\n\n", markdown_text(table.caption));
  if (table.rows.empty()) return text + markdown_text(table.said_when_empty) + "\n\n";
  std::string headings = "|";
  std::string rule = "|";
  for (const Column& column : table.columns) {
    headings += " " + markdown_text(column.heading) + " |";
    rule += column.numeric ? "---:|" : "---|";
  }
  text += headings + "\n" + rule + "\n";
  for (const Row& row : table.rows) {
    text += "|";
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const std::string shown = c < row.cells.size() ? cell_text(row.cells[c]) : std::string();
      const bool bold = (row.group_heading && c == 0) || (row.emphasis && !shown.empty() && !row.cells[c].code);
      text += bold ? " **" + shown + "** |" : " " + shown + " |";
    }
    text += "\n";
  }
  text += "\n";
  if (!table.note.empty()) text += markdown_text(table.note) + "\n\n";
  return text;
}

struct BlockText {
  std::string operator()(const Paragraph& paragraph) const { return markdown_text(paragraph.text) + "\n\n"; }
  std::string operator()(const Listing&) const { return {}; }
  std::string operator()(const Table& table) const { return table_text(table); }
  std::string operator()(const Figure& figure) const {
    if (!figure.missing.empty())
      return fmt::format("**Figure missing: {}.** {}\n\n", markdown_text(figure.title), markdown_text(figure.missing));
    return fmt::format("![{}](figures/{}.svg)\n\n{}\n\n", markdown_text(figure.title), figure.name,
                       markdown_text(figure.caption));
  }
};

std::string lead_text(const Lead& lead) {
  std::string text = fmt::format("# {}\n\n", markdown_text(lead.title));
  text += fmt::format("Experiment {}, {}.\n\n", markdown_text(lead.experiment), markdown_text(lead.created));
  if (!lead.description.empty()) text += markdown_text(lead.description) + "\n\n";
  text += markdown_text(lead.compared) + "\n\n" + markdown_text(lead.machine) + "\n\n";
  text += fmt::format("{} {}\n\n", lead.valid ? "\u2713" : "\u2717", markdown_text(lead.validity));
  for (const VerdictLine& line : lead.verdicts) {
    text += fmt::format("- **{}** ({}): {}", markdown_text(line.arm), markdown_text(line.word),
                        markdown_text(line.sentence));
    if (!line.truth.empty()) text += " " + markdown_text(line.truth);
    text += "\n";
  }
  text += lead.verdicts.empty() ? markdown_text(lead.no_verdicts) + "\n\n" : "\n";
  if (lead.warnings.empty()) return text + "No warnings.\n\n";
  text += "**Read with this in mind**\n\n";
  for (const WarningLine& line : lead.warnings) {
    text += fmt::format("- {}: ", markdown_text(line.word));
    if (!line.about.empty()) text += fmt::format("**{}:** ", markdown_text(line.about));
    text += fmt::format("{} {}\n", markdown_text(line.text), markdown_code(line.code));
  }
  return text + "\n";
}

}  // namespace

std::string markdown_of(const Document& document) {
  std::string text = lead_text(document.lead);
  for (const Section& section : document.sections) {
    text += fmt::format("## {}\n\n", markdown_text(section.heading));
    for (const Block& block : section.blocks) text += std::visit(BlockText{}, block);
  }
  return text + markdown_text(document.colophon) + "\n";
}

}  // namespace tare::reports

#include "reports/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <kainjow/mustache.hpp>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "reports/escape.h"
#include "reports/numbers.h"
#include "reports/templates.h"

namespace tare::reports {
namespace {

namespace mustache = kainjow::mustache;
using mustache::data;

// A section in a template is rendered for any string, also an empty one, and a key that is missing is looked for
// further out: so what is absent is said to be false.
void set_text(data& object, const std::string& key, const std::string& text) {
  object.set(key, text.empty() ? data(data::type::bool_false) : data(text));
}

void set_flag(data& object, const std::string& key, bool value) {
  object.set(key, data(value ? data::type::bool_true : data::type::bool_false));
}

// Decimals of a text that is a number ("+1,024.50", "< 0.0001"); nothing for other texts.
std::optional<std::size_t> decimals_of_text(std::string_view text) {
  std::size_t digits = 0;
  std::optional<std::size_t> point;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool is_digit = c >= '0' && c <= '9';
    const bool is_sign = c == '+' || c == ',' || c == '<' || static_cast<unsigned char>(c) >= 0x80;
    if (!is_digit && !is_sign && c != '.') return std::nullopt;
    if (c == '.') point = i;
    if (is_digit) ++digits;
  }
  if (digits == 0) return std::nullopt;
  return point ? text.size() - *point - 1 : 0;
}

data cell_data(const Cell& cell, const std::string& text, const Column& column, bool first) {
  data object;
  object.set("text", text);
  set_flag(object, "first", first);
  set_flag(object, "numeric", column.numeric);
  set_flag(object, "code", cell.code);
  return object;
}

// Rows of one group as they are shown: numeric columns with their decimals aligned.
data rows_data(const std::vector<Column>& columns, const std::vector<const Row*>& rows) {
  std::vector<std::vector<std::string>> texts(columns.size());
  for (std::size_t c = 0; c < columns.size(); ++c) {
    for (const Row* row : rows) texts[c].push_back(row->cells.at(c).text);
    if (columns[c].numeric) align_decimals(texts[c]);
  }
  data list{data::type::list};
  for (std::size_t r = 0; r < rows.size(); ++r) {
    data cells{data::type::list};
    for (std::size_t c = 0; c < columns.size(); ++c)
      cells.push_back(cell_data(rows[r]->cells[c], texts[c][r], columns[c], c == 0));
    data object;
    object.set("cells", cells);
    set_flag(object, "emphasis", rows[r]->emphasis);
    list.push_back(object);
  }
  return list;
}

data group_data(const Table& table, const std::string& heading, const std::vector<const Row*>& rows) {
  data object;
  set_text(object, "heading", heading);
  object.set("rows", rows_data(table.columns, rows));
  return object;
}

data table_data(const Table& table) {
  data object;
  object.set("id", table.id);
  object.set("caption", table.caption);
  object.set("width", fmt::format("{}", table.columns.size()));
  set_text(object, "note", table.note);
  set_text(object, "folded", table.folded);
  set_text(object, "empty", table.rows.empty() ? table.said_when_empty : std::string());
  data columns{data::type::list};
  for (const Column& column : table.columns) {
    data item;
    item.set("heading", column.heading);
    set_flag(item, "numeric", column.numeric);
    columns.push_back(item);
  }
  object.set("columns", columns);
  data groups{data::type::list};
  std::string heading;
  std::vector<const Row*> rows;
  const auto finish_group = [&] {
    if (!rows.empty() || !heading.empty()) groups.push_back(group_data(table, heading, rows));
    rows.clear();
  };
  for (const Row& row : table.rows) {
    if (!row.group_heading) {
      rows.push_back(&row);
      continue;
    }
    finish_group();
    heading = row.cells.at(0).text;
  }
  finish_group();
  object.set("groups", groups);
  return object;
}

// A block is an object with one of the four keys set.
struct BlockData {
  data operator()(const Paragraph& paragraph) const {
    data inner;
    inner.set("text", paragraph.text);
    return only("paragraph", inner);
  }
  data operator()(const Listing& listing) const {
    data inner;
    inner.set("summary", listing.summary);
    inner.set("text", lines_of(listing.text));
    return only("listing", inner);
  }
  data operator()(const Figure& figure) const {
    data inner;
    inner.set("title", figure.title);
    inner.set("caption", figure.caption);
    set_text(inner, "svg", figure.svg);
    set_text(inner, "missing", figure.missing);
    return only("figure", inner);
  }
  data operator()(const Table& table) const { return only("table", table_data(table)); }

  static data only(const std::string& kind, const data& inner) {
    data block;
    for (const char* other : {"paragraph", "listing", "figure", "table"}) set_flag(block, other, false);
    block.set(kind, inner);
    return block;
  }
  // Text whose line ends are meant.
  static std::string lines_of(const std::string& text) {
    std::string shown;
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      shown += visible_text(std::string_view(text).substr(at, end - at));
      if (end < text.size()) shown += '\n';
      at = end + 1;
    }
    return shown;
  }
};

std::string tone_class(Tone tone) {
  switch (tone) {
    case Tone::kGood:
      return "good";
    case Tone::kBad:
      return "bad";
    case Tone::kNeutral:
      return "neutral";
    case Tone::kInvalid:
      return "invalid";
  }
  return {};
}

void set_lead(data& page, const Lead& lead) {
  page.set("title", lead.title);
  page.set("experiment", lead.experiment);
  set_text(page, "description", lead.description);
  page.set("compared", lead.compared);
  page.set("machine", lead.machine);
  page.set("created", lead.created);
  page.set("validity", lead.validity);
  page.set("validity_tone", lead.valid ? "good" : "invalid");
  page.set("validity_mark", lead.valid ? "\u2713" : "\u2717");
  page.set("no_verdicts", lead.no_verdicts);
  set_flag(page, "has_verdicts", !lead.verdicts.empty());
  set_flag(page, "has_warnings", !lead.warnings.empty());
  data verdicts{data::type::list};
  for (const VerdictLine& line : lead.verdicts) {
    data item;
    item.set("arm", line.arm);
    item.set("word", line.word);
    item.set("estimate", line.estimate);
    item.set("interval", line.interval);
    item.set("sentence", line.sentence);
    item.set("tone", tone_class(line.tone));
    set_text(item, "truth", line.truth);
    verdicts.push_back(item);
  }
  page.set("verdicts", verdicts);
  data warnings{data::type::list};
  for (const WarningLine& line : lead.warnings) {
    data item;
    item.set("word", line.word);
    set_text(item, "about", line.about);
    item.set("text", line.text);
    item.set("code", line.code);
    warnings.push_back(item);
  }
  page.set("warnings", warnings);
}

}  // namespace

void align_decimals(std::vector<std::string>& texts) {
  constexpr const char* kDigitSpace = "\u2007";
  constexpr const char* kPointSpace = "\u2008";
  std::size_t most = 0;
  for (const std::string& text : texts) most = std::max(most, decimals_of_text(text).value_or(0));
  for (std::string& text : texts) {
    const auto decimals = decimals_of_text(text);
    if (!decimals || *decimals == most) continue;
    if (*decimals == 0) text += kPointSpace;
    for (std::size_t i = *decimals; i < most; ++i) text += kDigitSpace;
  }
}

std::string html_of(const Document& document) {
  data page;
  set_lead(page, document.lead);
  page.set("generator", "tare");
  page.set("style", std::string(templates::style_css));
  page.set("colophon", document.colophon);
  data sections{data::type::list};
  for (const Section& section : document.sections) {
    data blocks{data::type::list};
    for (const Block& block : section.blocks) blocks.push_back(std::visit(BlockData{}, block));
    data item;
    item.set("id", section.id);
    item.set("heading", section.heading);
    item.set("blocks", blocks);
    sections.push_back(item);
  }
  page.set("sections", sections);
  page.set("block", data(mustache::partial([] { return std::string(templates::block_mustache); })));

  mustache::mustache view{std::string(templates::page_mustache)};
  if (!view.is_valid()) throw internal_error("reports/templates/page.mustache: " + view.error_message());
  std::string html = view.render(page);
  if (!view.error_message().empty()) throw internal_error("report.html: " + view.error_message());
  return html;
}

}  // namespace tare::reports

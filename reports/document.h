// What a report consists of, before it is HTML or Markdown: both are printed from one Document, so they say the same.
// Text is raw here (visible_text has been applied to names from outside); each writer escapes for its format.
#pragma once

#include <string>
#include <variant>
#include <vector>

namespace tare::reports {

struct Cell {
  std::string text;
  bool code = false;  // printed in a fixed-width face
};

struct Column {
  std::string heading;
  bool numeric = false;  // right-aligned, decimal points under each other
};

struct Row {
  std::vector<Cell> cells;  // one a column; only the first for a group heading
  bool group_heading = false;
  bool emphasis = false;  // the row to look at: the verdict's interval, the baseline
};

// The first column names the row.
struct Table {
  std::string id;  // of the HTML element: lower case letters and dashes
  std::string caption;
  std::vector<Column> columns;
  std::vector<Row> rows;
  std::string note;             // below the table
  std::string said_when_empty;  // instead of rows
  std::string folded;           // not empty: the table is folded under this line in HTML and left out of Markdown
};

struct Paragraph {
  std::string text;
};

// Long text in a fixed-width face, folded in HTML, left out of Markdown.
struct Listing {
  std::string summary;
  std::string text;
};

struct Figure {
  std::string name;   // figures/NAME.svg
  std::string title;  // short, for those who do not see it
  std::string caption;
  std::string svg;      // the drawing, to be put inline; empty when it is missing
  std::string missing;  // why there is none
  std::string section;  // id; empty: name
  std::string before;   // id of a table there; empty: the section's begin
};

using Block = std::variant<Paragraph, Table, Figure, Listing>;

struct Section {
  std::string id;
  std::string heading;
  std::vector<Block> blocks;
};

// How a line of the first screen is set: what it says is also in its words.
enum class Tone { kGood, kBad, kNeutral, kInvalid };

struct VerdictLine {
  std::string arm;
  std::string word;      // "better", "no difference shown", ...
  std::string estimate;  // "+34.1 %"
  std::string interval;  // "[+33.6, +34.6]"
  std::string sentence;
  std::string truth;  // what a known truth says to it; empty without one
  Tone tone = Tone::kNeutral;
};

struct WarningLine {
  std::string word;   // "invalid", "warning", "note"
  std::string about;  // may be empty
  std::string text;
  std::string code;
};

// The first screen: what was compared, whether the instrument is valid, the verdict per arm, the warnings.
struct Lead {
  std::string title;
  std::string experiment;
  std::string description;
  std::string compared;  // one sentence
  std::string machine;   // one line of conditions
  std::string created;
  bool valid = false;
  std::string validity;  // one sentence
  std::vector<VerdictLine> verdicts;
  std::string no_verdicts;  // said when there are none
  std::vector<WarningLine> warnings;
};

struct Document {
  Lead lead;
  std::vector<Section> sections;
  std::string colophon;
};

}  // namespace tare::reports

// Text from outside, made safe for the place where it is printed. Each format has one function; a writer uses no other.
// HTML is escaped by the mustache templates (two braces) after visible_text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tare::reports {

// Valid UTF-8 without anything invisible that acts: control characters become their pictures (U+2400..., so a newline
// in a name is seen as U+240A), C1 controls, bidirectional overrides and invalid bytes become U+FFFD.
[[nodiscard]] std::string visible_text(std::string_view text);

// As visible_text, but line ends and tabs become one space: for prose.
[[nodiscard]] std::string running_text(std::string_view text);

// Valid UTF-8 cut to at most `most` code points, the last one an ellipsis where something was cut.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t most);

// The same with the ellipsis in the middle: both ends are kept. `most` at least 3.
[[nodiscard]] std::string shortened_middle(std::string_view text, std::size_t most);

// Safe inside a Markdown paragraph or table cell: GitHub's special characters escaped, one line.
[[nodiscard]] std::string markdown_text(std::string_view text);

// A Markdown code span that holds the text as it is; safe inside a table cell.
[[nodiscard]] std::string markdown_code(std::string_view text);

// Safe in LaTeX's text, in a cell of a table as well; one line. Letters and signs beyond those that LaTeX's own fonts
// have become \tareunicode{4E2D}, which latex_of defines.
[[nodiscard]] std::string latex_text(std::string_view text);

// One CSV field (RFC 4180): quoted when it holds a comma, a quote or a line end, quotes doubled. Line ends are kept,
// other control characters and invalid bytes are made visible.
[[nodiscard]] std::string csv_field(std::string_view text);

// A gnuplot string in single quotes, in which gnuplot interprets nothing; one line; ' is set as U+2019.
[[nodiscard]] std::string gnuplot_string(std::string_view text);

// Message and property value of a GitHub workflow command; one line, nothing in it can begin a command of its own.
[[nodiscard]] std::string annotation_message(std::string_view text);
[[nodiscard]] std::string annotation_property(std::string_view text);

// Text or attribute of an XML element (SVG, JUnit).
[[nodiscard]] std::string xml_text(std::string_view text);

}  // namespace tare::reports

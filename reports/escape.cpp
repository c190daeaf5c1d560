#include "reports/escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tare::reports {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

struct Decoded {
  char32_t code = kReplacement;
  std::size_t bytes = 1;
};

std::uint8_t byte_at(std::string_view text, std::size_t i) {
  return static_cast<std::uint8_t>(text[i]);
}

// One code point; an invalid byte, an overlong form or a surrogate is one replacement character for one byte.
Decoded decode(std::string_view text, std::size_t i) {
  const std::uint8_t first = byte_at(text, i);
  if (first < 0x80) return {first, 1};
  std::size_t length = 0;
  char32_t code = 0;
  char32_t least = 0;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2, code = first & 0x1FU, least = 0x80;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3, code = first & 0x0FU, least = 0x800;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4, code = first & 0x07U, least = 0x10000;
  } else {
    return {};
  }
  if (i + length > text.size()) return {};
  for (std::size_t k = 1; k < length; ++k) {
    const std::uint8_t next = byte_at(text, i + k);
    if ((next & 0xC0U) != 0x80U) return {};
    code = (code << 6U) | (next & 0x3FU);
  }
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < least || code > 0x10FFFF || surrogate) return {};
  return {code, length};
}

void append(std::string& out, char32_t code) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(static_cast<std::uint8_t>(byte))); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0U | (code >> 6U)), put(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    put(0xE0U | (code >> 12U)), put(0x80U | ((code >> 6U) & 0x3FU)), put(0x80U | (code & 0x3FU));
  } else {
    put(0xF0U | (code >> 18U)), put(0x80U | ((code >> 12U) & 0x3FU));
    put(0x80U | ((code >> 6U) & 0x3FU)), put(0x80U | (code & 0x3FU));
  }
}

// Overrides and isolates reorder what a reader sees; U+FFFE and U+FFFF are not allowed in XML; U+2028/9 end lines.
bool acts_unseen(char32_t code) {
  return (code >= 0x80 && code <= 0x9F) || (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) ||
         code == 0x2028 || code == 0x2029 || code == 0x200E || code == 0x200F || code == 0xFEFF || code == 0xFFFE ||
         code == 0xFFFF;
}

// Copies the text code point by code point; `keep` names ASCII controls that stay as they are.
std::string made_visible(std::string_view text, std::string_view keep) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const Decoded decoded = decode(text, i);
    i += decoded.bytes;
    if (decoded.code < 0x20 && keep.find(static_cast<char>(decoded.code)) == std::string_view::npos) {
      append(out, 0x2400 + decoded.code);
    } else if (decoded.code == 0x7F) {
      append(out, 0x2421);
    } else {
      append(out, acts_unseen(decoded.code) ? kReplacement : decoded.code);
    }
  }
  return out;
}

struct LatexWord {
  char32_t code;
  const char* word;
};
// What acts in LaTeX, what its first fonts do not have where ASCII has it, and what our own sentences use. A square
// bracket at the start of a row would be taken for an argument of the line end before it.
constexpr std::array<LatexWord, 34> kLatexWords = {{{'&', "\\&"},
                                                    {'%', "\\%"},
                                                    {'$', "\\$"},
                                                    {'#', "\\#"},
                                                    {'_', "\\_"},
                                                    {'{', "\\{"},
                                                    {'}', "\\}"},
                                                    {'~', "\\textasciitilde{}"},
                                                    {'^', "\\textasciicircum{}"},
                                                    {'\\', "\\textbackslash{}"},
                                                    {'<', "\\textless{}"},
                                                    {'>', "\\textgreater{}"},
                                                    {'|', "\\textbar{}"},
                                                    {'"', "\\textquotedbl{}"},
                                                    {'\'', "\\textquotesingle{}"},
                                                    {'`', "\\textasciigrave{}"},
                                                    {'[', "{[}"},
                                                    {']', "{]}"},
                                                    {'*', "{*}"},
                                                    {0x00A0, "~"},
                                                    {0x00B0, "\\textdegree{}"},
                                                    {0x00B1, "\\textpm{}"},
                                                    {0x00B5, "\\textmu{}"},
                                                    {0x00B7, "\\textperiodcentered{}"},
                                                    {0x00D7, "\\texttimes{}"},
                                                    {0x2013, "--"},
                                                    {0x2014, "---"},
                                                    {0x2018, "`"},
                                                    {0x2019, "'"},
                                                    {0x201C, "``"},
                                                    {0x201D, "''"},
                                                    {0x2026, "\\dots{}"},
                                                    {0x2212, "\\textminus{}"},
                                                    {0x2264, "\\ensuremath{\\leq}"}}};
constexpr char32_t kFirstAccented = 0x00C0;  // Latin letters with accents, which the T1 fonts have
constexpr char32_t kLastAccented = 0x017E;

}  // namespace

std::string visible_text(std::string_view text) {
  return made_visible(text, {});
}

std::string running_text(std::string_view text) {
  std::string spaced;
  spaced.reserve(text.size());
  for (const char c : text) {
    const bool space = c == '\n' || c == '\r' || c == '\t' || c == ' ';
    if (!space) {
      spaced.push_back(c);
    } else if (!spaced.empty() && spaced.back() != ' ') {
      spaced.push_back(' ');
    }
  }
  if (!spaced.empty() && spaced.back() == ' ') spaced.pop_back();
  return visible_text(spaced);
}

std::string shortened(std::string_view text, std::size_t most) {
  std::size_t count = 0;
  std::size_t cut = 0;  // where the text ends when its last shown code point is the ellipsis
  for (std::size_t i = 0; i < text.size(); i += decode(text, i).bytes) {
    if (count + 1 == most) cut = i;
    if (++count > most) return std::string(text.substr(0, cut)) + "\u2026";
  }
  return std::string(text);
}

std::string shortened_middle(std::string_view text, std::size_t most) {
  std::vector<std::size_t> starts;  // of code points
  for (std::size_t i = 0; i < text.size(); i += decode(text, i).bytes) starts.push_back(i);
  if (starts.size() <= most) return std::string(text);
  const std::size_t tail = most / 2;
  const std::size_t head = most - 1 - tail;
  return std::string(text.substr(0, starts[head])) + "\u2026" + std::string(text.substr(starts[starts.size() - tail]));
}

std::string markdown_text(std::string_view text) {
  constexpr std::string_view kSpecial = "\\`*_[]<>|~$#&";
  std::string out;
  for (const char c : visible_text(text)) {
    if (kSpecial.find(c) != std::string_view::npos) out.push_back('\\');
    out.push_back(c);
  }
  return out;
}

std::string markdown_code(std::string_view text) {
  const std::string visible = visible_text(text);
  if (visible.empty()) return {};
  std::size_t longest = 0;
  std::size_t present = 0;
  std::string body;
  for (const char c : visible) {
    present = c == '`' ? present + 1 : 0;
    longest = std::max(longest, present);
    // GitHub's table parser splits at a pipe even inside a code span, and takes \| back to | there.
    if (c == '|') body.push_back('\\');
    body.push_back(c);
  }
  const std::string fence(longest + 1, '`');
  const bool touches = body.front() == '`' || body.back() == '`';
  const std::string space = touches ? " " : "";
  return fence + space + body + space + fence;
}

std::string latex_text(std::string_view text) {
  std::string out;
  const std::string visible = visible_text(text);
  for (std::size_t i = 0; i < visible.size();) {
    const Decoded decoded = decode(visible, i);
    const bool after_dash = i > 0 && visible[i - 1] == '-';
    if (const auto found = std::find_if(kLatexWords.begin(), kLatexWords.end(),
                                        [&](const LatexWord& word) { return word.code == decoded.code; });
        found != kLatexWords.end()) {
      out += found->word;
    } else if (decoded.code == '-' && after_dash) {
      out += "{}-";  // "--" would be set as one longer dash
    } else if (decoded.code < 0x80) {
      out.push_back(static_cast<char>(decoded.code));
    } else if (decoded.code >= kFirstAccented && decoded.code <= kLastAccented) {
      append(out, decoded.code);
    } else {
      out += fmt::format("\\tareunicode{{{:04X}}}", static_cast<std::uint32_t>(decoded.code));
    }
    i += decoded.bytes;
  }
  return out;
}

std::string csv_field(std::string_view text) {
  std::string visible = made_visible(text, "\n\r\t");
  if (visible.find_first_of(",\"\n\r") == std::string::npos) return visible;
  std::string out = "\"";
  for (const char c : visible) {
    if (c == '"') out.push_back('"');
    out.push_back(c);
  }
  return out + "\"";
}

std::string gnuplot_string(std::string_view text) {
  std::string out = "'";
  for (const char c : visible_text(text)) {
    // Inside single quotes only the quote acts. Doubling it is documented and fails at the start of a string (5.4: the
    // string ends and the rest is read as commands), so an apostrophe is set instead.
    c == '\'' ? out.append("\u2019") : out.append(1, c);
  }
  return out + "'";
}

std::string annotation_message(std::string_view text) {
  std::string out;
  for (const char c : made_visible(text, "\n\r")) {
    switch (c) {
      case '%':
        out += "%25";
        break;
      case '\r':
        out += "%0D";
        break;
      case '\n':
        out += "%0A";
        break;
      default:
        out.push_back(c);
    }
  }
  return out;
}

std::string annotation_property(std::string_view text) {
  std::string out;
  for (const char c : annotation_message(text)) {
    switch (c) {
      case ':':
        out += "%3A";
        break;
      case ',':
        out += "%2C";
        break;
      default:
        out.push_back(c);
    }
  }
  return out;
}

std::string xml_text(std::string_view text) {
  std::string out;
  for (const char c : visible_text(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out.push_back(c);
    }
  }
  return out;
}

}  // namespace tare::reports

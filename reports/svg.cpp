#include "reports/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <vector>

#include "base/error.h"
#include "reports/escape.h"
#include "reports/palette.h"

namespace tare::reports {
namespace {

// Every `from` in `text` by `to`.
void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// Removes every element of the form OPEN ... CLOSE.
void remove_all(std::string& text, std::string_view open, std::string_view close) {
  for (std::size_t at = text.find(open); at != std::string::npos; at = text.find(open, at)) {
    const std::size_t end = text.find(close, at);
    if (end == std::string::npos) return;
    text.erase(at, end + close.size() - at);
  }
}

// "rgb(  0, 114, 178)" as "#0072b2"; gnuplot pads in more than one way.
void normalise_colours(std::string& text) {
  constexpr std::string_view kOpen = "rgb(";
  for (std::size_t at = text.find(kOpen); at != std::string::npos; at = text.find(kOpen, at + 1)) {
    const std::size_t end = text.find(')', at);
    if (end == std::string::npos) return;
    std::array<int, 3> parts{};
    std::size_t i = at + kOpen.size();
    bool good = true;
    for (int& part : parts) {
      while (i < end && (text[i] == ' ' || text[i] == ',')) ++i;
      const auto read = std::from_chars(text.data() + i, text.data() + end, part);
      good = good && read.ec == std::errc{} && part >= 0 && part <= 255;
      i = static_cast<std::size_t>(read.ptr - text.data());
    }
    if (good) text.replace(at, end + 1 - at, fmt::format("#{:02x}{:02x}{:02x}", parts[0], parts[1], parts[2]));
  }
}

// Applies the changes inside tags only: what stands between them may be a name from outside.
std::string finished_tags(std::string_view body, const std::string& prefix) {
  std::string out;
  out.reserve(body.size() + body.size() / 8);
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t open = std::min(body.find('<', at), body.size());
    const std::size_t end = std::min(body.find('>', open), body.size());
    out += body.substr(at, open - at);
    std::string tag(body.substr(open, end - open));
    normalise_colours(tag);
    replace_all(tag, ":Bold\"", "\" font-weight=\"bold\"");  // gnuplot takes its font names for SVG's
    for (const std::string_view reference : {" id='", " id=\"", "href='#", "href=\"#", "url(#"})
      replace_all(tag, reference, std::string(reference) + prefix);
    out += tag;
    at = end;
    if (at < body.size()) out.push_back(body[at++]);
  }
  return out;
}

std::string dark_rules() {
  std::vector<Colour> colours = {kPaper, kInk, kMuted, kRule, kBand, kParts.back(), kOtherParts, kIdle, kHost};
  colours.insert(colours.end(), kSeries.begin(), kSeries.end());
  colours.insert(colours.end(), kSlower.begin(), kSlower.end());
  colours.insert(colours.end(), kFaster.begin(), kFaster.end());
  colours.push_back(kNotShown);
  std::string rules;
  for (const Colour& colour : colours)
    for (const char* attribute : {"fill", "stroke", "color"})
      rules += fmt::format(".tare-figure [{0}=\"{1}\"],.tare-figure [{0}='{1}']{{{0}:{2}}}\n", attribute, colour.light,
                           colour.dark);
  return rules;
}

}  // namespace

std::string finished_svg(std::string_view gnuplot_svg, std::string_view name, std::string_view title,
                         std::string_view description) {
  const std::size_t open = gnuplot_svg.find("<svg");
  const std::size_t open_end = gnuplot_svg.find('>', open == std::string_view::npos ? 0 : open);
  const std::size_t close = gnuplot_svg.rfind("</svg>");
  if (open == std::string_view::npos || open_end == std::string_view::npos || close == std::string_view::npos)
    throw internal_error(fmt::format("gnuplot's drawing of figure {} is no SVG", name));
  std::string attributes(gnuplot_svg.substr(open + 4, open_end - open - 4));
  std::string body(gnuplot_svg.substr(open_end + 1, close - open_end - 1));

  // gnuplot's own title and description come first; plots' titles further down are kept (they are shown as tooltips).
  const std::size_t first_group = body.find("<g ");
  if (first_group == std::string::npos) throw internal_error(fmt::format("figure {} is empty", name));
  body.erase(0, first_group);
  remove_all(body, "<filter", "</filter>");  // of text boxes, which we do not use; they hold colours of their own
  body = finished_tags(body, std::string(name) + "-");

  return fmt::format(
      "<svg class=\"tare-figure\" role=\"img\" aria-labelledby=\"{0}-title {0}-description\"{1}>\n"
      "<title id=\"{0}-title\">{2}</title>\n<desc id=\"{0}-description\">{3}</desc>\n"
      "<style>\n.tare-figure text{{white-space:pre}}\n@media screen and (prefers-color-scheme: "
      "dark){{\n{4}}}\n</style>\n"
      "<rect class=\"tare-paper\" width=\"100%\" height=\"100%\" fill=\"{5}\"/>\n{6}</svg>\n",
      name, attributes, xml_text(title), xml_text(description), dark_rules(), kPaper.light, body);
}

}  // namespace tare::reports

// A small reader of HTML and SVG for tests: enough to see that a page is well formed and what it holds.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tare::reports::markup {

struct Element {
  std::string name;
  std::map<std::string, std::string> attributes;
};

struct Page {
  std::vector<Element> elements;  // in the order of their opening tags
  std::string text;               // what stands between tags, entities resolved; without style sheets
  std::string fault;              // the first thing that is not well formed; empty when there is none
};

// Checks that tags are balanced, attributes quoted, and no "<" or "&" stands for itself.
[[nodiscard]] Page read(std::string_view source);

// All values of an attribute.
[[nodiscard]] std::vector<std::string> attributes(const Page& page, const std::string& name);

}  // namespace tare::reports::markup

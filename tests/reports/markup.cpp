#include "markup.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace tare::reports::markup {
namespace {

constexpr std::array<std::string_view, 4> kVoid = {"meta", "br", "link", "img"};

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == ':' || c == '_';
}

class Reader {
 public:
  explicit Reader(std::string_view source) : source_(source) {}

  Page run() {
    while (at_ < source_.size() && page_.fault.empty()) {
      if (source_[at_] == '<')
        tag();
      else
        text();
    }
    if (page_.fault.empty() && !open_.empty()) fail("never closed: " + open_.back());
    return page_;
  }

 private:
  std::string_view source_;
  std::size_t at_ = 0;
  std::vector<std::string> open_;
  Page page_;

  void fail(const std::string& what) { page_.fault = what + " at byte " + std::to_string(at_); }

  bool starts(std::string_view what) const { return source_.substr(at_).starts_with(what); }

  void skip_to(std::string_view end) {
    const std::size_t found = source_.find(end, at_);
    if (found == std::string_view::npos) return fail("no " + std::string(end));
    at_ = found + end.size();
  }

  std::string resolved(std::string_view raw) {
    static const std::map<std::string, char> kEntities = {
        {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    std::string out;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '&') {
        out.push_back(raw[i]);
        continue;
      }
      const std::size_t end = raw.find(';', i);
      const auto entity =
          end == std::string_view::npos ? kEntities.end() : kEntities.find(std::string(raw.substr(i + 1, end - i - 1)));
      if (entity == kEntities.end()) {
        fail("a bare & in: " + std::string(raw.substr(i, 20)));
        return out;
      }
      out.push_back(entity->second);
      i = end;
    }
    return out;
  }

  void text() {
    const std::size_t end = std::min(source_.find('<', at_), source_.size());
    page_.text += resolved(source_.substr(at_, end - at_));
    at_ = end;
  }

  std::string name() {
    const std::size_t start = at_;
    while (at_ < source_.size() && is_name(source_[at_])) ++at_;
    return std::string(source_.substr(start, at_ - start));
  }

  void space() {
    while (at_ < source_.size() && std::isspace(static_cast<unsigned char>(source_[at_])) != 0) ++at_;
  }

  void tag() {
    if (starts("<!--")) return skip_to("-->");
    if (starts("<!") || starts("<?")) return skip_to(">");
    if (starts("</")) return closing();
    ++at_;
    Element element;
    element.name = name();
    if (element.name.empty()) return fail("a bare <");
    space();
    while (at_ < source_.size() && is_name(source_[at_])) {
      const std::string key = name();
      space();
      if (at_ >= source_.size() || source_[at_] != '=') return fail("attribute without value: " + key);
      ++at_;
      space();
      const char quote = at_ < source_.size() ? source_[at_] : ' ';
      if (quote != '"' && quote != '\'') return fail("attribute not quoted: " + key);
      const std::size_t end = source_.find(quote, ++at_);
      if (end == std::string_view::npos) return fail("attribute not ended: " + key);
      if (element.attributes.contains(key)) return fail("attribute twice: " + key);
      element.attributes[key] = resolved(source_.substr(at_, end - at_));
      at_ = end + 1;
      space();
    }
    const bool empty = starts("/>");
    if (!empty && !starts(">")) return fail("tag not ended: " + element.name);
    at_ += empty ? 2 : 1;
    const bool raw = element.name == "style";
    if (!empty && std::find(kVoid.begin(), kVoid.end(), element.name) == kVoid.end()) open_.push_back(element.name);
    page_.elements.push_back(std::move(element));
    if (raw) {
      const std::size_t end = source_.find("</style>", at_);
      if (end == std::string_view::npos) return fail("style not closed");
      at_ = end;
    }
  }

  void closing() {
    at_ += 2;
    const std::string closed = name();
    space();
    if (!starts(">")) return fail("closing tag not ended: " + closed);
    if (open_.empty() || open_.back() != closed)
      return fail("</" + closed + "> closes " + (open_.empty() ? "nothing" : open_.back()));
    ++at_;
    open_.pop_back();
  }
};

}  // namespace

Page read(std::string_view source) {
  return Reader(source).run();
}

std::vector<std::string> attributes(const Page& page, const std::string& name) {
  std::vector<std::string> values;
  for (const Element& element : page.elements) {
    const auto found = element.attributes.find(name);
    if (found != element.attributes.end()) values.push_back(found->second);
  }
  return values;
}

}  // namespace tare::reports::markup

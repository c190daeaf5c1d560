// A pre-tokeniser's pattern: cuts text into the pieces that byte pair encoding works on.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tare::engine {

// PCRE2 with Unicode properties, made to agree with the engine of the `tokenizers` library (Oniguruma): \s and \S are
// Unicode's White_Space there, while PCRE2's also hold U+180E, so they are written out before compiling. Letters, marks
// and numbers are those of PCRE2's Unicode version (14 in Debian 12); characters assigned later may be classed
// otherwise there.
class SplitPattern {
 public:
  // What matching needs besides the pattern; made once for many calls of split, used by one thread at a time.
  class Workspace {
   public:
    Workspace();
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;
    ~Workspace();

   private:
    friend class SplitPattern;
    struct Parts;
    std::unique_ptr<Parts> parts_;
  };

  // Throws Error (input) with `where` for a pattern that does not compile or that has \S inside brackets.
  SplitPattern(const std::string& pattern, const std::string& where);
  SplitPattern(SplitPattern&&) noexcept;
  SplitPattern& operator=(SplitPattern&&) noexcept;
  ~SplitPattern();

  // Appends the pieces of `text` (valid UTF-8): the matches and what lies between them, in order, none empty.
  void split(std::string_view text, Workspace& workspace, std::vector<std::string_view>& pieces) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

// A pattern that matches exactly `text`.
[[nodiscard]] std::string literal_pattern(std::string_view text);

}  // namespace tare::engine

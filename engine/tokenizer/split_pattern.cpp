#include "engine/tokenizer/split_pattern.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <utility>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.h"
#include "engine/tokenizer/utf8.h"

namespace tare::engine {
namespace {

// Unicode's White_Space property.
constexpr const char* kWhiteSpace =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

constexpr std::size_t kStackStart = 32 * 1024;  // of the JIT's own stack; grows when a piece is very long
constexpr std::size_t kStackMost = 64 * 1024 * 1024;

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct FreeStack {
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

std::string pcre2_reason(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

std::string with_white_space_written_out(const std::string& pattern, const std::string& where) {
  std::string written;
  bool in_brackets = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char character = pattern[i];
    if (character != '\\' || i + 1 == pattern.size()) {
      if (character == '[' && !in_brackets) {
        in_brackets = true;
      } else if (character == ']') {
        in_brackets = false;
      }
      written += character;
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's') {
      written += in_brackets ? kWhiteSpace : fmt::format("[{}]", kWhiteSpace);
    } else if (escaped == 'S') {
      if (in_brackets) throw input_error(where, R"(has \S inside brackets, which is not supported)");
      written += fmt::format("[^{}]", kWhiteSpace);
    } else {
      written += '\\';
      written += escaped;
    }
  }
  return written;
}

}  // namespace

struct SplitPattern::Compiled {
  std::unique_ptr<pcre2_code, FreeCode> code;
  std::string where;
};

SplitPattern::SplitPattern(const std::string& pattern, const std::string& where)
    : compiled_(std::make_unique<Compiled>()) {
  compiled_->where = where;
  const std::string written = with_white_space_written_out(pattern, where);
  int failure = 0;
  PCRE2_SIZE position = 0;
  compiled_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(written.data()), written.size(),
                                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &failure, &position, nullptr));
  if (!compiled_->code)
    throw input_error(where, fmt::format("is not a pattern PCRE2 understands: {} at '{}'", pcre2_reason(failure),
                                         written.substr(position)));
  // Without JIT (an architecture PCRE2 has none for) matching is interpreted: slower, the same result.
  pcre2_jit_compile(compiled_->code.get(), PCRE2_JIT_COMPLETE);
}

SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;
SplitPattern& SplitPattern::operator=(SplitPattern&&) noexcept = default;
SplitPattern::~SplitPattern() = default;

struct SplitPattern::Workspace::Parts {
  std::unique_ptr<pcre2_match_data, FreeMatch> match;
  std::unique_ptr<pcre2_match_context, FreeContext> context;
  std::unique_ptr<pcre2_jit_stack, FreeStack> stack;
};

SplitPattern::Workspace::Workspace() : parts_(std::make_unique<Parts>()) {
  parts_->match.reset(pcre2_match_data_create(1, nullptr));  // bounds of the whole match; groups are not asked for
  parts_->context.reset(pcre2_match_context_create(nullptr));
  parts_->stack.reset(pcre2_jit_stack_create(kStackStart, kStackMost, nullptr));
  if (!parts_->match || !parts_->context || !parts_->stack)
    throw Error(ErrorKind::kEnvironment, "no memory for pattern matching");
  pcre2_set_match_limit(parts_->context.get(), UINT32_MAX);
  pcre2_jit_stack_assign(parts_->context.get(), nullptr, parts_->stack.get());
}

SplitPattern::Workspace::~Workspace() = default;

void SplitPattern::split(std::string_view text, Workspace& workspace, std::vector<std::string_view>& pieces) const {
  pcre2_match_data* match = workspace.parts_->match.get();
  pcre2_match_context* context = workspace.parts_->context.get();
  const auto add = [&](std::size_t begin, std::size_t end) {
    if (begin < end) pieces.push_back(text.substr(begin, end - begin));
  };
  std::size_t taken = 0;     // everything before it is in a piece
  std::size_t position = 0;  // where the search goes on
  while (position < text.size()) {
    const int found = pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                  position, PCRE2_NO_UTF_CHECK, match, context);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) throw input_error(compiled_->where, fmt::format("matching failed: {}", pcre2_reason(found)));
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match);
    add(taken, bounds[0]);
    add(bounds[0], bounds[1]);
    taken = bounds[1];
    position = bounds[1];
    if (bounds[0] == bounds[1] && position < text.size()) position += utf8_sequence_length(text, position);
  }
  add(taken, text.size());
}

std::string literal_pattern(std::string_view text) {
  std::string pattern;
  for (const char character : text) {
    const bool plain =
        (character & 0x80) != 0 || std::string_view("\\^$.[]|()?*+{}#- \t\n").find(character) == std::string_view::npos;
    if (!plain) pattern += '\\';
    pattern += character;
  }
  return pattern;
}

}  // namespace tare::engine

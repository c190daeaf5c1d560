#include "engine/tokenizer/utf8.h"

namespace tare::engine {
namespace {

unsigned byte_at(std::string_view text, std::size_t position) {
  return static_cast<unsigned char>(text[position]);
}

}  // namespace

std::size_t utf8_sequence_length(std::string_view text, std::size_t position) {
  const unsigned first = byte_at(text, position);
  if (first < 0x80) return 1;
  std::size_t length = 0;
  unsigned least_second = 0x80;  // table 3-7 of the Unicode standard
  unsigned most_second = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) least_second = 0xA0;
    if (first == 0xED) most_second = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) least_second = 0x90;
    if (first == 0xF4) most_second = 0x8F;
  } else {
    return 0;
  }
  if (text.size() - position < length) return 0;
  if (byte_at(text, position + 1) < least_second || byte_at(text, position + 1) > most_second) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if ((byte_at(text, position + i) & 0xC0U) != 0x80U) return 0;
  return length;
}

char32_t utf8_code_point(std::string_view text, std::size_t position, std::size_t length) {
  constexpr unsigned kFirstMask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  char32_t code_point = byte_at(text, position) & kFirstMask[length];
  for (std::size_t i = 1; i < length; ++i) code_point = (code_point << 6) | (byte_at(text, position + i) & 0x3FU);
  return code_point;
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto add = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    add(code_point);
  } else if (code_point < 0x800) {
    add(0xC0 | (code_point >> 6));
    add(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    add(0xE0 | (code_point >> 12));
    add(0x80 | ((code_point >> 6) & 0x3F));
    add(0x80 | (code_point & 0x3F));
  } else {
    add(0xF0 | (code_point >> 18));
    add(0x80 | ((code_point >> 12) & 0x3F));
    add(0x80 | ((code_point >> 6) & 0x3F));
    add(0x80 | (code_point & 0x3F));
  }
}

std::size_t utf8_valid_prefix(std::string_view text) {
  std::size_t position = 0;
  while (position < text.size()) {
    const std::size_t length = utf8_sequence_length(text, position);
    if (length == 0) break;
    position += length;
  }
  return position;
}

}  // namespace tare::engine

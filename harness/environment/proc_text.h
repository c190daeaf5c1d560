// Reading the kernel's small text files: absent stays absent, garbage is absent too.
#pragma once

#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace tare::harness {

// Files of /proc have size 0, so they are read to their end. Absent when there is no such file or it may not be read.
[[nodiscard]] std::optional<std::string> content_of(const std::filesystem::path& file);
// Its first line without trailing blanks; absent when that is empty.
[[nodiscard]] std::optional<std::string> line_of(const std::filesystem::path& file);
// The rest of the first line that starts with `key`, without what separates the two.
[[nodiscard]] std::optional<std::string> value_of(const std::string& content, std::string_view key);
[[nodiscard]] std::optional<std::string> value_in(const std::filesystem::path& file, std::string_view key);

// A file that is read again and again, kept open: of what a reading costs, opening is the larger part.
class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& file);
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&&) = delete;
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile();
  [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }
  // Its present content; absent as content_of. At most 4,096 bytes: short files only.
  [[nodiscard]] std::optional<std::string> content() const;

 private:
  int descriptor_ = -1;
};

// The number that the text starts with, leading blanks skipped.
template <class Number>
[[nodiscard]] std::optional<Number> number_in(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  Number value{};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc{}) return std::nullopt;
  return value;
}

template <class Number>
[[nodiscard]] std::optional<Number> number_of(const std::filesystem::path& file) {
  const std::optional<std::string> line = line_of(file);
  return line ? number_in<Number>(*line) : std::nullopt;
}

template <class Number>
[[nodiscard]] std::optional<Number> number_after(const std::filesystem::path& file, std::string_view key) {
  const std::optional<std::string> value = value_in(file, key);
  return value ? number_in<Number>(*value) : std::nullopt;
}

}  // namespace tare::harness

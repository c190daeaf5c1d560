#include "harness/environment/proc_text.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace tare::harness {

std::optional<std::string> content_of(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  std::string content;
  std::array<char, 4096> buffer{};
  ssize_t count = 0;
  do {
    count = ::read(descriptor, buffer.data(), buffer.size());
    if (count > 0) content.append(buffer.data(), static_cast<std::size_t>(count));
  } while (count > 0 || (count < 0 && errno == EINTR));
  ::close(descriptor);
  if (count < 0) return std::nullopt;
  return content;
}

OpenFile::OpenFile(const std::filesystem::path& file) : descriptor_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {}

OpenFile::OpenFile(OpenFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::optional<std::string> OpenFile::content() const {
  if (descriptor_ < 0) return std::nullopt;
  std::array<char, 4096> buffer;
  const ssize_t count = ::pread(descriptor_, buffer.data(), buffer.size(), 0);
  if (count < 0) return std::nullopt;
  return std::string(buffer.data(), static_cast<std::size_t>(count));
}

std::optional<std::string> line_of(const std::filesystem::path& file) {
  std::optional<std::string> content = content_of(file);
  if (!content) return std::nullopt;
  content->erase(std::min(content->find('\n'), content->size()));
  while (!content->empty() && content->back() == ' ') content->pop_back();
  if (content->empty()) return std::nullopt;
  return content;
}

std::optional<std::string> value_of(const std::string& content, std::string_view key) {
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    const std::string_view line = std::string_view(content).substr(begin, end - begin);
    begin = end + 1;
    if (!line.starts_with(key)) continue;
    const std::size_t value = line.find_first_not_of(" \t:=", key.size());
    return value == std::string_view::npos ? std::string() : std::string(line.substr(value));
  }
  return std::nullopt;
}

std::optional<std::string> value_in(const std::filesystem::path& file, std::string_view key) {
  const std::optional<std::string> content = content_of(file);
  return content ? value_of(*content, key) : std::nullopt;
}

}  // namespace tare::harness

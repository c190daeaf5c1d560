// Reading and writing whole files, and memory-mapping them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tare {

// The file's bytes. Throws Error (input) naming the path.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path);

// Writes to a temporary file beside `path`, then renames: a reader sees the old file or the new one, never a part.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);
// The same for content in pieces, written one after the other: large data need not be copied together first.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::string_view> pieces);

// Value of an environment variable, absent when it is not set. The only place where the environment is read.
[[nodiscard]] std::optional<std::string> environment_variable(const std::string& name);

// A file mapped read-only into memory, unmapped on destruction.
class MappedFile {
 public:
  // Throws Error (input) when the file cannot be opened or mapped. An empty file maps to an empty span.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tare

// Reading and writing safetensors files (https://github.com/huggingface/safetensors, "Format"):
//   8 bytes      N, little-endian: length of the header
//   N bytes      JSON object {"NAME": {"dtype": "F32", "shape": [..], "data_offsets": [begin, end]}, ...}, and
//   optionally
//                "__metadata__": {text: text}; may be padded with spaces
//   the rest     the data; offsets count from its first byte, cover it without gap or overlap
// A file is checked completely when it is opened, before any data is read, so every Tensor handed out lies in the file.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "engine/checkpoint/checkpoint.h"

namespace tare::engine {

class SafetensorsFile {
 public:
  // Maps the file and checks its header. Throws Error (input) naming file and tensor for everything the format
  // forbids: a header longer than the file or than 100 MB, not JSON, not an object, a name twice, an unknown dtype, a
  // negative extent, a shape whose product overflows, offsets that are out of range, overlap or leave a gap, a size
  // that is not shape times dtype, bytes after the last tensor, a truncated or empty file.
  explicit SafetensorsFile(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }
  [[nodiscard]] std::vector<std::string> names() const;  // in order of their data
  [[nodiscard]] bool has(const std::string& name) const { return entries_.contains(name); }
  // A view of the mapped bytes. Throws Error (input) when there is no such tensor.
  [[nodiscard]] Tensor tensor(const std::string& name) const;

  [[nodiscard]] std::span<const std::byte> header_bytes() const;
  [[nodiscard]] std::span<const std::byte> data_bytes() const;

 private:
  struct Entry {
    Dtype dtype;
    std::vector<std::int64_t> shape;
    std::uint64_t begin;
    std::uint64_t end;
  };

  std::filesystem::path path_;
  std::shared_ptr<const MappedFile> file_;
  std::uint64_t header_length_ = 0;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;

  void read_header();
  void check_coverage() const;
};

// Writes the tensors in one file, by rename: a reader sees all of it or nothing. Data is laid out by falling element
// size, then in the order given, and starts at a multiple of 8 bytes, so that every element is aligned. Throws Error
// (internal) for a name given twice or bytes that do not match the shape, Error (environment) when the file cannot be
// written.
void write_safetensors(const std::filesystem::path& path, std::span<const Tensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace tare::engine

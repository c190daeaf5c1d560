// What a reference that was stopped goes on from: the activations of all windows after a number of layers, in two files
// that take turns, and `state.json`, written by rename when a file is complete. So whatever moment the program is
// killed at, the state names a file that is whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "engine/streamed/reference_file.h"
#include "engine/streamed/streamed_backend.h"

namespace tare::engine {

// What the activations are of. Nothing of another checkpoint, text, tokenizer or arithmetic is gone on with.
struct WorkIdentity {
  ReferenceDigests digests;
  std::string backend;  // "cpu" or "cuda": their sums differ by rounding
  StreamedShape shape;
  std::int64_t hidden_size = 0;
};

class WorkDirectory {
 public:
  // Makes the directory when there is none. Throws Error (environment) when it cannot be made or the disk lacks room
  // for the two files, Error (input) when it belongs to something else, or its state is damaged.
  WorkDirectory(std::filesystem::path path, WorkIdentity identity);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // Layers behind the activations in complete_file; absent when none are complete.
  [[nodiscard]] std::optional<std::int64_t> layers_done() const { return layers_done_; }
  // Reads a window of the complete file.
  void read(std::int64_t window, std::span<float> rows) const;
  // Writes a window to the other file.
  void write(std::int64_t window, std::span<const float> rows);
  // All windows of the other file are written: it is the complete one from now on.
  void complete(std::int64_t layers_done);
  // Compares the complete file with its digest. Throws Error (input): it is damaged.
  void verify() const;
  // Removes all files and the directory.
  void remove();

  // Bytes that the two files need.
  [[nodiscard]] static std::uint64_t bytes(const StreamedShape& shape, std::int64_t hidden_size);

 private:
  std::filesystem::path path_;
  WorkIdentity identity_;
  std::optional<std::int64_t> layers_done_;
  int complete_file_ = 1;  // the first is written to file 0
  std::string complete_digest_;

  [[nodiscard]] std::filesystem::path file(int index) const;
  [[nodiscard]] std::filesystem::path state_path() const { return path_ / "state.json"; }
  void read_state();
};

}  // namespace tare::engine

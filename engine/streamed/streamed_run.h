// A reference, start to end: all windows through a layer before the next, activations kept so that it can go on, and
// the file.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/streamed/reference_file.h"
#include "engine/streamed/streamed_backend.h"

namespace tare::engine {

struct StreamedWindow {
  ReferenceWindow window;
  std::vector<std::int32_t> tokens;  // of one length for all windows
};

struct StreamedProgress {
  std::string what;  // "layer 12 of 64"
  double done = 0;   // floating-point operations, of total
  double total = 0;
  double seconds_left = -1;  // below 0: not known yet
};

struct StreamedSettings {
  std::filesystem::path out;          // the file; its work directory is OUT.work
  std::string tokenizer_digest = {};  // goes into the file
  std::string texts_digest = {};      // likewise
  std::string backend;                // "cpu" or "cuda"
  std::function<void(const StreamedProgress&)> progress = {};
  const std::atomic<bool>* interrupted = nullptr;  // looked at after every batch
  // For tests: ends as if killed once this many layers are kept.
  std::optional<std::int64_t> stop_after_layers = {};
};

struct StreamedSummary {
  std::int64_t first_layer = 0;  // where this call began: above 0, it went on
  std::int64_t layers_kept = 0;  // of this call's layers: the activations after them were written
  bool spilled = false;          // activations did not fit into memory
  double layer_seconds = 0;      // of this call: loading and running layers
  double head_seconds = 0;
  double flops = 0;      // of this call
  bool stopped = false;  // by stop_after_layers
};

// Windows are checked: ids within the vocabulary, one length, at most the model's positions. Throws Error (input) for
// these, for a work directory of something else, for logits that are not finite (naming window and position);
// Error (interrupted); Error (environment) when activations cannot be written.
//
// Activations in memory are kept in the background, after every layer whose predecessor's are on the disk already: a
// disk that is slower than the layers does not hold them up, it makes a killed run repeat more of them. Spilled ones
// are kept after every layer by nature.
[[nodiscard]] StreamedSummary run_streamed(const Checkpoint& checkpoint, StreamedBackend& backend,
                                           std::span<const StreamedWindow> windows, const StreamedSettings& settings);

// The shape of windows that were checked as above.
[[nodiscard]] StreamedShape check_windows(std::span<const StreamedWindow> windows, const ModelConfig& config);

}  // namespace tare::engine

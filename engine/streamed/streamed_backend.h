// What computes the reference: one layer's weights at a time over the activations of many windows. The order of layers,
// files and progress are streamed_run.h's.
//
// A *slot* holds the residual stream of one window, FP32 [tokens, hidden]. Calls come from one thread, but
// read_snapshot, which may come from another while layers run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/memory_part.h"
#include "engine/checkpoint/checkpoint.h"

namespace tare::engine {

// What is asked for: `windows` of `window_tokens` tokens each.
struct StreamedShape {
  std::int64_t windows = 0;
  std::int64_t window_tokens = 0;

  [[nodiscard]] std::int64_t positions() const { return windows * window_tokens; }
};

// Of one window; as the arrays of Reference, and the log-probability of `next` for each position that has one.
struct WindowScores {
  std::span<std::int32_t> top_ids;         // [tokens, K]
  std::span<float> top_log_probabilities;  // [tokens, K]
  std::span<float> log_sum_exp;            // [tokens]
  std::span<float> next_log_probability;   // [tokens - 1]
  std::int64_t first_not_finite = -1;      // set by score: a position whose logits are not all finite
};

class StreamedBackend {
 public:
  virtual ~StreamedBackend() = default;

  // Windows that it holds at once; at least 1, at most those of the shape.
  [[nodiscard]] virtual std::int64_t slots() const = 0;
  // Windows that go through a layer together. A function of the shape alone, so that the bits are, too.
  [[nodiscard]] virtual std::int64_t batch_windows() const = 0;

  virtual void put(std::int64_t slot, std::span<const float> rows) = 0;
  virtual void get(std::int64_t slot, std::span<float> rows) = 0;
  // The embedding's rows of the tokens.
  virtual void load_embedding() = 0;
  virtual void embed(std::int64_t slot, std::span<const std::int32_t> tokens) = 0;
  // Loads a layer in place of what was loaded before, and applies it to slots first .. first + count - 1, in place.
  // Returns the first row, counted from the first slot's, with a number that is not finite, or -1.
  virtual void load_layer(std::int64_t layer) = 0;
  [[nodiscard]] virtual std::int64_t run_layer(std::int64_t first_slot, std::int64_t count) = 0;
  // The final norm and the head.
  virtual void load_head() = 0;
  virtual void score(std::int64_t slot, std::span<const std::int32_t> tokens, WindowScores& scores) = 0;
  // Logits of a slot, [tokens, vocabulary]: for tests.
  virtual void logits(std::int64_t slot, std::span<float> out) = 0;

  // Keeps a copy of all slots as they are now; read_snapshot reads it until the next snapshot.
  virtual void snapshot() = 0;
  virtual void read_snapshot(std::int64_t slot, std::span<float> rows) = 0;
};

// Where memory goes, known before anything is made: `held` lies on the device for a GPU, else in the host's memory.
struct StreamedMemory {
  std::vector<MemoryPart> device;  // empty for the CPU
  std::vector<MemoryPart> host;
  std::int64_t slots = 0;  // windows held at once; fewer than the shape's: activations are spilled to files
};

[[nodiscard]] std::uint64_t total_bytes(std::span<const MemoryPart> parts);

}  // namespace tare::engine

// The file that `tare reference` writes: of every position of every window the most likely tokens with their
// log-probabilities, the log-sum-exp of the logits, and the log-probability of the token that follows
// (docs/protocol/reference-file.md). Written and read here alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tare::engine {

inline constexpr std::int64_t kReferenceVersion = 1;
inline constexpr std::int64_t kReferenceCandidates = 64;  // of a position; a smaller vocabulary is kept whole

// What was computed from what: two references of equal digests and equal compute are the same reference.
struct ReferenceDigests {
  std::string checkpoint;  // Checkpoint::digest
  std::string tokenizer;   // of tokenizer.json; empty when the model has none
  std::string texts;       // of the file of windows
  std::string tokens;      // of all windows' ids, one window after the other

  bool operator==(const ReferenceDigests&) const = default;
};

struct ReferenceWindow {
  std::string id;
  std::string kind;  // "prose" or "code"; what the scores are told apart by

  bool operator==(const ReferenceWindow&) const = default;
};

// W windows of T tokens, K = min(64, vocabulary) candidates a position; arrays row-major.
struct Reference {
  ReferenceDigests digests;
  std::string compute = "fp32";
  std::vector<ReferenceWindow> windows;      // W
  std::int64_t window_tokens = 0;            // T
  std::int64_t vocab_size = 0;               //
  std::vector<std::int32_t> tokens;          // [W, T]
  std::vector<std::int32_t> top_ids;         // [W, T, K], most likely first; equal logits by rising id
  std::vector<float> top_log_probabilities;  // [W, T, K] descending
  std::vector<float> log_sum_exp;            // [W, T]
  std::vector<float> next_log_probability;   // [W, T - 1] of tokens[w][t + 1] after tokens[w][0 .. t]

  [[nodiscard]] std::int64_t window_count() const { return static_cast<std::int64_t>(windows.size()); }
  [[nodiscard]] std::int64_t candidates() const {
    return vocab_size < kReferenceCandidates ? vocab_size : kReferenceCandidates;
  }
  // Of one position.
  [[nodiscard]] std::span<const std::int32_t> ids_at(std::int64_t window, std::int64_t position) const;
  [[nodiscard]] std::span<const float> log_probabilities_at(std::int64_t window, std::int64_t position) const;
};

// Arrays of the right sizes, zero, for windows of window_tokens each. Throws Error (input) when there are none.
[[nodiscard]] Reference make_reference(std::vector<ReferenceWindow> windows, std::int64_t window_tokens,
                                       std::int64_t vocab_size);

// Throws Error (input) naming `where`, window and position: an array of another size, a number that is not finite, an
// id outside of the vocabulary, an id twice, candidates out of order, a log-probability above 0 by more than rounding,
// tokens that are not those of the digest.
void check_reference(const Reference& reference, const std::string& where);

// Checks, then writes by rename. The bytes are a function of the reference alone.
void write_reference(const std::filesystem::path& path, const Reference& reference);
// Throws Error (input): no such file, another format or version, a tensor missing, misshapen or of another type, and
// all that check_reference refuses.
[[nodiscard]] Reference read_reference(const std::filesystem::path& path);

}  // namespace tare::engine

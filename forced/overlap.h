// Have scored windows been seen before? Windows that a model was trained on, or a quantiser calibrated on, flatter it.
// Compared are runs of 16 tokens by their hashes, so that a set of hashes can be kept where the text cannot.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "forced/windows.h"

namespace tare::forced {

inline constexpr std::size_t kRunTokens = 16;
// Idioms (a licence, an include list) are everywhere; a window is refused when more than this share of its runs was
// seen: a stretch of about 56 tokens of 2,048.
inline constexpr double kMostSeenShare = 0.02;

// Hashes of all runs of kRunTokens tokens, ascending, each once. Empty below kRunTokens tokens.
[[nodiscard]] std::vector<std::uint64_t> run_hashes(std::span<const std::int32_t> tokens);
// Of several texts: the union.
[[nodiscard]] std::vector<std::uint64_t> run_hashes(const std::vector<std::vector<std::int32_t>>& texts);

// Texts that something learned from: a file of JSON lines with `text` or `tokens` each (as prompts/windows.jsonl; other
// fields are not read), tokenised by `tokenizer`, which may be null when all are ids. Throws Error (input) naming line
// and field.
[[nodiscard]] std::vector<std::vector<std::int32_t>> read_learned_texts(const std::filesystem::path& path,
                                                                        const engine::Tokenizer* tokenizer);

struct Overlap {
  std::string window;
  double seen_share = 0;  // of its runs
};

// Windows of which more than kMostSeenShare was seen, most first.
[[nodiscard]] std::vector<Overlap> find_overlaps(std::span<const TextWindow> windows,
                                                 std::span<const std::uint64_t> seen);

// Throws Error (invalid) naming the window that overlaps most and how many there are.
void refuse_overlaps(std::span<const TextWindow> windows, std::span<const std::uint64_t> seen,
                     const std::string& where);

}  // namespace tare::forced

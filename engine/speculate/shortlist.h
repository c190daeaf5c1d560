// Which tokens a proposal head scores: the most frequent ones of a counts file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/options.h"
#include "engine/checkpoint/checkpoint.h"

namespace tare::engine {

// The file beside a model that holds its counts when nobody names another.
constexpr const char* kTokenCountsFile = "token_counts.safetensors";

// `counts` of the file, I32 [vocab_size], none negative. Throws Error (input) naming the file.
[[nodiscard]] std::vector<std::int32_t> read_token_counts(const std::filesystem::path& path, std::int64_t vocab_size);

// The `size` tokens with the largest counts, equal ones by rising id, in rising order; the ids of `always` are among
// them, in place of the rarest others. Padding is left out: ids behind the last that was ever counted, which a
// tokenizer does not have. So there may be fewer than `size`. Needs size >= the number of `always`; size <=
// counts.size().
[[nodiscard]] std::vector<std::int32_t> choose_shortlist(std::span<const std::int32_t> counts, std::int64_t size,
                                                         std::span<const std::int32_t> always);

// The shortlist that options.shortlist (above 0) and options.counts ask for, with the tokens that end a text of the
// target. Throws Error (input): longer than the vocabulary or too short for those tokens, counts that are not there or
// not of this vocabulary.
[[nodiscard]] std::vector<std::int32_t> read_shortlist(const Checkpoint& target,
                                                       const EngineOptions::ProposalHead& options);

}  // namespace tare::engine

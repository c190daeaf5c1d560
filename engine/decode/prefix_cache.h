// Prompts that begin alike are computed once: what a sequence left behind at multiples of `page_tokens` is kept, and a
// prompt that begins with a kept one goes on from there.
//
// The model is a hybrid: attention remembers rows, one a position, and a prefix of them is that of a shorter sequence;
// the recurrent layers remember a state of their end alone. So an *entry* is both: the rows from its parent's end (the
// longest kept prefix of it) to its own, and the checkpoint of its own end, with the convolution's columns and what a
// drafter holds. Rows are of use only with all rows before them: an entry's parent goes only after it.
//
// A hit is an entry of the same identity (checkpoint, options that change values, backend) whose tokens are the
// prompt's, compared one by one; digests only find it. At least one token of a prompt is always computed, since the
// logits after it are wanted. Passes of a prefill end where pages end, whether something is found or not, so that a hit
// continues as the first time went on: with codec fp32 everything after it has the same bits. Only whole prompts after
// a reset are kept: what rounds wrote is not, so that storing never falls into a round.
//
// Memory: rows, checkpoints and tokens of all entries are at most `bytes`. The entry that was used longest ago goes
// first, of those that no other one continues; entries that the prompt in hand needs stay, and what then still does not
// fit is not kept.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/checkpoint/checkpoint.h"

namespace tare::engine {

struct PrefixCacheStatistics {
  std::int64_t prompts = 0;  // prefilled through it
  std::int64_t hits = 0;     // of them, with a kept prefix
  std::int64_t prompt_tokens = 0;
  std::int64_t restored_tokens = 0;  // of them, not computed
  std::int64_t stored = 0;           // entries
  std::int64_t evicted = 0;
  std::int64_t refused = 0;  // entries that did not fit, or whose state the codec cannot hold
  std::int64_t bytes = 0;    // held now
  std::int64_t most_bytes = 0;
  std::int64_t store_ns = 0;
  std::int64_t restore_ns = 0;
  std::int64_t spared_ns = 0;  // what computing the restored tokens took when they were computed
};
[[nodiscard]] Json to_json(const PrefixCacheStatistics& statistics);

// Names what a kept prefix is good for: the checkpoint's content, the backend's kind and instruction set, and every
// option but those that cannot change a value of rows or state (threads, context, budget, the instruments).
[[nodiscard]] std::string prefix_identity(const Checkpoint& checkpoint, const Backend& backend);

class PrefixCache {
 public:
  explicit PrefixCache(const EngineOptions::PrefixCache& options) : options_(options) {}
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  struct Prefilled {
    std::span<const float> logits;  // after the last token, valid until the backend's next call
    std::int64_t restored = 0;      // tokens that were not computed
  };
  // Resets the backend and absorbs the prompt, as Backend::prefill. Throws what that throws; then nothing that this
  // prompt stored is kept.
  Prefilled prefill(Backend& backend, const std::string& identity, std::span<const std::int32_t> prompt);

  // How many tokens of the prompt a prefill would find.
  [[nodiscard]] std::int64_t kept_tokens(const std::string& identity, std::span<const std::int32_t> prompt) const;
  [[nodiscard]] const PrefixCacheStatistics& statistics() const { return statistics_; }

 private:
  struct Entry {
    Entry* parent = nullptr;
    int children = 0;
    std::int64_t tokens = 0;               // of the whole prefix
    std::vector<std::int32_t> own_tokens;  // after the parent's
    std::vector<std::byte> rows;           // of own_tokens
    std::vector<std::byte> recurrent;      // encoded
    std::vector<std::byte> beside;         // of the checkpoint
    std::size_t recurrent_elements = 0;
    std::int64_t computed_ns = 0;  // what own_tokens took
    std::uint64_t used = 0;        // by the clock of uses

    [[nodiscard]] std::int64_t bytes() const;
  };
  // By a digest of identity and tokens.
  using Entries = std::map<std::string, std::unique_ptr<Entry>>;

  EngineOptions::PrefixCache options_;
  Entries entries_;
  std::uint64_t clock_ = 0;
  PrefixCacheStatistics statistics_;

  // Keys of the prompt's prefixes of 1, 2, ... pages.
  [[nodiscard]] std::vector<std::string> keys_of(const std::string& identity,
                                                 std::span<const std::int32_t> prompt) const;
  // The longest entry that leaves a token of the prompt to be computed, or null.
  [[nodiscard]] Entry* find(const std::vector<std::string>& keys, std::span<const std::int32_t> prompt) const;
  [[nodiscard]] static bool holds(const Entry& entry, std::span<const std::int32_t> prompt);
  void use(Entry* entry);
  void restore(Backend& backend, const Entry& entry) const;
  // Keeps the backend's sequence, which continues `parent` (null: from the start); null when it is not kept.
  Entry* store(Backend& backend, const std::string& key, std::span<const std::int32_t> prefix, Entry* parent,
               std::int64_t computed_ns);
  // Frees entries until `bytes` more fit; false when those left are all of the path to `kept`.
  bool make_room(std::int64_t bytes, const Entry* kept);
  void erase(Entries::iterator entry);
};

// A cache and the backend it is used with.
struct PrefixUse {
  PrefixCache* cache = nullptr;
  std::string identity;
};

}  // namespace tare::engine

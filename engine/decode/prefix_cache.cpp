#include "engine/decode/prefix_cache.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/json_reader.h"

namespace tare::engine {
namespace {

using Clock = std::chrono::steady_clock;

std::int64_t nanoseconds_since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

constexpr float kMostFloat16 = 65'504;

// False when the codec would turn a finite state into infinity.
bool codec_holds(StateFormat codec, std::span<const float> state) {
  return codec != StateFormat::kFP16 ||
         std::all_of(state.begin(), state.end(), [](float value) { return std::abs(value) <= kMostFloat16; });
}

}  // namespace

Json to_json(const PrefixCacheStatistics& statistics) {
  return {{"prompts", statistics.prompts},
          {"hits", statistics.hits},
          {"prompt_tokens", statistics.prompt_tokens},
          {"restored_tokens", statistics.restored_tokens},
          {"stored", statistics.stored},
          {"evicted", statistics.evicted},
          {"refused", statistics.refused},
          {"bytes", statistics.bytes},
          {"most_bytes", statistics.most_bytes},
          {"store_ns", statistics.store_ns},
          {"restore_ns", statistics.restore_ns},
          {"spared_ns", statistics.spared_ns}};
}

std::string prefix_identity(const Checkpoint& checkpoint, const Backend& backend) {
  Json options = to_json(backend.options());
  for (const char* group : {"handicap", "perturb", "context"}) options.erase(group);
  options["cpu"].erase("threads");
  options["prefix_cache"].erase("bytes");
  const Json description = backend.description();
  const Json identity = {{"checkpoint", checkpoint.digest()},
                         {"options", std::move(options)},
                         {"instruction_set", description.value("instruction_set", Json())}};
  return digest(identity.dump());
}

std::int64_t PrefixCache::Entry::bytes() const {
  return static_cast<std::int64_t>(own_tokens.size() * sizeof(std::int32_t) + rows.size() + recurrent.size() +
                                   beside.size());
}

std::vector<std::string> PrefixCache::keys_of(const std::string& identity, std::span<const std::int32_t> prompt) const {
  std::vector<std::string> keys;
  const auto page = static_cast<std::size_t>(options_.page_tokens);
  std::string key = identity;
  for (std::size_t begin = 0; begin + page <= prompt.size(); begin += page) {
    key = digest(key + digest_tokens(prompt.subspan(begin, page)));
    keys.push_back(key);
  }
  return keys;
}

bool PrefixCache::holds(const Entry& entry, std::span<const std::int32_t> prompt) {
  for (const Entry* part = &entry; part != nullptr; part = part->parent) {
    const auto first = static_cast<std::size_t>(part->tokens) - part->own_tokens.size();
    if (!std::equal(part->own_tokens.begin(), part->own_tokens.end(),
                    prompt.begin() + static_cast<std::ptrdiff_t>(first)))
      return false;
  }
  return true;
}

PrefixCache::Entry* PrefixCache::find(const std::vector<std::string>& keys,
                                      std::span<const std::int32_t> prompt) const {
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    const auto found = entries_.find(*key);
    if (found == entries_.end()) continue;
    Entry* entry = found->second.get();
    if (entry->tokens < static_cast<std::int64_t>(prompt.size()) && holds(*entry, prompt)) return entry;
  }
  return nullptr;
}

std::int64_t PrefixCache::kept_tokens(const std::string& identity, std::span<const std::int32_t> prompt) const {
  const Entry* entry = find(keys_of(identity, prompt), prompt);
  return entry == nullptr ? 0 : entry->tokens;
}

void PrefixCache::use(Entry* entry) {
  ++clock_;
  for (; entry != nullptr; entry = entry->parent) entry->used = clock_;
}

void PrefixCache::restore(Backend& backend, const Entry& entry) const {
  std::vector<const Entry*> path;
  for (const Entry* part = &entry; part != nullptr; part = part->parent) path.push_back(part);
  for (auto part = path.rbegin(); part != path.rend(); ++part)
    backend.import_rows((*part)->tokens - static_cast<std::int64_t>((*part)->own_tokens.size()), (*part)->tokens,
                        (*part)->rows);
  SequenceCheckpoint checkpoint;
  checkpoint.tokens = entry.tokens;
  checkpoint.recurrent.resize(entry.recurrent_elements);
  decode_state(options_.checkpoint, entry.recurrent, backend.config().linear_value_head_dim, checkpoint.recurrent);
  checkpoint.beside = entry.beside;
  backend.import_checkpoint(checkpoint);
}

void PrefixCache::erase(Entries::iterator entry) {
  if (entry->second->parent != nullptr) --entry->second->parent->children;
  statistics_.bytes -= entry->second->bytes();
  entries_.erase(entry);
}

bool PrefixCache::make_room(std::int64_t bytes, const Entry* kept) {
  if (bytes > options_.bytes) return false;
  const auto needed = [&](const Entry* entry) {
    for (const Entry* part = kept; part != nullptr; part = part->parent)
      if (part == entry) return true;
    return false;
  };
  while (statistics_.bytes + bytes > options_.bytes) {
    auto oldest = entries_.end();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (entry->second->children > 0 || needed(entry->second.get())) continue;
      if (oldest == entries_.end() || entry->second->used < oldest->second->used) oldest = entry;
    }
    if (oldest == entries_.end()) return false;
    erase(oldest);
    ++statistics_.evicted;
  }
  return true;
}

PrefixCache::Entry* PrefixCache::store(Backend& backend, const std::string& key, std::span<const std::int32_t> prefix,
                                       Entry* parent, std::int64_t computed_ns) {
  const Clock::time_point start = Clock::now();
  auto entry = std::make_unique<Entry>();
  const std::int64_t first = parent == nullptr ? 0 : parent->tokens;
  entry->parent = parent;
  entry->tokens = static_cast<std::int64_t>(prefix.size());
  entry->own_tokens.assign(prefix.begin() + static_cast<std::ptrdiff_t>(first), prefix.end());
  entry->rows = backend.export_rows(first, entry->tokens);
  SequenceCheckpoint checkpoint = backend.export_checkpoint();
  const std::int64_t stride = backend.config().linear_value_head_dim;
  entry->recurrent_elements = checkpoint.recurrent.size();
  entry->recurrent.resize(static_cast<std::size_t>(
      state_bytes_of(options_.checkpoint, static_cast<std::int64_t>(entry->recurrent_elements) / stride, stride)));
  encode_state(options_.checkpoint, checkpoint.recurrent, stride, entry->recurrent);
  entry->beside = std::move(checkpoint.beside);
  entry->computed_ns = computed_ns;
  const bool kept = codec_holds(options_.checkpoint, checkpoint.recurrent) && make_room(entry->bytes(), parent);
  Entry* result = nullptr;
  if (kept) {
    result = entry.get();
    if (parent != nullptr) ++parent->children;
    statistics_.bytes += entry->bytes();
    statistics_.most_bytes = std::max(statistics_.most_bytes, statistics_.bytes);
    ++statistics_.stored;
    entries_.emplace(key, std::move(entry));
    use(result);
  } else {
    ++statistics_.refused;
  }
  statistics_.store_ns += nanoseconds_since(start);
  return result;
}

PrefixCache::Prefilled PrefixCache::prefill(Backend& backend, const std::string& identity,
                                            std::span<const std::int32_t> prompt) {
  const std::vector<std::string> keys = keys_of(identity, prompt);
  backend.reset();
  Prefilled result;
  Entry* parent = find(keys, prompt);
  if (parent != nullptr) {
    const Clock::time_point start = Clock::now();
    restore(backend, *parent);
    use(parent);
    result.restored = parent->tokens;
    statistics_.restore_ns += nanoseconds_since(start);
    for (const Entry* part = parent; part != nullptr; part = part->parent) statistics_.spared_ns += part->computed_ns;
  }
  std::vector<std::string> fresh;  // what this prompt has stored
  try {
    const auto size = static_cast<std::int64_t>(prompt.size());
    bool keeps = options_.bytes > 0;  // as long as everything before is kept
    for (std::int64_t at = result.restored; at < size || at == 0;) {
      const std::int64_t page_end = (at / options_.page_tokens + 1) * options_.page_tokens;
      const std::int64_t end = std::min(size, page_end);
      const Clock::time_point start = Clock::now();
      result.logits = backend.prefill(prompt.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(end - at)));
      const std::int64_t computed_ns = nanoseconds_since(start);
      at = end;
      if (!keeps || end != page_end) continue;
      const std::string& key = keys[static_cast<std::size_t>(end / options_.page_tokens - 1)];
      const auto present = entries_.find(key);
      if (present != entries_.end()) {  // a prompt that ends here was kept whole
        parent = present->second.get();
        keeps = holds(*parent, prompt);
        if (keeps) use(parent);
        continue;
      }
      parent = store(backend, key, prompt.first(static_cast<std::size_t>(end)), parent, computed_ns);
      keeps = parent != nullptr;
      if (keeps) fresh.push_back(key);
    }
  } catch (...) {
    for (auto key = fresh.rbegin(); key != fresh.rend(); ++key) erase(entries_.find(*key));
    throw;
  }
  ++statistics_.prompts;
  statistics_.hits += result.restored > 0 ? 1 : 0;
  statistics_.prompt_tokens += static_cast<std::int64_t>(prompt.size());
  statistics_.restored_tokens += result.restored;
  return result;
}

}  // namespace tare::engine

#include "engine/speculate/shortlist.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "base/error.h"
#include "engine/checkpoint/safetensors.h"

namespace tare::engine {

std::vector<std::int32_t> read_token_counts(const std::filesystem::path& path, std::int64_t vocab_size) {
  const SafetensorsFile file(path);
  const auto refuse = [&](const std::string& what) {
    return input_error(path.string(), what, "scripts/shortlist-counts writes such files from texts of the model");
  };
  if (!file.has("counts")) throw refuse("has no tensor 'counts'");
  const Tensor tensor = file.tensor("counts");
  if (tensor.dtype != Dtype::kI32) throw refuse("counts are " + dtype_name(tensor.dtype) + ", not I32");
  if (tensor.shape != std::vector<std::int64_t>{vocab_size})
    throw refuse(fmt::format("counts are of {} tokens, the vocabulary has {}", tensor.element_count(), vocab_size));
  std::vector<std::int32_t> counts(static_cast<std::size_t>(vocab_size));
  std::memcpy(counts.data(), tensor.bytes.data(), tensor.bytes.size());
  const auto negative = std::find_if(counts.begin(), counts.end(), [](std::int32_t count) { return count < 0; });
  if (negative != counts.end())
    throw refuse(fmt::format("the count of token {} is {}", negative - counts.begin(), *negative));
  if (std::all_of(counts.begin(), counts.end(), [](std::int32_t count) { return count == 0; }))
    throw refuse("has no token that was ever counted");
  return counts;
}

std::vector<std::int32_t> choose_shortlist(std::span<const std::int32_t> counts, std::int64_t size,
                                           std::span<const std::int32_t> always) {
  std::set<std::int32_t> chosen(always.begin(), always.end());
  if (size < static_cast<std::int64_t>(chosen.size()) || size > static_cast<std::int64_t>(counts.size()))
    throw internal_error(fmt::format("a shortlist of {} of {} tokens", size, counts.size()));
  const auto last_counted = std::find_if(counts.rbegin(), counts.rend(), [](std::int32_t count) { return count > 0; });
  std::vector<std::int32_t> ids(static_cast<std::size_t>(counts.rend() - last_counted));
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) {
    return counts[static_cast<std::size_t>(a)] > counts[static_cast<std::size_t>(b)];
  });
  for (const std::int32_t id : ids) {
    if (static_cast<std::int64_t>(chosen.size()) == size) break;
    chosen.insert(id);
  }
  return {chosen.begin(), chosen.end()};
}

std::vector<std::int32_t> read_shortlist(const Checkpoint& target, const EngineOptions::ProposalHead& options) {
  const ModelConfig& config = target.config();
  const auto refuse = [](const std::string& what, const std::string& hint) {
    return input_error("proposal_head.shortlist", what, hint);
  };
  if (options.shortlist > config.vocab_size)
    throw refuse(fmt::format("{} tokens; the vocabulary has {}", options.shortlist, config.vocab_size),
                 "0 is the whole vocabulary");
  if (options.shortlist < static_cast<std::int64_t>(config.eos_token_ids.size()))
    throw refuse(fmt::format("{} tokens; {} alone end a text", options.shortlist, config.eos_token_ids.size()),
                 "a shortlist holds them always");
  std::filesystem::path file = options.counts;
  if (file.empty()) {
    if (target.directory().empty())
      throw input_error("proposal_head.counts", "the model has no directory in which counts could lie",
                        "name a file of token counts");
    file = target.directory() / kTokenCountsFile;
  }
  return choose_shortlist(read_token_counts(file, config.vocab_size), options.shortlist, config.eos_token_ids);
}

}  // namespace tare::engine

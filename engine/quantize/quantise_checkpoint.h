// Writes a checkpoint quantised by rounding to nearest: the codes and scales that a backend would make of the weights
// at load, so that both give the same logits, bit for bit. The files: docs/protocol/quantised-checkpoint.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "engine/backend/options.h"
#include "engine/checkpoint/checkpoint.h"

namespace tare::engine {

constexpr std::uint64_t kShardBytes = 5'000'000'000;  // as published models are cut

struct QuantisedFiles {
  std::int64_t tensors = 0;
  std::int64_t coded = 0;  // of them, stored as codes
  std::uint64_t bytes_before = 0;
  std::uint64_t bytes = 0;  // of the tensors written
  std::vector<std::string> shards;
  std::vector<std::string> copied;  // files beside the weights
};

// Into `directory`, which is made and must be empty. Reads options.weights only. A shard is held in memory while it is
// written. `tell` hears how many of the tensors' bytes are done. Throws Error (input): a checkpoint without files or
// already quantised, weights that leave everything as it is, overrides of a drafter, a directory that holds something,
// and what the encoders refuse, naming the tensor.
QuantisedFiles quantise_checkpoint(const Checkpoint& checkpoint, const EngineOptions& options,
                                   const std::filesystem::path& directory, ThreadPool& pool,
                                   std::uint64_t shard_bytes = kShardBytes,
                                   const std::function<void(std::uint64_t, std::uint64_t)>& tell = {});

}  // namespace tare::engine

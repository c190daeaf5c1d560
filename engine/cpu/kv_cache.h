// Keys (after norm and rotation) and values of one attention layer, FP32 or BF16 each. Layout: kv_layout.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "engine/backend/options.h"
#include "engine/checkpoint/model_config.h"
#include "engine/cpu/aligned_buffer.h"
#include "engine/cpu/kernels.h"

namespace tare::engine {

class KvCache {
 public:
  KvCache(const ModelConfig& config, const EngineOptions::KeyValue& formats, std::int64_t capacity);

  // Writes key and value [head_dim] of one head at `position` < capacity; BF16 rounds to nearest even.
  void store(std::int64_t head, std::int64_t position, const float* key, const float* value);
  // Attention of 1 to kMostQueries queries over positions 0..count-1 of `head`: softmax(scale * query . key) . values.
  // Each of `scores` has room for count rounded up to 16, each of `out` for head_dim rounded up to 16.
  void attend(const AttentionKernels& kernels, std::int64_t head, std::span<const float* const> queries,
              std::int64_t count, float scale, std::span<float* const> scores, std::span<float* const> out) const {
    attend_range(kernels, head, queries, 0, count, scale, scores, out);
  }
  // The same over positions begin..end-1; scores have room for end - begin rounded up to 16, and 16 more.
  void attend_range(const AttentionKernels& kernels, std::int64_t head, std::span<const float* const> queries,
                    std::int64_t begin, std::int64_t end, float scale, std::span<float* const> scores,
                    std::span<float* const> out) const;

  // Bytes that attention reads of a cache of `positions`, and that it writes for one more.
  [[nodiscard]] std::uint64_t bytes(std::int64_t positions) const;
  [[nodiscard]] std::uint64_t resident_bytes() const;
  [[nodiscard]] std::string format() const;  // "bf16", or "fp32 keys, bf16 values"

 private:
  using Storage = std::variant<AlignedBuffer<float>, AlignedBuffer<std::uint16_t>>;
  EngineOptions::KeyValue formats_;
  std::int64_t heads_ = 0;
  std::int64_t head_dim_ = 0;
  std::int64_t key_channels_ = 0;    // head_dim rounded up
  std::int64_t value_channels_ = 0;  // head_dim rounded up
  std::int64_t capacity_ = 0;        // rounded up to whole key blocks
  Storage keys_;
  Storage values_;

  static Storage allocate(CacheFormat format, std::int64_t elements);
};

}  // namespace tare::engine

// Keys (after norm and rotation) and values of one attention layer, each in its format. Layout: kv_layout.h. A chain's
// rows are stored at their positions. The nodes of another tree lie apart until committed, since two of one depth share
// a position, and more nodes than positions may be left.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/backend/options.h"
#include "engine/backend/sequence_checkpoint.h"
#include "engine/checkpoint/model_config.h"
#include "engine/cpu/aligned_buffer.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/kv_layout.h"

namespace tare::engine {

// Bytes that a layer's cache of `positions` takes: whole blocks of keys, padded channels (kv_layout.h).
[[nodiscard]] std::uint64_t kv_cache_bytes(const ModelConfig& config, const EngineOptions::KeyValue& formats,
                                           std::int64_t positions);

class KvCache {
 public:
  KvCache(const ModelConfig& config, const EngineOptions::KeyValue& formats, std::int64_t capacity);

  // Writes key and value [head_dim] of one head at `position` < capacity, as formats/ encodes them.
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

  // Makes room for the nodes of a verify; what earlier ones stored is lost.
  void reserve_nodes(std::int64_t count);
  void store_node(std::int64_t head, std::int64_t node, const float* key, const float* value);
  // attend over positions 0..count-1 and then the nodes of `path`, with the bits of nodes stored at positions count
  // onwards. Scores have room for all of them, each of `node_scores` for path.back() + 1, both rounded up to 16.
  void attend_path(const AttentionKernels& kernels, std::int64_t head, std::span<const float* const> queries,
                   std::int64_t count, std::span<const std::int32_t> path, float scale, std::span<float* const> scores,
                   std::span<float* const> node_scores, std::span<float* const> out) const;
  // Copies the nodes of `path` to `position` onwards.
  void keep_path(std::span<const std::int32_t> path, std::int64_t position);

  // Appends the rows of positions first..last - 1 as they are stored, head by head; and puts them back.
  void export_rows(std::int64_t first, std::int64_t last, ByteWriter& bytes) const;
  void import_rows(std::int64_t first, std::int64_t last, ByteReader& bytes);

  // Bytes that attention reads of a cache of `positions`, and that it writes for one more.
  [[nodiscard]] std::uint64_t bytes(std::int64_t positions) const;
  [[nodiscard]] std::uint64_t resident_bytes() const;  // of its buffers
  [[nodiscard]] std::string format() const;            // "bf16", or "fp32 keys, bf16 values"

 private:
  using Bytes = AlignedBuffer<std::byte>;
  struct Rows {
    std::int64_t capacity = 0;  // of each head: whole key blocks
    Bytes keys, key_scales;
    Bytes values, value_scales;
  };
  EngineOptions::KeyValue formats_;
  std::int64_t heads_ = 0;
  std::int64_t head_dim_ = 0;
  RowCells key_;
  RowCells value_;
  Rows past_;   // by position
  Rows nodes_;  // by node

  [[nodiscard]] Rows allocate_rows(std::int64_t count) const;
  // Of a head from row `row` on; keys: of its block.
  [[nodiscard]] CacheRows keys(const Rows& rows, std::int64_t head, std::int64_t row) const;
  [[nodiscard]] CacheRows values(const Rows& rows, std::int64_t head, std::int64_t row) const;
  void store_row(Rows& rows, std::int64_t head, std::int64_t row, const float* key, const float* value) const;
  // Scores of rows first..first + count - 1, `first` at the begin of a key block.
  void score(const AttentionKernels& kernels, const Rows& rows, std::int64_t head,
             std::span<const float* const> queries, std::int64_t first, std::int64_t count, float scale,
             float* const* scores) const;
  // Values of positions first..first + count - 1 and then of the nodes of `path`, weighted.
  void weigh(const AttentionKernels& kernels, std::int64_t head, std::span<const float* const> weights,
             std::int64_t first, std::int64_t count, std::span<const std::int32_t> path, const float* factors,
             float* const* out) const;
};

}  // namespace tare::engine

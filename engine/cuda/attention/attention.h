// Gated full attention of one layer on the GPU: norms of queries and keys, rotary embedding, append to the cache,
// softmax over all cached positions, sigmoid gate (model specification 3.5, 5.6; docs/method/model.md).
#pragma once

#include <span>

#include "engine/backend/option_words.h"
#include "engine/cuda/device/device_buffer.h"
#include "engine/cuda/device/launch.h"
#include "engine/cuda/device/round_control.h"
#include "engine/cuda/product/operand.h"
#include "engine/cuda/product/product.h"

namespace tare::engine {

struct CudaAttentionShape {
  int heads = 0;
  int kv_heads = 0;  // divides heads
  int head_dim = 0;
  int rotary_dim = 0;
  float eps = 0;  // of the norms
};
// Throws Error (input) naming the size when the kernels do not support it.
void check_attention_shape(const CudaAttentionShape& shape);

struct CudaAttentionWeights {
  const float* q_norm = nullptr;  // [head_dim] FP32: 1 + w
  const float* k_norm = nullptr;
};

// cosines and sines [positions][rotary_dim / 2] FP32, shared by all layers (engine/backend/rope.h makes them).
struct CudaRopeTable {
  const float* cosines = nullptr;
  const float* sines = nullptr;
};

// Keys (after norm and rotation) and values of one layer. FP8 is E4M3, round to nearest even, saturating at 448
// (engine/formats/float_formats.h), without scales; INT8 and NVFP4 are engine/formats/cache_blocks.h, bit for bit.
class CudaKeyValueCache {
 public:
  CudaKeyValueCache(const CudaAttentionShape& shape, CacheFormat key, CacheFormat value, std::int64_t capacity,
                    KeyRotation rotation = KeyRotation::kNone);
  const CudaAttentionShape shape;
  const CacheFormat key_format;
  const CacheFormat value_format;
  const std::int64_t capacity;
  const KeyRotation rotation;  // of keys as stored, and of the queries that meet them (formats/hadamard.h)
  [[nodiscard]] std::byte* keys() const { return keys_.data(); }
  [[nodiscard]] std::byte* values() const { return values_.data(); }
  [[nodiscard]] std::size_t bytes() const { return keys_.bytes() + values_.bytes(); }
  // Key and value bytes of one position.
  [[nodiscard]] std::int64_t bytes_a_position() const;

 private:
  DeviceBuffer keys_, values_;
};
// Bytes of both together: a head's run of positions is rounded up to whole pieces (attention_layout.h).
[[nodiscard]] std::size_t key_value_cache_bytes(const CudaAttentionShape& shape, CacheFormat key, CacheFormat value,
                                                std::int64_t capacity);

// Rounds whose last position is below one bound share a graph; attention_bound gives the least bound above `position`.
// The bound decides how many thread blocks start, not a bit of any result (attention_layout.h: part_positions).
[[nodiscard]] std::int64_t attention_bound(std::int64_t position, std::int64_t capacity);
// Bytes of work space that rounds of up to `tokens` tokens need (rotated queries, partial results).
[[nodiscard]] std::size_t attention_workspace_bytes(const CudaAttentionShape& shape, std::int64_t context_bound,
                                                    int tokens);

// qkv: rows [per head: query, gate] (2 heads head_dim), then keys, then values. out: operand of heads * head_dim
// columns; every token of its width is written, zeros past `tokens`. tokens 1..32: token t is node t of the control's
// tree (as made, a chain), at position frontier + its depth. The launches write keys and values to slot frontier + t;
// a node sees the slots below the frontier, its ancestors' and its own. Nothing else at or past the frontier is read.
// Arithmetic: pairs of formats without a tensor-core kernel (attention_layout.h: has_tiles_kernel), and head dimensions
// other than 256, in FP32; else tensor cores with FP16 queries, softmax weights, keys and values (E4M3 and NVFP4 are
// exact, BF16 from 2^-17 to 65504, INT8 keys too; INT8 values are rounded to 11 bits), sums in FP32. A token's
// bits do not depend on the tokens beside it; on tensor cores they do depend on the slots of its ancestors, where these
// are not the first ones: up to rounding. `context_bound`: above the last slot. The record of the launch that reads the
// caches declares bytes a position: the context is known on the device only.
void launch_attention_round(const CudaAttentionWeights& weights, const CudaRopeTable& rope,
                            const CudaKeyValueCache& cache, const ProductResult& qkv, int tokens,
                            std::int64_t context_bound, const RoundControl* control, std::byte* workspace,
                            const Operand& out, const L2Fill& fill, const CudaLaunch& launch);

// Moves what the pending path of a control left in the caches to where a chain's tokens would be: the root of the last
// verify stood in slot frontier - pending; of slot root + path[i] to slot root + i, in all layers. Does nothing when
// all are there.
class CudaKeyValueMove {
 public:
  // The caches have one shape, formats and capacity, and outlive this.
  explicit CudaKeyValueMove(std::span<const CudaKeyValueCache* const> layers);
  // Launches nothing when there are no layers. The record declares no bytes: they hang on the path.
  void launch(const RoundControl* control, const CudaLaunch& launch) const;

 private:
  const CudaKeyValueCache* any_ = nullptr;
  int layers_ = 0;
  DeviceBuffer table_;
};

// The same for a prefill chunk of any length at positions frontier + t, results and operand in rows. Queries and
// weights of BF16 caches are one BF16 term here.
[[nodiscard]] std::size_t attention_prefill_workspace_bytes(const CudaAttentionShape& shape, std::int64_t tokens);
void launch_attention_prefill(const CudaAttentionWeights& weights, const CudaRopeTable& rope,
                              const CudaKeyValueCache& cache, const ProductResult& qkv, int tokens,
                              std::int64_t frontier, std::byte* workspace, const Operand& out,
                              const CudaLaunch& launch);

}  // namespace tare::engine

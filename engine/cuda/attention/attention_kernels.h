// The kernels of attention, one launch function each; attention.cpp puts them together.
//
//   begin   norms, rotation, append to the cache, rotated queries
//   tiles   tensor cores: a part of a round, or a whole row of prefill
//   plain   FP32 arithmetic, any format and head dimension: parts, for rounds and prefill
//   merge   parts in order, gate, operand
//   move    a committed path's keys and values to where a chain's would be
#pragma once

#include "engine/cuda/attention/attention.h"
#include "engine/cuda/attention/attention_layout.h"

namespace tare::engine {

// Where the tokens of a pass are. In a round token t is node t of control's tree: at position frontier + depth, its key
// and value in slot frontier + t. Otherwise position and slot are first + t.
//
// What a token sees is cut into parts by slots or, with `by_position`, by positions: then position frontier + d is read
// from the slot of the node's ancestor of depth d, so a node has the bits that it has in a chain.
struct PassPositions {
  const RoundControl* control = nullptr;
  int first = 0;
  int tokens = 0;
  bool by_position = false;
};

enum class QueryForm { kFP32Rows, kFP16Columns };

struct AttentionBeginArguments {
  CudaAttentionShape shape;
  CudaAttentionWeights weights;
  CudaRopeTable rope;
  std::byte* keys = nullptr;
  std::byte* values = nullptr;
  CacheFormat key_format = CacheFormat::kFP32;
  CacheFormat value_format = CacheFormat::kFP32;
  std::int64_t slots = 0;
  ProductResult qkv;
  PassPositions positions;
  QueryForm query_form = QueryForm::kFP32Rows;
  ColumnPlan columns;         // of kFP16Columns
  float query_factor = 1;     // softmax scale and log2 e
  float hadamard_factor = 0;  // head_dim^-1/2: keys and queries are turned by it; 0: they are not
  std::byte* queries = nullptr;
};
void launch_attention_begin(const AttentionBeginArguments& arguments, const CudaLaunch& launch);

// What parts leave: for [part][token][head] the sums of weights 2^(score - largest) times values [head_dim], and the
// largest score and the sum of weights. FP32.
struct AttentionParts {
  float* sums = nullptr;
  float2* ends = nullptr;
};

struct AttentionTilesArguments {
  const std::byte* queries = nullptr;
  const std::byte* keys = nullptr;
  const std::byte* values = nullptr;
  std::int64_t slots = 0;
  int heads = 0;
  int kv_heads = 0;
  PassPositions positions;
  ColumnPlan columns;
  AttentionParts parts = {};  // rounds
  ProductResult qkv;          // prefill: the gates
  Operand out;                // prefill
  L2Fill fill = {};           // rounds
};
// Rounds: `parts` thread blocks for each key-value head and group.
void launch_attention_tiles_fp8_keys(CacheFormat value, int parts, const AttentionTilesArguments& arguments,
                                     const CudaLaunch& launch);
void launch_attention_tiles_bf16_keys(CacheFormat value, int parts, const AttentionTilesArguments& arguments,
                                      const CudaLaunch& launch);
// Where keys or values have scales.
void launch_attention_tiles_scales(CacheFormat key, CacheFormat value, int parts,
                                   const AttentionTilesArguments& arguments, const CudaLaunch& launch);
void launch_attention_prefill_scales(CacheFormat key, CacheFormat value, const AttentionTilesArguments& arguments,
                                     const CudaLaunch& launch);
void launch_attention_prefill_tiles(CacheFormat key, CacheFormat value, const AttentionTilesArguments& arguments,
                                    const CudaLaunch& launch);

struct AttentionPlainArguments {
  CudaAttentionShape shape;
  const float* queries = nullptr;  // [token][head][head_dim], times the factor
  const std::byte* keys = nullptr;
  const std::byte* values = nullptr;
  CacheFormat key_format = CacheFormat::kFP32;
  CacheFormat value_format = CacheFormat::kFP32;
  std::int64_t slots = 0;
  PassPositions positions;
  bool one_part = false;  // prefill: all positions are one part
  AttentionParts parts;
  L2Fill fill;
};
void launch_attention_plain(int parts, const AttentionPlainArguments& arguments, const CudaLaunch& launch);

struct AttentionMergeArguments {
  CudaAttentionShape shape;
  AttentionParts parts;
  PassPositions positions;
  bool one_part = false;
  ProductResult qkv;
  Operand out;
};
void launch_attention_merge(const AttentionMergeArguments& arguments, const CudaLaunch& launch);

// A layer's caches, as launch_attention_move's table holds them in device memory.
struct AttentionMoveLayer {
  std::byte* keys = nullptr;
  std::byte* values = nullptr;
};
struct AttentionMoveArguments {
  CudaAttentionShape shape;
  CacheFormat key_format = CacheFormat::kFP32;
  CacheFormat value_format = CacheFormat::kFP32;
  std::int64_t slots = 0;
  const AttentionMoveLayer* layers = nullptr;
  const RoundControl* control = nullptr;
};
void launch_attention_move(int layers, const AttentionMoveArguments& arguments, const CudaLaunch& launch);

}  // namespace tare::engine

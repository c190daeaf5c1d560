// The kernels of attention, one launch function each; attention.cpp puts them together.
//
//   begin   norms, rotation, append to the cache, rotated queries
//   tiles   tensor cores: a part of a round, or a whole row of prefill
//   plain   FP32 arithmetic, any format and head dimension: parts, for rounds and prefill
//   merge   parts in order, gate, operand
#pragma once

#include "engine/cuda/attention/attention.h"
#include "engine/cuda/attention/attention_layout.h"

namespace tare::engine {

// Positions of a pass: frontier + t, from `control` in a round, else from `first`.
struct PassPositions {
  const RoundControl* control = nullptr;
  int first = 0;
  int tokens = 0;
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
  ColumnPlan columns;      // of kFP16Columns
  float query_factor = 1;  // softmax scale and log2 e
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

}  // namespace tare::engine

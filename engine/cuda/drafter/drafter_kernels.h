// The kernels of a draft that no other pass has, one launch function each; block_drafter.cpp puts them together.
//
//   begin_draft       embedded block; taps of new positions as the operand of fc
//   draft_heads       norms of queries and keys, rotation, keys and values to the cache
//   draft_attention   a part of the visible positions for the rows of one key-value head
//   draft_merge       parts in order, operand of the output projection
//   draft_mixer       these three in one, over few positions
//   draft_chunks      largest logit and sum of exponentials of each chunk of the vocabulary
//   draft_candidates  the most likely tokens of a row, with log-probabilities
#pragma once

#include "engine/backend/option_words.h"
#include "engine/cuda/attention/attention.h"
#include "engine/cuda/device/launch.h"
#include "engine/cuda/drafter/drafter_control.h"
#include "engine/cuda/head/logit_chunks.h"
#include "engine/cuda/product/operand.h"
#include "engine/cuda/product/product.h"
#include "engine/speculate/block_drafter_config.h"

namespace tare::engine {

struct DrafterShape {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int layers = 0;
  float eps = 0;
  [[nodiscard]] constexpr int heads_a_kv_head() const { return heads / kv_heads; }
};
// Throws Error (input) naming the size when the kernels do not support it.
void check_drafter_shape(const DrafterShape& shape);

// Keys (after norm and rotation) and values of all layers: [layer][kv_head][slot][head_dim], FP32 or BF16. Slots at and
// past the frontier are the block's.
struct DraftCache {
  std::byte* keys = nullptr;
  std::byte* values = nullptr;
  CacheFormat format = CacheFormat::kBF16;
  std::int64_t slots = 0;
};

// Writes x = rows of the embedding [block][hidden] FP32; and, unless features.width is 0, the operand of fc from rows
// of the taps [row][columns] FP32 (zeros past control->features) and zeros to context_x [width][hidden].
struct BeginDraftArguments {
  const DraftControl* control = nullptr;
  const std::uint16_t* embedding = nullptr;
  int hidden = 0;  // even
  int block = 0;   // rows; 0: features only
  float* x = nullptr;
  const float* taps = nullptr;
  Operand features;
  float* context_x = nullptr;
};
// The successor of launch_take_control: lets nobody start before it has waited.
void launch_begin_draft(const BeginDraftArguments& arguments, const CudaLaunch& launch);

enum class DraftQueries { kNone, kFP32Rows, kBF16Rows };

// result: with queries the rows of one layer's qkv, tokens at positions control->frontier + t; without, keys over
// values of layer 0, 1, ..., of the new positions: first + t or, with a control, control->first_feature + t for t <
// control->features.
struct DraftHeadsArguments {
  DrafterShape shape;
  ProductResult result;
  int tokens = 0;
  int layer = 0;  // with queries
  DraftQueries query_form = DraftQueries::kNone;
  float query_factor = 1;          // softmax scale and log2 e
  const float* q_norm = nullptr;   // [head_dim], of the layer
  const float* k_norms = nullptr;  // [layers][head_dim]
  CudaRopeTable rope;              // of head_dim
  const DraftControl* control = nullptr;
  int first = 0;
  DraftCache cache;
  std::byte* queries = nullptr;  // FP32: [token][head][dim]; BF16: [kv_head][token][head of the kv_head][dim]
};
void launch_draft_heads(const DraftHeadsArguments& arguments, const CudaLaunch& launch);

// Positions that the rows of a block at frontier .. frontier + block - 1 see, and how they are cut into parts; the same
// lines for host and kernels. Row q sees first_seen(q) .. last_seen(q); parts are whole tiles from begin() on.
struct DraftSpan {
  int frontier = 0;
  int block = 0;
  int window = 0;  // 0: none
  bool causal = false;
  int most_parts = 1;

  static constexpr int kTile = 64;
  [[nodiscard]] constexpr int first_seen(int row) const {
    const int first = frontier + row - window + 1;
    return window == 0 || first < 0 ? 0 : first;
  }
  [[nodiscard]] constexpr int last_seen(int row) const {
    const int last = frontier + block - 1;
    const int own = frontier + row;
    if (causal) return own;
    return window == 0 || own + window - 1 > last ? last : own + window - 1;
  }
  [[nodiscard]] constexpr int begin() const { return first_seen(0) / kTile * kTile; }
  [[nodiscard]] constexpr int end() const { return frontier + block; }
  [[nodiscard]] constexpr int tiles() const { return (end() - begin() + kTile - 1) / kTile; }
  [[nodiscard]] constexpr int tiles_a_part() const { return (tiles() + most_parts - 1) / most_parts; }
  [[nodiscard]] constexpr int parts() const { return (tiles() + tiles_a_part() - 1) / tiles_a_part(); }
};

// Sums of weights 2^(score - largest) times values [part][token][head][head_dim], and the largest score and the sum of
// weights [part][token][head]. FP32.
struct DraftParts {
  float* sums = nullptr;
  float2* ends = nullptr;
};
// How many parts a draft has at most: enough blocks for a GPU, and the same on any.
[[nodiscard]] int most_draft_parts(const DrafterShape& shape, int block, bool tensor_cores);
[[nodiscard]] bool draft_uses_tensor_cores(const DrafterShape& shape, CacheFormat format);

struct DraftAttentionArguments {
  DrafterShape shape;
  const std::byte* queries = nullptr;
  DraftCache cache;
  int layer = 0;
  DraftLayerMask mask;
  int block = 0;
  int most_parts = 1;
  const DraftControl* control = nullptr;
  DraftParts parts;
};
// `parts`: thread blocks of them, at least the span's.
// tensor cores: BF16 queries and caches, head dimension 64 or 128; numbers of both products are BF16, sums FP32. Else
// one part, FP32 queries and arithmetic.
void launch_draft_attention(const DraftAttentionArguments& arguments, int parts, const CudaLaunch& launch);
// The operand of heads * head_dim columns: all tokens of its width, zeros past the block.
void launch_draft_merge(const DraftAttentionArguments& arguments, const Operand& out, const CudaLaunch& launch);

// draft_heads, draft_attention and draft_merge of one layer in one launch of clusters (sm_90): `arguments` as with
// queries, which stay on the chip, of a product's planes. The block's keys and values go to the cache as well. Sums
// over positions are taken in another order than by the parts of draft_attention. Over the most positions, eight thread
// blocks that share a key-value head go over theirs two or three times.
constexpr std::int64_t kMostMixerPositions = 2304;
[[nodiscard]] bool takes_draft_mixer(const DrafterShape& shape, CacheFormat format, int block, std::int64_t positions);
void launch_draft_mixer(const DraftHeadsArguments& arguments, const DraftLayerMask& mask, const Operand& out,
                        const CudaLaunch& launch);

// Which tokens of the head's product are rows of a draft, and which: tokens first .. first + count - 1 are rows out,
// out + 1, ...; of_last_feature: the one token control->features - 1.
struct DraftRows {
  int first = 0;
  int count = 1;
  int out = 1;
  bool of_last_feature = false;
  [[nodiscard]] constexpr int pairs() const { return of_last_feature ? 1 : (first + count + 1) / 2 - first / 2; }
};
// By row of the block.
struct DraftChunks {
  // [row][logit_chunk_place(chunk)] (of kMostLogitChunks): ordered_logit of each chunk's largest logit.
  std::uint32_t* largest = nullptr;
  // [row][kMostLogitStretches]: the largest logit of a stretch, and its sum of 2^((logit - largest) log2 e /
  // temperature), which is NaN when a logit of it is not finite.
  float2* ends = nullptr;
};
// tokens: of the pass that the head's product was for.
void launch_draft_chunks(const ProductResult& head, int tokens, const DraftRows& rows, const DraftControl* control,
                         const DraftChunks& chunks, const CudaLaunch& launch);
// Where the likeliest token goes on: ids[row of the head] (null: the row itself) to *best (null: nowhere).
struct DraftChain {
  const std::int32_t* ids = nullptr;
  std::int32_t* best = nullptr;
};
// Writes candidates (rows of the head) most likely first, ties to the lowest id, and log softmax(logits / temperature)
// to mapped host memory.
void launch_draft_candidates(const ProductResult& head, const DraftRows& rows, const DraftControl* control,
                             const DraftChunks& chunks, const DraftChain& chain, DraftOutcome* outcome,
                             const CudaLaunch& launch);

}  // namespace tare::engine

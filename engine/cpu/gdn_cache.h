// The recurrent state of one GDN layer, in one of two forms, and the rules by which a pass reads and moves it.
//
// Recurrent form, token by token (S is [dk, dv], k and q normalised, a the decay exp(g)):
//   u = beta (v - a S^T k)      o = a S^T q + (k.q) u      S <- a S + k u^T
// which is the model's recurrence with the output read off before the state is written: a token needs one read of S,
// and its update is written together with the next token's read. Until then it is a *record* (a, k, u).
//
// Chunk form, in blocks of 64 positions aligned at position 0, with c_i the sum of g over the block up to token i:
//   u_i = beta_i (v_i - e^{c_i} S0^T k_i - sum_{j<i} e^{c_i-c_j} (k_i.k_j) u_j)
//   o_i = e^{c_i} S0^T q_i + sum_{j<=i} e^{c_i-c_j} (q_i.k_j) u_j
// S0 is the state at the block's start; it is written when a block is complete: S0 <- e^{c_64} S0 + sum e^{c_64-c_j}
// k_j u_j^T.
//
// In both forms a pass over T tokens does what T passes over one token do, operation by operation. A *verify* pass
// writes nothing but folds of committed records; commit(m) makes the first m tokens' records committed.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "engine/backend/options.h"
#include "engine/checkpoint/model_config.h"
#include "engine/cpu/aligned_buffer.h"
#include "engine/cpu/gdn_layout.h"
#include "engine/cpu/kernels.h"

namespace tare::engine {

enum class PassMode {
  kAbsorb,  // tokens become part of the past at once (prefill)
  kVerify,  // tokens wait for commit
};

// One token's input of one value head. Rows are padded with zeros: q and k to 64, v to 16 elements.
struct GdnTokenInput {
  const float* query = nullptr;  // normalised, times dk^-1/2
  const float* key = nullptr;    // normalised
  const float* value = nullptr;
  float key_query = 0;  // key . query
  float beta = 0;
  float log_decay = 0;  // g
};

struct GdnShape {
  explicit GdnShape(const ModelConfig& config);
  std::int64_t heads = 0;  // value heads
  std::int64_t dk = 0;
  std::int64_t dv = 0;
  std::int64_t stride = 0;  // dv rounded up to kStateColumnPadding

  [[nodiscard]] std::int64_t state_elements() const { return dk * stride; }
};

// Work space of one thread.
struct GdnScratch {
  explicit GdnScratch(const GdnShape& shape);
  AlignedBuffer<float> state;  // a verify's state beyond the committed one
  AlignedBuffer<float> key_product, query_product, update;
  AlignedBuffer<float> key_dots, query_dots, weights;
};

class GdnCache {
 public:
  GdnCache(const ModelConfig& config, GdnForm form);

  void reset();
  // Makes room for a pass of `tokens` tokens. Nothing of an earlier, uncommitted verify remains.
  void begin_pass(PassMode mode, std::int64_t tokens);
  // Token `token` of the pass on one head; tokens of a head in order, heads in any order and on any thread.
  // Writes the head's output o [stride].
  void step(const Kernels& kernels, std::int64_t head, std::int64_t token, const GdnTokenInput& input,
            GdnScratch& scratch, float* output);
  void end_pass();
  // After a verify pass: its first `count` tokens become part of the past.
  void commit(const Kernels& kernels, std::int64_t count, ThreadPool& pool);

  // [heads, dk, dv] as after the last token of the past.
  [[nodiscard]] std::vector<float> state(const Kernels& kernels) const;
  [[nodiscard]] std::uint64_t state_bytes() const { return state_.bytes(); }
  // Bytes that one pass of `tokens` tokens moves when `past` tokens are absorbed: state and records, reads and writes.
  [[nodiscard]] std::uint64_t bytes_per_pass(std::int64_t past, std::int64_t tokens) const;

 private:
  // Records of the recurrent form: slot by slot, all heads.
  struct Records {
    std::int64_t first = 0;
    std::int64_t count = 0;
    std::int64_t slots = 0;
    AlignedBuffer<float> keys;    // [slot][head][dk]
    AlignedBuffer<float> values;  // [slot][head][stride]
    AlignedBuffer<float> decays;  // [slot][head]
  };
  // Records of one block of the chunk form.
  struct Block {
    AlignedBuffer<float> keys;    // [head][dk][64]: lanes are positions
    AlignedBuffer<float> values;  // [head][64][stride]
    AlignedBuffer<float> logs;    // [head][2][64]: c in two parts, high and low
  };

  GdnShape shape_;
  GdnForm form_;
  AlignedBuffer<float> state_;  // [head][dk][stride]
  PassMode mode_ = PassMode::kAbsorb;
  std::int64_t pass_tokens_ = 0;
  Records past_;               // recurrent: absorbed, not yet folded into state_
  Records fresh_;              // recurrent: of the pass in hand
  std::vector<Block> blocks_;  // chunked: block 0 holds the past's unfinished block
  std::int64_t filled_ = 0;    // chunked: tokens of the past in block 0

  float* head_state(std::int64_t head) { return state_.data() + head * shape_.state_elements(); }
  void reserve(Records& records, std::int64_t slots) const;
  void step_recurrent(const Kernels& kernels, std::int64_t head, std::int64_t token, const GdnTokenInput& input,
                      GdnScratch& scratch, float* output);
  void read_past(const Kernels& kernels, std::int64_t head, const GdnTokenInput& input, GdnScratch& scratch);
  void step_chunked(const Kernels& kernels, std::int64_t head, std::int64_t token, const GdnTokenInput& input,
                    GdnScratch& scratch, float* output);
  void fold_block(const Kernels& kernels, std::int64_t head, const Block& block, std::int64_t count, const float* in,
                  float* out) const;
};

}  // namespace tare::engine

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
// In both forms a pass over T tokens does what T passes over one token do, operation by operation.
//
// A *verify* pass over the nodes of a tree moves the committed state by nothing but records committed earlier. In the
// recurrent form it leaves what it takes to commit any path, in one of three ways (option rollback):
//   ring        the nodes' records. commit makes those of the path committed. Bit for bit plain decoding.
//   snapshot    the state after every node. commit takes the last node's. Bit for bit plain decoding.
//   tree_chunk  the nodes are one chunk of which only ancestors see each other; with c_n the sum of g from the root to
//   n
//                 u_n = beta_n (v_n - e^{c_n} S0^T k_n - sum over ancestors j of e^{c_n-c_j} (k_j.k_n) u_j)
//               and o_n likewise: no state but S0 is read and none is made. commit is S0 <- e^{c_m} S0 + sum over the
//               path j of e^{c_m-c_j} k_j u_j^T. It rounds elsewhere than plain decoding: equal to FP32 rounding only.
// The chunk form verifies chains, and commits by dropping the rows of its blocks: its rollback is the ring.
//
// States may be kept in fewer bits (state_store.h); every update is then followed by a rounding, and the three
// rollbacks stay what they are but that tree_chunk rounds a path once, not token by token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "engine/backend/option_words.h"
#include "engine/checkpoint/model_config.h"
#include "engine/cpu/aligned_buffer.h"
#include "engine/cpu/gdn_layout.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/state_store.h"
#include "engine/cpu/tree_walk.h"

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
  // Makes room for the states of a verify beyond the committed one.
  void reserve_states(const GdnShape& shape, std::int64_t places);
  AlignedBuffer<float> states;            // [place][dk][stride]
  AlignedBuffer<float> committed, after;  // [dk][stride]: of the head in hand, where states are not kept in FP32
  AlignedBuffer<float> key_product, query_product, update;
  AlignedBuffer<float> key_dots, query_dots, weights;
  AlignedBuffer<float> path_keys, path_values;  // [dk][64] and [64][stride]: records of a path, gathered
  std::vector<std::int32_t> path;
};

// What a round of `nodes` nodes costs one layer in the recurrent form, in bytes.
struct RollbackCost {
  std::uint64_t held = 0;   // memory beside the committed state: records and states of nodes
  std::uint64_t moved = 0;  // the committed state, records and states of nodes: reads plus writes. What a thread reads
                            // of a head that it has just written comes from a cache near its core and does not count.
};
[[nodiscard]] RollbackCost rollback_cost(const GdnShape& shape, Rollback rollback, std::int64_t nodes,
                                         StateFormat format = StateFormat::kFP32);

class GdnCache {
 public:
  // The chunk form takes no rollback but the ring.
  GdnCache(const ModelConfig& config, GdnForm form, Rollback rollback, StateFormat format = StateFormat::kFP32);

  void reset();
  // Makes room for a pass that absorbs `tokens` tokens. Nothing of an earlier, uncommitted verify remains.
  void begin_absorb(std::int64_t tokens);
  // The same for a verify, whose nodes are then taken in the walk's order. The walk stays until the pass ends; in the
  // chunk form it is a chain's.
  void begin_verify(const TreeWalk& walk);
  // Token (node) `token` of the pass on one head; tokens of a head in order (nodes in the walk's), one after the other
  // and with one scratch, heads in any order and on any thread. Writes the head's output o [stride].
  void step(const Kernels& kernels, std::int64_t head, std::int64_t token, const GdnTokenInput& input,
            GdnScratch& scratch, float* output);
  void end_pass();
  // After a verify pass: the nodes of a path from its root become part of the past. Once a verify.
  void commit(const Kernels& kernels, std::span<const std::int32_t> path, ThreadPool& pool);

  // Takes `state` [heads, dk, dv] for that after the past, as reset and absorbing would have left it; stored in the
  // cache's own format. Of the chunk form the past ends with a whole block.
  void set_state(std::span<const float> state);
  // False when tokens of the chunk form's block in hand are not in the state: then state() is not all there is.
  [[nodiscard]] bool state_is_all() const { return filled_ == 0; }
  // [heads, dk, dv] as after the last token of the past.
  [[nodiscard]] std::vector<float> state(const Kernels& kernels) const;
  [[nodiscard]] std::uint64_t state_bytes() const { return state_.bytes(); }
  [[nodiscard]] StateFormat state_format() const { return state_.format(); }
  // Memory beside the state that a verify of `tokens` tokens needs, and the bytes that a pass over them moves when
  // `past` tokens are absorbed (see RollbackCost).
  [[nodiscard]] std::uint64_t bytes_held(std::int64_t tokens) const;
  [[nodiscard]] std::uint64_t bytes_per_pass(PassMode mode, std::int64_t past, std::int64_t tokens) const;

 private:
  // Records of the recurrent form: slot by slot, all heads.
  struct Records {
    std::vector<std::int32_t> live;  // slots of what is absorbed and not yet folded, oldest first
    bool as_path = false;            // live is a path of a tree_chunk verify: folded at once, by logs
    std::int64_t slots = 0;
    AlignedBuffer<float> keys;    // [slot][head][dk rounded up to 64]
    AlignedBuffer<float> values;  // [slot][head][stride]
    AlignedBuffer<float> decays;  // [slot][head]: of a token, a
    AlignedBuffer<double> logs;   // [slot][head]: of a node of a tree_chunk verify, c
  };
  // Records of one block of the chunk form.
  struct Block {
    AlignedBuffer<float> keys;    // [head][dk][64]: lanes are positions
    AlignedBuffer<float> values;  // [head][64][stride]
    AlignedBuffer<float> logs;    // [head][2][64]: c in two parts, high and low
  };

  GdnShape shape_;
  GdnForm form_;
  Rollback rollback_;
  std::int64_t key_stride_ = 0;
  StateStore state_;  // [head][dk][stride]
  PassMode mode_ = PassMode::kAbsorb;
  std::int64_t pass_tokens_ = 0;
  bool may_commit_ = false;
  const TreeWalk* walk_ = nullptr;     // of the verify in hand
  Records past_;                       // recurrent: absorbed, not yet folded into state_
  Records fresh_;                      // recurrent: of the pass in hand
  std::vector<StateStore> snapshots_;  // snapshot: by node, as state_
  std::vector<Block> blocks_;          // chunked: block 0 holds the past's unfinished block
  std::int64_t filled_ = 0;            // chunked: tokens of the past in block 0

  [[nodiscard]] bool in_place() const { return state_.format() == StateFormat::kFP32; }
  // The committed state of the head in hand, as FP32: itself, or a copy that open made and close writes back.
  float* head_state(std::int64_t head, GdnScratch& scratch) {
    return in_place() ? state_.in_place(head) : scratch.committed.data();
  }
  void open(std::int64_t head, GdnScratch& scratch) const;
  void close(std::int64_t head, const GdnScratch& scratch);
  void round(float* state) const;
  [[nodiscard]] StateStore make_store() const;
  [[nodiscard]] std::int64_t record(std::int64_t slot, std::int64_t head) const { return slot * shape_.heads + head; }
  void reserve(Records& records, std::int64_t slots) const;
  void reserve_blocks(std::int64_t blocks);
  float* state_after(std::int64_t head, std::int32_t node, std::int32_t place, GdnScratch& scratch);
  void read_past(const Kernels& kernels, std::int64_t head, const GdnTokenInput& input, GdnScratch& scratch);
  void read_parent(const Kernels& kernels, std::int64_t head, const TreeWalk::Node& node, const GdnTokenInput& input,
                   GdnScratch& scratch);
  void fold_and_read(const Kernels& kernels, const Records& records, std::int64_t at, const float* in, float* out,
                     const GdnTokenInput& input, GdnScratch& scratch) const;
  void step_recurrent(const Kernels& kernels, std::int64_t head, std::int64_t token, const GdnTokenInput& input,
                      GdnScratch& scratch, float* output);
  void step_tree_chunk(const Kernels& kernels, std::int64_t head, std::int64_t node, const GdnTokenInput& input,
                       GdnScratch& scratch, float* output);
  void step_chunked(const Kernels& kernels, std::int64_t head, std::int64_t token, const GdnTokenInput& input,
                    GdnScratch& scratch, float* output);
  void fold_past(const Kernels& kernels, std::int64_t head, std::size_t count, float* state) const;
  void fold_path(const Kernels& kernels, std::int64_t head, float* state, GdnScratch& scratch) const;
  void fold_block(const Kernels& kernels, std::int64_t head, const Block& block, std::int64_t count, const float* in,
                  float* out) const;
};

}  // namespace tare::engine

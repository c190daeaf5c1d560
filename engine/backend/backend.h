// The interface of a backend: one sequence, one model, and what it does: prefill, draft, verify, commit, say what it
// reads.
//
// Words: the *frontier* F is how many tokens the caches have absorbed. Tokens given to prefill are absorbed at once.
// verify runs the nodes of a tree at positions F + depth and leaves everything committed untouched; commit(path)
// absorbs the tokens of a path from the root, after which the state is that of a sequence of F + |path| tokens: bit for
// bit as if they had come alone, but for the forms that say otherwise (rollback tree_chunk, the CUDA chunk form).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/collector.h"
#include "engine/backend/launch_record.h"
#include "engine/backend/memory_part.h"
#include "engine/backend/options.h"
#include "engine/backend/sequence_checkpoint.h"
#include "engine/backend/token_tree.h"
#include "engine/backend/weight_inventory.h"
#include "engine/checkpoint/checkpoint.h"

namespace tare::engine {

// Receives intermediate results of prefill. Empty spans are not filled.
struct PrefillCapture {
  std::span<float> logits;               // [T, vocab_size]
  std::vector<std::span<float>> hidden;  // layer_count + 1 of [T, hidden_size]: 0 the embedding, i the residual
                                         // stream after layer i-1, the last one after the final norm
};

// What verify is to hand out beside the greedy tokens. Copying 16 rows of 248,320 logits from a GPU takes 290 us, a
// tenth of a round: who only needs the largest does not ask for them.
struct VerifyRequest {
  bool logits = true;  // refused with option head.screen, which has none but its candidates
  bool hidden = false;
};

// Valid until the next call.
struct VerifyOutput {
  std::span<const std::int32_t> best;  // [T], of every node the token with the largest logit, ties to the lowest id
  std::span<const float> logits;       // [T, vocab_size], FP32; empty unless asked for
  std::span<const float> hidden;       // [T, hidden_size] after the final norm, FP32; empty unless asked for
  std::int64_t spun_ns = 0;            // what handicap.place kernel really spun within the pass
};

// What a drafter is asked for.
struct DraftRequest {
  std::int32_t anchor = 0;      // the token at position F, chosen and not yet absorbed
  std::int64_t tokens = 0;      // how far ahead, at least 1: rows for positions F+1..F+tokens
  std::int64_t candidates = 1;  // a row, at least 1, at most the vocabulary
  double temperature = 1;       // of the log-probabilities
};

// Valid until the next call.
struct DraftOutput {
  std::int64_t rows = 0;                     // as many as asked for, or as fit the context
  std::int64_t candidates = 0;               // a row
  std::span<const std::int32_t> tokens;      // [rows, candidates], most likely first, ties to the lowest id
  std::span<const float> log_probabilities;  // [rows, candidates], log softmax(logits / temperature) over what the
                                             // drafter may propose
};

class Backend {
 public:
  virtual ~Backend() = default;

  [[nodiscard]] virtual const ModelConfig& config() const = 0;
  [[nodiscard]] virtual const EngineOptions& options() const = 0;

  // Empties caches and sets the state to zero: frontier 0.
  virtual void reset() = 0;
  [[nodiscard]] virtual std::int64_t frontier() const = 0;
  // How many tokens the caches can hold (option context, or the model's maximum).
  [[nodiscard]] virtual std::int64_t capacity() const = 0;

  // Absorbs T >= 1 tokens in chunks of options().prefill.chunk. Returns the logits [vocab_size] after the last token,
  // valid until the next call. Throws Error (input): a token outside the vocabulary, capacity exceeded;
  // Error (invalid): logits that are not finite, position named.
  virtual std::span<const float> prefill(std::span<const std::int32_t> tokens, const PrefillCapture& capture) = 0;
  std::span<const float> prefill(std::span<const std::int32_t> tokens) { return prefill(tokens, {}); }

  // True when options().speculate names a drafter, which the backend then holds and feeds: it keeps what its drafter
  // needs of every absorbed token (taps or hidden states). options().speculate.draft_tokens is then what the drafter
  // proposes when nobody says, not 0.
  [[nodiscard]] virtual bool has_drafter() const { return false; }
  // Proposes tokens for the positions after the anchor's. Nothing committed changes. Needs at least one absorbed token.
  virtual DraftOutput draft(const DraftRequest& request);

  // One pass over the nodes of a tree, whose deepest node fits the caches. Row n of the output is node n's. Errors as
  // prefill's.
  virtual VerifyOutput verify(const TokenTree& tree, const VerifyRequest& request) = 0;
  VerifyOutput verify(const TokenTree& tree) { return verify(tree, {}); }
  // A chain.
  VerifyOutput verify(std::span<const std::int32_t> tokens, const VerifyRequest& request) {
    return verify(TokenTree::chain(tokens), request);
  }
  VerifyOutput verify(std::span<const std::int32_t> tokens) { return verify(tokens, {}); }
  // Absorbs the tokens of `path`, nodes of the last verify from the root on; an empty path absorbs nothing. May be
  // called once a verify.
  virtual void commit(std::span<const std::int32_t> path) = 0;
  // Absorbs the first `count` tokens of a chain.
  void commit(int count);

  // What a prefix cache keeps of the sequence (sequence_checkpoint.h). Rows of positions first..last - 1, last <=
  // frontier, and the checkpoint of the frontier. Neither changes what a later call computes, nor what the last call
  // handed out. Nothing may be waiting for a commit. Throws Error (internal) where a backend has none, and for a
  // frontier inside a block of the chunk form (gdn.form chunked: multiples of 64).
  [[nodiscard]] virtual std::vector<std::byte> export_rows(std::int64_t first, std::int64_t last);
  [[nodiscard]] virtual SequenceCheckpoint export_checkpoint();
  // The way back: after reset() the rows of all positions below checkpoint.tokens, from a backend of the same
  // checkpoint and options, and then the checkpoint, after which the frontier is checkpoint.tokens and everything as if
  // the tokens had been absorbed. Throws Error (internal) for other sizes; then only reset() may follow.
  virtual void import_rows(std::int64_t first, std::int64_t last, std::span<const std::byte> rows);
  virtual void import_checkpoint(const SequenceCheckpoint& checkpoint);

  // Recurrent state of a GDN layer, [linear_value_heads, dk, dv] FP32, as after the frontier's last token.
  [[nodiscard]] virtual std::vector<float> recurrent_state(std::int64_t layer) const = 0;

  // Bytes of a round of `width` tokens when the caches hold `context` tokens.
  [[nodiscard]] virtual WeightInventory inventory(std::int64_t context, std::int64_t width) const = 0;

  // The kernels of a round of `width` tokens, in the order of their stream, as the last such round launched them; empty
  // when there was none yet, or when this backend launches no kernels.
  [[nodiscard]] virtual std::vector<LaunchRecord> launches(std::int64_t width) const = 0;

  // The same of the last draft.
  [[nodiscard]] virtual std::vector<LaunchRecord> draft_launches() const { return {}; }

  // From here on every pass tells `collector` its ops, until another or null is set; the collector outlives that.
  // Returns false, and does nothing, when this backend's work is not done by the calling threads (a GPU's kernels are
  // recorded by its driver).
  [[nodiscard]] virtual bool set_collector(Collector* collector) { return collector == nullptr; }

  // From here on the driver of a GPU records every kernel, at the host's cost: rounds are launched so that the cost
  // falls into the time in which the GPU computes. Kernels, their order and results stay what they are.
  virtual void expect_driver_records() {}

  // What it would keep in memory with caches of `capacity` tokens in `formats`, its other options as they are, by part:
  // the sizes that it allocates by, without allocating. Empty: it does not say.
  [[nodiscard]] virtual std::vector<MemoryPart> memory_plan(const EngineOptions::KeyValue& formats,
                                                            std::int64_t capacity) const {
    (void)formats;
    (void)capacity;
    return {};
  }
  [[nodiscard]] virtual DeviceMemory device_memory() const { return {}; }

  // What runs: {"backend": "cpu", "instruction_set": "AVX3_DL", "threads": 2, ...}, for records.
  [[nodiscard]] virtual Json description() const = 0;
};

}  // namespace tare::engine

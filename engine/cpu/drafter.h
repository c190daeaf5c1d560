// What the CPU backend asks of a drafter, whatever kind it is.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/json.h"
#include "engine/backend/backend.h"
#include "engine/backend/sequence_checkpoint.h"
#include "engine/backend/weight_inventory.h"
#include "engine/cpu/forward_pass.h"

namespace tare::engine {

class Drafter {
 public:
  virtual ~Drafter() = default;

  // How far ahead it proposes when nobody says.
  [[nodiscard]] virtual std::int64_t default_tokens() const = 0;
  // What the target's passes are to keep for it; null: nothing but their final hidden states.
  [[nodiscard]] virtual LayerTaps* taps() { return nullptr; }
  // As before the first token.
  virtual void reset() = 0;
  // The target has absorbed `tokens`, the first at `position`. They are rows `rows` (rising) of the last pass of
  // `target`, which kept taps().
  virtual void absorb(const ForwardPass& target, std::span<const std::int32_t> tokens,
                      std::span<const std::int32_t> rows, std::int64_t position) = 0;
  // Rows for positions frontier + 1 .. frontier + request.tokens, which fit the caches; at least one. Changes nothing
  // that a later call could see. Throws Error (invalid): logits that are not finite, position named.
  virtual DraftOutput draft(const DraftRequest& request, std::int64_t frontier) = 0;
  // What Backend::export_rows and the like ask of it: the rows that positions first..last - 1 add to its caches, and
  // what it holds of the last absorbed token besides.
  virtual void export_rows(std::int64_t first, std::int64_t last, ByteWriter& bytes) = 0;
  virtual void import_rows(std::int64_t first, std::int64_t last, ByteReader& bytes) = 0;
  virtual void export_end(ByteWriter& bytes) { (void)bytes; }
  virtual void import_end(std::int64_t frontier, ByteReader& bytes) {
    (void)frontier;
    (void)bytes;
  }
  virtual void set_collector(Collector* collector) = 0;
  // Bytes of drafting `tokens` ahead (0: not at all) and of absorbing `width` tokens, when `context` tokens are
  // absorbed.
  virtual void account(InventoryAccount& account, std::int64_t context, std::int64_t width,
                       std::int64_t tokens) const = 0;
  // Of its key-value caches, with room for `capacity` tokens, when the target's are in `formats`.
  [[nodiscard]] virtual std::uint64_t cache_bytes(const EngineOptions::KeyValue& formats,
                                                  std::int64_t capacity) const = 0;
  [[nodiscard]] virtual Json description() const = 0;
};

// The drafter that options.speculate names, or null. All arguments but the options outlive it.
// Throws Error (input): mtp of a checkpoint without an MTP head, what open_block_drafter and
// ProposalHead refuse.
[[nodiscard]] std::unique_ptr<Drafter> make_drafter(const Checkpoint& checkpoint, const EngineOptions& options,
                                                    const ModelWeights& target, const Kernels& kernels,
                                                    ThreadPool& pool, std::int64_t capacity);

// Draft logits of a position are not finite.
[[nodiscard]] Error draft_not_finite(std::int64_t position);

}  // namespace tare::engine

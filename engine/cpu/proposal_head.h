// What a drafter scores tokens with (docs/method/heads.md): the target's head itself, or a copy of its own, of fewer
// rows, in fewer bits, or both. It decides what is proposed, never what is emitted.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/backend/launch_record.h"
#include "engine/backend/weight_inventory.h"
#include "engine/cpu/model_weights.h"

namespace tare::engine {

class ProposalHead {
 public:
  // The target's head, which outlives this.
  explicit ProposalHead(const Projection& head) : head_(&head) {}
  // As options.proposal_head says. Throws Error (input): a shortlist longer than the vocabulary or too short for the
  // tokens that end a text, counts that are not there or not of this vocabulary.
  ProposalHead(const Checkpoint& target, const EngineOptions& options, const Projection& head, ThreadPool& pool);

  [[nodiscard]] const PackedMatrix& matrix() const { return own_ ? own_->matrix : head_->matrix; }
  // How many tokens it may propose: the matrix's rows.
  [[nodiscard]] std::int64_t rows() const { return matrix().rows(); }
  // The token of every row, rising; empty: row i is token i.
  [[nodiscard]] std::span<const std::int32_t> ids() const { return ids_; }

  [[nodiscard]] LaunchRecord op() const;
  // Read `times` a round; its own copy is resident besides.
  void account(InventoryAccount& account, std::uint64_t times) const;
  [[nodiscard]] Json description() const;

 private:
  const Projection* head_;
  std::optional<Projection> own_;
  std::vector<std::int32_t> ids_;
};

}  // namespace tare::engine

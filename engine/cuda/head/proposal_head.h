// What a drafter scores tokens with (docs/method/heads.md): the target's head itself, or a copy of its own, of fewer
// rows, in fewer bits, or both. It decides what is proposed, never what is emitted.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/json.h"
#include "engine/backend/weight_inventory.h"
#include "engine/cuda/weights/model_weights.h"
#include "engine/cuda/weights/model_weights_plan.h"

namespace tare::engine {

// Which rows of the target's head a drafter has for itself, before anything is loaded.
struct ProposalPlan {
  std::optional<StackedMatrix> own;  // nothing: the target's head

  // Throws Error (input) as read_shortlist.
  ProposalPlan(const Checkpoint& target, const EngineOptions& options);
  [[nodiscard]] std::int64_t rows(std::int64_t vocab_size) const { return own ? own->rows() : vocab_size; }
  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] std::uint64_t staging_bytes() const;
};

class CudaProposalHead {
 public:
  // The target's head, which outlives this.
  explicit CudaProposalHead(const CudaProjection& head) : head_(&head) {}
  // As planned. Errors as load_projection's.
  CudaProposalHead(const Checkpoint& target, const ProposalPlan& plan, const CudaProjection& head);

  [[nodiscard]] const CudaProjection& projection() const { return own_ ? *own_ : *head_; }
  // How many tokens it may propose.
  [[nodiscard]] std::int64_t rows() const { return projection().matrix.rows; }
  // The token of every row, rising; empty: row i is token i.
  [[nodiscard]] std::span<const std::int32_t> ids() const { return ids_; }
  [[nodiscard]] std::int32_t token_of(std::int32_t row) const {
    return ids_.empty() ? row : ids_[static_cast<std::size_t>(row)];
  }

  // Read `times` a round; its own copy is resident besides.
  void account(InventoryAccount& account, std::uint64_t times) const;
  [[nodiscard]] Json description() const;

 private:
  const CudaProjection* head_;
  std::optional<CudaProjection> own_;
  std::vector<std::int32_t> ids_;
};

}  // namespace tare::engine

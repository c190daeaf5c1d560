#include "engine/cuda/head/proposal_head.h"

#include <array>

#include "base/json_reader.h"
#include "engine/cuda/weights/load_projection.h"
#include "engine/speculate/shortlist.h"

namespace tare::engine {

ProposalPlan::ProposalPlan(const Checkpoint& target, const EngineOptions& options) {
  const EngineOptions::ProposalHead& chosen = options.proposal_head;
  if (chosen.shortlist == 0 && chosen.screen == HeadScreen::kNone) return;
  own = WeightPlan(target.config(), options).head();
  if (chosen.screen != HeadScreen::kNone) own->codec = format_of(chosen.screen);
  if (chosen.shortlist > 0) own->chosen = read_shortlist(target, chosen);
}

std::uint64_t ProposalPlan::bytes() const {
  return own ? static_cast<std::uint64_t>(tile_bytes(own->codec, own->rows(), own->columns)) : 0;
}

std::uint64_t ProposalPlan::staging_bytes() const {
  return own ? engine::staging_bytes(std::array{*own}) : 0;
}

CudaProposalHead::CudaProposalHead(const Checkpoint& target, const ProposalPlan& plan, const CudaProjection& head)
    : head_(&head) {
  if (!plan.own) return;
  WeightStage stage(target, plan.staging_bytes());
  own_ = load_projection(stage, *plan.own);
  own_->names = {"drafter." + head.names.front()};
  ids_ = plan.own->chosen;
}

void CudaProposalHead::account(InventoryAccount& account, std::uint64_t times) const {
  const CudaProjection& projection = this->projection();
  const WeightMatrix& matrix = projection.matrix;
  // The target's own, read once more, or a copy.
  account.add({own_ ? projection.names.front() : projection.names.front() + " (draft)", stored_format(matrix),
               AccessPattern::kStream, own_ ? projection.bytes() : 0, times * projection.bytes(),
               own_ ? element_count(matrix.rows, matrix.columns) : 0});
}

Json CudaProposalHead::description() const {
  return {{"rows", rows()}, {"weights", stored_format(projection().matrix)}};
}

}  // namespace tare::engine

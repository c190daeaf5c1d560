#include "engine/cpu/drafter.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "engine/cpu/block_drafter.h"
#include "engine/cpu/mtp_drafter.h"
#include "engine/cpu/proposal_head.h"
#include "engine/speculate/block_drafter_checkpoint.h"

namespace tare::engine {

std::unique_ptr<Drafter> make_drafter(const Checkpoint& checkpoint, const EngineOptions& options,
                                      const ModelWeights& target, const Kernels& kernels, ThreadPool& pool,
                                      std::int64_t capacity) {
  const std::string& name = options.speculate.drafter;
  if (name == "none") return nullptr;
  ProposalHead head(checkpoint, options, target.head, pool);
  if (name == "mtp")
    return std::make_unique<MtpDrafter>(checkpoint, options, target, std::move(head), kernels, pool, capacity);
  const std::unique_ptr<BlockDrafterCheckpoint> drafter = open_block_drafter(name, checkpoint);
  return std::make_unique<BlockDrafter>(*drafter, options, target, std::move(head), kernels, pool, capacity);
}

Error draft_not_finite(std::int64_t position) {
  return {ErrorKind::kInvalid, "the drafter's logits are not finite", fmt::format("position {}", position),
          "the drafter's weights or their format overflow; decode without it"};
}

}  // namespace tare::engine

// What the CUDA backend asks of a drafter, whatever kind it is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/json.h"
#include "engine/backend/backend.h"
#include "engine/cuda/device/round_graph.h"
#include "engine/cuda/taps.h"

namespace tare::engine {

class CudaDrafter {
 public:
  virtual ~CudaDrafter() = default;

  // Where passes of the target leave what it reads: taps of layers; and the hidden states after the final norm of a
  // prefill chunk, FP32 [prefill.chunk][hidden], or null.
  [[nodiscard]] virtual TapBuffers taps() const { return {}; }
  [[nodiscard]] virtual float* prefill_hidden() const { return nullptr; }

  // As before the first token.
  virtual void reset() = 0;
  // Rows `rows` of the last round were committed: `tokens`, at positions first, first + 1, ...; at most 32.
  virtual void absorb(std::span<const std::int32_t> rows, std::span<const std::int32_t> tokens, std::int64_t first) = 0;
  // Before a pass overwrites what absorb named.
  virtual void settle() {}
  // A prefill chunk of `tokens` at positions first, first + 1, ... has run; `device_tokens` are the same.
  virtual void absorb_prefill(std::span<const std::int32_t> tokens, const std::int32_t* device_tokens,
                              std::int64_t first) = 0;
  // All positions below `frontier` have been absorbed. Waits for the GPU. Errors as Backend::draft's.
  [[nodiscard]] virtual DraftOutput draft(const DraftRequest& request, std::int64_t frontier) = 0;

  // Kernels of the last draft.
  [[nodiscard]] virtual const std::vector<LaunchRecord>& launches() const = 0;
  virtual void cut_graphs(RoundCut cut) = 0;
  // Bytes of drafting `tokens` ahead and of absorbing `width` tokens, once each, when `context` tokens are absorbed.
  virtual void account(InventoryAccount& account, std::int64_t context, std::int64_t width,
                       std::int64_t tokens) const = 0;
  [[nodiscard]] virtual Json description() const = 0;
};

}  // namespace tare::engine

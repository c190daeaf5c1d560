// The head of a verify in two levels (docs/method/heads.md): a copy of the head in few bits scores every token, the
// head itself the few with the largest of those scores. Logits of all tokens are not made.
#pragma once

#include "engine/backend/options.h"
#include "engine/backend/weight_inventory.h"
#include "engine/cuda/device/cuda_device.h"
#include "engine/cuda/head/screen_kernels.h"
#include "engine/cuda/weights/model_weights.h"

namespace tare::engine {

class CudaScreenedHead {
 public:
  // Throws Error (input): more candidates than a row can have here, a hidden size without kernels.
  static void check(const ModelConfig& config, const EngineOptions& options);
  // Device memory of its work, beside the screen.
  [[nodiscard]] static std::uint64_t work_bytes();

  // `weights` has a screen, and outlives this.
  CudaScreenedHead(const CudaModelWeights& weights, const EngineOptions& options);

  // The choices of a round from what the screen's product left and the rows that it was given, `hidden` [tokens]
  // [hidden_size] after the final norm: keys->best and keys->fault, which must have been emptied.
  void launch(const ProductResult& screened, const float* hidden, int tokens, RoundKeys* keys,
              const CudaLaunch& launch) const;

  // Of the last round, [token][kMostCandidates] in device memory.
  [[nodiscard]] const std::int32_t* candidates() const { return chosen_.as<std::int32_t>(); }
  // The screen, and the candidates' rows of the head: of a verify of `width` tokens.
  void account(InventoryAccount& account, std::int64_t width) const;

 private:
  const CudaModelWeights& weights_;
  int candidates_;
  bool rounded_;
  DeviceBuffer largest_, chosen_;

  [[nodiscard]] std::uint64_t row_bytes() const;
};

}  // namespace tare::engine

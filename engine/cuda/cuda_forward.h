// One pass of tokens through the model on the GPU: the order of the launches and the memory they work in.
//
// A round (1 to 32 tokens) keeps everything that changes in RoundControl, so that its launches can be captured once and
// replayed; a prefill chunk is launched with its numbers. docs/method/model.md has the formulas.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "engine/backend/options.h"
#include "engine/cuda/device/cuda_device.h"
#include "engine/cuda/elementwise.h"
#include "engine/cuda/head/screened_head.h"
#include "engine/cuda/product/gate_up_product.h"
#include "engine/cuda/product/prefill_product.h"
#include "engine/cuda/taps.h"
#include "engine/cuda/weights/model_weights.h"

namespace tare::engine {

// Called between launches with the residual stream before layer `layer`, [tokens][hidden] in device memory; outside
// graphs only.
using LayerCallback = std::function<void(std::int64_t layer, const float* x)>;

struct CudaRound {
  int tokens = 0;                  // 1..32
  std::int64_t context_bound = 0;  // of attention_bound, over slots
  bool tree = false;  // the tokens may be what the control's tree says (at most kMostTreeNodes), and the path committed
                      // before may be out of place; otherwise they are a chain after one
  bool whole_head = true;  // false: the screened head, where there is one: no logits
  LayerCallback on_layer;  // may be empty
};

// Slots of the key-value caches: a tree's nodes stand side by side where only its deepest one must fit the context.
[[nodiscard]] constexpr std::int64_t key_value_slots(std::int64_t capacity) {
  return capacity + kMostTreeNodes - 1;
}

class CudaForward {
 public:
  // Sizes of everything that will be allocated beside the weights, by part, without allocating.
  [[nodiscard]] static std::vector<MemoryPart> plan(const ModelConfig& config, const EngineOptions& options,
                                                    std::int64_t capacity, const CudaDevice& device);

  CudaForward(const ModelConfig& config, const EngineOptions& options, std::int64_t capacity, const CudaDevice& device,
              const CudaModelWeights& weights, cudaStream_t stream);

  void reset();
  // Launches a round into `launch.stream`: begin_round from `host`, the layers, logits, end_round into `outcome` (both
  // mapped host memory). Leaves normed [tokens][hidden] and, with the whole head, logits [tokens][vocab].
  void launch_round(const CudaRound& round, const RoundControl* host, RoundOutcome* outcome, CudaLaunch launch);
  // Launches one prefill chunk: tokens [count] in device memory at positions frontier.., `control` set by the caller
  // with half and pending. Leaves x, of which launch_prefill_logits makes logits.
  void launch_prefill(const std::int32_t* tokens, int count, std::int64_t frontier, const LayerCallback& on_layer,
                      CudaLaunch launch);
  // Final norm, head, keys for rows first .. first + count - 1 (count <= 32) of the last prefill chunk: logits
  // [count][vocab], normed [count][hidden].
  void launch_prefill_logits(int first, int count, CudaLaunch launch);
  // Puts the control's pending path in place: before a chunk or a chain when it is not (rounds of trees do it
  // themselves). `control` must be set.
  void launch_move(const CudaLaunch& launch) const;

  // Every later pass leaves these taps, and a prefill chunk its rows after the final norm in prefill_hidden (FP32
  // [prefill.chunk][hidden], or null). Before anything is launched.
  void set_taps(TapBuffers taps, float* prefill_hidden) {
    taps_ = std::move(taps);
    prefill_hidden_ = prefill_hidden;
  }
  // Null when exact.
  [[nodiscard]] PrefillProducts* products() const { return products_.get(); }

  [[nodiscard]] RoundControl* control() const { return control_.as<RoundControl>(); }
  [[nodiscard]] RoundKeys* keys() const { return keys_.as<RoundKeys>(); }
  [[nodiscard]] std::int32_t* prefill_tokens() const { return prefill_tokens_.as<std::int32_t>(); }
  [[nodiscard]] const float* logits() const { return logits_.as<float>(); }
  [[nodiscard]] const float* normed() const { return normed_.as<float>(); }
  [[nodiscard]] const CudaScreenedHead* screened_head() const { return screened_ ? &*screened_ : nullptr; }
  [[nodiscard]] bool exact() const { return options_.activations.format == ActivationFormat::kFP32; }

  struct Layer {
    std::optional<CudaGdnCache> gdn;
    std::optional<CudaKeyValueCache> attention;
  };
  [[nodiscard]] const std::vector<Layer>& layers() const { return layers_; }

 private:
  // What the launches of one pass share.
  struct Pass {
    int tokens = 0;
    bool prefill = false;
    bool tree = false;               // rounds
    std::int64_t context_bound = 0;  // rounds
    std::int64_t frontier = 0;       // prefill
    CudaLaunch launch;
  };
  enum class OperandKind { kNormed, kMixed, kActivated };

  const ModelConfig& config_;
  const EngineOptions& options_;
  const CudaModelWeights& weights_;
  CudaDevice device_;
  ProductSettings settings_;
  ProductSettings behind_norm_settings_;  // of q, k, v (and z), and of gate and up
  ProductSettings out_settings_;          // of the output projections
  GateUpProduct gate_up_;
  std::vector<Layer> layers_;
  std::optional<CudaScreenedHead> screened_;
  std::optional<CudaKeyValueMove> move_;
  std::unique_ptr<PrefillProducts> products_;
  TapBuffers taps_;
  float* prefill_hidden_ = nullptr;
  DeviceBuffer cosines_, sines_;
  DeviceBuffer control_, keys_, prefill_tokens_;
  DeviceBuffer x_, normed_, logits_, results_, gate_results_, workspace_;
  DeviceBuffer row_operand_;          // prefill, and everything when exact
  std::vector<DeviceBuffer> panels_;  // [kind][width 8, 16, 32]

  [[nodiscard]] Operand operand(const Pass& pass, OperandKind kind, const WeightMatrix& reader) const;
  ProductResult multiply(const Pass& pass, const CudaProjection& projection, const Operand& operand,
                         const SideRows& side, const ProductSettings& settings) const;
  // `increment` is what layer `after_layer` adds last, or -1.
  void norm(const Pass& pass, const ProductResult& increment, const DeviceBuffer& gain, const Operand& out,
            float* normed, std::int64_t after_layer) const;
  ProductResult run_layers(const Pass& pass, const LayerCallback& on_layer) const;
  ProductResult run_gdn(const Pass& pass, std::int64_t layer, const Operand& input) const;
  ProductResult run_attention(const Pass& pass, std::int64_t layer, const Operand& input) const;
  // silu(gate) up of `normed` to `out`.
  void activate(const Pass& pass, const CudaLayerWeights& weights, const Operand& normed, const Operand& out) const;
  [[nodiscard]] L2Fill fill_of(const CudaProjection& projection) const;
};

}  // namespace tare::engine

// The block drafter on the GPU (model specification 7): context of committed positions, and a draft as one graph.
//
// Features are the taps of committed positions. A pass of the target leaves those of all its rows; absorb says which
// rows were committed; the next draft (or settle, before a pass overwrites them) makes them keys and values of every
// layer. A block's own keys and values lie past the frontier and mean nothing to the next draft.
//
// Numbers: with activations fp32 reference products and an FP32 cache; with bf16 the products of a round (features
// times 2^-4 as FP16, so up to a million), a BF16 cache, and attention in BF16 where the head dimension is 64 or 128.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/cuda/device/cuda_device.h"
#include "engine/cuda/device/mapped_host.h"
#include "engine/cuda/drafter/drafter.h"
#include "engine/cuda/drafter/drafter_sizes.h"
#include "engine/cuda/drafter/drafter_weights.h"
#include "engine/cuda/head/proposal_head.h"
#include "engine/cuda/product/gate_up_product.h"
#include "engine/cuda/product/prefill_product.h"

namespace tare::engine {

// A draft has this many rows besides the anchor's at most.
constexpr std::int64_t kMostDraftTokens = kMostRoundTokens - 1;

// What the drafter borrows; outlives it.
struct DrafterTarget {
  const std::uint16_t* embedding = nullptr;  // BF16 [vocab][hidden]
  const CudaProposalHead* head = nullptr;    // what it scores tokens with
  PrefillProducts* products = nullptr;       // null with activations fp32
};

// Called with the embedded block, [rows][hidden] FP32 in device memory, before the first layer; outside graphs only.
using BlockCallback = std::function<void(float* x)>;

class CudaBlockDrafter final : public CudaDrafter {
 public:
  // Throws Error (input): a shape without kernels, an option beyond what is drafted here.
  static void check(const BlockDrafterConfig& config, const EngineOptions& options);
  // What the constructor will allocate, and what the proposals' head takes.
  [[nodiscard]] static std::vector<MemoryPart> plan(const BlockDrafterConfig& config, const EngineOptions& options,
                                                    std::int64_t capacity, const CudaDevice& device,
                                                    const ProposalPlan& proposals);

  CudaBlockDrafter(const BlockDrafterCheckpoint& checkpoint, const EngineOptions& options, std::int64_t capacity,
                   const CudaDevice& device, const DrafterTarget& target, cudaStream_t stream);

  [[nodiscard]] const BlockDrafterConfig& config() const { return config_; }
  // Where passes of the target leave their taps.
  [[nodiscard]] TapBuffers taps() const override;

  // Forgets what is not projected; the context is that of the positions absorbed anew.
  void reset() override { pending_.clear(); }
  // Rows of the taps; the tokens are of no use to it.
  void absorb(std::span<const std::int32_t> rows, std::span<const std::int32_t> tokens, std::int64_t first) override;
  // Projects what absorb named, if anything.
  void settle() override;
  // Projects the taps of the chunk.
  void absorb_prefill(std::span<const std::int32_t> tokens, const std::int32_t* device_tokens,
                      std::int64_t first) override;
  [[nodiscard]] DraftOutput draft(const DraftRequest& request, std::int64_t frontier) override;

  // Sees every later block, until another is set; drafts are launched kernel by kernel while one is.
  void set_block_callback(BlockCallback callback) { on_block_ = std::move(callback); }

  [[nodiscard]] const std::vector<LaunchRecord>& launches() const override { return launched_; }
  void cut_graphs(RoundCut cut) override;
  void account(InventoryAccount& account, std::int64_t context, std::int64_t width, std::int64_t tokens) const override;
  [[nodiscard]] Json description() const override;
  // Of the last draft, [block][hidden] FP32 in device memory, after the final norm.
  [[nodiscard]] const float* hidden() const { return normed_.as<float>(); }

 private:
  // Of one draft's launches.
  struct Pass {
    int features = 0;  // width of their operand; 0: none
    int block = 0;     // rows; 0: features only
    std::int64_t context_bound = 0;
    CudaLaunch launch;
  };
  using GraphKey = std::tuple<int, int, std::int64_t>;  // features, block, context bound

  BlockDrafterConfig config_;
  const EngineOptions& options_;
  std::int64_t capacity_;
  CudaDevice device_;
  DrafterTarget target_;
  cudaStream_t stream_;
  DrafterShape shape_;
  ProductSettings settings_, out_settings_;
  GateUpProduct gate_up_;
  CudaDrafterWeights weights_;
  DeviceBuffer round_taps_, prefill_taps_;
  DeviceBuffer keys_, values_, cosines_, sines_;
  DeviceBuffer control_, x_, context_x_, normed_, results_, workspace_, chunk_largest_, stretch_ends_;
  DeviceBuffer row_operand_;
  std::vector<DeviceBuffer> panels_;  // [kind][width 8, 16, 32]
  MappedHost<DraftControl> host_control_;
  MappedHost<DraftOutcome> outcome_;
  RoundCut cut_ = RoundCut::kWhole;
  std::map<GraphKey, RoundGraph> graphs_;
  std::map<GraphKey, std::vector<LaunchRecord>> records_;
  std::vector<LaunchRecord> launched_;
  std::vector<std::int32_t> pending_;  // rows of the taps
  std::int64_t first_pending_ = 0;
  bool settling_ = false;  // a settle may still be under way
  BlockCallback on_block_;
  std::vector<std::int32_t> tokens_;
  std::vector<float> log_probabilities_;

  [[nodiscard]] bool exact() const { return options_.activations.format == ActivationFormat::kFP32; }
  [[nodiscard]] DraftControl* control() const { return control_.as<DraftControl>(); }
  [[nodiscard]] DraftCache cache() const;
  [[nodiscard]] std::int64_t layer_bytes_a_position() const;
  [[nodiscard]] CudaRopeTable rope() const { return {cosines_.as<float>(), sines_.as<float>()}; }
  [[nodiscard]] Operand operand(DrafterOperand kind, int tokens, const WeightMatrix& reader) const;
  ProductResult multiply(const CudaProjection& projection, const Operand& operand, const ProductSettings& settings,
                         const CudaLaunch& launch) const;
  void norm(int tokens, const ProductResult& increment, const DeviceBuffer& x, const DeviceBuffer& gain,
            const Operand& out, float* normed, const char* part, const CudaLaunch& launch) const;
  void launch_pass(const Pass& pass) const;
  void launch_context(const Pass& pass, const Operand& features) const;
  void launch_block(const Pass& pass) const;
  ProductResult launch_attention(const Pass& pass, std::size_t layer, const Operand& input) const;
  void put_pending();
  void run(int features, int block, std::int64_t context_bound);
  void capture_all(int block);
};

}  // namespace tare::engine

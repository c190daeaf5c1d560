// The checkpoint's own MTP head as a drafter on the GPU (docs/method/speculation.md): one full-attention layer that
// predicts one token further, chained to the depth asked for, a draft as one graph.
//
// Row i of the head pairs token x_{i+1} with H_i, the target's state after its final norm, at position i of a cache of
// its own. Of absorbed tokens only that row's key and value are of use, and they need the next token: so the states of
// what a round committed wait (in a ring) for the next draft, whose first step runs them all, the anchor's last. What
// drafting appended beyond is written over.
//
// A step is a pass of a round's kernels over `width` rows; rows past those that wait are zeros, whose keys and values
// lie past the frontier too.
#pragma once

#include <map>
#include <optional>
#include <tuple>

#include "engine/cuda/device/cuda_device.h"
#include "engine/cuda/device/mapped_host.h"
#include "engine/cuda/drafter/drafter.h"
#include "engine/cuda/drafter/drafter_control.h"
#include "engine/cuda/drafter/drafter_kernels.h"
#include "engine/cuda/drafter/mtp_kernels.h"
#include "engine/cuda/drafter/mtp_sizes.h"
#include "engine/cuda/drafter/mtp_weights.h"
#include "engine/cuda/head/proposal_head.h"
#include "engine/cuda/product/gate_up_product.h"
#include "engine/cuda/product/prefill_product.h"

namespace tare::engine {

// What the drafter borrows; outlives it.
struct MtpTarget {
  const std::uint16_t* embedding = nullptr;  // BF16 [vocab][hidden]
  const CudaProposalHead* head = nullptr;    // what it scores tokens with
  PrefillProducts* products = nullptr;       // null with activations fp32
  const float* normed = nullptr;             // of a round, [kMostRoundTokens][hidden] after the final norm
};

class CudaMtpDrafter final : public CudaDrafter {
 public:
  static constexpr std::int64_t kDefaultTokens = 3;  // acceptance falls with depth: the head was trained for one step

  // Throws Error (input): no MTP head or one of several layers, a shape without kernels, an option beyond what is
  // drafted here.
  static void check(const ModelConfig& config, const EngineOptions& options);
  // What the constructor will allocate, and what the proposals' head takes.
  [[nodiscard]] static std::vector<MemoryPart> plan(const ModelConfig& config, const EngineOptions& options,
                                                    std::int64_t capacity, const CudaDevice& device,
                                                    const ProposalPlan& proposals);

  CudaMtpDrafter(const Checkpoint& checkpoint, const EngineOptions& options, std::int64_t capacity,
                 const CudaDevice& device, const MtpTarget& target, cudaStream_t stream);

  [[nodiscard]] float* prefill_hidden() const override { return prefill_hidden_.as<float>(); }
  void reset() override;
  void absorb(std::span<const std::int32_t> rows, std::span<const std::int32_t> tokens, std::int64_t first) override;
  void absorb_prefill(std::span<const std::int32_t> tokens, const std::int32_t* device_tokens,
                      std::int64_t first) override;
  [[nodiscard]] DraftOutput draft(const DraftRequest& request, std::int64_t frontier) override;
  [[nodiscard]] const std::vector<LaunchRecord>& launches() const override { return launched_; }
  void cut_graphs(RoundCut cut) override;
  void account(InventoryAccount& account, std::int64_t context, std::int64_t width, std::int64_t tokens) const override;
  [[nodiscard]] Json description() const override;

 private:
  // Of one draft's launches.
  struct Pass {
    int width = 0;  // of the first step
    int steps = 0;  // 0: keys and values of the waiting rows only
    std::int64_t context_bound = 0;
    CudaLaunch launch;
  };
  using GraphKey = std::tuple<int, int, std::int64_t>;  // width, steps, context bound
  // A row whose token is known when the next one is absorbed, the last one's only by a draft.
  struct Waiting {
    std::int32_t slot = 0;  // of its state in the ring
    std::int32_t token = 0;
  };

  ModelConfig config_;
  const EngineOptions& options_;
  std::int64_t capacity_;
  MtpTarget target_;
  cudaStream_t stream_;
  ProductSettings settings_, out_settings_;
  GateUpProduct gate_up_;
  CudaMtpWeights weights_;
  std::optional<CudaKeyValueCache> cache_;
  DeviceBuffer cosines_, sines_, ids_;
  DeviceBuffer control_, controls_, best_, states_, prefill_hidden_, x_, normed_, results_, workspace_;
  DeviceBuffer chunk_largest_, stretch_ends_, row_operand_;
  std::vector<DeviceBuffer> panels_;  // [kind][width 8, 16, 32]
  MappedHost<DraftControl> host_control_;
  MappedHost<DraftOutcome> outcome_;
  RoundCut cut_ = RoundCut::kWhole;
  std::map<GraphKey, RoundGraph> graphs_;
  std::map<GraphKey, std::vector<LaunchRecord>> records_;
  std::vector<LaunchRecord> launched_;
  std::int64_t kept_rows_ = 0;  // in the cache for good
  std::vector<Waiting> waiting_;
  std::int32_t next_slot_ = 0;
  // What the last waiting row was last run with; when that token is absorbed, the row need not run again.
  std::optional<std::int32_t> drafted_anchor_;
  std::vector<std::int32_t> tokens_;
  std::vector<float> log_probabilities_;

  [[nodiscard]] bool exact() const { return options_.activations.format == ActivationFormat::kFP32; }
  [[nodiscard]] DraftControl* control() const { return control_.as<DraftControl>(); }
  [[nodiscard]] RoundControl* control_of(int step) const { return &(controls_.as<StepControl>() + step)->round; }
  [[nodiscard]] Operand operand(MtpOperand kind, int tokens, const WeightMatrix& reader) const;
  ProductResult multiply(const CudaProjection& projection, const Operand& operand, const ProductSettings& settings,
                         const CudaLaunch& launch) const;
  void norm(int tokens, const ProductResult& increment, const DeviceBuffer& gain, const Operand& out, float* normed,
            const char* part, const CudaLaunch& launch) const;
  [[nodiscard]] ProductResult launch_input(const Pass& pass, int step, int tokens) const;
  void launch_keys(const ProductResult& qkv, int tokens, const RoundControl* control, std::int64_t first,
                   const CudaLaunch& launch) const;
  void launch_step(const Pass& pass, int step, int tokens) const;
  void launch_pass(const Pass& pass) const;
  void push(std::int32_t token);
  void put_waiting();
  void keep_all();
  void run(int width, int steps, std::int64_t context_bound);
  void capture_all(int steps);
};

}  // namespace tare::engine

#include "engine/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json_reader.h"
#include "engine/backend/sequence_checks.h"
#include "engine/backend/tensor_class.h"
#include "engine/cuda/cuda_forward.h"
#include "engine/cuda/cuda_inventory.h"
#include "engine/cuda/cuda_options.h"
#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/device/cuda_device.h"
#include "engine/cuda/device/mapped_host.h"
#include "engine/cuda/device/round_graph.h"
#include "engine/cuda/drafter/block_drafter.h"
#include "engine/cuda/drafter/mtp_drafter.h"
#include "engine/cuda/sequence_rows.h"
#include "engine/formats/hadamard.h"

namespace tare::engine {
namespace {

// Left free for graphs, cuBLAS and the driver.
constexpr std::uint64_t kReserveBytes = std::uint64_t{512} << 20;

// The block drafter that the options name, or null.
std::unique_ptr<BlockDrafterCheckpoint> open_drafter(const Checkpoint& checkpoint, const EngineOptions& options) {
  const std::string& drafter = options.speculate.drafter;
  return drafter == "none" || drafter == "mtp" ? nullptr : open_block_drafter(drafter, checkpoint);
}

std::string gigabytes(std::uint64_t bytes) {
  return fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9);
}

// What will be allocated, by part.
std::vector<MemoryPart> plan_of(const ModelConfig& config, const EngineOptions& options, std::int64_t capacity,
                                const CudaDevice& device, const BlockDrafterConfig* drafter,
                                const ProposalPlan& proposals) {
  std::vector<MemoryPart> parts = plan_cuda_weights(config, options);
  for (MemoryPart& part : CudaForward::plan(config, options, capacity, device)) parts.push_back(std::move(part));
  if (drafter != nullptr) {
    for (MemoryPart& part : CudaBlockDrafter::plan(*drafter, options, capacity, device, proposals))
      parts.push_back(std::move(part));
  }
  if (drafts_with_mtp(options)) {
    for (MemoryPart& part : CudaMtpDrafter::plan(config, options, capacity, device, proposals))
      parts.push_back(std::move(part));
  }
  parts.push_back({"graphs and libraries", kReserveBytes});
  return parts;
}

// Told before anything is loaded when it does not fit.
std::vector<MemoryPart> checked_plan(const ModelConfig& config, const EngineOptions& options, std::int64_t capacity,
                                     const CudaDevice& device, const BlockDrafterConfig* drafter,
                                     const ProposalPlan& proposals) {
  std::vector<MemoryPart> parts = plan_of(config, options, capacity, device, drafter, proposals);
  std::uint64_t total = 0;
  std::string list;
  for (const MemoryPart& part : parts) {
    total += part.bytes;
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", part.name, gigabytes(part.bytes));
  }
  if (total > device.free_bytes) {
    throw Error(ErrorKind::kEnvironment,
                fmt::format("the model needs {} of GPU memory, {} are free: {}", gigabytes(total),
                            gigabytes(device.free_bytes), list),
                "backend cuda", "a smaller context, fewer bits a weight, or fp8 caches need less");
  }
  return parts;
}

// Page-locked host floats that grow.
class PinnedFloats {
 public:
  PinnedFloats() = default;
  PinnedFloats(const PinnedFloats&) = delete;
  PinnedFloats& operator=(const PinnedFloats&) = delete;
  ~PinnedFloats() { (void)cudaFreeHost(data_); }
  float* room_for(std::size_t count) {
    if (count > size_) {
      (void)cudaFreeHost(std::exchange(data_, nullptr));
      size_ = 0;
      check_cuda(cudaHostAlloc(reinterpret_cast<void**>(&data_), count * sizeof(float), cudaHostAllocDefault),
                 "cudaHostAlloc");
      size_ = count;
    }
    return data_;
  }
  [[nodiscard]] const float* data() const { return data_; }

 private:
  float* data_ = nullptr;
  std::size_t size_ = 0;
};

class Stream {
 public:
  Stream() { check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { (void)cudaStreamDestroy(stream_); }
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class CudaBackend final : public Backend {
 public:
  // `drafter` may be null.
  CudaBackend(const Checkpoint& checkpoint, const EngineOptions& options, const BlockDrafterCheckpoint* drafter)
      : config_(checkpoint.config()),
        options_(settle_cuda_options(with_stored_weights(options, checkpoint), config_,
                                     drafter == nullptr ? nullptr : &drafter->config())),
        capacity_(cache_capacity(config_, options_)),
        device_(open_device(options_)),
        proposals_(checkpoint, options_),
        parts_(checked_plan(config_, options_, capacity_, device_, drafter == nullptr ? nullptr : &drafter->config(),
                            proposals_)),
        weights_(load_cuda_weights(checkpoint, options_)),
        unread_(unread_tensors(checkpoint)),
        forward_(config_, options_, capacity_, device_, weights_, stream_.get()) {
    if (has_drafter_option()) make_drafter(checkpoint, drafter);
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  ~CudaBackend() override { (void)cudaStreamSynchronize(stream_.get()); }
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  const ModelConfig& config() const override { return config_; }
  const EngineOptions& options() const override { return options_; }
  std::int64_t frontier() const override { return frontier_; }
  std::int64_t capacity() const override { return capacity_; }

  void reset() override {
    synchronize();
    forward_.reset();
    if (drafter_) drafter_->reset();
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    frontier_ = 0;
    verified_.reset();
    path_.clear();
  }

  std::span<const float> prefill(std::span<const std::int32_t> tokens, const PrefillCapture& capture) override {
    check_tokens(tokens, config_, frontier_, capacity_);
    check_capture(capture, tokens.size(), config_);
    verified_.reset();
    try {
      const std::size_t step = forward_.exact() ? static_cast<std::size_t>(most_chain_tokens())
                                                : static_cast<std::size_t>(options_.prefill.chunk);
      for (std::size_t begin = 0; begin < tokens.size(); begin += step) {
        const std::size_t count = std::min(step, tokens.size() - begin);
        const bool last = begin + count == tokens.size();
        if (forward_.exact()) {
          prefill_by_round(tokens.subspan(begin, count), capture, begin);
        } else {
          prefill_chunk(tokens.subspan(begin, count), capture, begin, last);
        }
      }
    } catch (...) {
      reset();  // half a prompt is in the caches: no state that a caller could name
      throw;
    }
    return {host_logits_.data() + last_row_ * vocab(), vocab()};
  }

  bool has_drafter() const override { return drafter_ != nullptr; }
  DraftOutput draft(const DraftRequest& request) override {
    return drafter_ ? drafter_->draft(request, frontier_) : Backend::draft(request);
  }

  VerifyOutput verify(const TokenTree& tree, const VerifyRequest& request) override {
    check_tree(tree, config_, frontier_, capacity_);
    if (forward_.screened_head() != nullptr && request.logits) throw screened_logits();
    const int most = tree.is_chain() ? most_chain_tokens() : kMostTreeNodes;
    if (tree.size() > most) {
      throw input_error("verify", fmt::format("a {} of {} tokens; backend cuda takes {}",
                                              tree.is_chain() ? "chain" : "tree", tree.size(), most));
    }
    verified_.reset();
    const int count = tree.size();
    run_round(tree, false, {});
    best_.assign(outcome_->best, outcome_->best + count);
    refuse_faults(tree.depths(), frontier_);
    VerifyOutput output{best_, {}, {}, outcome_->spun_ns};
    if (request.logits) output.logits = fetch_logits(count);
    if (request.hidden) {
      const std::size_t size = static_cast<std::size_t>(count * config_.hidden_size);
      fetch(host_hidden_.room_for(size), forward_.normed(), size);
      output.hidden = {host_hidden_.data(), size};
    }
    verified_ = tree;
    return output;
  }

  using Backend::commit;
  void commit(std::span<const std::int32_t> path) override {
    if (!verified_ && !path.empty()) throw internal_error("a commit without a verify before it");
    if (verified_) check_path(*verified_, path);
    path_.assign(path.begin(), path.end());
    if (drafter_) {
      std::vector<std::int32_t> tokens;
      for (const std::int32_t node : path) tokens.push_back(verified_->tokens()[static_cast<std::size_t>(node)]);
      drafter_->absorb(path_, tokens, frontier_);
    }
    frontier_ += static_cast<std::int64_t>(path.size());
    verified_.reset();
  }

  std::vector<std::byte> export_rows(std::int64_t first, std::int64_t last) override {
    check_rows(first, last, frontier_);
    check_exportable();
    std::vector<std::byte> rows;
    ByteWriter bytes(rows);
    for (const CudaForward::Layer& layer : forward_.layers())
      if (layer.attention) engine::export_rows(*layer.attention, first, last, bytes);
    return rows;
  }

  SequenceCheckpoint export_checkpoint() override {
    if (frontier_ == 0) throw internal_error("a checkpoint before the first token");
    check_exportable();
    SequenceCheckpoint checkpoint;
    checkpoint.tokens = frontier_;
    ByteWriter bytes(checkpoint.beside);
    for (const CudaForward::Layer& layer : forward_.layers())
      if (layer.gdn) export_state(*layer.gdn, checkpoint.recurrent, bytes);
    return checkpoint;
  }

  void import_rows(std::int64_t first, std::int64_t last, std::span<const std::byte> rows) override {
    check_rows(first, last, capacity_);
    check_exportable();
    ByteReader bytes(rows);
    for (const CudaForward::Layer& layer : forward_.layers())
      if (layer.attention) engine::import_rows(*layer.attention, first, last, bytes);
    bytes.expect_end();
  }

  void import_checkpoint(const SequenceCheckpoint& checkpoint) override {
    check_rows(0, checkpoint.tokens, capacity_);
    check_exportable();
    std::span<const float> recurrent = checkpoint.recurrent;
    ByteReader bytes(checkpoint.beside);
    for (const CudaForward::Layer& layer : forward_.layers()) {
      if (!layer.gdn) continue;
      const std::size_t size = exported_elements(*layer.gdn);
      if (recurrent.size() < size) throw internal_error("a checkpoint of fewer layers");
      import_state(*layer.gdn, recurrent.first(size), bytes);
      recurrent = recurrent.subspan(size);
    }
    if (!recurrent.empty()) throw internal_error("a checkpoint of more layers");
    bytes.expect_end();
    frontier_ = checkpoint.tokens;
    verified_.reset();
  }

  std::vector<float> recurrent_state(std::int64_t layer) const override {
    if (layer < 0 || layer >= config_.layer_count() || !forward_.layers()[static_cast<std::size_t>(layer)].gdn) {
      throw internal_error(fmt::format("layer {} has no recurrent state", layer));
    }
    return forward_.layers()[static_cast<std::size_t>(layer)].gdn->state(path_, half_);
  }

  WeightInventory inventory(std::int64_t context, std::int64_t width) const override {
    WeightInventory inventory = make_cuda_inventory(config_, weights_, forward_.layers(), unread_, context, width);
    if (const CudaScreenedHead* screened = forward_.screened_head()) {
      InventoryAccount account(width);
      screened->account(account, width);
      for (InventoryEntry& entry : account.take().entries) inventory.entries.push_back(std::move(entry));
    }
    if (drafter_) {
      InventoryAccount account(width);
      drafter_->account(account, context, width, options_.speculate.draft_tokens);
      for (InventoryEntry& entry : account.take().entries) inventory.entries.push_back(std::move(entry));
    }
    return inventory;
  }

  std::vector<LaunchRecord> launches(std::int64_t width) const override {
    const auto last = last_round_.find(static_cast<int>(width));
    return last == last_round_.end() ? std::vector<LaunchRecord>{} : records_.at(last->second);
  }

  std::vector<LaunchRecord> draft_launches() const override {
    return drafter_ ? drafter_->launches() : std::vector<LaunchRecord>{};
  }

  void expect_driver_records() override {
    if (cut_ == RoundCut::kGrowing) return;
    synchronize();
    cut_ = RoundCut::kGrowing;
    graphs_.clear();
    if (drafter_) drafter_->cut_graphs(cut_);
  }

  std::vector<MemoryPart> memory_plan(const EngineOptions::KeyValue& formats, std::int64_t capacity) const override {
    EngineOptions options = options_;
    options.kv = formats;
    return plan_of(config_, options, capacity, device_, block_config_ ? &*block_config_ : nullptr, proposals_);
  }

  DeviceMemory device_memory() const override {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    return {total_bytes, device_.free_bytes, free_bytes};
  }

  Json description() const override {
    Json parts = Json::object();
    for (const MemoryPart& part : parts_) parts[part.name] = part.bytes;
    Json text = {{"backend", "cuda"}, {"device", to_json(device_)}, {"context", capacity_}, {"memory_bytes", parts}};
    if (drafter_) text["drafter"] = drafter_->description();
    return text;
  }

 private:
  // What rounds of one graph share.
  struct RoundKind {
    int tokens = 0;
    std::int64_t context_bound = 0;
    bool tree = false;
    bool whole_head = true;
    auto operator<=>(const RoundKind&) const = default;
  };

  ModelConfig config_;
  EngineOptions options_;
  std::int64_t capacity_;
  CudaDevice device_;
  ProposalPlan proposals_;
  std::vector<MemoryPart> parts_;
  Stream stream_;
  CudaModelWeights weights_;
  std::vector<UnreadTensor> unread_;
  CudaForward forward_;
  std::optional<CudaProposalHead> proposal_head_;  // the drafter's
  std::optional<BlockDrafterConfig> block_config_;
  std::unique_ptr<CudaDrafter> drafter_;  // may be null
  MappedHost<RoundControl> host_control_;
  MappedHost<RoundOutcome> outcome_;
  PinnedFloats host_logits_, host_hidden_;
  std::vector<std::int32_t> best_;
  std::map<RoundKind, RoundGraph> graphs_;
  std::map<RoundKind, std::vector<LaunchRecord>> records_;  // of a round
  std::map<int, RoundKind> last_round_;                     // by tokens
  RoundCut cut_ = RoundCut::kWhole;
  std::int64_t frontier_ = 0;
  std::optional<TokenTree> verified_;  // by the last call, and not committed yet
  std::vector<std::int32_t> path_;     // committed, not yet folded into the state
  int half_ = 0;                       // of the records that the next pass writes
  std::size_t last_row_ = 0;

  static CudaDevice open_device(const EngineOptions& options) {
    CudaDevice device = open_cuda_device(static_cast<int>(options.cuda.device));
    // Waiting by spinning costs a core and saves the tens of microseconds of a wake-up in every round.
    check_cuda(cudaSetDeviceFlags(cudaDeviceScheduleSpin), "cudaSetDeviceFlags");
    if (options.activations.format != ActivationFormat::kFP32 && !device.is_hopper()) {
      throw Error(ErrorKind::kEnvironment,
                  fmt::format("{} has compute capability {}.{}; the fast products need 9.0 (Hopper)", device.name,
                              device.major, device.minor),
                  "backend cuda", "use activations.format fp32 for the reference products");
    }
    return device;
  }

  [[nodiscard]] bool has_drafter_option() const { return options_.speculate.drafter != "none"; }
  // `block` is null when the MTP head drafts.
  void make_drafter(const Checkpoint& checkpoint, const BlockDrafterCheckpoint* block) {
    proposal_head_.emplace(checkpoint, proposals_, weights_.head);
    const auto* embedding = weights_.embedding.as<std::uint16_t>();
    if (block != nullptr) {
      const DrafterTarget target{embedding, &*proposal_head_, forward_.products()};
      drafter_ = std::make_unique<CudaBlockDrafter>(*block, options_, capacity_, device_, target, stream_.get());
      block_config_ = block->config();
    } else {
      const MtpTarget target{embedding, &*proposal_head_, forward_.products(), forward_.normed()};
      drafter_ = std::make_unique<CudaMtpDrafter>(checkpoint, options_, capacity_, device_, target, stream_.get());
      unread_.clear();  // the only tensors that the target does not read
    }
    forward_.set_taps(drafter_->taps(), drafter_->prefill_hidden());
  }

  // What a prefill left is in caches and states; what a round left waits for the next pass.
  void check_exportable() const {
    if (!path_.empty() || drafter_ || forward_.exact())
      throw internal_error("a sequence of rounds, drafters or FP32 activations is not kept by backend cuda");
    synchronize();
  }
  [[nodiscard]] std::size_t vocab() const { return static_cast<std::size_t>(config_.vocab_size); }
  void synchronize() const { check_cuda(cudaStreamSynchronize(stream_.get()), "the GPU's work"); }
  void fetch(float* target, const float* source, std::size_t count) const {
    check_cuda(cudaMemcpyAsync(target, source, count * sizeof(float), cudaMemcpyDeviceToHost, stream_.get()),
               "cudaMemcpyAsync");
    synchronize();
  }

  void refuse_faults(int count, std::int64_t first_position) const {
    for (int i = 0; i < count; ++i) {
      if (outcome_->fault[i] != 0) throw not_finite(first_position + i);
    }
  }
  void refuse_faults(std::span<const std::int32_t> depths, std::int64_t root_position) const {
    for (std::size_t node = 0; node < depths.size(); ++node) {
      if (outcome_->fault[node] != 0) throw not_finite(root_position + depths[node]);
    }
  }

  [[nodiscard]] bool keeps_snapshots() const { return options_.rollback == Rollback::kSnapshot; }
  [[nodiscard]] int most_chain_tokens() const { return keeps_snapshots() ? kMostTreeNodes : kMostRoundTokens; }
  [[nodiscard]] bool path_in_place() const {
    for (std::size_t i = 0; i < path_.size(); ++i)
      if (path_[i] != static_cast<std::int32_t>(i)) return false;
    return true;
  }
  // An arm that drafts trees has one kind of round, whether a tree happens to be a chain or not: kernels and records
  // stay the same from round to round, and no graph is missing in a timed one.
  [[nodiscard]] bool runs_as_tree(const TokenTree& tree) const {
    const bool drafts_trees = options_.speculate.drafter != "none" && options_.speculate.candidates > 1;
    return tree.size() <= kMostTreeNodes && (!tree.is_chain() || drafts_trees || !path_in_place());
  }

  [[nodiscard]] CudaLaunch launch(std::vector<LaunchRecord>* records) const {
    return {.stream = stream_.get(), .programmatic = options_.cuda.programmatic, .records = records};
  }

  // The pass at hand has run: what was pending is folded, and the next pass writes the other half.
  void passed() {
    path_.clear();
    half_ = 1 - half_;
  }

  [[nodiscard]] RoundControl control_of_pass() const {
    RoundControl control;
    control.set_path(path_);
    control.frontier = static_cast<std::int32_t>(frontier_);
    control.half = half_;
    return control;
  }
  void put(void* target, const void* source, std::size_t bytes) const {
    // From pageable memory: returns when the source may be reused.
    check_cuda(cudaMemcpyAsync(target, source, bytes, cudaMemcpyHostToDevice, stream_.get()), "cudaMemcpyAsync");
  }
  void put(const RoundControl& control) const { put(forward_.control(), &control, sizeof control); }

  // whole_head: logits of all tokens, whatever head.screen says.
  void run_round(const TokenTree& tree, bool whole_head, const LayerCallback& on_layer) {
    if (drafter_) drafter_->settle();
    RoundControl control = control_of_pass();
    control.set_tree(tree);
    *host_control_.get() = control;
    const std::int64_t slots = key_value_slots(capacity_);
    const RoundKind kind{tree.size(), attention_bound(frontier_ + tree.size() - 1, slots), runs_as_tree(tree),
                         whole_head || forward_.screened_head() == nullptr};
    if (!kind.tree && !path_in_place()) {
      put(control);
      forward_.launch_move(launch(nullptr));
    }
    if (options_.cuda.graph && !on_layer) {
      graph_of(kind).launch(stream_.get());
    } else {
      records_[kind] = launch_round(kind, on_layer);
    }
    last_round_[kind.tokens] = kind;
    synchronize();
    passed();
  }

  std::vector<LaunchRecord> launch_round(const RoundKind& kind, const LayerCallback& on_layer) {
    std::vector<LaunchRecord> records;
    forward_.launch_round({kind.tokens, kind.context_bound, kind.tree, kind.whole_head, on_layer}, host_control_.get(),
                          outcome_.get(), launch(&records));
    return records;
  }

  const RoundGraph& graph_of(const RoundKind& kind) {
    if (!graphs_.contains(kind)) capture_all(kind);
    return graphs_.at(kind);
  }

  // All context bounds at once: a capture takes milliseconds, and none may fall into a timed round later on.
  void capture_all(RoundKind kind) {
    const std::int64_t slots = key_value_slots(capacity_);
    for (std::int64_t bound = attention_bound(0, slots);; bound = attention_bound(bound, slots)) {
      kind.context_bound = bound;
      std::vector<LaunchRecord> records;
      RoundGraph graph(
          stream_.get(), [&] { records = launch_round(kind, {}); }, cut_);
      graphs_.insert_or_assign(kind, std::move(graph));
      records_[kind] = std::move(records);
      if (bound >= slots) break;
    }
  }

  std::span<const float> fetch_logits(int count) {
    const std::size_t size = static_cast<std::size_t>(count) * vocab();
    fetch(host_logits_.room_for(size), forward_.logits(), size);
    return {host_logits_.data(), size};
  }

  // Copies what a capture asks for from rows [begin, begin + count) of the prompt.
  LayerCallback capture_layers(const PrefillCapture& capture, std::size_t begin, std::size_t count) {
    if (capture.hidden.empty()) return {};
    return [this, &capture, begin, count](std::int64_t layer, const float* x) {
      const std::span<float>& rows = capture.hidden[static_cast<std::size_t>(layer)];
      const auto hidden = static_cast<std::size_t>(config_.hidden_size);
      if (!rows.empty()) fetch(rows.data() + begin * hidden, x, count * hidden);
    };
  }
  void capture_rows(const PrefillCapture& capture, std::size_t begin, int count) {
    const auto hidden = static_cast<std::size_t>(config_.hidden_size);
    const auto rows = static_cast<std::size_t>(count);
    if (!capture.hidden.empty() && !capture.hidden.back().empty()) {
      fetch(capture.hidden.back().data() + begin * hidden, forward_.normed(), rows * hidden);
    }
    if (!capture.logits.empty())
      std::copy_n(host_logits_.data(), rows * vocab(), capture.logits.data() + begin * vocab());
  }

  // Reference products: a prefill is rounds, so its bits are a round's.
  void prefill_by_round(std::span<const std::int32_t> tokens, const PrefillCapture& capture, std::size_t begin) {
    const auto count = static_cast<int>(tokens.size());
    const std::int64_t first_position = frontier_;
    const TokenTree chain = TokenTree::chain(tokens);
    run_round(chain, true, capture_layers(capture, begin, tokens.size()));
    refuse_faults(count, first_position);
    fetch_logits(count);
    capture_rows(capture, begin, count);
    last_row_ = tokens.size() - 1;
    path_ = chain.path_to(count - 1);
    if (drafter_) drafter_->absorb(path_, tokens, frontier_);
    frontier_ += count;
  }

  void prefill_chunk(std::span<const std::int32_t> tokens, const PrefillCapture& capture, std::size_t begin,
                     bool last) {
    const auto count = static_cast<int>(tokens.size());
    if (drafter_) drafter_->settle();
    put(control_of_pass());
    if (!path_in_place()) forward_.launch_move(launch(nullptr));
    put(forward_.prefill_tokens(), tokens.data(), tokens.size_bytes());
    forward_.launch_prefill(forward_.prefill_tokens(), count, frontier_, capture_layers(capture, begin, tokens.size()),
                            launch(nullptr));
    if (drafter_) drafter_->absorb_prefill(tokens, forward_.prefill_tokens(), frontier_);
    const bool all_rows = !capture.logits.empty() || !capture.hidden.empty();
    if (all_rows) {
      for (int first = 0; first < count; first += kMostRoundTokens) {
        logits_of(first, std::min(kMostRoundTokens, count - first));
        capture_rows(capture, begin + static_cast<std::size_t>(first), std::min(kMostRoundTokens, count - first));
      }
    } else if (last) {
      logits_of(count - 1, 1);
    }
    synchronize();
    passed();
    frontier_ += count;
  }

  void logits_of(int first, int count) {
    forward_.launch_prefill_logits(first, count, launch(nullptr));
    launch_end_round(forward_.keys(), count, outcome_.get(), {.stream = stream_.get()});
    fetch_logits(count);
    refuse_faults(count, frontier_ + first);
    last_row_ = static_cast<std::size_t>(count) - 1;
  }
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const Checkpoint& checkpoint, const EngineOptions& options) {
  check_cuda_shape(checkpoint.config());
  if (options.kv.rotation == KeyRotation::kHadamard && !has_hadamard(checkpoint.config().head_dim))
    throw input_error(
        "kv.rotation",
        fmt::format("hadamard needs heads of a power of two, and these have {} channels", checkpoint.config().head_dim),
        "set it to none");
  const std::unique_ptr<BlockDrafterCheckpoint> drafter = open_drafter(checkpoint, options);
  return std::make_unique<CudaBackend>(checkpoint, options, drafter.get());
}

}  // namespace tare::engine

#include "engine/cpu/cpu_backend.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/json_reader.h"
#include "engine/backend/argmax.h"
#include "engine/backend/sequence_checks.h"
#include "engine/backend/tensor_class.h"
#include "engine/cpu/drafter.h"
#include "engine/cpu/forward_pass.h"
#include "engine/cpu/inventory.h"
#include "engine/cpu/pass_ops.h"
#include "engine/cpu/screened_head.h"
#include "engine/formats/hadamard.h"

namespace tare::engine {
namespace {

// As many threads as this process may run at once.
int usable_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

// Every node has a row of logits: a gigabyte of them at a vocabulary of a quarter of a million.
constexpr std::int64_t kMostTreeNodes = 1024;

Error tree_of_chunks() {
  return input_error("gdn.form", "chunked verifies chains, not trees",
                     "set gdn.form to recurrent (with any rollback), or speculate.candidates to 1");
}

// Spins the handicap of place kernel and returns what was really spun.
std::int64_t spin(const EngineOptions::Handicap& handicap) {
  if (handicap.place != HandicapPlace::kKernel) return 0;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto target = std::chrono::nanoseconds(handicap.ns);
  Clock::duration spun{};
  while (spun < target) spun = Clock::now() - start;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(spun).count();
}

// The options with what they leave open settled for this backend. Throws Error (input) for what only CUDA has.
EngineOptions settled(EngineOptions options, const ModelConfig& config) {
  const auto refuse = [](bool found, const std::string& path, const std::string& word) {
    if (found) throw input_error(path, fmt::format("{} needs backend cuda", word));
  };
  refuse(options.backend != BackendKind::kCpu, "backend", "this one");
  refuse(options.activations.format == ActivationFormat::kBF16, "activations.format", "bf16");
  if (options.kv.rotation == KeyRotation::kHadamard && !has_hadamard(config.head_dim))
    throw input_error(
        "kv.rotation",
        fmt::format("hadamard needs heads of a power of two, and these have {} channels", config.head_dim),
        "set it to none");
  if (options.speculate.drafter != "none" && options.speculate.tree_nodes > kMostTreeNodes)
    throw input_error("speculate.tree_nodes",
                      fmt::format("{} nodes; backend cpu verifies {}", options.speculate.tree_nodes, kMostTreeNodes),
                      "tare trees weighs any budget from recorded drafts");
  if (options.gdn.form == GdnForm::kChunked) {
    // Blocks of the chunk form begin at multiples of 64 positions, so that nodes on two sides of such an edge would
    // continue different states: it verifies chains, and commits them by dropping rows.
    if (options.rollback != Rollback::kRing)
      throw input_error("rollback", fmt::format("{} needs gdn.form recurrent", to_text(options.rollback)));
    const EngineOptions::Speculate& speculate = options.speculate;
    if (speculate.drafter != "none" && speculate.tree_nodes > 1 && speculate.candidates > 1) throw tree_of_chunks();
  }
  if (options.gdn.form == GdnForm::kChunked && options.prefix_cache.bytes > 0 &&
      options.prefix_cache.page_tokens % kGdnBlock != 0)
    throw input_error("prefix_cache.page_tokens",
                      fmt::format("must be a multiple of {} with gdn.form chunked: inside a block there is no state to "
                                  "keep",
                                  kGdnBlock));
  if (options.handicap.place == HandicapPlace::kKernel && options.handicap.share > 0)
    throw input_error("handicap.share", "is spun on the host only", "give handicap.ns for place kernel");
  check_heads(options);
  if (options.activations.format == ActivationFormat::kAuto) options.activations.format = ActivationFormat::kFP32;
  if (options.prefill.chunk == 0) options.prefill.chunk = 128;
  return options;
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(const Checkpoint& checkpoint, const EngineOptions& options)
      : config_(checkpoint.config()),
        options_(settled(with_stored_weights(options, checkpoint), config_)),
        capacity_(cache_capacity(config_, options_)),
        kernels_(select_kernels(options_.cpu.instruction_set)),
        pool_(options_.cpu.threads > 0 ? static_cast<int>(options_.cpu.threads) : usable_threads()),
        weights_(load_model_weights(checkpoint, options_, pool_)),
        ops_(make_pass_ops(config_, weights_)),
        unread_(unread_tensors(checkpoint)),
        layers_(make_layer_states(config_, options_, capacity_)),
        forward_(config_, options_, weights_, ops_, kernels_, pool_, capacity_),
        drafter_(make_drafter(checkpoint, options_, weights_, kernels_, pool_, capacity_)) {
    if (options_.head.screen != HeadScreen::kNone)
      screened_.emplace(checkpoint, options_, weights_.head, kernels_, pool_);
    if (drafter_ && options_.speculate.draft_tokens == 0) options_.speculate.draft_tokens = drafter_->default_tokens();
    if (options_.speculate.drafter == "mtp") unread_.clear();  // the only tensors that the target does not read
  }

  const ModelConfig& config() const override { return config_; }
  const EngineOptions& options() const override { return options_; }
  std::int64_t frontier() const override { return frontier_; }
  std::int64_t capacity() const override { return capacity_; }

  void reset() override {
    for (LayerState& layer : layers_)
      if (layer.gdn) {
        layer.gdn->columns.reset();
        layer.gdn->recurrence.reset();
      }
    if (drafter_) drafter_->reset();
    // KV caches need no reset: nothing at or past the frontier is ever read.
    frontier_ = 0;
    verified_.reset();
  }

  std::span<const float> prefill(std::span<const std::int32_t> tokens, const PrefillCapture& capture) override {
    check_tokens(tokens, config_, frontier_, capacity_);
    check_capture(capture, tokens.size(), config_);
    verified_.reset();
    try {
      return prefill_chunks(tokens, capture);
    } catch (...) {
      reset();  // half a prompt is in the caches: no state that a caller could name
      throw;
    }
  }

  bool has_drafter() const override { return drafter_ != nullptr; }

  DraftOutput draft(const DraftRequest& request) override {
    if (!drafter_) throw internal_error("a draft of a backend without a drafter");
    if (frontier_ == 0) throw internal_error("a draft before the first token");
    if (request.tokens < 1 || request.candidates < 1 || request.candidates > config_.vocab_size ||
        !(request.temperature > 0))
      throw internal_error(fmt::format("a draft of {} tokens, {} candidates, temperature {}", request.tokens,
                                       request.candidates, request.temperature));
    check_tokens(std::span(&request.anchor, 1), config_, std::min(frontier_, capacity_ - 1), capacity_);
    // A verify must hold the anchor at the frontier and every draft after it.
    DraftRequest fitting = request;
    fitting.tokens = std::min(request.tokens, capacity_ - 1 - frontier_);
    if (fitting.tokens < 1) return {0, request.candidates, {}, {}};
    return drafter_->draft(fitting, frontier_);
  }

  VerifyOutput verify(const TokenTree& tree, const VerifyRequest& request) override {
    check_tree(tree, config_, frontier_, capacity_);
    if (screened_ && request.logits) throw screened_logits();
    if (options_.gdn.form == GdnForm::kChunked && !tree.is_chain()) throw tree_of_chunks();
    const std::span<const std::int32_t> tokens = tree.tokens();
    const auto count = static_cast<std::int64_t>(tokens.size());
    verified_.reset();
    Pass pass{tokens, frontier_, PassMode::kVerify, &tree, {}};
    if (drafter_) pass.taps = drafter_->taps();
    forward_.run(pass, layers_);
    std::int64_t spun_ns = 0;
    const std::int64_t fault = screened_ ? choose_screened(count, spun_ns) : choose(count, spun_ns);
    if (fault >= 0) throw not_finite(frontier_ + tree.depths()[static_cast<std::size_t>(fault)]);
    VerifyOutput output{best_, {}, {}, spun_ns};
    if (request.logits) output.logits = {logits_.data(), tokens.size() * static_cast<std::size_t>(config_.vocab_size)};
    if (request.hidden) {
      grow(hidden_, count * config_.hidden_size);
      forward_.copy_hidden(0, count, hidden_.data());
      output.hidden = {hidden_.data(), static_cast<std::size_t>(count * config_.hidden_size)};
    }
    verified_ = tree;
    return output;
  }

  using Backend::commit;
  void commit(std::span<const std::int32_t> path) override {
    if (!verified_) throw internal_error(fmt::format("commit of {} tokens without a verify", path.size()));
    check_path(*verified_, path);
    const auto count = static_cast<std::int64_t>(path.size());
    const bool nodes_lie_apart = !verified_->is_chain();
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      LayerState& layer = layers_[i];
      const LaunchRecord& op = ops_.layers[i].commit;
      if (layer.gdn) {
        const OpScope scope(collector_, op, layer.gdn->columns.bytes_written(count));
        layer.gdn->columns.absorb(layer.gdn->verified, path, kernels_.vectors);
        layer.gdn->recurrence.commit(kernels_, path, pool_);
      } else if (nodes_lie_apart) {
        const OpScope scope(collector_, op, 2 * layer.attention->bytes(count));
        layer.attention->keep_path(path, frontier_);
      }
    }
    if (drafter_ && count > 0) {
      std::vector<std::int32_t> tokens;
      for (const std::int32_t node : path) tokens.push_back(verified_->tokens()[static_cast<std::size_t>(node)]);
      drafter_->absorb(forward_, tokens, path, frontier_);
    }
    frontier_ += count;
    verified_.reset();
  }

  std::vector<std::byte> export_rows(std::int64_t first, std::int64_t last) override {
    check_rows(first, last, frontier_);
    std::vector<std::byte> rows;
    ByteWriter bytes(rows);
    for (const LayerState& layer : layers_)
      if (layer.attention) layer.attention->export_rows(first, last, bytes);
    if (drafter_) drafter_->export_rows(first, last, bytes);
    return rows;
  }

  SequenceCheckpoint export_checkpoint() override {
    if (frontier_ == 0) throw internal_error("a checkpoint before the first token");
    SequenceCheckpoint checkpoint;
    checkpoint.tokens = frontier_;
    ByteWriter bytes(checkpoint.beside);
    for (const LayerState& layer : layers_) {
      if (!layer.gdn) continue;
      if (!layer.gdn->recurrence.state_is_all())
        throw internal_error(fmt::format("a checkpoint at {} tokens, inside a block of the chunk form", frontier_));
      const std::vector<float> state = layer.gdn->recurrence.state(kernels_);
      checkpoint.recurrent.insert(checkpoint.recurrent.end(), state.begin(), state.end());
      layer.gdn->columns.export_columns(bytes);
    }
    if (drafter_) drafter_->export_end(bytes);
    return checkpoint;
  }

  void import_rows(std::int64_t first, std::int64_t last, std::span<const std::byte> rows) override {
    check_rows(first, last, capacity_);
    ByteReader bytes(rows);
    for (LayerState& layer : layers_)
      if (layer.attention) layer.attention->import_rows(first, last, bytes);
    if (drafter_) drafter_->import_rows(first, last, bytes);
    bytes.expect_end();
  }

  void import_checkpoint(const SequenceCheckpoint& checkpoint) override {
    check_rows(0, checkpoint.tokens, capacity_);
    std::span<const float> recurrent = checkpoint.recurrent;
    const auto size = static_cast<std::size_t>(config_.linear_value_heads * config_.linear_key_head_dim *
                                               config_.linear_value_head_dim);
    ByteReader bytes(checkpoint.beside);
    for (LayerState& layer : layers_) {
      if (!layer.gdn) continue;
      if (recurrent.size() < size) throw internal_error("a checkpoint of fewer layers");
      layer.gdn->recurrence.set_state(recurrent.first(size));
      layer.gdn->columns.import_columns(bytes);
      recurrent = recurrent.subspan(size);
    }
    if (!recurrent.empty()) throw internal_error("a checkpoint of more layers");
    if (drafter_) drafter_->import_end(checkpoint.tokens, bytes);
    bytes.expect_end();
    frontier_ = checkpoint.tokens;
    verified_.reset();
  }

  std::vector<float> recurrent_state(std::int64_t layer) const override {
    if (layer < 0 || layer >= config_.layer_count() || !layers_[static_cast<std::size_t>(layer)].gdn)
      throw internal_error(fmt::format("layer {} has no recurrent state", layer));
    return layers_[static_cast<std::size_t>(layer)].gdn->recurrence.state(kernels_);
  }

  WeightInventory inventory(std::int64_t context, std::int64_t width) const override {
    WeightInventory inventory = make_inventory(config_, weights_, layers_, unread_, context, width, !screened_);
    if (screened_) {
      InventoryAccount account(width);
      screened_->account(account, width);
      for (InventoryEntry& entry : account.take().entries) inventory.entries.push_back(std::move(entry));
    }
    if (drafter_) {
      InventoryAccount account(width);
      const EngineOptions::Speculate& speculate = options_.speculate;
      drafter_->account(account, context, width, speculate.tree_nodes > 1 ? speculate.draft_tokens : 0);
      for (InventoryEntry& entry : account.take().entries) inventory.entries.push_back(std::move(entry));
    }
    return inventory;
  }

  std::vector<LaunchRecord> launches(std::int64_t) const override { return {}; }

  bool set_collector(Collector* collector) override {
    collector_ = collector;
    forward_.set_collector(collector);
    if (screened_) screened_->set_collector(collector);
    if (drafter_) drafter_->set_collector(collector);
    return true;
  }

  std::vector<MemoryPart> memory_plan(const EngineOptions::KeyValue& formats, std::int64_t capacity) const override {
    std::vector<MemoryPart> parts = inventory(0, 1).resident_parts();
    const auto attention =
        static_cast<std::uint64_t>(std::count(config_.layers.begin(), config_.layers.end(), LayerKind::kFullAttention));
    for (MemoryPart& part : parts)
      if (part.name == kKeyValuePart)
        part.bytes = attention * kv_cache_bytes(config_, formats, capacity) +
                     (drafter_ ? drafter_->cache_bytes(formats, capacity) : 0);
    // The rotary table, and a thread's scores of its queries. (What grows with the tokens of a pass is not here.)
    const std::int64_t a_position = config_.rotary_dim + static_cast<std::int64_t>(pool_.size()) * kMostQueries;
    parts.push_back({"tables by position", element_count(capacity, a_position) * sizeof(float)});
    return parts;
  }

  Json description() const override {
    Json text = {{"backend", "cpu"},
                 {"instruction_set", kernels_.instruction_set},
                 {"available_instruction_sets", available_instruction_sets()},
                 {"threads", pool_.size()},
                 {"context", capacity_}};
    if (drafter_) text["drafter"] = drafter_->description();
    return text;
  }

 private:
  ModelConfig config_;
  EngineOptions options_;
  std::int64_t capacity_;
  Kernels kernels_;
  ThreadPool pool_;
  ModelWeights weights_;
  PassOps ops_;
  std::vector<UnreadTensor> unread_;
  std::vector<LayerState> layers_;
  ForwardPass forward_;
  std::unique_ptr<Drafter> drafter_;
  std::optional<ScreenedHead> screened_;
  Collector* collector_ = nullptr;
  AlignedBuffer<float> logits_;
  AlignedBuffer<float> hidden_;
  std::vector<std::int32_t> best_;
  std::vector<std::int32_t> rows_;  // 0, 1, 2 ...: of a prefill's pass, for the drafter
  std::int64_t frontier_ = 0;
  std::optional<TokenTree> verified_;  // the last verify's, of which a path may be committed

  static void grow(AlignedBuffer<float>& buffer, std::int64_t size) {
    if (static_cast<std::int64_t>(buffer.size()) < size) buffer = AlignedBuffer<float>(static_cast<std::size_t>(size));
  }

  // The greedy choice of the last pass's tokens into best_; returns the first whose logits are not finite, or -1.
  std::int64_t choose(std::int64_t count, std::int64_t& spun_ns) {
    const auto vocab = static_cast<std::size_t>(config_.vocab_size);
    grow(logits_, count * config_.vocab_size);
    if (const std::int64_t fault = forward_.logits(0, count, logits_.data()); fault >= 0) return fault;
    best_.resize(static_cast<std::size_t>(count));
    const OpScope scope(collector_, ops_.greedy);
    for (std::size_t i = 0; i < best_.size(); ++i) best_[i] = argmax({logits_.data() + i * vocab, vocab});
    spun_ns = spin(options_.handicap);  // within an op, which a profile must then name
    return -1;
  }

  std::int64_t choose_screened(std::int64_t count, std::int64_t& spun_ns) {
    best_.resize(static_cast<std::size_t>(count));
    if (const std::int64_t fault = screened_->choose(forward_.final_rows(0, count), best_); fault >= 0) return fault;
    const OpScope scope(collector_, ops_.greedy);
    spun_ns = spin(options_.handicap);
    return -1;
  }

  std::span<const float> prefill_chunks(std::span<const std::int32_t> tokens, const PrefillCapture& capture) {
    const auto vocab = static_cast<std::size_t>(config_.vocab_size);
    const auto hidden = static_cast<std::size_t>(config_.hidden_size);
    grow(logits_, config_.vocab_size);
    for (std::size_t begin = 0; begin < tokens.size();) {
      const std::size_t count = std::min(static_cast<std::size_t>(options_.prefill.chunk), tokens.size() - begin);
      Pass pass{tokens.subspan(begin, count), frontier_, PassMode::kAbsorb, nullptr, {}};
      for (const std::span<float>& rows : capture.hidden)
        pass.hidden.push_back(rows.empty() ? rows : rows.subspan(begin * hidden, count * hidden));
      if (drafter_) pass.taps = drafter_->taps();
      forward_.run(pass, layers_);
      const auto last = static_cast<std::int64_t>(count) - 1;
      if (!capture.logits.empty()) {
        float* rows = capture.logits.data() + begin * vocab;
        compute_logits(0, last + 1, frontier_, rows);
        std::copy_n(rows + static_cast<std::size_t>(last) * vocab, vocab, logits_.data());
      } else if (begin + count == tokens.size()) {
        compute_logits(last, last + 1, frontier_, logits_.data());
      }
      if (drafter_) {
        rows_.resize(count);
        std::iota(rows_.begin(), rows_.end(), 0);
        drafter_->absorb(forward_, pass.tokens, rows_, frontier_);
      }
      frontier_ += static_cast<std::int64_t>(count);
      begin += count;
    }
    return {logits_.data(), vocab};
  }

  void compute_logits(std::int64_t begin, std::int64_t end, std::int64_t first_position, float* out) {
    const std::int64_t fault = forward_.logits(begin, end, out);
    if (fault >= 0) throw not_finite(first_position + fault);
  }
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const Checkpoint& checkpoint, const EngineOptions& options) {
  return std::make_unique<CpuBackend>(checkpoint, options);
}

}  // namespace tare::engine

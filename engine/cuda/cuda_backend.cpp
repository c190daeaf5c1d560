#include "engine/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "engine/backend/sequence_checks.h"
#include "engine/cuda/cuda_forward.h"
#include "engine/cuda/cuda_inventory.h"
#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/device/cuda_device.h"
#include "engine/cuda/device/round_graph.h"

namespace tare::engine {
namespace {

constexpr std::int64_t kDefaultChunk = 4096;
// Left free for graphs, cuBLAS and the driver.
constexpr std::uint64_t kReserveBytes = std::uint64_t{512} << 20;

EngineOptions settled(EngineOptions options) {
  if (options.activations.format == ActivationFormat::kQ8) {
    throw input_error("activations.format", "q8 needs backend cpu", "cuda has fp32 and bf16");
  }
  if (options.activations.format == ActivationFormat::kAuto) options.activations.format = ActivationFormat::kBF16;
  if (options.handicap.place == HandicapPlace::kKernel && options.handicap.share > 0) {
    throw input_error("handicap.share", "is spun on the host only", "give handicap.ns for place kernel");
  }
  if (options.prefill.chunk == 0) options.prefill.chunk = kDefaultChunk;
  return options;
}

void check_shape(const ModelConfig& config) {
  check_gdn_shape({.key_heads = static_cast<int>(config.linear_key_heads),
                   .value_heads = static_cast<int>(config.linear_value_heads),
                   .dk = static_cast<int>(config.linear_key_head_dim),
                   .dv = static_cast<int>(config.linear_value_head_dim),
                   .taps = static_cast<int>(config.conv_kernel),
                   .eps = config.rms_norm_eps});
  check_attention_shape({.heads = static_cast<int>(config.attention_heads),
                         .kv_heads = static_cast<int>(config.key_value_heads),
                         .head_dim = static_cast<int>(config.head_dim),
                         .rotary_dim = static_cast<int>(config.rotary_dim),
                         .eps = config.rms_norm_eps});
  const auto even = [](std::int64_t size, const char* name) {
    if (size % 2 != 0) throw input_error(name, fmt::format("{} is odd; backend cuda needs an even size", size));
  };
  even(config.hidden_size, "hidden_size");
  even(config.intermediate_size, "intermediate_size");
}

std::string gigabytes(std::uint64_t bytes) {
  return fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9);
}

// What will be allocated, by part; told before anything is loaded when it does not fit.
std::vector<MemoryPart> checked_plan(const ModelConfig& config, const EngineOptions& options, std::int64_t capacity,
                                     const CudaDevice& device) {
  std::vector<MemoryPart> parts = plan_cuda_weights(config, options);
  for (MemoryPart& part : CudaForward::plan(config, options, capacity, device)) parts.push_back(std::move(part));
  parts.push_back({"graphs and libraries", kReserveBytes});
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

// Memory of the host that the GPU reads and writes.
template <class Value>
class MappedHost {
 public:
  MappedHost() {
    check_cuda(cudaHostAlloc(reinterpret_cast<void**>(&value_), sizeof(Value), cudaHostAllocMapped), "cudaHostAlloc");
    *value_ = Value{};
  }
  MappedHost(const MappedHost&) = delete;
  MappedHost& operator=(const MappedHost&) = delete;
  ~MappedHost() { (void)cudaFreeHost(value_); }
  Value* operator->() const { return value_; }
  [[nodiscard]] Value* get() const { return value_; }

 private:
  Value* value_ = nullptr;
};

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
  CudaBackend(const Checkpoint& checkpoint, const EngineOptions& options)
      : config_(checkpoint.config()),
        options_(settled(options)),
        capacity_(cache_capacity(config_, options_)),
        device_(open_device(options_)),
        parts_(checked_plan(config_, options_, capacity_, device_)),
        weights_(load_cuda_weights(checkpoint, options_)),
        unread_(unread_tensors(checkpoint)),
        forward_(config_, options_, capacity_, device_, weights_, stream_.get()) {
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
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    frontier_ = 0;
    verified_ = 0;
    pending_ = 0;
  }

  std::span<const float> prefill(std::span<const std::int32_t> tokens, const PrefillCapture& capture) override {
    check_tokens(tokens, config_, frontier_, capacity_);
    check_capture(capture, tokens.size(), config_);
    verified_ = 0;
    try {
      const std::size_t step = forward_.exact() ? kMostRoundTokens : static_cast<std::size_t>(options_.prefill.chunk);
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

  VerifyOutput verify(const TokenTree& tree, const VerifyRequest& request) override {
    check_tree(tree, config_, frontier_, capacity_);
    if (!tree.is_chain()) throw internal_error("backend cuda verifies chains");
    const std::span<const std::int32_t> tokens = tree.tokens();
    if (tokens.size() > kMostRoundTokens) {
      throw internal_error(
          fmt::format("a verify of {} tokens; backend cuda takes {}", tokens.size(), kMostRoundTokens));
    }
    verified_ = 0;
    const auto count = static_cast<int>(tokens.size());
    run_round(tokens, {});
    best_.assign(outcome_->best, outcome_->best + count);
    refuse_faults(count, frontier_);
    VerifyOutput output{best_, {}, {}, outcome_->spun_ns};
    if (request.logits) output.logits = fetch_logits(count);
    if (request.hidden) {
      const std::size_t size = tokens.size() * static_cast<std::size_t>(config_.hidden_size);
      fetch(host_hidden_.room_for(size), forward_.normed(), size);
      output.hidden = {host_hidden_.data(), size};
    }
    verified_ = count;
    return output;
  }

  using Backend::commit;
  void commit(std::span<const std::int32_t> path) override {
    const auto count = static_cast<int>(path.size());
    if (count > verified_) {
      throw internal_error(fmt::format("commit of {} tokens after a verify of {}", count, verified_));
    }
    pending_ = count;
    frontier_ += count;
    verified_ = 0;
  }

  std::vector<float> recurrent_state(std::int64_t layer) const override {
    if (layer < 0 || layer >= config_.layer_count() || !forward_.layers()[static_cast<std::size_t>(layer)].gdn) {
      throw internal_error(fmt::format("layer {} has no recurrent state", layer));
    }
    return forward_.layers()[static_cast<std::size_t>(layer)].gdn->state(pending_, half_);
  }

  WeightInventory inventory(std::int64_t context, std::int64_t width) const override {
    return make_cuda_inventory(config_, weights_, forward_.layers(), unread_, context, width);
  }

  std::vector<LaunchRecord> launches(std::int64_t width) const override {
    const auto bound = last_bound_.find(static_cast<int>(width));
    return bound == last_bound_.end() ? std::vector<LaunchRecord>{} : records_.at({bound->first, bound->second});
  }

  void expect_driver_records() override {
    if (cut_ == RoundCut::kGrowing) return;
    synchronize();
    cut_ = RoundCut::kGrowing;
    graphs_.clear();
  }

  Json description() const override {
    Json parts = Json::object();
    for (const MemoryPart& part : parts_) parts[part.name] = part.bytes;
    return {{"backend", "cuda"}, {"device", to_json(device_)}, {"context", capacity_}, {"memory_bytes", parts}};
  }

 private:
  ModelConfig config_;
  EngineOptions options_;
  std::int64_t capacity_;
  CudaDevice device_;
  std::vector<MemoryPart> parts_;
  Stream stream_;
  CudaModelWeights weights_;
  std::vector<UnreadTensor> unread_;
  CudaForward forward_;
  MappedHost<RoundControl> host_control_;
  MappedHost<RoundOutcome> outcome_;
  PinnedFloats host_logits_, host_hidden_;
  std::vector<std::int32_t> best_;
  std::map<std::pair<int, std::int64_t>, RoundGraph> graphs_;                  // by tokens and context bound
  std::map<std::pair<int, std::int64_t>, std::vector<LaunchRecord>> records_;  // of a round, likewise
  std::map<int, std::int64_t> last_bound_;                                     // of the last round, by tokens
  RoundCut cut_ = RoundCut::kWhole;
  std::int64_t frontier_ = 0;
  int verified_ = 0;  // tokens of the last verify that may be committed
  int pending_ = 0;   // committed, not yet folded into the state
  int half_ = 0;      // of the records that the next pass writes
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

  [[nodiscard]] CudaLaunch launch(std::vector<LaunchRecord>* records) const {
    return {.stream = stream_.get(), .programmatic = options_.cuda.programmatic, .records = records};
  }

  // The pass at hand has run: what was pending is folded, and the next pass writes the other half.
  void passed() {
    pending_ = 0;
    half_ = 1 - half_;
  }

  void run_round(std::span<const std::int32_t> tokens, const LayerCallback& on_layer) {
    const auto count = static_cast<int>(tokens.size());
    std::copy(tokens.begin(), tokens.end(), host_control_->tokens);
    host_control_->frontier = static_cast<std::int32_t>(frontier_);
    host_control_->pending = pending_;
    host_control_->half = half_;
    const std::int64_t bound = attention_bound(frontier_ + count - 1, capacity_);
    if (options_.cuda.graph && !on_layer) {
      graph_of(count, bound).launch(stream_.get());
    } else {
      std::vector<LaunchRecord> records;
      forward_.launch_round({count, bound, on_layer}, host_control_.get(), outcome_.get(), launch(&records));
      records_[{count, bound}] = std::move(records);
    }
    last_bound_[count] = bound;
    synchronize();
    passed();
  }

  const RoundGraph& graph_of(int count, std::int64_t bound) {
    if (!graphs_.contains({count, bound})) capture_all(count);
    return graphs_.at({count, bound});
  }

  // All context bounds at once: a capture takes milliseconds, and none may fall into a timed round later on.
  void capture_all(int count) {
    for (std::int64_t bound = attention_bound(0, capacity_);; bound = attention_bound(bound, capacity_)) {
      std::vector<LaunchRecord> records;
      RoundGraph graph(
          stream_.get(),
          [&] {
            forward_.launch_round({count, bound, {}}, host_control_.get(), outcome_.get(), launch(&records));
          },
          cut_);
      graphs_.insert_or_assign({count, bound}, std::move(graph));
      records_[{count, bound}] = std::move(records);
      if (bound >= capacity_) break;
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
    run_round(tokens, capture_layers(capture, begin, tokens.size()));
    refuse_faults(count, first_position);
    fetch_logits(count);
    capture_rows(capture, begin, count);
    last_row_ = tokens.size() - 1;
    pending_ = count;
    frontier_ += count;
  }

  void prefill_chunk(std::span<const std::int32_t> tokens, const PrefillCapture& capture, std::size_t begin,
                     bool last) {
    const auto count = static_cast<int>(tokens.size());
    RoundControl control;
    control.frontier = static_cast<std::int32_t>(frontier_);
    control.pending = pending_;
    control.half = half_;
    const auto put = [&](void* target, const void* source, std::size_t bytes) {
      // From pageable memory: returns when the source may be reused.
      check_cuda(cudaMemcpyAsync(target, source, bytes, cudaMemcpyHostToDevice, stream_.get()), "cudaMemcpyAsync");
    };
    put(forward_.control(), &control, sizeof control);
    put(forward_.prefill_tokens(), tokens.data(), tokens.size_bytes());
    forward_.launch_prefill(forward_.prefill_tokens(), count, frontier_, capture_layers(capture, begin, tokens.size()),
                            launch(nullptr));
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
  check_shape(checkpoint.config());
  return std::make_unique<CudaBackend>(checkpoint, options);
}

}  // namespace tare::engine

#include "engine/streamed/cpu_streamed.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <numeric>

#include "base/error.h"
#include "engine/checkpoint/synthetic.h"
#include "engine/checkpoint/tensor_plan.h"
#include "engine/streamed/cpu_layers.h"
#include "engine/streamed/window_scores.h"

namespace tare::engine {
namespace {

constexpr std::int64_t kBatchTokens = 4096;  // enough rows for the products, few enough for work space
constexpr std::int64_t kLogitRows = 128;     // positions whose logits exist at once

std::uint64_t window_bytes(const ModelConfig& config, const StreamedShape& shape) {
  return sizeof(float) * static_cast<std::uint64_t>(shape.window_tokens * config.hidden_size);
}

std::int64_t batch_windows_of(const StreamedShape& shape) {
  return std::clamp<std::int64_t>(kBatchTokens / shape.window_tokens, 1, shape.windows);
}

// Twice: the activations, and their snapshot while it is written.
std::int64_t slots_of(const ModelConfig& config, const StreamedShape& shape, std::uint64_t activation_bytes) {
  const auto room = static_cast<std::int64_t>(activation_bytes / (2 * window_bytes(config, shape)));
  return std::clamp(room, batch_windows_of(shape), shape.windows);
}

std::uint64_t packed_bytes(std::int64_t rows, std::int64_t columns) {
  return sizeof(float) * static_cast<std::uint64_t>((rows + kPanelRows - 1) / kPanelRows * kPanelRows * columns);
}

// Of the layer or head that takes most.
std::uint64_t most_weight_bytes(const ModelConfig& config) {
  std::uint64_t most = 0;
  std::uint64_t layer_bytes = 0;
  std::string layer;
  for (const PlannedTensor& tensor : plan_tensors(config)) {
    const std::int64_t columns = tensor.shape.back();
    const std::uint64_t bytes =
        tensor.shape.size() == 2
            ? packed_bytes(tensor.shape[0], columns)
            : sizeof(float) * static_cast<std::uint64_t>(std::accumulate(tensor.shape.begin(), tensor.shape.end(),
                                                                         std::int64_t{1}, std::multiplies<>()));
    if (tensor.role == TensorRole::kEmbedding || tensor.role == TensorRole::kHead) {
      most = std::max(most, bytes);
      continue;
    }
    if (!tensor.name.starts_with("layers.")) continue;
    const std::string own = tensor.name.substr(0, tensor.name.find('.', std::string("layers.").size()));
    layer_bytes = own == layer ? layer_bytes + bytes : bytes;
    layer = own;
    most = std::max(most, layer_bytes);
  }
  return most;
}

// A synthetic tensor is made whole before it is packed; those of files are mapped.
std::uint64_t made_bytes(const Checkpoint& checkpoint) {
  if (dynamic_cast<const SyntheticRecipes*>(&checkpoint) == nullptr) return 0;
  std::uint64_t most = 0;
  for (const PlannedTensor& tensor : plan_tensors(checkpoint.config()))
    most = std::max(most, static_cast<std::uint64_t>(tensor.shape.front() * tensor.shape.back()));
  return most * dtype_bytes(Dtype::kBF16);
}

class CpuStreamed final : public StreamedBackend {
 public:
  CpuStreamed(const Checkpoint& checkpoint, const StreamedShape& shape, int threads, std::uint64_t activation_bytes)
      : checkpoint_(checkpoint),
        config_(checkpoint.config()),
        shape_(shape),
        pool_(threads),
        slots_(slots_of(config_, shape, activation_bytes)),
        layers_(config_, batch_windows_of(shape), shape.window_tokens, pool_),
        rows_(static_cast<std::size_t>(slots_) * window_numbers()) {}

  [[nodiscard]] std::int64_t slots() const override { return slots_; }
  [[nodiscard]] std::int64_t batch_windows() const override { return batch_windows_of(shape_); }

  void put(std::int64_t slot, std::span<const float> rows) override {
    std::copy(rows.begin(), rows.end(), window(rows_, slot).begin());
  }
  void get(std::int64_t slot, std::span<float> rows) override {
    const std::span<const float> source = window(rows_, slot);
    std::copy(source.begin(), source.end(), rows.begin());
  }

  void load_embedding() override {
    embedding_ = checkpoint_.expect("embed_tokens.weight", {config_.vocab_size, config_.hidden_size});
  }
  void embed(std::int64_t slot, std::span<const std::int32_t> tokens) override {
    float* target = window(rows_, slot).data();
    for (const std::int32_t token : tokens) {
      const std::vector<float> row = to_floats(embedding_.rows(token, 1));
      target = std::copy(row.begin(), row.end(), target);
    }
  }

  void load_layer(std::int64_t layer) override {
    embedding_ = {};
    weights_ = {};  // before the next are made: only one layer lies in memory
    weights_ = load_layer_weights(checkpoint_, layer, pool_);
  }
  [[nodiscard]] std::int64_t run_layer(std::int64_t first_slot, std::int64_t count) override {
    float* x = window(rows_, first_slot).data();
    layers_.run(weights_, count, x);
    const std::size_t numbers = static_cast<std::size_t>(count) * window_numbers();
    const float* bad = std::find_if(x, x + numbers, [](float value) { return !std::isfinite(value); });
    return bad == x + numbers ? -1 : (bad - x) / config_.hidden_size;
  }

  void load_head() override {
    embedding_ = {};
    weights_ = {};
    final_gain_ = load_centred_gain(checkpoint_, "norm.weight", config_.hidden_size);
    head_ = load_matrix(checkpoint_, head_tensor(config_), {config_.vocab_size, config_.hidden_size}, pool_);
  }
  void score(std::int64_t slot, std::span<const std::int32_t> tokens, WindowScores& scores) override {
    std::mutex mutex;
    std::vector<std::vector<std::int32_t>> orders(static_cast<std::size_t>(pool_.size()));
    for_logits(slot, [&](std::int64_t first, std::int64_t count, const std::vector<float>& logits) {
      pool_.parallel_for(static_cast<std::size_t>(count), 1, [&](int thread, std::size_t begin, std::size_t end) {
        WindowScores own = scores;
        own.first_not_finite = -1;
        for (std::size_t i = begin; i < end; ++i) {
          const std::int64_t position = first + static_cast<std::int64_t>(i);
          const bool last = position + 1 == shape_.window_tokens;
          score_position(std::span(logits).subspan(i * vocab(), vocab()), position,
                         last ? -1 : tokens[static_cast<std::size_t>(position) + 1], own,
                         orders[static_cast<std::size_t>(thread)]);
        }
        if (own.first_not_finite < 0) return;
        const std::lock_guard lock(mutex);
        if (scores.first_not_finite < 0 || own.first_not_finite < scores.first_not_finite)
          scores.first_not_finite = own.first_not_finite;
      });
    });
  }
  void logits(std::int64_t slot, std::span<float> out) override {
    for_logits(slot, [&](std::int64_t first, std::int64_t count, const std::vector<float>& logits) {
      std::copy_n(logits.begin(), static_cast<std::size_t>(count) * vocab(),
                  out.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(first) * vocab()));
    });
  }

  void snapshot() override { snapshot_ = rows_; }
  void read_snapshot(std::int64_t slot, std::span<float> rows) override {
    const std::span<const float> source = window(snapshot_, slot);
    std::copy(source.begin(), source.end(), rows.begin());
  }

 private:
  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  StreamedShape shape_;
  ThreadPool pool_;
  std::int64_t slots_;
  CpuLayers layers_;
  std::vector<float> rows_;      // [slots, tokens, hidden]
  std::vector<float> snapshot_;  // the same, empty before the first
  Tensor embedding_;
  StreamedLayerWeights weights_;
  std::vector<float> final_gain_;
  PackedMatrix head_;

  [[nodiscard]] std::size_t vocab() const { return static_cast<std::size_t>(config_.vocab_size); }
  [[nodiscard]] std::size_t window_numbers() const {
    return static_cast<std::size_t>(shape_.window_tokens * config_.hidden_size);
  }
  [[nodiscard]] std::span<float> window(std::vector<float>& rows, std::int64_t slot) const {
    return std::span(rows).subspan(static_cast<std::size_t>(slot) * window_numbers(), window_numbers());
  }

  // Calls use(first position, count, logits [count, vocabulary]) for all positions of the slot in order.
  template <class Use>
  void for_logits(std::int64_t slot, const Use& use) {
    const float* x = window(rows_, slot).data();
    std::vector<float> normed(static_cast<std::size_t>(kLogitRows * config_.hidden_size));
    std::vector<float> logits(static_cast<std::size_t>(kLogitRows) * vocab());
    for (std::int64_t first = 0; first < shape_.window_tokens; first += kLogitRows) {
      const std::int64_t count = std::min(kLogitRows, shape_.window_tokens - first);
      layers_.norm(x + first * config_.hidden_size, final_gain_, count, config_.hidden_size, normed.data());
      multiply(pool_, {normed.data(), config_.hidden_size}, count, head_, {logits.data(), config_.vocab_size});
      use(first, count, logits);
    }
  }
};

}  // namespace

std::uint64_t total_bytes(std::span<const MemoryPart> parts) {
  std::uint64_t total = 0;
  for (const MemoryPart& part : parts) total += part.bytes;
  return total;
}

std::unique_ptr<StreamedBackend> make_cpu_streamed(const Checkpoint& checkpoint, const StreamedShape& shape,
                                                   int threads, std::uint64_t activation_bytes) {
  return std::make_unique<CpuStreamed>(checkpoint, shape, threads, activation_bytes);
}

StreamedMemory plan_cpu_streamed(const Checkpoint& checkpoint, const StreamedShape& shape, int threads,
                                 std::uint64_t activation_bytes) {
  const ModelConfig& config = checkpoint.config();
  StreamedMemory memory;
  memory.slots = slots_of(config, shape, activation_bytes);
  const std::uint64_t held = static_cast<std::uint64_t>(memory.slots) * window_bytes(config, shape);
  memory.host = {{"activations", held},
                 {"snapshot", memory.slots == shape.windows ? held : 0},
                 {"weights of a layer or the head", most_weight_bytes(config)},
                 {"a tensor that is being loaded", made_bytes(checkpoint)},
                 {"work space", CpuLayers::work_bytes(config, batch_windows_of(shape), shape.window_tokens, threads) +
                                    sizeof(float) * static_cast<std::uint64_t>(
                                                        kLogitRows * (config.vocab_size + config.hidden_size))}};
  return memory;
}

}  // namespace tare::engine

#include "engine/streamed/cuda/cuda_streamed.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "engine/checkpoint/tensor_plan.h"
#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/device/cuda_device.h"
#include "engine/streamed/cuda/streamed_kernels.h"
#include "engine/streamed/cuda/streamed_layers.h"
#include "engine/streamed/reference_file.h"

namespace tare::engine {
namespace {

// Rows enough for full products, few enough for work space: 27B takes 3.7 GB for them.
constexpr std::int64_t kBatchTokens = 16384;
// Beside what is planned: the context, cuBLAS's own kernels, fragmentation.
constexpr std::uint64_t kReserveBytes = std::uint64_t{1} << 30;

std::uint64_t window_bytes(const ModelConfig& config, const StreamedShape& shape) {
  return sizeof(float) * static_cast<std::uint64_t>(shape.window_tokens * config.hidden_size);
}

std::int64_t batch_windows_of(const StreamedShape& shape) {
  return std::clamp<std::int64_t>(kBatchTokens / shape.window_tokens, 1, shape.windows);
}

// Scores of one chunk of positions, on the device and then on the host.
std::uint64_t score_bytes(const ModelConfig& config, const StreamedShape& shape) {
  const std::int64_t candidates = std::min(config.vocab_size, kReferenceCandidates);
  return 4 * static_cast<std::uint64_t>(shape.window_tokens * (2 * candidates + 3));
}

struct DestroyStream {
  void operator()(cudaStream_t stream) const { (void)cudaStreamDestroy(stream); }
};
using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream>;

// Does not wait for the default stream, nor it for this one.
Stream make_stream() {
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return Stream(stream);
}

struct FreePinned {
  void operator()(float* memory) const { (void)cudaFreeHost(memory); }
};
using Pinned = std::unique_ptr<float, FreePinned>;

Pinned make_pinned(std::uint64_t bytes) {
  void* memory = nullptr;
  check_cuda(cudaMallocHost(&memory, bytes), "cudaMallocHost");
  return Pinned(static_cast<float*>(memory));
}

class CudaStreamed final : public StreamedBackend {
 public:
  CudaStreamed(const Checkpoint& checkpoint, const StreamedShape& shape, int device, std::int64_t slots)
      : config_(checkpoint.config()),
        shape_(shape),
        device_(device),
        slots_(slots),
        stream_(make_stream()),
        copy_stream_(make_stream()),
        pinned_(make_pinned(window_bytes(config_, shape))),
        copy_pinned_(make_pinned(window_bytes(config_, shape))),
        rows_(static_cast<std::size_t>(slots) * window_bytes(config_, shape), "activations"),
        snapshot_(slots == shape.windows ? rows_.bytes() : 0, "the activations' snapshot"),
        weights_(checkpoint),
        layers_(config_, batch_windows_of(shape), shape.window_tokens),
        fault_(sizeof(unsigned long long), "a fault's place"),
        scores_(score_bytes(config_, shape), "scores") {}

  [[nodiscard]] std::int64_t slots() const override { return slots_; }
  [[nodiscard]] std::int64_t batch_windows() const override { return batch_windows_of(shape_); }

  void put(std::int64_t slot, std::span<const float> rows) override {
    std::copy(rows.begin(), rows.end(), pinned_.get());
    check_cuda(
        cudaMemcpyAsync(window(rows_, slot), pinned_.get(), rows.size_bytes(), cudaMemcpyHostToDevice, stream_.get()),
        "cudaMemcpyAsync");
    synchronize();
  }
  void get(std::int64_t slot, std::span<float> rows) override {
    read(window(rows_, slot), rows, pinned_.get(), stream_.get());
  }

  void load_embedding() override { embedding_ = weights_.load_embedding(stream_.get()); }
  void embed(std::int64_t slot, std::span<const std::int32_t> tokens) override {
    auto* on_device = scores_.as<std::int32_t>();
    check_cuda(cudaMemcpyAsync(on_device, tokens.data(), tokens.size_bytes(), cudaMemcpyHostToDevice, stream_.get()),
               "cudaMemcpyAsync");
    launch_gather(embedding_, on_device, shape_.window_tokens, config_.hidden_size, window(rows_, slot), stream_.get());
  }

  void load_layer(std::int64_t layer) override { layer_ = weights_.load_layer(layer, stream_.get()); }
  [[nodiscard]] std::int64_t run_layer(std::int64_t first_slot, std::int64_t count) override {
    float* x = window(rows_, first_slot);
    layers_.run(layer_, count, x, stream_.get());
    return first_not_finite(x, count * shape_.window_tokens, config_.hidden_size);
  }

  void load_head() override { head_ = weights_.load_head(stream_.get()); }
  void score(std::int64_t slot, std::span<const std::int32_t> tokens, WindowScores& scores) override {
    const std::int64_t candidates = std::min(config_.vocab_size, kReferenceCandidates);
    std::vector<std::int32_t> next(tokens.begin() + 1, tokens.end());
    next.push_back(-1);
    const auto count = shape_.window_tokens;
    auto* next_on_device = scores_.as<std::int32_t>();
    auto* top_ids = next_on_device + count;
    auto* top = reinterpret_cast<float*>(top_ids + count * candidates);
    float* normalizers = top + count * candidates;
    float* nexts = normalizers + count;
    check_cuda(cudaMemcpyAsync(next_on_device, next.data(), next.size() * sizeof(std::int32_t), cudaMemcpyHostToDevice,
                               stream_.get()),
               "cudaMemcpyAsync");
    for_logits(slot, [&](std::int64_t first, std::int64_t rows, const float* logits) {
      launch_candidates({.logits = logits,
                         .rows = rows,
                         .vocabulary = config_.vocab_size,
                         .candidates = candidates,
                         .next = next_on_device + first,
                         .top_ids = top_ids + first * candidates,
                         .top_log_probabilities = top + first * candidates,
                         .log_sum_exp = normalizers + first,
                         .next_log_probability = nexts + first},
                        stream_.get());
      const std::int64_t bad = first_not_finite(logits, rows, config_.vocab_size);
      if (bad >= 0 && scores.first_not_finite < 0) scores.first_not_finite = first + bad;
    });
    synchronize();
    copy_to_host(std::as_writable_bytes(scores.top_ids), reinterpret_cast<const std::byte*>(top_ids));
    copy_to_host(std::as_writable_bytes(scores.top_log_probabilities), reinterpret_cast<const std::byte*>(top));
    copy_to_host(std::as_writable_bytes(scores.log_sum_exp), reinterpret_cast<const std::byte*>(normalizers));
    copy_to_host(std::as_writable_bytes(scores.next_log_probability), reinterpret_cast<const std::byte*>(nexts));
  }
  void logits(std::int64_t slot, std::span<float> out) override {
    for_logits(slot, [&](std::int64_t first, std::int64_t rows, const float* logits) {
      synchronize();
      copy_to_host(std::as_writable_bytes(out.subspan(static_cast<std::size_t>(first * config_.vocab_size),
                                                      static_cast<std::size_t>(rows * config_.vocab_size))),
                   reinterpret_cast<const std::byte*>(logits));
    });
  }

  void snapshot() override {
    check_cuda(
        cudaMemcpyAsync(snapshot_.data(), rows_.data(), snapshot_.bytes(), cudaMemcpyDeviceToDevice, stream_.get()),
        "cudaMemcpyAsync");
    synchronize();
  }
  void read_snapshot(std::int64_t slot, std::span<float> rows) override {
    check_cuda(cudaSetDevice(device_), "cudaSetDevice");  // of the thread that asks
    read(window(snapshot_, slot), rows, copy_pinned_.get(), copy_stream_.get());
  }

 private:
  const ModelConfig& config_;
  StreamedShape shape_;
  int device_;
  std::int64_t slots_;
  Stream stream_;
  Stream copy_stream_;  // for the thread that reads the snapshot
  Pinned pinned_;
  Pinned copy_pinned_;
  DeviceBuffer rows_;      // [slots, tokens, hidden]
  DeviceBuffer snapshot_;  // the same, where all windows are held
  StreamedWeights weights_;
  StreamedLayers layers_;
  DeviceBuffer fault_;
  DeviceBuffer scores_;
  const float* embedding_ = nullptr;  // in the weights' arena, as what follows
  CudaLayerWeights layer_;
  CudaHeadWeights head_;

  [[nodiscard]] float* window(const DeviceBuffer& rows, std::int64_t slot) const {
    return rows.as<float>() + slot * shape_.window_tokens * config_.hidden_size;
  }
  void synchronize() const { check_cuda(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize"); }

  static void read(const float* source, std::span<float> rows, float* pinned, cudaStream_t stream) {
    check_cuda(cudaMemcpyAsync(pinned, source, rows.size_bytes(), cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
    check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    std::copy_n(pinned, rows.size(), rows.begin());
  }

  [[nodiscard]] std::int64_t first_not_finite(const float* x, std::int64_t rows, std::int64_t size) const {
    check_cuda(cudaMemsetAsync(fault_.data(), 0xFF, fault_.bytes(), stream_.get()), "cudaMemsetAsync");
    launch_find_not_finite(x, rows, size, fault_.as<unsigned long long>(), stream_.get());
    unsigned long long row = 0;
    check_cuda(cudaMemcpyAsync(&row, fault_.data(), sizeof(row), cudaMemcpyDeviceToHost, stream_.get()),
               "cudaMemcpyAsync");
    synchronize();
    return row == ~0ULL ? -1 : static_cast<std::int64_t>(row);
  }

  // Calls use(first position, rows, logits on the device) for all positions of the slot in order.
  template <class Use>
  void for_logits(std::int64_t slot, const Use& use) {
    const float* x = window(rows_, slot);
    for (std::int64_t first = 0; first < shape_.window_tokens; first += layers_.logit_rows()) {
      const std::int64_t rows = std::min(layers_.logit_rows(), shape_.window_tokens - first);
      use(first, rows, layers_.logits(head_, x + first * config_.hidden_size, rows, stream_.get()));
    }
  }
};

}  // namespace

StreamedMemory plan_cuda_streamed_in(const Checkpoint& checkpoint, const StreamedShape& shape, std::uint64_t free_bytes,
                                     std::uint64_t activation_bytes) {
  const ModelConfig& config = checkpoint.config();
  const std::uint64_t window = window_bytes(config, shape);
  const std::int64_t batch = batch_windows_of(shape);
  StreamedMemory memory;
  memory.device = StreamedLayers::parts(config, batch, shape.window_tokens);
  memory.device.insert(memory.device.begin(), {{"weights of a layer or the head", StreamedWeights::arena_bytes(config)},
                                               {"weights on their way", StreamedWeights::staging_bytes(config)}});
  const std::uint64_t fixed = total_bytes(memory.device) + score_bytes(config, shape) + kReserveBytes;
  const std::uint64_t least = fixed + static_cast<std::uint64_t>(batch) * window;
  if (free_bytes < least)
    throw Error(ErrorKind::kEnvironment,
                fmt::format("the reference needs {} of the GPU's memory, {} are free", human_bytes(least),
                            human_bytes(free_bytes)),
                "--backend cuda", "use shorter windows, another GPU, or --backend cpu");
  // All windows twice, the activations and their snapshot; or one batch, and the rest in files.
  const std::uint64_t room = std::min(free_bytes - fixed, activation_bytes);
  const std::uint64_t all = static_cast<std::uint64_t>(shape.windows) * window;
  memory.slots = 2 * all <= room ? shape.windows : batch;
  const std::uint64_t held = static_cast<std::uint64_t>(memory.slots) * window;
  memory.device.push_back({"activations", held});
  memory.device.push_back({"snapshot", memory.slots == shape.windows ? held : 0});
  // A synthetic model's large tensors are made on the device; those of files are mapped.
  memory.host = {{"windows on their way", 3 * window},
                 {"the result", score_bytes(config, shape) * static_cast<std::uint64_t>(shape.windows)}};
  return memory;
}

StreamedMemory plan_cuda_streamed(const Checkpoint& checkpoint, const StreamedShape& shape, int device,
                                  std::uint64_t activation_bytes) {
  return plan_cuda_streamed_in(checkpoint, shape, open_cuda_device(device).free_bytes, activation_bytes);
}

std::unique_ptr<StreamedBackend> make_cuda_streamed(const Checkpoint& checkpoint, const StreamedShape& shape,
                                                    int device, std::uint64_t activation_bytes) {
  const StreamedMemory memory = plan_cuda_streamed(checkpoint, shape, device, activation_bytes);
  return std::make_unique<CudaStreamed>(checkpoint, shape, device, memory.slots);
}

}  // namespace tare::engine

#include "engine/streamed/cuda/cuda_head_product.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <string>

#include "base/error.h"
#include "engine/checkpoint/synthetic.h"
#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/device/device_buffer.h"
#include "engine/cuda/product/cublas.h"
#include "engine/cuda/weights/synthetic_weights.h"
#include "engine/streamed/cuda/streamed_kernels.h"

namespace tare::engine {
namespace {

constexpr std::int64_t kPanelRows = 8192;                       // of the head in FP32 at once: 168 MB of the 27B
constexpr std::int64_t kPositions = 64;                         // multiplied at once
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // what NVIDIA advises for Hopper

// The device, before anything is allocated on it.
int chosen(int device) {
  check_cuda(cudaSetDevice(device), "cudaSetDevice");
  return device;
}

std::size_t bytes_of(std::int64_t numbers, std::size_t size) {
  return static_cast<std::size_t>(numbers) * size;
}

class CudaHeadProduct final : public HeadProduct {
 public:
  CudaHeadProduct(const Checkpoint& checkpoint, int device)
      : vocab_size_(checkpoint.config().vocab_size),
        hidden_size_(checkpoint.config().hidden_size),
        device_(chosen(device)),
        head_(bytes_of(vocab_size_ * hidden_size_, sizeof(std::uint16_t)), "exact head in BF16"),
        panel_(bytes_of(std::min(kPanelRows, vocab_size_) * hidden_size_, sizeof(float)), "panel of the exact head"),
        hidden_(bytes_of(kPositions * hidden_size_, sizeof(float)), "hidden states"),
        logits_(bytes_of(kPositions * vocab_size_, sizeof(float)), "logits of the exact head"),
        fault_(sizeof(unsigned long long), "a fault's place"),
        workspace_(kWorkspaceBytes, "workspace of cuBLAS") {
    load(checkpoint, checkpoint.config().tie_word_embeddings ? "embed_tokens.weight" : "lm_head.weight");
  }

  void apply(ThreadPool&, std::span<const float> hidden, std::span<float> logits) const override {
    const std::int64_t rows = static_cast<std::int64_t>(hidden.size()) / hidden_size_;
    if (static_cast<std::int64_t>(hidden.size()) != rows * hidden_size_ ||
        static_cast<std::int64_t>(logits.size()) != rows * vocab_size_)
      throw internal_error("exact head: hidden states or logits have another shape");
    const std::lock_guard lock(mutex_);
    check_cuda(cudaSetDevice(device_), "cudaSetDevice");
    for (std::int64_t first = 0; first < rows; first += kPositions) {
      const std::int64_t count = std::min(kPositions, rows - first);
      const auto part = [&](auto all, std::int64_t size) {
        return all.subspan(static_cast<std::size_t>(first * size), static_cast<std::size_t>(count * size));
      };
      copy_to_device(hidden_, part(hidden, hidden_size_));
      multiply(count);
      check_cuda(cudaDeviceSynchronize(), "exact head");
      copy_to_host(std::as_writable_bytes(part(logits, vocab_size_)), logits_.data());
    }
  }
  std::int64_t vocab_size() const override { return vocab_size_; }
  std::int64_t hidden_size() const override { return hidden_size_; }

 private:
  std::int64_t vocab_size_;
  std::int64_t hidden_size_;
  int device_;
  mutable std::mutex mutex_;  // of what follows
  DeviceBuffer head_, panel_, hidden_, logits_, fault_, workspace_;
  Cublas cublas_;

  void load(const Checkpoint& checkpoint, const std::string& name) {
    if (const auto* synthetic = dynamic_cast<const SyntheticRecipes*>(&checkpoint)) {
      launch_synthetic_weights(synthetic->recipe(name), 0, static_cast<std::uint64_t>(vocab_size_ * hidden_size_),
                               head_.as<std::uint16_t>(), {});
      check_cuda(cudaDeviceSynchronize(), "exact head");
      return;
    }
    const Tensor tensor = checkpoint.expect(name, {vocab_size_, hidden_size_});
    if (tensor.dtype != Dtype::kBF16)
      throw input_error(name, fmt::format("is {}, an exact head is BF16", dtype_name(tensor.dtype)));
    copy_to_device(head_.data(), tensor.bytes);
  }

  // logits_ of the first `count` rows of hidden_. A weight that is not finite makes logits that the scores name.
  void multiply(std::int64_t count) const {
    for (std::int64_t first = 0; first < vocab_size_; first += kPanelRows) {
      const std::int64_t rows = std::min(kPanelRows, vocab_size_ - first);
      launch_widen(head_.as<std::uint16_t>() + first * hidden_size_, panel_.as<float>(), rows * hidden_size_,
                   fault_.as<unsigned long long>(), nullptr);
      cublas_.multiply_fp32({.rows = static_cast<int>(rows),
                             .tokens = static_cast<int>(count),
                             .columns = static_cast<int>(hidden_size_),
                             .a = panel_.as<float>(),
                             .a_stride = static_cast<int>(hidden_size_),
                             .b = hidden_.as<float>(),
                             .b_stride = static_cast<int>(hidden_size_),
                             .c = logits_.as<float>() + first,
                             .c_stride = static_cast<int>(vocab_size_)},
                            workspace_.data(), workspace_.bytes(), nullptr);
    }
  }
};

}  // namespace

std::unique_ptr<HeadProduct> make_cuda_head_product(const Checkpoint& checkpoint, int device) {
  return std::make_unique<CudaHeadProduct>(checkpoint, device);
}

}  // namespace tare::engine

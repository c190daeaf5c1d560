// Windows for the streamed reference, and checkpoints with one tensor changed.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/philox.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/streamed/streamed_run.h"

namespace tare::engine::test {

inline std::vector<StreamedWindow> random_windows(std::int64_t count, std::int64_t tokens, std::int64_t vocab_size) {
  Philox random(7);
  std::vector<StreamedWindow> windows;
  for (std::int64_t i = 0; i < count; ++i) {
    windows.push_back({{"w" + std::to_string(i), i % 2 == 0 ? "prose" : "code"}, {}});
    for (std::int64_t t = 0; t < tokens; ++t)
      windows.back().tokens.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocab_size))));
  }
  return windows;
}

// Another checkpoint with every number of one tensor changed; its digest stays the original's.
class ChangedCheckpoint final : public Checkpoint {
 public:
  using Change = std::function<float(float value, std::size_t element)>;
  ChangedCheckpoint(const Checkpoint& original, std::string name, Change change)
      : original_(original), name_(std::move(name)), change_(std::move(change)) {}

  [[nodiscard]] const ModelConfig& config() const override { return original_.config(); }
  [[nodiscard]] std::string digest() const override { return original_.digest(); }
  [[nodiscard]] bool has(const std::string& name) const override { return original_.has(name); }
  [[nodiscard]] std::vector<std::string> names() const override { return original_.names(); }
  [[nodiscard]] Tensor tensor(const std::string& name) const override {
    Tensor tensor = original_.tensor(name);
    if (name != name_) return tensor;
    const auto values = std::make_shared<std::vector<float>>(to_floats(tensor));
    for (std::size_t i = 0; i < values->size(); ++i) (*values)[i] = change_((*values)[i], i);
    tensor.dtype = Dtype::kF32;
    tensor.bytes = std::as_bytes(std::span<const float>(*values));
    tensor.storage = values;
    return tensor;
  }

 private:
  const Checkpoint& original_;
  std::string name_;
  Change change_;
};

// Logits of one window, [tokens, vocabulary]; and the residual stream after every layer when asked for.
inline std::vector<float> streamed_logits(const Checkpoint& checkpoint, StreamedBackend& backend,
                                          std::span<const std::int32_t> tokens,
                                          std::vector<std::vector<float>>* hidden = nullptr) {
  const ModelConfig& config = checkpoint.config();
  backend.load_embedding();
  backend.embed(0, tokens);
  const auto keep = [&] {
    if (hidden == nullptr) return;
    hidden->emplace_back(tokens.size() * static_cast<std::size_t>(config.hidden_size));
    backend.get(0, hidden->back());
  };
  keep();
  for (std::int64_t layer = 0; layer < config.layer_count(); ++layer) {
    backend.load_layer(layer);
    EXPECT_EQ(backend.run_layer(0, 1), -1);
    keep();
  }
  backend.load_head();
  std::vector<float> logits(tokens.size() * static_cast<std::size_t>(config.vocab_size));
  backend.logits(0, logits);
  return logits;
}

}  // namespace tare::engine::test

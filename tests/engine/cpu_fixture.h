// The two hybrid checkpoints and their goldens (tests/fixtures/README.md), and ways to run a backend over them.
#pragma once

#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/cpu/cpu_backend.h"
#include "tests/source_folder.h"

namespace tare::engine::test {

inline std::filesystem::path fixture(const std::string& name) {
  return source_folder() / "tests" / "fixtures" / name;
}

// Everything FP32 but the weights, which keep the checkpoint's BF16 bits: what the goldens were made with.
inline EngineOptions exact_options(GdnForm form = GdnForm::kRecurrent) {
  EngineOptions options;
  options.kv.key = options.kv.value = CacheFormat::kFP32;
  options.state.convolution = CacheFormat::kFP32;
  options.gdn.form = form;
  options.context = 512;
  options.cpu.threads = 2;
  return options;
}

inline std::unique_ptr<Backend> open_backend(const std::string& model, const EngineOptions& options) {
  const std::unique_ptr<Checkpoint> checkpoint = open_checkpoint(fixture(model).string());
  return make_cpu_backend(*checkpoint, options);
}

// Integers of any width as int32.
inline std::vector<std::int32_t> integers(const Tensor& tensor) {
  const auto count = static_cast<std::size_t>(tensor.element_count());
  std::vector<std::int32_t> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t wide = 0;
    std::int32_t narrow = 0;
    if (tensor.dtype == Dtype::kI64) {
      std::memcpy(&wide, tensor.bytes.data() + i * sizeof(wide), sizeof(wide));
      narrow = static_cast<std::int32_t>(wide);
    } else {
      std::memcpy(&narrow, tensor.bytes.data() + i * sizeof(narrow), sizeof(narrow));
    }
    values[i] = narrow;
  }
  return values;
}

struct Golden {
  explicit Golden(const std::filesystem::path& path) : file(path), tokens(integers(file.tensor("input_ids"))) {}
  [[nodiscard]] std::vector<float> floats(const std::string& name) const { return to_floats(file.tensor(name)); }
  SafetensorsFile file;
  std::vector<std::int32_t> tokens;
};

struct Captured {
  std::vector<float> logits;
  std::vector<std::vector<float>> hidden;
};

// Prefills `tokens` from the frontier and captures everything.
inline Captured capture_prefill(Backend& backend, std::span<const std::int32_t> tokens) {
  const ModelConfig& config = backend.config();
  Captured captured;
  captured.logits.resize(tokens.size() * static_cast<std::size_t>(config.vocab_size));
  captured.hidden.resize(static_cast<std::size_t>(config.layer_count()) + 1);
  PrefillCapture capture;
  capture.logits = captured.logits;
  for (std::vector<float>& rows : captured.hidden) {
    rows.resize(tokens.size() * static_cast<std::size_t>(config.hidden_size));
    capture.hidden.emplace_back(rows);
  }
  backend.prefill(tokens, capture);
  return captured;
}

inline double max_difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(difference <= most)) most = difference;  // NaN counts as a difference
  }
  return most;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

inline std::int32_t greedy(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < logits.size(); ++i)
    if (logits[i] > logits[best]) best = i;
  return static_cast<std::int32_t>(best);
}

}  // namespace tare::engine::test

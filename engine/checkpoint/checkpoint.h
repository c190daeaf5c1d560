// A checkpoint: the model's shape and its named tensors, wherever they come from (Hugging Face directory, synthetic).
//
// Names are canonical, without the prefix of the file: "embed_tokens.weight", "norm.weight", "lm_head.weight",
// "layers.N.mlp.gate_proj.weight", "layers.N.self_attn.q_proj.weight", "layers.N.linear_attn.in_proj_qkv.weight",
// "mtp.fc.weight", "mtp.layers.0....". Fused Qwen3-Next tensors are presented split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/model_config.h"

namespace tare::engine {

// Every element type of the safetensors format.
enum class Dtype {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kC64,
  kF6E2M3,  // 6 bits an element, packed
  kF6E3M2,
  kF4,  // 4 bits an element, packed
};

[[nodiscard]] std::size_t dtype_bits(Dtype dtype);
[[nodiscard]] std::size_t dtype_bytes(Dtype dtype);  // Throws Error (internal) for the packed types
[[nodiscard]] std::string dtype_name(Dtype dtype);   // as safetensors writes it: "BF16"
[[nodiscard]] std::optional<Dtype> dtype_from_name(std::string_view name);

// A tensor's bytes, row-major, little-endian. Keeps what it points into alive.
struct Tensor {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> storage;
  std::int64_t first_element = 0;  // where it begins in the tensor of that name: a slice's is not 0

  [[nodiscard]] std::int64_t element_count() const;
  // Rows begin .. begin + count - 1 of a matrix, the same bytes.
  [[nodiscard]] Tensor rows(std::int64_t begin, std::int64_t count) const;
};

// Widens a floating-point tensor (F32, F16, BF16, F64) exactly to float (F64 rounds to nearest).
// Throws Error (input) for other dtypes, and for NaN or infinity, naming the tensor and the element.
[[nodiscard]] std::vector<float> to_floats(const Tensor& tensor);

struct StoredCodes;         // stored_codes.h
struct StoredQuantisation;  // stored_quantisation.h

// Named tensors, wherever they come from.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  [[nodiscard]] virtual bool has(const std::string& name) const = 0;
  // Throws Error (input) when there is no such tensor, naming file and tensor. May be called from several threads.
  [[nodiscard]] virtual Tensor tensor(const std::string& name) const = 0;
  [[nodiscard]] virtual std::vector<std::string> names() const = 0;
  // The tensor's shape, where possible without making it. Errors as tensor's.
  [[nodiscard]] virtual std::vector<std::int64_t> shape(const std::string& name) const { return tensor(name).shape; }

  // The tensor's weights as codes, where it is stored so; null: it is not. A tensor may be there as codes only, and
  // tensor() then throws Error (input).
  [[nodiscard]] virtual std::shared_ptr<const StoredCodes> codes(const std::string&) const { return nullptr; }

  // The tensor, checked against the shape the configuration demands. Throws Error (input): wrong shape, both named.
  [[nodiscard]] Tensor expect(const std::string& name, const std::vector<std::int64_t>& shape) const;
  // The check alone.
  void expect_shape(const std::string& name, const std::vector<std::int64_t>& shape) const;
};

class Checkpoint : public TensorSource {
 public:
  [[nodiscard]] virtual const ModelConfig& config() const = 0;
  // Names content: equal digests mean equal config and weights. 32 hexadecimal digits. Of a directory it covers the
  // text of config.json, every safetensors header, and the data: all bytes below 1 GB, otherwise 64 evenly spaced
  // pieces of 1 MB a shard (so that 50 GB take seconds). Computed at every call.
  [[nodiscard]] virtual std::string digest() const = 0;
  // How its weights were quantised before they were stored; null: they were not.
  [[nodiscard]] virtual const StoredQuantisation* quantisation() const { return nullptr; }
  // Where its files lie; empty: it has none.
  [[nodiscard]] virtual std::filesystem::path directory() const { return {}; }
};

// `model` is a directory with config.json and *.safetensors, or "synthetic:NAME?seed=S" (NAME of the family table:
// 0.8b, 2b, 4b, 9b, 27b, or explicit sizes as documented in synthetic.h). Throws Error (input).
[[nodiscard]] std::unique_ptr<Checkpoint> open_checkpoint(const std::string& model);

}  // namespace tare::engine

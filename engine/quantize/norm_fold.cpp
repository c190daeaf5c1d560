#include "engine/quantize/norm_fold.h"

#include <array>
#include <span>
#include <string_view>

#include "base/digest.h"

namespace tare::engine {
namespace {

constexpr std::string_view kInputNorm = "input_layernorm.weight";
constexpr std::string_view kPostNorm = "post_attention_layernorm.weight";

struct Reader {
  std::string_view tensor;  // after "layers.N."
  std::string_view norm;
};
constexpr std::array<Reader, 9> kReaders = {{{"self_attn.q_proj.weight", kInputNorm},
                                             {"self_attn.k_proj.weight", kInputNorm},
                                             {"self_attn.v_proj.weight", kInputNorm},
                                             {"linear_attn.in_proj_qkv.weight", kInputNorm},
                                             {"linear_attn.in_proj_z.weight", kInputNorm},
                                             {"linear_attn.in_proj_b.weight", kInputNorm},
                                             {"linear_attn.in_proj_a.weight", kInputNorm},
                                             {"mlp.gate_proj.weight", kPostNorm},
                                             {"mlp.up_proj.weight", kPostNorm}}};

bool is_folded_norm(const std::string& name) {
  return name.starts_with("layers.") && (name.ends_with(kInputNorm) || name.ends_with(kPostNorm));
}

Tensor owning(Tensor like, std::vector<float> values) {
  const auto storage = std::make_shared<const std::vector<float>>(std::move(values));
  like.dtype = Dtype::kF32;
  like.bytes = std::as_bytes(std::span(*storage));
  like.storage = storage;
  like.first_element = 0;
  return like;
}

}  // namespace

std::string folded_norm_of(const std::string& name) {
  if (!name.starts_with("layers.")) return {};
  for (const Reader& reader : kReaders)
    if (name.ends_with(reader.tensor))
      return name.substr(0, name.size() - reader.tensor.size()) + std::string(reader.norm);
  return {};
}

std::string NormFoldedCheckpoint::digest() const {
  return tare::digest(std::string_view("norms folded: " + checkpoint_.digest()));
}

Tensor NormFoldedCheckpoint::tensor(const std::string& name) const {
  Tensor tensor = checkpoint_.tensor(name);
  if (is_folded_norm(name)) {
    const auto size = static_cast<std::size_t>(tensor.element_count());
    return owning(std::move(tensor), std::vector<float>(size));
  }
  const std::string norm = folded_norm_of(name);
  if (norm.empty()) return tensor;
  std::vector<float> gain = to_floats(checkpoint_.tensor(norm));
  for (float& value : gain) value += 1.0F;
  std::vector<float> values = to_floats(tensor);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= gain[i % gain.size()];
  return owning(std::move(tensor), std::move(values));
}

}  // namespace tare::engine

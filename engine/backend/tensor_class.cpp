#include "engine/backend/tensor_class.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "engine/checkpoint/stored_quantisation.h"
#include "engine/checkpoint/tensor_plan.h"

namespace tare::engine {
namespace {

struct ModuleClass {
  std::string_view module;  // after "layers.N."
  TensorClass tensors;
};
constexpr std::array<ModuleClass, 10> kModules = {{{"self_attn.q_proj", TensorClass::kAttention},
                                                   {"self_attn.k_proj", TensorClass::kAttention},
                                                   {"self_attn.v_proj", TensorClass::kAttention},
                                                   {"self_attn.o_proj", TensorClass::kAttention},
                                                   {"linear_attn.in_proj_qkv", TensorClass::kGdn},
                                                   {"linear_attn.in_proj_z", TensorClass::kGdn},
                                                   {"linear_attn.out_proj", TensorClass::kGdn},
                                                   {"mlp.gate_proj", TensorClass::kMlp},
                                                   {"mlp.up_proj", TensorClass::kMlp},
                                                   {"mlp.down_proj", TensorClass::kMlp}}};
constexpr std::string_view kWeightSuffix = ".weight";
constexpr std::string_view kLayers = "layers.";
constexpr std::string_view kMtp = "mtp.";

std::string without_suffix(const std::string& name) {
  return name.ends_with(kWeightSuffix) ? name.substr(0, name.size() - kWeightSuffix.size()) : name;
}

// "layers.3.mlp.up_proj" as 3 and "mlp.up_proj".
std::optional<std::pair<std::int64_t, std::string_view>> layer_of(std::string_view name) {
  if (!name.starts_with(kLayers)) return std::nullopt;
  name.remove_prefix(kLayers.size());
  std::int64_t layer = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.') return std::nullopt;
  return std::pair{layer, name.substr(static_cast<std::size_t>(end - name.data()) + 1)};
}

Json weights_of(const EngineOptions& options) {
  return to_json(options)["weights"];
}

// Every tensor is stored as the options say, and nothing else is.
void check_stored(const EngineOptions& options, const Checkpoint& checkpoint, const StoredQuantisation& stored) {
  const ModelConfig& config = checkpoint.config();
  const std::string where = (checkpoint.directory() / "config.json").string() + ": quantization_config";
  const std::vector<std::string> excluded = excluded_modules(config);
  if (stored.excluded != excluded)
    throw input_error(
        where + ".modules_to_not_convert",
        fmt::format("names {}; what is never quantised is {}", join(stored.excluded, ", "), join(excluded, ", ")),
        "quantise the model again");
  for (const auto& [name, codec] : stored.codecs)
    if (!class_of_tensor(name, config))
      throw input_error(where + ".tensors", fmt::format("'{}' is stored as codes, and is never quantised", name),
                        "quantise the model again");
  for (const PlannedTensor& planned : plan_tensors(config)) {
    const WeightCodec wanted = normalized(codec_of_tensor(options, config, planned.name));
    const auto found = stored.codecs.find(planned.name);
    const WeightCodec held = found == stored.codecs.end() ? WeightCodec{} : found->second;
    if (held != wanted)
      throw input_error(
          where + ".tensors",
          fmt::format("'{}' is stored as {} with {} scales, its weights option says {} with {}", planned.name,
                      to_text(held.format), to_text(held.scales), to_text(wanted.format), to_text(wanted.scales)),
          "quantise the model again");
  }
}

}  // namespace

std::optional<ClassedTensor> class_of_tensor(const std::string& name, const ModelConfig& config) {
  if (!name.ends_with(kWeightSuffix)) return std::nullopt;
  const std::string module = without_suffix(name);
  if (module == (config.tie_word_embeddings ? "embed_tokens" : "lm_head"))
    return ClassedTensor{TensorClass::kHead, config.layer_count()};
  if (module == "mtp.fc") return ClassedTensor{TensorClass::kMtp, 0};
  const bool mtp = module.starts_with(kMtp);
  const auto layer = layer_of(std::string_view(module).substr(mtp ? kMtp.size() : 0));
  if (!layer) return std::nullopt;
  const auto* const found = std::find_if(kModules.begin(), kModules.end(),
                                         [&](const ModuleClass& entry) { return entry.module == layer->second; });
  if (found == kModules.end()) return std::nullopt;
  return mtp ? ClassedTensor{TensorClass::kMtp, 0} : ClassedTensor{found->tensors, layer->first};
}

WeightCodec codec_of_tensor(const EngineOptions& options, const ModelConfig& config, const std::string& name) {
  const std::optional<ClassedTensor> found = class_of_tensor(name, config);
  return found ? options.codec_of(found->tensors, found->layer) : WeightCodec{WeightFormat::kBF16};
}

std::vector<std::string> excluded_modules(const ModelConfig& config) {
  std::vector<std::string> modules;
  for (const PlannedTensor& planned : plan_tensors(config)) {
    if (class_of_tensor(planned.name, config)) continue;
    const std::string module = without_suffix(planned.name);
    std::string last = module.substr(module.rfind('.') + 1);
    if (std::find(modules.begin(), modules.end(), last) == modules.end()) modules.push_back(std::move(last));
  }
  return modules;
}

EngineOptions with_stored_weights(EngineOptions options, const Checkpoint& checkpoint) {
  const StoredQuantisation* const stored = checkpoint.quantisation();
  if (stored == nullptr) return options;
  EngineOptions made;
  apply_options(made, Json{{"weights", stored->weights}},
                (checkpoint.directory() / "config.json").string() + ": quantization_config");
  check_stored(made, checkpoint, *stored);
  // Overrides of a drafter say nothing of this checkpoint.
  EngineOptions asked;
  asked.weights = options.weights;
  const auto of_drafter = [](const WeightOverride& entry) { return entry.tensors == TensorClass::kDrafter; };
  std::erase_if(asked.weights.overrides, of_drafter);
  if (weights_of(asked) != weights_of(EngineOptions{}) && weights_of(asked) != weights_of(made))
    throw input_error(
        "weights",
        fmt::format("the checkpoint is stored as {}, other weights cannot be made of it", weights_of(made).dump()),
        "leave weights alone, or give the checkpoint that it was quantised from");
  std::vector<WeightOverride> drafter = options.weights.overrides;
  std::erase_if(drafter, [&](const WeightOverride& entry) { return !of_drafter(entry); });
  options.weights = made.weights;
  options.weights.overrides.insert(options.weights.overrides.end(), drafter.begin(), drafter.end());
  return options;
}

}  // namespace tare::engine

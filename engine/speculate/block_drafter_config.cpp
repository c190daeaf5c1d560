#include "engine/speculate/block_drafter_config.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/text.h"

namespace tare::engine {
namespace {

constexpr const char* kArchitecture = "DFlashDraftModel";
constexpr const char* kSupported = "block drafters of architecture DFlashDraftModel are read";
constexpr std::int64_t kMostSize = std::int64_t{1} << 20;  // beyond any model; stops a mistyped number
constexpr std::int64_t kMostHeads = 4096;
constexpr std::int64_t kMostHeadDim = 1024;
constexpr std::int64_t kMostLayers = 1024;
constexpr std::int64_t kMostBlock = 4096;
constexpr double kDefaultEps = 1e-6;

void check_architecture(JsonReader& top) {
  const std::vector<std::string> names = top.texts("architectures");
  if (names.size() != 1) throw top.error("architectures", "must name one architecture", kSupported);
  const std::string& name = names.front();
  if (name == kArchitecture) return;
  std::string reason = "is not a block drafter that this engine knows";
  if (name == "DFlash2DraftModel") reason = "its grouped convolutions and its candidate selector are not computed here";
  if (name.find("DSpark") != std::string::npos) reason = "its Markov head and its YaRN positions are not computed here";
  throw top.error("architectures", fmt::format("'{}' is not supported: {}", name, reason), kSupported);
}

// Settings that other checkpoints have and that would change what is computed.
void check_refused(JsonReader& top, JsonReader& own) {
  if (top.has("attention_bias") && top.boolean("attention_bias"))
    throw top.error("attention_bias", "true is not supported: the projections have no bias", kSupported);
  if (top.has("hidden_act") && top.text("hidden_act") != "silu")
    throw top.error("hidden_act", fmt::format("'{}' is not supported, only silu", top.text("hidden_act")));
  if (top.has("quantization_config"))
    throw top.error("quantization_config", "quantised checkpoints of other programs are not read",
                    "use the BF16 release and quantise with tare");
  for (JsonReader* reader : {&top, &own})
    for (const char* key : {"draft_vocab_size", "attention_sink_bias", "use_swa", "swa_window_size", "mask_embedding",
                            "sample_from_anchor", "final_logit_softcapping", "conv_kernel_size", "selector_rank"}) {
      const bool off = !reader->has(key) || reader->any(key) == Json(false);
      if (!off) throw reader->error(key, fmt::format("{} is not supported", brief_json(reader->any(key))), kSupported);
    }
}

double read_theta(JsonReader& top) {
  std::optional<double> theta;
  if (top.has("rope_theta")) theta = top.number("rope_theta");
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!top.has(key)) continue;
    JsonReader rope = top.object(key);
    for (const char* type_key : {"rope_type", "type"})
      if (rope.has(type_key) && rope.text(type_key) != "default")
        throw rope.error(type_key, fmt::format("'{}' is not supported, only default", rope.text(type_key)));
    if (rope.has("partial_rotary_factor") && rope.number("partial_rotary_factor") != 1)
      throw rope.error("partial_rotary_factor", "must be 1: a block drafter rotates all dimensions of a head");
    if (rope.has("rope_theta")) theta = rope.number("rope_theta");
  }
  if (!theta) throw top.error("rope_theta", "is missing");
  if (!(*theta > 1) || !std::isfinite(*theta))
    throw top.error("rope_theta", fmt::format("must be finite and above 1, is {}", shortest(*theta)));
  return *theta;
}

// A drafter is trained on one target's hidden states and speaks through its embedding and head.
void check_target(JsonReader& top, const BlockDrafterConfig& config, const ModelConfig& target) {
  const std::int64_t layers =
      top.has("num_target_layers") ? top.integer("num_target_layers", 1, kMostLayers) : target.layer_count();
  if (config.hidden_size == target.hidden_size && config.vocab_size == target.vocab_size &&
      layers == target.layer_count())
    return;
  throw input_error(
      top.where(),
      fmt::format("is a drafter for another target: one of hidden_size {}, vocab_size {} and {} layers; this model has "
                  "{}, {} and {}",
                  config.hidden_size, config.vocab_size, layers, target.hidden_size, target.vocab_size,
                  target.layer_count()),
      "use the drafter that was trained for this model");
}

void read_taps(JsonReader& own, const ModelConfig& target, BlockDrafterConfig& config) {
  if (!own.has("target_layer_ids")) {
    config.taps = default_taps(target.layer_count(), config.layer_count());
    return;
  }
  for (const Json& id : own.array("target_layer_ids")) {
    const std::string key = fmt::format("target_layer_ids[{}]", config.taps.size());
    if (!id.is_number_integer()) throw own.error(key, "must be an integer");
    const auto layer = id.get<std::int64_t>();
    if (layer < 0 || layer >= target.layer_count())
      throw own.error(key, fmt::format("{} is not a layer of the target, which has {}", layer, target.layer_count()));
    config.taps.push_back(layer);
  }
  if (config.taps.empty()) throw own.error("target_layer_ids", "must name a layer");
}

// What is said for every layer, or nothing: then sliding layers are causal and full ones are not, as the engines that
// measure acceptance have it (docs/method/speculation.md).
std::optional<bool> declared_causality(JsonReader& top, JsonReader& own) {
  std::optional<bool> causal;
  if (top.has("is_causal")) causal = top.boolean("is_causal");
  if (!own.has("causal")) return causal;
  if (causal && *causal != own.boolean("causal"))
    throw own.error("causal", fmt::format("contradicts {}", top.place("is_causal")));
  return own.boolean("causal");
}

void read_layers(JsonReader& top, JsonReader& own, BlockDrafterConfig& config) {
  const std::int64_t count = top.integer("num_hidden_layers", 1, kMostLayers);
  const std::optional<bool> causal = declared_causality(top, own);
  if (!top.has("layer_types")) {
    if (top.has("use_sliding_window") && top.boolean("use_sliding_window"))
      throw top.error("layer_types", "is missing, though use_sliding_window is true");
    config.layers.assign(static_cast<std::size_t>(count), {0, causal.value_or(false)});
    return;
  }
  const std::vector<std::string> kinds = top.texts("layer_types");
  if (static_cast<std::int64_t>(kinds.size()) != count)
    throw top.error("layer_types", fmt::format("has {} entries, num_hidden_layers is {}", kinds.size(), count));
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const bool sliding = kinds[i] == "sliding_attention";
    if (!sliding && kinds[i] != "full_attention")
      throw top.error(fmt::format("layer_types[{}]", i), fmt::format("unknown value '{}'", kinds[i]),
                      "known: sliding_attention, full_attention");
    const std::int64_t window = sliding ? top.integer("sliding_window", 1, std::int64_t{1} << 31) : 0;
    config.layers.push_back({window, causal.value_or(sliding)});
  }
}

std::int64_t read_block_size(JsonReader& top, JsonReader& own) {
  JsonReader& home = top.has("block_size") || !own.has("block_size") ? top : own;
  const std::int64_t size = home.integer("block_size", 2, kMostBlock);
  if (own.has("block_size") && own.integer("block_size") != size)
    throw own.error("block_size", fmt::format("contradicts {}", top.place("block_size")));
  return size;
}

}  // namespace

std::vector<std::int64_t> default_taps(std::int64_t target_layers, std::int64_t layers) {
  if (layers == 1) return {target_layers / 2};
  std::vector<std::int64_t> taps;
  for (std::int64_t i = 0; i < layers; ++i)
    taps.push_back(static_cast<std::int64_t>(
        std::nearbyint(1 + static_cast<double>(i * (target_layers - 4)) / static_cast<double>(layers - 1))));
  return taps;
}

BlockDrafterConfig parse_block_drafter_config(const Json& json, const ModelConfig& target, const std::string& where) {
  JsonReader top(json, where);
  check_architecture(top);
  JsonReader own = top.object("dflash_config");
  check_refused(top, own);
  BlockDrafterConfig config;
  config.hidden_size = top.integer("hidden_size", 1, kMostSize);
  config.intermediate_size = top.integer("intermediate_size", 1, kMostSize);
  config.vocab_size = top.integer("vocab_size", 1, std::int64_t{1} << 31);
  check_target(top, config, target);
  config.heads = top.integer("num_attention_heads", 1, kMostHeads);
  config.key_value_heads = top.integer("num_key_value_heads", 1, kMostHeads);
  if (config.heads % config.key_value_heads != 0)
    throw top.error("num_key_value_heads",
                    fmt::format("{} does not divide num_attention_heads {}", config.key_value_heads, config.heads));
  config.head_dim = top.integer("head_dim", 2, kMostHeadDim);
  if (config.head_dim % 2 != 0) throw top.error("head_dim", "must be even: dimensions are rotated in pairs");
  config.rope_theta = read_theta(top);
  config.eps = static_cast<float>(top.has("rms_norm_eps") ? top.number("rms_norm_eps", 0, 1) : kDefaultEps);
  if (!(config.eps > 0)) throw top.error("rms_norm_eps", "must be above 0");
  config.block_size = read_block_size(top, own);
  config.mask_token = static_cast<std::int32_t>(own.integer("mask_token_id", 0, config.vocab_size - 1));
  read_layers(top, own, config);
  read_taps(own, target, config);
  return config;
}

BlockDrafterConfig read_block_drafter_config(const std::filesystem::path& directory, const ModelConfig& target) {
  const std::filesystem::path path = directory / "config.json";
  if (!std::filesystem::exists(path))
    throw input_error(path.string(), "is not there",
                      "speculate.drafter is none, mtp, or a directory with config.json and *.safetensors");
  return parse_block_drafter_config(read_json_file(path), target, path.string());
}

std::vector<PlannedTensor> plan_block_drafter(const BlockDrafterConfig& config) {
  const std::int64_t hidden = config.hidden_size;
  std::vector<PlannedTensor> tensors = {{"fc.weight", {hidden, config.tap_count() * hidden}, TensorRole::kProjection},
                                        {"hidden_norm.weight", {hidden}, TensorRole::kPlainNorm}};
  for (std::int64_t i = 0; i < config.layer_count(); ++i) {
    const auto add = [&](const char* name, std::vector<std::int64_t> shape, TensorRole role) {
      tensors.push_back({fmt::format("layers.{}.{}", i, name), std::move(shape), role});
    };
    add("input_layernorm.weight", {hidden}, TensorRole::kPlainNorm);
    add("self_attn.q_proj.weight", {config.query_channels(), hidden}, TensorRole::kProjection);
    add("self_attn.k_proj.weight", {config.key_value_channels(), hidden}, TensorRole::kProjection);
    add("self_attn.v_proj.weight", {config.key_value_channels(), hidden}, TensorRole::kProjection);
    add("self_attn.q_norm.weight", {config.head_dim}, TensorRole::kPlainNorm);
    add("self_attn.k_norm.weight", {config.head_dim}, TensorRole::kPlainNorm);
    add("self_attn.o_proj.weight", {hidden, config.query_channels()}, TensorRole::kResidualProjection);
    add("post_attention_layernorm.weight", {hidden}, TensorRole::kPlainNorm);
    add("mlp.gate_proj.weight", {config.intermediate_size, hidden}, TensorRole::kProjection);
    add("mlp.up_proj.weight", {config.intermediate_size, hidden}, TensorRole::kProjection);
    add("mlp.down_proj.weight", {hidden, config.intermediate_size}, TensorRole::kResidualProjection);
  }
  tensors.push_back({"norm.weight", {hidden}, TensorRole::kPlainNorm});
  return tensors;
}

}  // namespace tare::engine

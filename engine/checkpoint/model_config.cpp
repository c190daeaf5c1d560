#include "engine/checkpoint/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/json_reader.h"
#include "base/text.h"

namespace tare::engine {
namespace {

// Bounds far above any model of the family; they keep every product of sizes inside 63 bits.
constexpr std::int64_t kMostHidden = 1 << 20;
constexpr std::int64_t kMostHeads = 1 << 14;
constexpr std::int64_t kMostHeadDim = 1 << 14;
constexpr std::int64_t kMostLayers = 1 << 12;
constexpr std::int64_t kMostConvKernel = 64;
constexpr std::int64_t kMostMtpLayers = 64;
constexpr std::int64_t kMostInt32 = std::numeric_limits<std::int32_t>::max();

// Values of the configuration class where a file may leave a field out (model specification, section 1.2).
constexpr std::int64_t kDefaultHeadDim = 256;
constexpr std::int64_t kDefaultInterval = 4;
constexpr double kDefaultRotaryFactor = 0.25;
constexpr double kDefaultEps = 1e-6;

constexpr const char* kSupported =
    "supported: Qwen3_5ForConditionalGeneration and Qwen3_5ForCausalLM (model_type qwen3_5, qwen3_5_text), dense";

bool listed(const std::string& name, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* known) { return name == known; });
}

// A non-negative integer that fits 63 bits (parsed JSON holds such a number unsigned, JSON made in code signed).
bool is_count(const Json& value) {
  if (value.is_number_unsigned())
    return value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return value.is_number_integer() && value.get<std::int64_t>() >= 0;
}

void check_architecture(JsonReader& top, JsonReader& text) {
  bool named = false;
  if (top.has("architectures")) {
    for (const std::string& architecture : top.texts("architectures")) {
      if (!listed(architecture, {"Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"}))
        throw top.error("architectures", fmt::format("is another architecture: '{}'", architecture), kSupported);
      named = true;
    }
  }
  for (JsonReader* reader : {&top, &text}) {
    if (!reader->has("model_type")) continue;
    const std::string model_type = reader->text("model_type");
    if (!listed(model_type, {"qwen3_5", "qwen3_5_text"}))
      throw reader->error("model_type", fmt::format("is another architecture: '{}'", model_type), kSupported);
    named = true;
  }
  if (!named) throw top.error("model_type", "is missing, and so is architectures", kSupported);
}

// A setting that has only one value this engine computes; absent counts as that value.
void demand(JsonReader& text, const char* key, bool wanted, const char* reason) {
  if (text.has(key) && text.boolean(key) != wanted)
    throw text.error(key, fmt::format("{} is not supported: {}", !wanted, reason), kSupported);
}

void check_refused(JsonReader& top, JsonReader& text) {
  demand(text, "attention_bias", false, "the projections have no bias");
  demand(text, "attn_output_gate", true, "the attention output is always gated");
  demand(text, "mtp_use_dedicated_embeddings", false, "the MTP head shares the model's embedding");
  if (text.has("mlp_only_layers") && !text.array("mlp_only_layers").empty())
    throw text.error("mlp_only_layers", "must be empty: mixtures of experts are not supported", kSupported);
  for (const char* key : {"num_experts", "num_experts_per_tok", "num_local_experts"})
    if (text.has(key) && text.integer(key, 0) > 0)
      throw text.error(key, "must be 0: mixtures of experts are not supported", kSupported);
  if (text.has("hidden_act")) {
    const std::string activation = text.text("hidden_act");
    if (activation != "silu")
      throw text.error("hidden_act", fmt::format("'{}' is not supported, only silu", activation));
  }
  if (text.has("output_gate_type")) {  // the gate of the linear layers' norm; swish and silu are one function
    const std::string gate = text.text("output_gate_type");
    if (!listed(gate, {"swish", "silu"}))
      throw text.error("output_gate_type", fmt::format("'{}' is not supported, only swish", gate));
  }
  // Ours is read with the tensors (stored_quantisation.h).
  const auto is_ours = [](const Json& json) {
    return json.is_object() && json.value("quant_method", Json()) == "tare";
  };
  for (JsonReader* reader : {&top, &text})
    if (reader->has("quantization_config") &&
        !(&reader->json() == &top.json() && is_ours(reader->any("quantization_config"))))
      throw reader->error("quantization_config", "quantised checkpoints of other programs are not read",
                          "use the BF16 release and quantise with tare");
}

std::vector<LayerKind> read_layers(JsonReader& text) {
  const std::int64_t count = text.integer("num_hidden_layers", 1, kMostLayers);
  const std::int64_t interval =
      text.has("full_attention_interval") ? text.integer("full_attention_interval", 1, kMostLayers) : kDefaultInterval;
  std::vector<LayerKind> layers;
  if (!text.has("layer_types")) {
    for (std::int64_t i = 0; i < count; ++i)
      layers.push_back((i + 1) % interval == 0 ? LayerKind::kFullAttention : LayerKind::kLinearAttention);
    return layers;
  }
  for (const std::string& kind : text.texts("layer_types")) {
    if (!listed(kind, {"linear_attention", "full_attention"}))
      throw text.error(fmt::format("layer_types[{}]", layers.size()), fmt::format("unknown value '{}'", kind),
                       "known: linear_attention, full_attention");
    layers.push_back(kind == "full_attention" ? LayerKind::kFullAttention : LayerKind::kLinearAttention);
  }
  if (static_cast<std::int64_t>(layers.size()) != count)
    throw text.error("layer_types", fmt::format("has {} entries, num_hidden_layers is {}", layers.size(), count));
  return layers;
}

// A number that files write under rope_parameters, at the upper level, or at both places (then they must agree).
std::optional<double> rope_number(std::optional<JsonReader>& rope, JsonReader& text, const std::string& key) {
  std::optional<double> inner;
  std::optional<double> outer;
  if (rope && rope->has(key)) inner = rope->number(key);
  if (text.has(key)) outer = text.number(key);
  if (inner && outer && *inner != *outer)
    throw rope->error(key, fmt::format("is {}, but {} is {}", shortest(*inner), text.place(key), shortest(*outer)));
  return inner ? inner : outer;
}

void check_mrope(JsonReader& rope) {
  // Text positions are equal on all three axes, so the sections change nothing; they are read to refuse nonsense.
  if (rope.has("mrope_section")) {
    const Json& sections = rope.array("mrope_section");
    const bool fine = sections.size() == 3 && std::all_of(sections.begin(), sections.end(), is_count);
    if (!fine) throw rope.error("mrope_section", "must be three non-negative integers");
  }
  if (rope.has("mrope_interleaved")) static_cast<void>(rope.boolean("mrope_interleaved"));
}

void read_rope(JsonReader& text, ModelConfig& config) {
  std::optional<JsonReader> rope;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {  // the older name first: the newer one wins
    if (!text.has(key)) continue;
    rope = text.object(key);
    for (const char* type_key : {"rope_type", "type"}) {
      if (!rope->has(type_key)) continue;
      const std::string type = rope->text(type_key);
      if (type != "default" && !(type == "mrope" && std::string(type_key) == "type"))
        throw rope->error(type_key, fmt::format("'{}' is not supported, only default", type),
                          "long-context overrides (yarn) change every position; use the released config.json");
    }
    check_mrope(*rope);
  }
  const std::optional<double> theta = rope_number(rope, text, "rope_theta");
  JsonReader& home = rope ? *rope : text;
  if (!theta) throw home.error("rope_theta", "is missing");
  if (!(*theta > 1) || !std::isfinite(*theta))
    throw home.error("rope_theta", fmt::format("must be finite and above 1, is {}", shortest(*theta)));
  config.rope_theta = *theta;
  const double factor = rope_number(rope, text, "partial_rotary_factor").value_or(kDefaultRotaryFactor);
  const double rotary = static_cast<double>(config.head_dim) * factor;
  if (!(factor > 0 && factor <= 1) || rotary != std::floor(rotary) || std::fmod(rotary, 2) != 0 || rotary < 2)
    throw home.error("partial_rotary_factor",
                     fmt::format("{} of head_dim {} must be an even number of dimensions, 2 to head_dim",
                                 shortest(factor), config.head_dim));
  config.rotary_dim = static_cast<std::int64_t>(rotary);
}

std::vector<std::int32_t> read_eos(JsonReader& reader, std::int64_t vocab_size) {
  std::vector<std::int32_t> ids;
  const auto add = [&](const Json& value) {
    const bool inside = is_count(value) && value.get<std::int64_t>() < vocab_size;
    if (!inside)
      throw reader.error("eos_token_id",
                         fmt::format("{} is not a token id below vocab_size {}", brief_json(value), vocab_size));
    ids.push_back(value.get<std::int32_t>());
  };
  const Json& value = reader.any("eos_token_id");
  if (value.is_array())
    std::for_each(value.begin(), value.end(), add);
  else
    add(value);
  return ids;
}

void read_sizes(JsonReader& text, ModelConfig& config) {
  config.hidden_size = text.integer("hidden_size", 1, kMostHidden);
  config.intermediate_size = text.integer("intermediate_size", 1, kMostHidden);
  config.vocab_size = text.integer("vocab_size", 1, kMostInt32);
  config.layers = read_layers(text);
  config.attention_heads = text.integer("num_attention_heads", 1, kMostHeads);
  config.key_value_heads = text.integer("num_key_value_heads", 1, kMostHeads);
  if (config.attention_heads % config.key_value_heads != 0)
    throw text.error("num_key_value_heads", fmt::format("{} does not divide num_attention_heads {}",
                                                        config.key_value_heads, config.attention_heads));
  config.head_dim = text.has("head_dim") ? text.integer("head_dim", 1, kMostHeadDim) : kDefaultHeadDim;
  config.linear_key_heads = text.integer("linear_num_key_heads", 1, kMostHeads);
  config.linear_value_heads = text.integer("linear_num_value_heads", 1, kMostHeads);
  if (config.linear_value_heads % config.linear_key_heads != 0)
    throw text.error("linear_num_key_heads", fmt::format("{} does not divide linear_num_value_heads {}",
                                                         config.linear_key_heads, config.linear_value_heads));
  config.linear_key_head_dim = text.integer("linear_key_head_dim", 1, kMostHeadDim);
  config.linear_value_head_dim = text.integer("linear_value_head_dim", 1, kMostHeadDim);
  config.conv_kernel = text.integer("linear_conv_kernel_dim", 1, kMostConvKernel);
  config.mtp_layers = text.has("mtp_num_hidden_layers") ? text.integer("mtp_num_hidden_layers", 0, kMostMtpLayers) : 0;
  config.max_positions = text.integer("max_position_embeddings", 1, kMostInt32);
}

}  // namespace

ModelConfig parse_model_config(const Json& config_json, const Json& generation, const std::string& where) {
  JsonReader top(config_json, where);
  JsonReader text = top.has("text_config") ? top.object("text_config") : top;
  check_architecture(top, text);
  check_refused(top, text);
  ModelConfig config;
  read_sizes(text, config);
  read_rope(text, config);
  const double eps = text.has("rms_norm_eps") ? text.number("rms_norm_eps", 0, 1) : kDefaultEps;
  config.rms_norm_eps = static_cast<float>(eps);
  if (!(config.rms_norm_eps > 0)) throw text.error("rms_norm_eps", "must be above 0");
  for (JsonReader* reader : {&text, &top}) {
    if (!reader->has("tie_word_embeddings")) continue;
    config.tie_word_embeddings = reader->boolean("tie_word_embeddings");
    break;
  }
  for (const char* key : {"mamba_ssm_dtype", "dtype", "torch_dtype"})  // hints: the tensors say their own dtype
    if (text.has(key)) static_cast<void>(text.text(key));
  if (!generation.is_null()) {
    JsonReader reader(generation, (std::filesystem::path(where).parent_path() / "generation_config.json").string());
    if (reader.has("eos_token_id")) config.eos_token_ids = read_eos(reader, config.vocab_size);
  }
  for (JsonReader* reader : {&text, &top})
    if (config.eos_token_ids.empty() && reader->has("eos_token_id"))
      config.eos_token_ids = read_eos(*reader, config.vocab_size);
  return config;
}

ModelConfig read_model_config(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "config.json";
  if (!std::filesystem::exists(path))
    throw input_error(path.string(), "is not there", "a model is a directory with config.json and *.safetensors");
  const Json config = read_json_file(path);
  const std::filesystem::path generation_path = directory / "generation_config.json";
  const Json generation = std::filesystem::exists(generation_path) ? read_json_file(generation_path) : Json();
  return parse_model_config(config, generation, path.string());
}

}  // namespace tare::engine

#include "engine/checkpoint/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/json_reader.h"
#include "base/philox.h"
#include "base/text.h"

namespace tare::engine {
namespace {

constexpr std::string_view kScheme = "synthetic:";
constexpr std::size_t kValuesABlock = 8;  // a Philox block is 128 bits
constexpr std::size_t kDraws = 65536;     // values of the 16 bits a weight is made from
constexpr double kLogitDeviation = 2;
constexpr double kNormDeviation = 0.1;
constexpr double kMostDecay = 16;         // A of A_log is uniform in (0, 16)
constexpr double kLeastTimeStep = 0.001;  // softplus(dt_bias) is log-uniform in 0.001 to 0.1
constexpr double kTimeStepRatio = 100;
constexpr double kRopeTheta = 1e7;
constexpr float kEps = 1e-6F;

struct FamilyMember {
  std::string_view name;
  std::int64_t hidden, layers, intermediate, heads, kv_heads, linear_key_heads, linear_value_heads;
  bool tied;
};

// Section 1.3 of the model specification.
constexpr std::array<FamilyMember, 5> kFamily = {{
    {"0.8b", 1024, 24, 3584, 8, 2, 16, 16, true},
    {"2b", 2048, 24, 6144, 8, 2, 16, 16, true},
    {"4b", 2560, 32, 9216, 16, 4, 16, 32, true},
    {"9b", 4096, 32, 12288, 16, 4, 16, 32, false},
    {"27b", 5120, 64, 17408, 24, 4, 16, 48, false},
}};

using Sizes = std::vector<std::pair<std::string, std::int64_t>>;

Sizes sizes_of(const FamilyMember& member) {
  return {{"hidden", member.hidden},
          {"intermediate", member.intermediate},
          {"layers", member.layers},
          {"interval", 4},
          {"vocab", 248320},
          {"heads", member.heads},
          {"kv_heads", member.kv_heads},
          {"head_dim", 256},
          {"rotary", 64},
          {"linear_key_heads", member.linear_key_heads},
          {"linear_value_heads", member.linear_value_heads},
          {"linear_key_head_dim", 128},
          {"linear_value_head_dim", 128},
          {"conv_kernel", 4},
          {"mtp_layers", 1},
          {"positions", 262144},
          {"tied", member.tied ? 1 : 0}};
}

template <typename Integer>
Integer integer_of(const std::string& model, std::string_view key, std::string_view text) {
  Integer value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || failure != std::errc() || end != text.data() + text.size())
    throw input_error(model, fmt::format("{} must be an integer, is '{}'", key, text));
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

const FamilyMember* family_member(std::string_view name) {
  const auto* found =
      std::find_if(kFamily.begin(), kFamily.end(), [&](const FamilyMember& member) { return member.name == name; });
  return found == kFamily.end() ? nullptr : found;
}

Sizes parse_sizes(const std::string& model, std::string_view description) {
  Sizes sizes = sizes_of(kFamily[0]);
  std::vector<std::string> keys;
  for (const auto& [key, value] : sizes) keys.push_back(key);
  bool first = true;
  for (const std::string_view part : split(description, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      const FamilyMember* member = family_member(part);
      if (!first || member == nullptr)
        throw input_error(model, fmt::format("unknown size '{}'", part), "known: 0.8b, 2b, 4b, 9b, 27b, or KEY=VALUE");
      sizes = sizes_of(*member);
    } else {
      const std::string key(part.substr(0, equals));
      const auto found = std::find_if(sizes.begin(), sizes.end(), [&](const auto& size) { return size.first == key; });
      if (found == sizes.end()) throw input_error(model, fmt::format("unknown key '{}'", key), name_hint(key, keys));
      found->second = integer_of<std::int64_t>(model, key, part.substr(equals + 1));
    }
    first = false;
  }
  return sizes;
}

// Through the reader of config.json, so that a synthetic model obeys the same rules as a real one.
ModelConfig config_of(const std::string& model, const Sizes& sizes) {
  const auto at = [&](std::string_view key) {
    return std::find_if(sizes.begin(), sizes.end(), [&](const auto& size) { return size.first == key; })->second;
  };
  if (at("tied") != 0 && at("tied") != 1) throw input_error(model, "tied must be 0 or 1");
  const double rotary_factor = static_cast<double>(at("rotary")) / static_cast<double>(at("head_dim"));
  const Json json = {{"model_type", "qwen3_5_text"},
                     {"hidden_size", at("hidden")},
                     {"intermediate_size", at("intermediate")},
                     {"num_hidden_layers", at("layers")},
                     {"full_attention_interval", at("interval")},
                     {"vocab_size", at("vocab")},
                     {"num_attention_heads", at("heads")},
                     {"num_key_value_heads", at("kv_heads")},
                     {"head_dim", at("head_dim")},
                     {"linear_num_key_heads", at("linear_key_heads")},
                     {"linear_num_value_heads", at("linear_value_heads")},
                     {"linear_key_head_dim", at("linear_key_head_dim")},
                     {"linear_value_head_dim", at("linear_value_head_dim")},
                     {"linear_conv_kernel_dim", at("conv_kernel")},
                     {"mtp_num_hidden_layers", at("mtp_layers")},
                     {"max_position_embeddings", at("positions")},
                     {"tie_word_embeddings", at("tied") == 1},
                     {"rms_norm_eps", kEps},
                     {"rope_parameters", {{"rope_theta", kRopeTheta}, {"partial_rotary_factor", rotary_factor}}}};
  return parse_model_config(json, Json(), model);
}

std::uint16_t bfloat16_of(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  const std::uint32_t even = (bits >> 16) & 1U;
  return static_cast<std::uint16_t>((bits + 0x7FFFU + even) >> 16);
}

// The factor of x; the formulas of synthetic.h.
double scale_of(const PlannedTensor& tensor, std::int64_t layers) {
  const auto columns = static_cast<double>(tensor.shape.back());
  switch (tensor.role) {
    case TensorRole::kProjection:
      return std::sqrt(3 / columns);
    case TensorRole::kResidualProjection:
      return std::sqrt(3 / columns) / std::sqrt(2 * static_cast<double>(layers));
    case TensorRole::kEmbedding:
    case TensorRole::kHead:
      return std::sqrt(3 / columns) * kLogitDeviation;
    case TensorRole::kConvolution:
      return 1 / std::sqrt(columns);
    case TensorRole::kCentredNorm:
    case TensorRole::kPlainNorm:
      return kNormDeviation;
    case TensorRole::kDecayLog:
    case TensorRole::kDecayBias:
      return 0;
  }
  throw internal_error("a tensor's role has no scale");
}

// A weight as a function of 16 random bits.
std::uint16_t draw(const SyntheticRecipe& recipe, std::uint32_t bits) {
  const double x = (2 * static_cast<double>(bits) - (kDraws - 1)) / kDraws;
  const double share = (static_cast<double>(bits) + 0.5) / kDraws;  // uniform in (0, 1)
  switch (recipe.role) {
    case TensorRole::kDecayLog:
      return bfloat16_of(std::log(kMostDecay * share));
    case TensorRole::kDecayBias: {
      const double step = kLeastTimeStep * std::pow(kTimeStepRatio, share);
      return bfloat16_of(step + std::log(-std::expm1(-step)));
    }
    case TensorRole::kPlainNorm:
      return bfloat16_of(1 + x * recipe.scale);
    default:
      return bfloat16_of(x * recipe.scale);
  }
}

std::uint32_t sixteen_bits(const std::array<std::uint32_t, 4>& block, std::size_t lane) {
  return (block[lane / 2] >> (16 * (lane % 2))) & 0xFFFFU;
}

// The random bits of the elements 8 index .. 8 index + 7.
std::array<std::uint32_t, 4> block_at(const SyntheticRecipe& recipe, std::uint64_t index) {
  const auto low = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  const auto high = [](std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); };
  return philox4x32({low(index), high(index), low(recipe.stream), high(recipe.stream)},
                    {low(recipe.seed), high(recipe.seed)});
}

// Calls weight(bits) for each element in order and stores what it returns.
template <typename Weight>
void fill(std::vector<std::uint16_t>& weights, const SyntheticRecipe& recipe, const Weight& weight) {
  for (std::size_t begin = 0; begin < weights.size(); begin += kValuesABlock) {
    const auto block = block_at(recipe, begin / kValuesABlock);
    const std::size_t count = std::min(kValuesABlock, weights.size() - begin);
    for (std::size_t lane = 0; lane < count; ++lane) weights[begin + lane] = weight(sixteen_bits(block, lane));
  }
}

}  // namespace

bool is_synthetic(std::string_view model) {
  return model.starts_with(kScheme);
}

std::uint16_t synthetic_weight(const SyntheticRecipe& recipe, std::uint64_t element) {
  return draw(recipe, sixteen_bits(block_at(recipe, element / kValuesABlock), element % kValuesABlock));
}

SyntheticCheckpoint::SyntheticCheckpoint(const std::string& model) : model_(model) {
  const std::string_view text = std::string_view(model_).substr(kScheme.size());
  const std::size_t question = text.find("?seed=");
  if (question == std::string_view::npos)
    throw input_error(model_, "names no seed", "write synthetic:NAME?seed=S, for example synthetic:0.8b?seed=1");
  const Sizes sizes = parse_sizes(model_, text.substr(0, question));
  seed_ = integer_of<std::uint64_t>(model_, "seed", text.substr(question + std::string_view("?seed=").size()));
  config_ = config_of(model_, sizes);
  plan_ = plan_tensors(config_);
  for (std::size_t i = 0; i < plan_.size(); ++i) planned_.emplace(plan_[i].name, i);
  // One spelling for one model, whatever the order of the keys.
  model_ = std::string(kScheme);
  for (const auto& [key, value] : sizes) model_ += fmt::format("{}{}={}", key == sizes[0].first ? "" : ",", key, value);
  model_ += fmt::format("?seed={}", seed_);
}

std::string SyntheticCheckpoint::digest() const {
  return tare::digest(std::string_view(model_));
}

std::vector<std::string> SyntheticCheckpoint::names() const {
  std::vector<std::string> names;
  for (const PlannedTensor& planned : plan_) names.push_back(planned.name);
  return names;
}

const PlannedTensor& SyntheticCheckpoint::planned(const std::string& name) const {
  const auto found = planned_.find(name);
  if (found == planned_.end()) throw input_error(model_, fmt::format("has no tensor '{}'", name));
  return plan_[found->second];
}

SyntheticRecipe SyntheticCheckpoint::recipe(const std::string& name) const {
  return make_recipe(seed_, name, planned(name), config_.layer_count());
}

Tensor SyntheticCheckpoint::tensor(const std::string& name) const {
  return make_synthetic_tensor(planned(name), recipe(name));
}

SyntheticRecipe make_recipe(std::uint64_t seed, const std::string& stream_name, const PlannedTensor& tensor,
                            std::int64_t layers) {
  // Fewer than 53 bits, so that centre + x * scale is rounded once, with or without a fused multiply-add.
  const auto scale = static_cast<double>(static_cast<float>(scale_of(tensor, layers)));
  return {seed, hash64(stream_name), tensor.role, scale};
}

Tensor make_synthetic_tensor(const PlannedTensor& planned, const SyntheticRecipe& recipe) {
  std::size_t count = 1;
  for (const std::int64_t extent : planned.shape) count *= static_cast<std::size_t>(extent);
  auto weights = std::make_shared<std::vector<std::uint16_t>>(count);
  if (count < kDraws) {
    fill(*weights, recipe, [&](std::uint32_t bits) { return draw(recipe, bits); });
  } else {  // every value the tensor can have, once
    std::vector<std::uint16_t> table(kDraws);
    for (std::uint32_t bits = 0; bits < kDraws; ++bits) table[bits] = draw(recipe, bits);
    fill(*weights, recipe, [&](std::uint32_t bits) { return table[bits]; });
  }
  const std::span<const std::byte> bytes = std::as_bytes(std::span<const std::uint16_t>(*weights));
  return {planned.name, Dtype::kBF16, planned.shape, bytes, std::move(weights)};
}

}  // namespace tare::engine

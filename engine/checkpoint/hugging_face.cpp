#include "engine/checkpoint/hugging_face.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_reader.h"
#include "engine/checkpoint/tensor_plan.h"

namespace tare::engine {
namespace {

constexpr std::array<std::string_view, 3> kBodyPrefixes = {"model.language_model.", "model.", "language_model.model."};
constexpr std::array<std::string_view, 2> kHeadNames = {"lm_head.weight", "language_model.lm_head.weight"};
constexpr std::array<std::string_view, 2> kMtpPrefixes = {"mtp.", "model.mtp."};
constexpr std::array<std::string_view, 2> kVisionPrefixes = {"model.visual.", "visual."};
constexpr const char* kFusedProjections = "linear_attn.in_proj_qkvz.weight";
constexpr const char* kFusedGates = "linear_attn.in_proj_ba.weight";

// What digest() covers; see checkpoint.h.
constexpr std::uint64_t kDigestWhole = 1'000'000'000;
constexpr std::size_t kDigestPieces = 64;
constexpr std::size_t kDigestPieceBytes = 1'000'000;

template <std::size_t count>
std::optional<std::string> without_prefix(const std::string& name,
                                          const std::array<std::string_view, count>& prefixes) {
  for (const std::string_view prefix : prefixes)
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  return std::nullopt;
}

// "NAME.codes" as "NAME" and ".codes"; other names as they are.
std::pair<std::string, std::string> split_part(const std::string& name) {
  for (const char* suffix : {kCodesSuffix, kScalesSuffix, kTensorScaleSuffix})
    if (name.ends_with(suffix)) return {name.substr(0, name.size() - std::string_view(suffix).size()), suffix};
  return {name, ""};
}

bool is_redundant(const std::string& canonical) {
  return canonical.ends_with("rotary_emb.inv_freq");
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// Row numbers of the four (or two) projections inside the fused tensors of Qwen3-Next, which groups them by key head
// (model specification, section 2.5).
struct FusedRows {
  std::vector<std::int64_t> qkv, z, b, a;
};

void append_range(std::vector<std::int64_t>& rows, std::int64_t begin, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) rows.push_back(begin + i);
}

FusedRows fused_rows(const ModelConfig& config) {
  const std::int64_t key_dim = config.linear_key_head_dim;
  const std::int64_t values_a_key = config.linear_value_heads / config.linear_key_heads;
  const std::int64_t value_rows = values_a_key * config.linear_value_head_dim;
  const std::int64_t group = 2 * key_dim + 2 * value_rows;
  FusedRows rows;
  const auto gather = [&](std::vector<std::int64_t>& into, std::int64_t offset, std::int64_t count) {
    for (std::int64_t head = 0; head < config.linear_key_heads; ++head)
      append_range(into, head * group + offset, count);
  };
  gather(rows.qkv, 0, key_dim);
  gather(rows.qkv, key_dim, key_dim);
  gather(rows.qkv, 2 * key_dim, value_rows);
  gather(rows.z, 2 * key_dim + value_rows, value_rows);
  for (std::int64_t head = 0; head < config.linear_key_heads; ++head) {
    append_range(rows.b, 2 * values_a_key * head, values_a_key);
    append_range(rows.a, 2 * values_a_key * head + values_a_key, values_a_key);
  }
  return rows;
}

std::string data_digest(std::span<const std::byte> data, bool whole) {
  if (whole || data.size() <= kDigestPieces * kDigestPieceBytes) return digest(data);
  std::string pieces;
  const std::size_t last_begin = data.size() - kDigestPieceBytes;
  for (std::size_t i = 0; i < kDigestPieces; ++i) {
    // Evenly spaced, the first at the beginning and the last at the end.
    const auto begin = static_cast<std::size_t>(static_cast<double>(last_begin) * static_cast<double>(i) /
                                                static_cast<double>(kDigestPieces - 1));
    pieces += digest(data.subspan(std::min(begin, last_begin), kDigestPieceBytes));
  }
  return digest(std::string_view(pieces));
}

// The codes of a planned matrix with its shape, which they are checked against.
std::shared_ptr<const StoredCodes> checked_codes(const StoredCodes& stored, const PlannedTensor& planned,
                                                 const std::filesystem::path& directory) {
  if (planned.shape.size() != 2)
    throw input_error(directory.string(), fmt::format("tensor '{}' is no matrix, and stored as codes", planned.name));
  StoredCodes checked = stored;
  checked.rows = planned.shape[0];
  checked.columns = planned.shape[1];
  const std::vector<std::int64_t> codes = {checked.rows,
                                           packed_bytes(checked.columns, code_bits_of(checked.codec.format))};
  const std::vector<std::int64_t> scales = {checked.rows, scales_a_row(checked.codec, checked.columns)};
  for (const auto& [part, wanted] : {std::pair{&checked.codes, &codes}, std::pair{&checked.scales, &scales}})
    if (part->shape != *wanted)
      throw input_error(
          fmt::format("{}: tensor '{}'", directory.string(), part->name),
          fmt::format("has shape {}, config.json demands {}", shape_text(part->shape), shape_text(*wanted)));
  return std::make_shared<const StoredCodes>(std::move(checked));
}

// File names of the shards, from the index; the map tensor -> file is checked against them.
std::map<std::string, std::string> read_index(const std::filesystem::path& path) {
  const std::string where = path.string();
  const SortedJson index = parse_sorted_json(read_text_file(path), where);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    throw input_error(where, "has no weight_map object");
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    if (!file.is_string()) throw input_error(where, fmt::format("weight_map['{}'] must be a file name", tensor));
    const std::string name = file.get<std::string>();
    const std::filesystem::path as_path(name);
    if (name.empty() || as_path.filename().string() != name || name == "." || name == "..")
      throw input_error(where, fmt::format("weight_map['{}'] is '{}', not a file name", tensor, name));
    files.emplace(tensor, name);
  }
  if (files.empty()) throw input_error(where, "weight_map is empty");
  return files;
}

}  // namespace

HuggingFaceCheckpoint::HuggingFaceCheckpoint(const std::filesystem::path& directory)
    : directory_(directory), config_(read_model_config(directory)) {
  const std::filesystem::path file = directory / "config.json";
  const Json config = read_json_file(file);
  if (config.contains("quantization_config"))
    quantisation_ = read_quantisation(config["quantization_config"], file.string() + ": quantization_config");
  open_shards();
  name_tensors();
  read_codes();
  split_fused();
  check_plan();
}

void HuggingFaceCheckpoint::open_shards() {
  const std::filesystem::path single = directory_ / "model.safetensors";
  const std::filesystem::path index_path = directory_ / "model.safetensors.index.json";
  if (std::filesystem::exists(single)) {
    shards_.emplace_back(single);
    return;
  }
  if (!std::filesystem::exists(index_path)) {
    std::set<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory_))
      if (entry.path().extension() == ".safetensors") files.insert(entry.path());
    if (files.empty()) throw input_error(directory_.string(), "has no *.safetensors file");
    for (const std::filesystem::path& file : files) shards_.emplace_back(file);
    return;
  }
  const std::map<std::string, std::string> index = read_index(index_path);
  std::map<std::string, std::size_t> opened;
  for (const auto& [tensor, file] : index) {
    if (!opened.contains(file)) {
      if (!std::filesystem::exists(directory_ / file))
        throw input_error((directory_ / file).string(),
                          fmt::format("this shard is missing; {} names it", index_path.filename().string()),
                          "download the whole model again");
      opened.emplace(file, shards_.size());
      shards_.emplace_back(directory_ / file);
    }
    const SafetensorsFile& shard = shards_[opened.at(file)];
    if (!shard.has(tensor))
      throw input_error(shard.path().string(),
                        fmt::format("has no tensor '{}', but {} says so", tensor, index_path.filename().string()));
  }
}

// Fills sources_ under canonical names, vision left out.
void HuggingFaceCheckpoint::name_tensors() {
  std::map<std::string, Source> files;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    for (const std::string& name : shards_[i].names()) {
      const auto [found, added] = files.try_emplace(name, Source{i, name, {}, shards_[i].tensor(name).shape});
      if (!added)
        throw input_error(
            shards_[i].path().string(),
            fmt::format("tensor '{}' is also in {}", name, shards_[found->second.shard].path().filename().string()));
    }
  }
  std::optional<std::string_view> body;
  for (const std::string_view prefix : kBodyPrefixes)
    if (!body && files.contains(std::string(prefix) + "embed_tokens.weight")) body = prefix;
  if (!body)
    throw input_error(directory_.string(),
                      "has no embed_tokens.weight under model.language_model., model. or "
                      "language_model.model.");
  for (auto& [name, source] : files) {
    if (without_prefix(name, kVisionPrefixes)) continue;
    std::string canonical;
    if (const auto mtp = without_prefix(name, kMtpPrefixes)) {
      if (config_.mtp_layers == 0) continue;
      canonical = "mtp." + *mtp;
    } else if (const auto [whole, part] = split_part(name);
               std::find(kHeadNames.begin(), kHeadNames.end(), whole) != kHeadNames.end()) {
      if (config_.tie_word_embeddings) continue;
      canonical = "lm_head.weight" + part;
    } else if (name.starts_with(*body)) {
      canonical = name.substr(body->size());
    } else {
      throw input_error(place(source), "is not a tensor of this model family");
    }
    if (is_redundant(canonical)) continue;
    const auto [found, added] = sources_.try_emplace(canonical, source);
    if (!added) throw input_error(place(source), fmt::format("is the same as '{}'", found->second.name));
  }
  const bool any_mtp =
      std::any_of(sources_.begin(), sources_.end(), [](const auto& named) { return named.first.starts_with("mtp."); });
  if (!any_mtp) config_.mtp_layers = 0;
}

// Takes the parts of tensors that are stored as codes out of sources_.
void HuggingFaceCheckpoint::read_codes() {
  if (!quantisation_) return;
  for (const auto& [name, codec] : quantisation_->codecs) {
    const auto part = [&, &name = name](const std::string& suffix, Dtype dtype) {  // clang 14: bindings by name only
      const auto found = sources_.find(name + suffix);
      if (found == sources_.end())
        throw input_error(directory_.string(), fmt::format("tensor '{}{}' is missing", name, suffix),
                          "config.json says that this tensor is stored as codes");
      Tensor tensor = shards_[found->second.shard].tensor(found->second.name);
      if (tensor.dtype != dtype)
        throw input_error(place(found->second),
                          fmt::format("is {}, must be {}", dtype_name(tensor.dtype), dtype_name(dtype)));
      sources_.erase(found);
      return tensor;
    };
    StoredCodes stored;
    stored.codec = codec;
    stored.codes = part(kCodesSuffix, Dtype::kU8);
    const bool bytes = has_tensor_scale(codec);
    stored.scales = part(kScalesSuffix, bytes ? Dtype::kF8E4M3 : Dtype::kF16);
    if (bytes) {
      const Tensor scale = part(kTensorScaleSuffix, Dtype::kF32);
      const std::vector<float> value = to_floats(scale);
      if (value.size() != 1 || !(value[0] > 0))
        throw input_error(directory_.string() + ": " + scale.name, "must be one positive number");
      stored.tensor_scale = value[0];
    }
    codes_.emplace(name, std::make_shared<const StoredCodes>(std::move(stored)));
  }
}

void HuggingFaceCheckpoint::split_fused() {
  using Parts = std::initializer_list<std::pair<const char*, const std::vector<std::int64_t>*>>;
  const auto fused = [&](const std::string& layer, const char* name, std::int64_t rows) {
    const auto found = sources_.find(layer + name);
    if (found != sources_.end()) check_shape(found->second, {rows, config_.hidden_size});
    return found != sources_.end();
  };
  const auto split = [&](const std::string& name, const std::string& layer, Parts parts) {
    const Source whole = sources_.at(name);
    for (const auto& [part, rows] : parts) {
      Source source = whole;
      source.rows = *rows;
      source.shape = {static_cast<std::int64_t>(rows->size()), config_.hidden_size};
      if (!sources_.try_emplace(layer + part, source).second)
        throw input_error(place(whole), fmt::format("is fused, but {}{} is there too", layer, part));
    }
    sources_.erase(name);
  };
  for (std::int64_t i = 0; i < config_.layer_count(); ++i) {
    const std::string layer = fmt::format("layers.{}.", i);
    if (fused(layer, kFusedProjections, config_.conv_channels() + config_.linear_value_channels())) {
      const FusedRows rows = fused_rows(config_);
      split(layer + kFusedProjections, layer,
            {{"linear_attn.in_proj_qkv.weight", &rows.qkv}, {"linear_attn.in_proj_z.weight", &rows.z}});
    }
    if (fused(layer, kFusedGates, 2 * config_.linear_value_heads)) {
      const FusedRows rows = fused_rows(config_);
      split(layer + kFusedGates, layer,
            {{"linear_attn.in_proj_b.weight", &rows.b}, {"linear_attn.in_proj_a.weight", &rows.a}});
    }
  }
}

void HuggingFaceCheckpoint::check_shape(const Source& source, const std::vector<std::int64_t>& wanted) const {
  if (source.shape != wanted)
    throw input_error(place(source), fmt::format("has shape {}, config.json demands {}", shape_text(source.shape),
                                                 shape_text(wanted)));
}

void HuggingFaceCheckpoint::check_dtype(const Source& source) const {
  const Dtype dtype = shards_[source.shard].tensor(source.name).dtype;
  for (const Dtype known : {Dtype::kBF16, Dtype::kF16, Dtype::kF32, Dtype::kF64})
    if (dtype == known) return;
  throw input_error(place(source), fmt::format("holds {}, weights must be BF16, F16, F32 or F64", dtype_name(dtype)),
                    "quantised checkpoints of other programs are not read");
}

// Everything the configuration demands is there in its shape, and nothing else.
void HuggingFaceCheckpoint::check_plan() {
  for (const PlannedTensor& planned : plan_tensors(config_)) {
    const auto found = sources_.find(planned.name);
    const auto coded = codes_.find(planned.name);
    if (coded != codes_.end()) {
      coded->second = checked_codes(*coded->second, planned, directory_);
      if (found == sources_.end()) {
        names_.push_back(planned.name);
        continue;
      }
    }
    if (found == sources_.end())
      throw input_error(directory_.string(),
                        fmt::format("tensor '{}' {} is missing", planned.name, shape_text(planned.shape)),
                        "config.json demands it; is the download complete?");
    check_shape(found->second, planned.shape);
    check_dtype(found->second);
    names_.push_back(planned.name);
  }
  for (const auto& [name, stored] : codes_)
    if (stored->rows == 0)
      throw input_error(directory_.string() + ": quantization_config.tensors",
                        fmt::format("'{}' is not a tensor of the model that config.json describes", name));
  const std::set<std::string> known(names_.begin(), names_.end());
  for (const auto& [name, source] : sources_)
    if (!known.contains(name))
      throw input_error(place(source), "is not a tensor of the model that config.json describes",
                        "does config.json belong to these weights?");
}

std::vector<std::int64_t> HuggingFaceCheckpoint::shape(const std::string& name) const {
  const auto coded = codes_.find(name);
  if (coded != codes_.end()) return {coded->second->rows, coded->second->columns};
  return tensor(name).shape;
}

std::shared_ptr<const StoredCodes> HuggingFaceCheckpoint::codes(const std::string& name) const {
  const auto found = codes_.find(name);
  return found == codes_.end() ? nullptr : found->second;
}

std::string HuggingFaceCheckpoint::place(const Source& source) const {
  return fmt::format("{}: tensor '{}'", shards_[source.shard].path().string(), source.name);
}

std::string HuggingFaceCheckpoint::digest() const {
  std::uint64_t total = 0;
  for (const SafetensorsFile& shard : shards_) total += shard.data_bytes().size();
  std::string parts = digest_file(directory_ / "config.json");
  const std::filesystem::path generation = directory_ / "generation_config.json";
  if (std::filesystem::exists(generation)) parts += digest_file(generation);
  for (const SafetensorsFile& shard : shards_)
    parts += tare::digest(shard.header_bytes()) + data_digest(shard.data_bytes(), total < kDigestWhole);
  return tare::digest(std::string_view(parts));
}

Tensor HuggingFaceCheckpoint::tensor(const std::string& name) const {
  const auto found = sources_.find(name);
  if (found == sources_.end() && codes_.contains(name))
    throw input_error(directory_.string(),
                      fmt::format("tensor '{}' is stored as codes; its own numbers are not here", name),
                      "give the checkpoint that it was quantised from");
  if (found == sources_.end()) throw input_error(directory_.string(), fmt::format("has no tensor '{}'", name));
  const Source& source = found->second;
  Tensor tensor = shards_[source.shard].tensor(source.name);
  if (!source.rows.empty()) {
    const std::size_t row_bytes = static_cast<std::size_t>(source.shape[1]) * dtype_bytes(tensor.dtype);
    auto gathered = std::make_shared<std::vector<std::byte>>(source.rows.size() * row_bytes);
    for (std::size_t i = 0; i < source.rows.size(); ++i)
      std::memcpy(gathered->data() + i * row_bytes,
                  tensor.bytes.data() + static_cast<std::size_t>(source.rows[i]) * row_bytes, row_bytes);
    tensor.bytes = *gathered;
    tensor.shape = source.shape;
    tensor.storage = std::move(gathered);
  }
  tensor.name = name;
  return tensor;
}

}  // namespace tare::engine

#include "engine/quantize/quantise_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>

#include "base/error.h"
#include "base/file.h"
#include "base/json_reader.h"
#include "engine/backend/tensor_class.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/stored_codes.h"
#include "engine/checkpoint/stored_quantisation.h"
#include "engine/formats/absmax.h"

namespace tare::engine {
namespace {

namespace fs = std::filesystem;

// What a model's directory may hold beside config.json and its weights, and a reader of it needs.
constexpr std::array<const char*, 9> kCopied = {"tokenizer.json",
                                                "tokenizer_config.json",
                                                "generation_config.json",
                                                "vocab.json",
                                                "merges.txt",
                                                "special_tokens_map.json",
                                                "added_tokens.json",
                                                "chat_template.jinja",
                                                "token_counts.safetensors"};

std::uint64_t bytes_of(const Tensor& tensor) {
  return tensor.bytes.size();
}

Tensor owning(std::string name, Dtype dtype, std::vector<std::int64_t> shape, std::vector<std::byte> bytes) {
  const auto storage = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.bytes = *storage;
  tensor.storage = storage;
  return tensor;
}

// As text-only exports call it.
std::string name_in_file(const std::string& canonical) {
  return canonical.starts_with("lm_head.") || canonical.starts_with("mtp.") ? canonical : "model." + canonical;
}

float absmax_of_tensor(const Tensor& tensor, ThreadPool& pool) {
  std::vector<float> most(static_cast<std::size_t>(pool.size()));
  pool.parallel_for(static_cast<std::size_t>(tensor.shape[0]), 1, [&](int thread, std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      float& largest = most[static_cast<std::size_t>(thread)];
      largest = std::max(largest, absmax_of(to_floats(tensor.rows(static_cast<std::int64_t>(row), 1))));
    }
  });
  return *std::max_element(most.begin(), most.end());
}

// The tensors that hold a matrix's codes.
std::vector<Tensor> code_tensors(const Tensor& tensor, WeightCodec codec, ThreadPool& pool) {
  const std::int64_t rows = tensor.shape[0];
  const std::int64_t columns = tensor.shape[1];
  const int bits = code_bits_of(codec.format);
  const std::int64_t row_bytes = packed_bytes(columns, bits);
  const std::int64_t row_scales = scales_a_row(codec, columns);
  const std::size_t scale_size = scale_bytes(codec);
  const std::size_t a_group = scales_a_group(codec.format);
  const bool scaled = has_tensor_scale(codec);
  const float tensor_scale = scaled ? tensor_scale_of(codec.format, absmax_of_tensor(tensor, pool)) : 1.0F;
  std::vector<std::byte> codes(static_cast<std::size_t>(rows * row_bytes));
  std::vector<std::byte> scales(static_cast<std::size_t>(rows * row_scales) * scale_size);
  const auto encode_row = [&](std::int64_t row) {
    const std::vector<float> values = to_floats(tensor.rows(row, 1));
    for (std::int64_t group = 0; group < group_count(columns); ++group) {
      const auto begin = static_cast<std::size_t>(group * kGroupSize);
      const std::size_t count = std::min(values.size() - begin, static_cast<std::size_t>(kGroupSize));
      const EncodedGroup encoded = encode_weights(codec, tensor_scale, std::span(values).subspan(begin, count));
      std::byte* out = codes.data() + row * row_bytes + packed_bytes(group * kGroupSize, bits);
      pack_fields(std::span(encoded.fields).first(count), bits,
                  {reinterpret_cast<std::uint8_t*>(out),
                   static_cast<std::size_t>(packed_bytes(static_cast<std::int64_t>(count), bits))});
      const auto first = static_cast<std::int64_t>(static_cast<std::size_t>(group) * a_group);
      for (std::int64_t i = first; i < std::min(row_scales, first + static_cast<std::int64_t>(a_group)); ++i)
        std::memcpy(scales.data() + static_cast<std::size_t>(row * row_scales + i) * scale_size,
                    &encoded.scales[static_cast<std::size_t>(i - first)], scale_size);
    }
  };
  pool.parallel_for(static_cast<std::size_t>(rows), 1, [&](int, std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      try {
        encode_row(static_cast<std::int64_t>(row));
      } catch (const Error& error) {
        if (error.parts().where.empty()) throw error.within("tensor " + tensor.name);
        throw;
      }
    }
  });
  const std::string name = name_in_file(tensor.name);
  std::vector<Tensor> parts;
  parts.push_back(owning(name + kCodesSuffix, Dtype::kU8, {rows, row_bytes}, std::move(codes)));
  parts.push_back(
      owning(name + kScalesSuffix, scaled ? Dtype::kF8E4M3 : Dtype::kF16, {rows, row_scales}, std::move(scales)));
  if (scaled) {
    std::vector<std::byte> scale(sizeof(tensor_scale));
    std::memcpy(scale.data(), &tensor_scale, sizeof(tensor_scale));
    parts.push_back(owning(name + kTensorScaleSuffix, Dtype::kF32, {1}, std::move(scale)));
  }
  return parts;
}

// Collects tensors and writes a shard when it is full. How many there will be is known at the end only, so shards have
// passing names until then.
class ShardWriter {
 public:
  ShardWriter(fs::path directory, std::uint64_t shard_bytes)
      : directory_(std::move(directory)), shard_bytes_(shard_bytes) {}

  void add(Tensor tensor) {
    const std::uint64_t size = bytes_of(tensor);
    if (waiting_bytes_ > 0 && waiting_bytes_ + size > shard_bytes_) flush();
    waiting_bytes_ += size;
    total_ += size;
    waiting_.push_back(std::move(tensor));
  }
  // Names of the files, and the index beside them where there are several.
  std::vector<std::string> finish() {
    flush();
    std::vector<std::string> files;
    Json weight_map = Json::object();
    for (std::size_t i = 0; i < shards_.size(); ++i) {
      files.push_back(shards_.size() == 1 ? std::string("model.safetensors")
                                          : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards_.size()));
      fs::rename(passing_name(i), directory_ / files.back());
      for (const std::string& name : shards_[i]) weight_map[name] = files.back();
    }
    if (files.size() > 1) {
      const Json index = {{"metadata", {{"total_size", total_}}}, {"weight_map", std::move(weight_map)}};
      write_file_atomically(directory_ / "model.safetensors.index.json", index.dump(2) + "\n");
    }
    return files;
  }
  [[nodiscard]] std::uint64_t total() const { return total_; }

 private:
  fs::path directory_;
  std::uint64_t shard_bytes_;
  std::vector<Tensor> waiting_;
  std::uint64_t waiting_bytes_ = 0;
  std::uint64_t total_ = 0;
  std::vector<std::vector<std::string>> shards_;

  [[nodiscard]] fs::path passing_name(std::size_t index) const {
    return directory_ / fmt::format("part-{}.unfinished", index);
  }
  void flush() {
    if (waiting_.empty()) return;
    write_safetensors(passing_name(shards_.size()), waiting_, {{"format", "pt"}});
    std::vector<std::string>& names = shards_.emplace_back();
    for (const Tensor& tensor : waiting_) names.push_back(tensor.name);
    waiting_.clear();
    waiting_bytes_ = 0;
  }
};

// Codecs of all tensors that will be codes.
StoredQuantisation plan_of(const Checkpoint& checkpoint, const EngineOptions& options) {
  if (checkpoint.directory().empty())
    throw input_error("--model", "a synthetic model has no files to quantise",
                      "weights.format quantises it where it is made");
  if (checkpoint.quantisation() != nullptr) throw input_error("--model", "the checkpoint is quantised already");
  for (const WeightOverride& entry : options.weights.overrides)
    if (entry.tensors == TensorClass::kDrafter)
      throw input_error("weights.overrides", "a drafter is not part of this checkpoint");
  StoredQuantisation plan;
  plan.weights = to_json(options)["weights"];
  plan.excluded = excluded_modules(checkpoint.config());
  for (const std::string& name : checkpoint.names()) {
    const WeightCodec codec = normalized(codec_of_tensor(options, checkpoint.config(), name));
    if (codec.format != WeightFormat::kBF16) plan.codecs.emplace(name, codec);
  }
  if (plan.codecs.empty())
    throw input_error("weights", "leave every tensor as it is", "for example --set weights.format=q4");
  return plan;
}

void make_empty_directory(const fs::path& directory) {
  if (fs::exists(directory) && !(fs::is_directory(directory) && fs::is_empty(directory)))
    throw input_error(directory.string(), "is there already and not an empty directory", "name another directory");
  std::error_code failed;
  fs::create_directories(directory, failed);
  if (failed) throw Error(ErrorKind::kEnvironment, "cannot be made: " + failed.message(), directory.string());
}

}  // namespace

QuantisedFiles quantise_checkpoint(const Checkpoint& checkpoint, const EngineOptions& options,
                                   const fs::path& directory, ThreadPool& pool, std::uint64_t shard_bytes,
                                   const std::function<void(std::uint64_t, std::uint64_t)>& tell) {
  const StoredQuantisation plan = plan_of(checkpoint, options);
  make_empty_directory(directory);
  QuantisedFiles result;
  const std::vector<std::string> names = checkpoint.names();
  std::uint64_t elements = 0;
  std::uint64_t done = 0;
  for (const std::string& name : names) {
    std::uint64_t product = 1;
    for (const std::int64_t extent : checkpoint.shape(name)) product *= static_cast<std::uint64_t>(extent);
    elements += product;
  }
  ShardWriter writer(directory, shard_bytes);
  const bool tied = checkpoint.config().tie_word_embeddings;
  for (const std::string& name : names) {
    Tensor tensor = checkpoint.tensor(name);
    result.bytes_before += bytes_of(tensor);
    ++result.tensors;
    done += static_cast<std::uint64_t>(tensor.element_count());
    const auto codec = plan.codecs.find(name);
    if (codec != plan.codecs.end()) {
      ++result.coded;
      for (Tensor& part : code_tensors(tensor, codec->second, pool)) writer.add(std::move(part));
    }
    if (codec == plan.codecs.end() || (tied && name == "embed_tokens.weight")) {
      tensor.name = name_in_file(name);
      writer.add(std::move(tensor));
    }
    if (tell) tell(done, elements);
  }
  result.shards = writer.finish();
  result.bytes = writer.total();
  for (const char* file : kCopied) {
    if (!fs::is_regular_file(checkpoint.directory() / file)) continue;
    fs::copy_file(checkpoint.directory() / file, directory / file);
    result.copied.emplace_back(file);
  }
  // Last, so that what is cut off is no model.
  Json config = read_json_file(checkpoint.directory() / "config.json");
  config["quantization_config"] = to_json(plan);
  write_file_atomically(directory / "config.json", config.dump(2) + "\n");
  (void)with_stored_weights({}, *open_checkpoint(directory.string()));  // what was written is what will be read
  return result;
}

}  // namespace tare::engine

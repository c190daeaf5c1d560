#include "engine/speculate/block_drafter_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/synthetic.h"

namespace tare::engine {
namespace {

// The public drafters of the 27B (model specification, 7.2).
constexpr std::int64_t kLayers = 5;
constexpr std::int64_t kHeads = 32;
constexpr std::int64_t kKeyValueHeads = 8;
constexpr std::int64_t kHeadDim = 128;
constexpr std::int64_t kBlock = 16;
constexpr double kTheta = 1e7;

constexpr std::string_view kPrefix = "model.";
constexpr const char* kIndependentOfWeights = "rotary_emb.inv_freq";

std::map<std::string, PlannedTensor> plan_by_name(const BlockDrafterConfig& config) {
  std::map<std::string, PlannedTensor> planned;
  for (PlannedTensor& tensor : plan_block_drafter(config)) planned.emplace(tensor.name, std::move(tensor));
  return planned;
}

class DrafterDirectory final : public BlockDrafterCheckpoint {
 public:
  DrafterDirectory(const std::filesystem::path& directory, const ModelConfig& target)
      : directory_(directory.string()), config_(read_block_drafter_config(directory, target)) {
    std::vector<std::filesystem::path> paths;
    const std::filesystem::path single = directory / "model.safetensors";
    if (std::filesystem::exists(single)) {
      paths.push_back(single);
    } else {
      for (const auto& entry : std::filesystem::directory_iterator(directory))
        if (entry.path().extension() == ".safetensors") paths.push_back(entry.path());
    }
    if (paths.empty()) throw input_error(directory_, "has no *.safetensors");
    std::sort(paths.begin(), paths.end());
    for (const std::filesystem::path& path : paths) shards_.emplace_back(path);
    name_tensors();
    check_plan();
  }

  const BlockDrafterConfig& config() const override { return config_; }
  bool has(const std::string& name) const override { return sources_.contains(name); }
  Tensor tensor(const std::string& name) const override {
    const auto found = sources_.find(name);
    if (found == sources_.end()) throw input_error(directory_, fmt::format("has no tensor '{}'", name));
    Tensor tensor = shards_[found->second.shard].tensor(found->second.name);
    tensor.name = name;
    return tensor;
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, source] : sources_) names.push_back(name);
    return names;
  }

 private:
  struct Source {
    std::size_t shard = 0;
    std::string name;  // in the file
  };
  std::string directory_;
  BlockDrafterConfig config_;
  std::vector<SafetensorsFile> shards_;
  std::map<std::string, Source> sources_;

  void name_tensors() {
    for (std::size_t shard = 0; shard < shards_.size(); ++shard) {
      for (const std::string& name : shards_[shard].names()) {
        if (name.ends_with(kIndependentOfWeights)) continue;
        const std::string plain = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
        if (!sources_.emplace(plain, Source{shard, name}).second)
          throw input_error(directory_, fmt::format("has tensor '{}' twice", plain));
      }
    }
  }
  void check_plan() const {
    const std::map<std::string, PlannedTensor> planned = plan_by_name(config_);
    for (const auto& [name, tensor] : planned) (void)expect(name, tensor.shape);
    for (const auto& [name, source] : sources_) {
      if (!planned.contains(name))
        throw input_error(directory_, fmt::format("has a tensor '{}', which no DFlash drafter has", source.name));
    }
  }
};

BlockDrafterConfig synthetic_config(const ModelConfig& target) {
  if (target.layer_count() < kLayers) {
    throw input_error("speculate.drafter",
                      fmt::format("a synthetic drafter reads {} of the target's layers, which has {}", kLayers,
                                  target.layer_count()));
  }
  BlockDrafterConfig config;
  config.hidden_size = target.hidden_size;
  config.intermediate_size = target.intermediate_size;
  config.vocab_size = target.vocab_size;
  config.heads = kHeads;
  config.key_value_heads = kKeyValueHeads;
  config.head_dim = kHeadDim;
  config.rope_theta = kTheta;
  config.eps = target.rms_norm_eps;
  config.block_size = kBlock;
  config.mask_token = static_cast<std::int32_t>(target.vocab_size - 1);
  config.taps = default_taps(target.layer_count(), kLayers);
  config.layers.resize(static_cast<std::size_t>(kLayers));
  return config;
}

class SyntheticDrafter final : public BlockDrafterCheckpoint, public SyntheticRecipes {
 public:
  explicit SyntheticDrafter(const SyntheticCheckpoint& target)
      : seed_(target.seed()), config_(synthetic_config(target.config())), planned_(plan_by_name(config_)) {}

  const BlockDrafterConfig& config() const override { return config_; }
  bool has(const std::string& name) const override { return planned_.contains(name); }
  Tensor tensor(const std::string& name) const override { return make_synthetic_tensor(planned(name), recipe(name)); }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : planned_) names.push_back(name);
    return names;
  }
  std::vector<std::int64_t> shape(const std::string& name) const override { return planned(name).shape; }
  SyntheticRecipe recipe(const std::string& name) const override {
    return make_recipe(seed_, "drafter." + name, planned(name), config_.layer_count());
  }

 private:
  std::uint64_t seed_;
  BlockDrafterConfig config_;
  std::map<std::string, PlannedTensor> planned_;

  const PlannedTensor& planned(const std::string& name) const {
    const auto found = planned_.find(name);
    if (found == planned_.end()) throw input_error("synthetic drafter", fmt::format("has no tensor '{}'", name));
    return found->second;
  }
};

}  // namespace

std::unique_ptr<BlockDrafterCheckpoint> open_block_drafter(const std::string& drafter, const Checkpoint& target) {
  if (drafter == kSyntheticDrafter) {
    const auto* synthetic = dynamic_cast<const SyntheticCheckpoint*>(&target);
    if (synthetic == nullptr) {
      throw input_error("speculate.drafter", "'synthetic' needs a synthetic: model",
                        "give the directory of a block drafter");
    }
    return std::make_unique<SyntheticDrafter>(*synthetic);
  }
  const std::filesystem::path beside = target.directory() / drafter;
  const std::filesystem::path directory =
      std::filesystem::is_directory(drafter) ? std::filesystem::path(drafter) : beside;
  if (drafter.empty() || !std::filesystem::is_directory(directory)) {
    throw input_error("speculate.drafter",
                      fmt::format("'{}' is not a directory, nor one in the model's directory", drafter),
                      "none, mtp, synthetic (synthetic: models), or a directory with config.json and *.safetensors");
  }
  return std::make_unique<DrafterDirectory>(directory, target.config());
}

}  // namespace tare::engine

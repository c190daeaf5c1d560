// A Hugging Face model directory: config.json, one safetensors file or shards with an index, in any of the prefixes in
// which the family is published.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/stored_codes.h"
#include "engine/checkpoint/stored_quantisation.h"

namespace tare::engine {

// Text tensors are found under model.language_model., model. or language_model.model., the head under lm_head. or
// language_model.lm_head., the MTP head under mtp. or model.mtp.; vision tensors are left out. Every tensor that the
// configuration demands must be there in its shape, and nothing else may be (a tensor that nobody reads would be a
// model other than the one computed); a second head beside tied embeddings and rotary_emb.inv_freq are known to be
// redundant. A file without any MTP tensor is a model without an MTP head, whatever config.json says (text-only exports
// drop it). Files: model.safetensors if there, else the shards of model.safetensors.index.json, else all *.safetensors.
// A checkpoint of tare quantize has quantization_config in its config.json; its quantised tensors are there as codes (a
// tied embedding as codes and as it was).
class HuggingFaceCheckpoint final : public Checkpoint {
 public:
  // Throws Error (input) naming file, field or tensor.
  explicit HuggingFaceCheckpoint(const std::filesystem::path& directory);

  [[nodiscard]] const ModelConfig& config() const override { return config_; }
  [[nodiscard]] std::string digest() const override;
  [[nodiscard]] std::filesystem::path directory() const override { return directory_; }
  [[nodiscard]] bool has(const std::string& name) const override {
    return sources_.contains(name) || codes_.contains(name);
  }
  [[nodiscard]] Tensor tensor(const std::string& name) const override;
  [[nodiscard]] std::vector<std::string> names() const override { return names_; }
  [[nodiscard]] std::vector<std::int64_t> shape(const std::string& name) const override;
  [[nodiscard]] std::shared_ptr<const StoredCodes> codes(const std::string& name) const override;
  [[nodiscard]] const StoredQuantisation* quantisation() const override {
    return quantisation_ ? &*quantisation_ : nullptr;
  }

 private:
  // Where a canonical tensor comes from: a tensor of a shard, or rows of a fused one.
  struct Source {
    std::size_t shard = 0;
    std::string name;                 // in the file
    std::vector<std::int64_t> rows;   // of the fused tensor, in order; empty: the whole tensor
    std::vector<std::int64_t> shape;  // as presented
  };

  std::filesystem::path directory_;
  ModelConfig config_;
  std::vector<SafetensorsFile> shards_;
  std::map<std::string, Source> sources_;
  std::optional<StoredQuantisation> quantisation_;
  std::map<std::string, std::shared_ptr<const StoredCodes>> codes_;
  std::vector<std::string> names_;

  void open_shards();
  void name_tensors();
  void read_codes();
  void split_fused();
  void check_plan();
  void check_shape(const Source& source, const std::vector<std::int64_t>& wanted) const;
  void check_dtype(const Source& source) const;
  [[nodiscard]] std::string place(const Source& source) const;
};

}  // namespace tare::engine

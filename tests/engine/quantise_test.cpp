// What tare quantize writes: read back, it is what a backend makes at load, bit for bit; what must not be quantised is
// not; a fold of norms keeps the gain 1 + w. Each with a planted fault that is caught.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "base/digest.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_reader.h"
#include "engine/backend/tensor_class.h"
#include "engine/checkpoint/stored_codes.h"
#include "engine/checkpoint/stored_quantisation.h"
#include "engine/checkpoint/tensor_plan.h"
#include "engine/cpu/model_weights.h"
#include "engine/quantize/norm_fold.h"
#include "engine/quantize/quantise_checkpoint.h"
#include "tests/engine/cpu_fixture.h"
#include "tests/engine/cpu_reference_model.h"
#include "tests/engine/scratch_directory.h"
#include "tests/error_of.h"

namespace tare::engine::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

EngineOptions with(std::initializer_list<const char*> assignments) {
  EngineOptions options = exact_options();
  for (const char* assignment : assignments) apply_option(options, assignment);
  return options;
}

// A digest of every packed matrix of the model, and of the gains beside them.
std::string digest_of(const ModelWeights& weights) {
  std::string parts;
  const auto add = [&](const Projection& projection) {
    const PackedMatrix& matrix = projection.matrix;
    parts += to_text(matrix.format()) + to_text(matrix.codec().scales);
    for (std::int64_t panel = 0; panel < matrix.panels(); ++panel) {
      parts += digest(std::span(matrix.panel(panel), static_cast<std::size_t>(matrix.bytes_per_panel())));
      if (matrix.row_scales(panel) != nullptr)
        parts += digest(std::as_bytes(std::span(matrix.row_scales(panel), static_cast<std::size_t>(kPanelRows))));
    }
  };
  for (const LayerWeights& layer : weights.layers) {
    parts += digest(std::as_bytes(layer.input_norm.span())) + digest(std::as_bytes(layer.post_norm.span()));
    for (const Projection* projection : {&layer.gate, &layer.up, &layer.down}) add(*projection);
    if (layer.gdn)
      for (const Projection* projection : {&layer.gdn->qkv, &layer.gdn->z, &layer.gdn->beta_and_decay, &layer.gdn->out})
        add(*projection);
    if (layer.attention)
      for (const Projection* projection :
           {&layer.attention->q, &layer.attention->k, &layer.attention->v, &layer.attention->out})
        add(*projection);
  }
  add(weights.head);
  return digest(std::string_view(parts + digest(std::as_bytes(weights.embedding.span()))));
}

std::string packed_digest(const Checkpoint& checkpoint, const EngineOptions& options) {
  ThreadPool pool(2);
  return digest_of(load_model_weights(checkpoint, with_stored_weights(options, checkpoint), pool));
}

class Quantise : public testing::Test {
 protected:
  ScratchDirectory scratch_;
  int written_ = 0;

  fs::path write(const Checkpoint& checkpoint, const EngineOptions& options, std::uint64_t shard_bytes = kShardBytes) {
    const fs::path out = scratch_.path() / fmt::format("out-{}", written_++);
    ThreadPool pool(2);
    files_ = quantise_checkpoint(checkpoint, options, out, pool, shard_bytes);
    return out;
  }
  QuantisedFiles files_;
};

// Formats, scales, layer ranges, short groups (hybrid-small: 48 and 80 columns), a tied head (the embedded model).
TEST_F(Quantise, GivesTheBitsOfQuantisingAtLoad) {
  const std::vector<EngineOptions> variants = {
      with({"weights.format=q4"}),
      with({"weights.format=nvfp4"}),
      with({"weights.format=q3", "weights.scales=e4m3"}),
      with({"weights.format=fp8"}),
      with({"weights.format=q5", "weights.scales=e4m3"}),
      with(
          {"weights.format=q8",
           R"(weights.overrides=[{"tensors": "mlp", "layers": [1, 2], "format": "q5"}, {"tensors": "gdn", "format": "bf16"},
               {"tensors": "head", "format": "nvfp4"}])"})};
  for (const std::string& model : {fixture("hybrid-small").string(), fixture("hybrid-headdim256").string(),
                                   (source_folder() / "models" / "embedded").string()}) {
    const auto original = open_checkpoint(model);
    const std::vector<std::int32_t> tokens = {5, 9, 2, 77, 31, 8, 120, 64};
    std::set<std::string> digests;
    for (const EngineOptions& options : variants) {
      const auto stored = open_checkpoint(write(*original, options).string());
      EXPECT_LT(files_.bytes, files_.bytes_before);
      const std::string at_load = packed_digest(*original, options);
      EXPECT_EQ(packed_digest(*stored, exact_options()), at_load) << model;  // weights left alone
      EXPECT_EQ(packed_digest(*stored, options), at_load) << model;          // the same weights asked for
      digests.insert(at_load);
      const auto from_codes = make_cpu_backend(*stored, exact_options());
      const auto from_weights = make_cpu_backend(*original, options);
      EXPECT_EQ(to_json(from_codes->options())["weights"], to_json(options)["weights"]);
      const Captured a = capture_prefill(*from_codes, tokens);
      const Captured b = capture_prefill(*from_weights, tokens);
      EXPECT_TRUE(same_bits(a.logits, b.logits)) << model;
      EXPECT_EQ(from_codes->inventory(10, 1).bytes_per_round(), from_weights->inventory(10, 1).bytes_per_round());
      EXPECT_NE(stored->digest(), original->digest());
    }
    EXPECT_EQ(digests.size(), variants.size());  // the digest tells codecs apart
  }
}

TEST_F(Quantise, ShardsAndIndexAreReadLikeOneFile) {
  const auto original = open_checkpoint(fixture("hybrid-headdim256").string());
  const EngineOptions options = with({"weights.format=q4"});
  const auto cut = open_checkpoint(write(*original, options, 100'000).string());
  EXPECT_GT(files_.shards.size(), 3U);
  EXPECT_EQ(packed_digest(*cut, exact_options()), packed_digest(*original, options));
  const auto whole = open_checkpoint(write(*original, options).string());
  EXPECT_THAT(files_.shards, testing::ElementsAre("model.safetensors"));
}

TEST_F(Quantise, CopiesTheTokenizerAndKeepsTheConfiguration) {
  const fs::path model = source_folder() / "models" / "embedded";
  const fs::path out = write(*open_checkpoint(model.string()), with({"weights.format=q4"}));
  EXPECT_THAT(files_.copied, testing::Contains("tokenizer.json"));
  EXPECT_EQ(read_text_file(out / "tokenizer.json"), read_text_file(model / "tokenizer.json"));
  Json config = read_json_file(out / "config.json");
  EXPECT_EQ(config["quantization_config"]["quant_method"], "tare");
  config.erase("quantization_config");
  EXPECT_EQ(config, read_json_file(model / "config.json"));
}

TEST_F(Quantise, ADamagedCodeChangesTheDigest) {  // the control of the digests above
  const auto original = open_checkpoint(fixture("hybrid-small").string());
  const EngineOptions options = with({"weights.format=q4"});
  const fs::path out = write(*original, options);
  std::fstream file(out / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const char last = static_cast<char>(file.get() ^ 0x11);
  file.seekp(-1, std::ios::end);
  file.put(last);
  file.close();
  EXPECT_NE(packed_digest(*open_checkpoint(out.string()), exact_options()), packed_digest(*original, options));
}

// Every tensor of the plan is either of a class or excluded, and the excluded ones are these.
TEST(TensorClasses, NameWhatIsNeverQuantised) {
  for (const char* model : {"hybrid-small", "hybrid-headdim256"}) {
    const auto checkpoint = open_checkpoint(fixture(model).string());
    const ModelConfig& config = checkpoint->config();
    std::vector<std::string> expected = {
        "embed_tokens", "input_layernorm",          "in_proj_b", "in_proj_a", "conv1d", "A_log", "dt_bias",
        "norm",         "post_attention_layernorm", "q_norm",    "k_norm"};
    if (config.tie_word_embeddings) expected.erase(expected.begin());
    if (config.mtp_layers > 0) expected.insert(expected.end(), {"pre_fc_norm_embedding", "pre_fc_norm_hidden"});
    EXPECT_THAT(excluded_modules(config), testing::UnorderedElementsAreArray(expected)) << model;
    for (const PlannedTensor& planned : plan_tensors(config)) {
      const bool projection = planned.role == TensorRole::kProjection ||
                              planned.role == TensorRole::kResidualProjection || planned.role == TensorRole::kHead;
      const bool gate = planned.name.ends_with("in_proj_a.weight") || planned.name.ends_with("in_proj_b.weight");
      const bool tied = planned.role == TensorRole::kEmbedding && config.tie_word_embeddings;
      EXPECT_EQ(class_of_tensor(planned.name, config).has_value(), (projection && !gate) || tied) << planned.name;
    }
  }
}

// Where excluded modules appear: the CPU's inventory, the files written, what a file may say.
TEST_F(Quantise, ExcludedModulesStayAsTheyAreEverywhere) {
  const auto original = open_checkpoint(fixture("hybrid-headdim256").string());
  const EngineOptions options = with({"weights.format=q4"});
  const auto excluded = [&](const std::string& name) { return !class_of_tensor(name, original->config()); };
  std::size_t seen = 0;
  for (const InventoryEntry& entry : make_cpu_backend(*original, options)->inventory(1, 1).entries)
    if (entry.pattern == AccessPattern::kStream && entry.bytes_per_round > 0 &&
        excluded(entry.tensor.substr(0, entry.tensor.find(" + ")))) {
      EXPECT_NE(entry.format, "q4") << entry.tensor;
      ++seen;
    }
  EXPECT_GT(seen, 10U);
  const fs::path out = write(*original, options);
  const auto stored = open_checkpoint(out.string());
  for (const std::string& name : original->names()) {
    EXPECT_EQ(stored->codes(name) == nullptr, excluded(name)) << name;
    if (!excluded(name)) continue;
    const Tensor kept = stored->tensor(name);
    EXPECT_EQ(kept.dtype, original->tensor(name).dtype);
    EXPECT_TRUE(std::ranges::equal(kept.bytes, original->tensor(name).bytes)) << name;
  }
  // Planted: a file that says a gate projection is stored as codes, one whose list forgets it, one of another codec.
  const auto edited = [&](const std::function<void(Json&)>& edit) {
    Json config = read_json_file(out / "config.json");
    edit(config["quantization_config"]);
    const fs::path copy = scratch_.path() / fmt::format("edited-{}", written_++);
    fs::copy(out, copy);
    std::ofstream(copy / "config.json") << config.dump();
    return copy;
  };
  const auto forgets = edited([](Json& json) {
    Json kept = Json::array();
    for (const Json& module : json["modules_to_not_convert"])
      if (module != "in_proj_a") kept.push_back(module);
    json["modules_to_not_convert"] = kept;
  });
  const ErrorParts forgotten =
      error_of([&] { (void)make_cpu_backend(*open_checkpoint(forgets.string()), exact_options()); }).parts();
  EXPECT_THAT(forgotten.where, HasSubstr("modules_to_not_convert"));
  EXPECT_THAT(forgotten.what, HasSubstr("in_proj_a"));
  const auto claims = edited([](Json& json) {
    const Json codec = json["tensors"]["layers.0.linear_attn.in_proj_z.weight"];
    json["tensors"]["layers.0.linear_attn.in_proj_a.weight"] = codec;
  });
  EXPECT_THAT(error_of([&] { (void)open_checkpoint(claims.string()); }).parts().what,
              HasSubstr("in_proj_a.weight.codes"));
  const auto lies = edited([](Json& json) { json["weights"]["format"] = "q8"; });
  EXPECT_THAT(error_of([&] { (void)make_cpu_backend(*open_checkpoint(lies.string()), exact_options()); }).parts().what,
              HasSubstr("is stored as q4 with fp16 scales"));
  const auto foreign = edited([](Json& json) { json["quant_method"] = "fp8"; });
  EXPECT_THAT(error_of([&] { (void)open_checkpoint(foreign.string()); }).parts().where,
              HasSubstr("quantization_config"));
}

// The same excluded tensor really stored as codes, by a writer that has another idea of what to quantise.
TEST_F(Quantise, AWriterThatQuantisesAGateIsCaught) {
  class Misnamed final : public Checkpoint {  // in_proj_a as codes, whatever tensor_class.h says
   public:
    explicit Misnamed(std::unique_ptr<Checkpoint> inner)
        : inner_(std::move(inner)), quantisation_(*inner_->quantisation()) {
      quantisation_.codecs["layers.0.linear_attn.in_proj_a.weight"] = {WeightFormat::kQ4};
    }
    const ModelConfig& config() const override { return inner_->config(); }
    std::string digest() const override { return inner_->digest(); }
    bool has(const std::string& name) const override { return inner_->has(name); }
    std::vector<std::string> names() const override { return inner_->names(); }
    Tensor tensor(const std::string& name) const override { return inner_->tensor(name); }
    std::shared_ptr<const StoredCodes> codes(const std::string& name) const override { return inner_->codes(name); }
    const StoredQuantisation* quantisation() const override { return &quantisation_; }

   private:
    std::unique_ptr<Checkpoint> inner_;
    StoredQuantisation quantisation_;
  };
  const auto original = open_checkpoint(fixture("hybrid-small").string());
  const Misnamed misnamed(open_checkpoint(write(*original, with({"weights.format=q4"})).string()));
  EXPECT_THAT(error_of([&] { (void)with_stored_weights({}, misnamed); }).parts().what, HasSubstr("is never quantised"));
}

TEST_F(Quantise, OtherWeightsOfAQuantisedCheckpointAreRefused) {
  const auto original = open_checkpoint(fixture("hybrid-small").string());
  const auto stored = open_checkpoint(write(*original, with({"weights.format=q4"})).string());
  EXPECT_EQ(error_of([&] { (void)make_cpu_backend(*stored, with({"weights.format=q8"})); }).parts().where, "weights");
  EXPECT_EQ(error_of([&] { (void)make_cpu_backend(*stored, with({"weights.scales=e4m3"})); }).parts().where, "weights");
  // Overrides of a drafter are not about this checkpoint.
  const EngineOptions drafts =
      with_stored_weights(with({R"(weights.overrides=[{"tensors": "drafter", "format": "q8"}])"}), *stored);
  EXPECT_EQ(drafts.format_of(TensorClass::kMlp, 0), WeightFormat::kQ4);
  EXPECT_EQ(drafts.format_of(TensorClass::kDrafter, 0), WeightFormat::kQ8);
  // A screen of other bits needs the head's own numbers.
  EXPECT_THAT(error_of([&] { (void)make_cpu_backend(*stored, with({"head.screen=q3"})); }).parts().what,
              HasSubstr("stored as codes"));
}

TEST_F(Quantise, WhatCannotBeWrittenIsRefused) {
  const auto original = open_checkpoint(fixture("hybrid-small").string());
  ThreadPool pool(1);
  const auto refused = [&](const Checkpoint& checkpoint, const EngineOptions& options, const fs::path& out) {
    return error_of([&] { (void)quantise_checkpoint(checkpoint, options, out, pool); }).parts();
  };
  const fs::path out = scratch_.path() / "new";
  EXPECT_THAT(refused(*original, exact_options(), out).what, HasSubstr("as it is"));
  EXPECT_THAT(refused(*open_checkpoint("synthetic:0.8b?seed=1"), with({"weights.format=q4"}), out).what,
              HasSubstr("no files"));
  EXPECT_THAT(refused(*original, with({"weights.format=q4"}), fixture("hybrid-small")).what, HasSubstr("not an empty"));
  EXPECT_THAT(refused(*original, with({R"(weights.overrides=[{"tensors": "drafter", "format": "q8"}])"}), out).what,
              HasSubstr("drafter"));
  const auto stored = open_checkpoint(write(*original, with({"weights.format=q4"})).string());
  EXPECT_THAT(refused(*stored, with({"weights.format=q4"}), out).what, HasSubstr("already"));
  EXPECT_FALSE(fs::exists(out / "config.json"));
}

// Norms changed after the fold, as faults that others had.
class WrongFold final : public Checkpoint {
 public:
  enum class Fault { kNormsOfOne, kGainWithoutOne };
  WrongFold(const Checkpoint& original, Fault fault) : original_(original), folded_(original), fault_(fault) {}
  const ModelConfig& config() const override { return original_.config(); }
  std::string digest() const override { return folded_.digest(); }
  bool has(const std::string& name) const override { return original_.has(name); }
  std::vector<std::string> names() const override { return original_.names(); }
  Tensor tensor(const std::string& name) const override {
    Tensor tensor = folded_.tensor(name);
    const bool norm = name.ends_with("input_layernorm.weight") || name.ends_with("post_attention_layernorm.weight");
    const std::string from = folded_norm_of(name);
    std::vector<float> values = to_floats(tensor);
    if (fault_ == Fault::kNormsOfOne && norm) {
      values.assign(values.size(), 1.0F);  // "a gain of one", in a family that adds one
    } else if (fault_ == Fault::kGainWithoutOne && !from.empty()) {
      values = to_floats(original_.tensor(name));
      const std::vector<float> gain = to_floats(original_.tensor(from));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] *= gain[i % gain.size()];
    } else {
      return tensor;
    }
    const auto storage = std::make_shared<std::vector<float>>(std::move(values));
    tensor.dtype = Dtype::kF32;
    tensor.bytes = std::as_bytes(std::span(*storage));
    tensor.storage = storage;
    return tensor;
  }

 private:
  const Checkpoint& original_;
  NormFoldedCheckpoint folded_;
  Fault fault_;
};

TEST(NormFold, KeepsTheFunctionBecauseItsGainIsOnePlusW) {
  for (const char* model : {"hybrid-small", "hybrid-headdim256"}) {
    const auto original = open_checkpoint(fixture(model).string());
    const std::vector<std::int32_t> text = Golden(fixture(model) / "golden-97.safetensors").tokens;
    const std::span<const std::int32_t> tokens = std::span(text).first(24);
    const auto as_it_is = [](const std::string&, std::vector<float>&, std::size_t) {};
    const auto logits_of = [&](const Checkpoint& checkpoint) {
      return ReferenceModel(checkpoint, as_it_is).logits(tokens);
    };
    const std::vector<Doubles> expected = logits_of(*original);
    const auto difference = [&](const Checkpoint& checkpoint) {
      const std::vector<Doubles> actual = logits_of(checkpoint);
      double most = 0;
      for (std::size_t t = 0; t < actual.size(); ++t)
        for (std::size_t i = 0; i < actual[t].size(); ++i)
          most = std::max(most, std::fabs(actual[t][i] - expected[t][i]));
      return most;
    };
    EXPECT_LT(difference(NormFoldedCheckpoint(*original)), 1e-4) << model;  // the folded products' FP32 rounding
    EXPECT_GT(difference(WrongFold(*original, WrongFold::Fault::kNormsOfOne)), 0.1) << model;
    EXPECT_GT(difference(WrongFold(*original, WrongFold::Fault::kGainWithoutOne)), 0.1) << model;
    const NormFoldedCheckpoint folded(*original);
    EXPECT_THAT(to_floats(folded.tensor("layers.0.input_layernorm.weight")), testing::Each(0.0F));
    EXPECT_TRUE(std::ranges::equal(folded.tensor("norm.weight").bytes, original->tensor("norm.weight").bytes));
    EXPECT_NE(folded.digest(), original->digest());
  }
}

TEST_F(Quantise, AFoldedCheckpointIsStoredWithItsFoldedCodes) {
  const auto original = open_checkpoint(fixture("hybrid-headdim256").string());
  const NormFoldedCheckpoint folded(*original);
  const EngineOptions options = with({"weights.format=q8"});
  const auto stored = open_checkpoint(write(folded, options).string());
  EXPECT_EQ(packed_digest(*stored, exact_options()), packed_digest(folded, options));
  EXPECT_NE(packed_digest(*stored, exact_options()), packed_digest(*original, options));
}

}  // namespace
}  // namespace tare::engine::test

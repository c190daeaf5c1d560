// Model directories: fixtures and the embedded model open, every published prefix is found, and what is missing, wrong
// or surplus is named.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/engine/model_files.h"

namespace tare::engine {
namespace {

using Shape = std::vector<std::int64_t>;

const std::string kInputNorm = "model.layers.1.input_layernorm.weight";

// A model directory of small_config() and the tensors given.
class SmallModel {
 public:
  explicit SmallModel(std::vector<Tensor> tensors = small_tensors(), const Json& config = small_config()) {
    write_config(path(), config);
    write_safetensors(path() / "model.safetensors", tensors);
  }

  [[nodiscard]] const std::filesystem::path& path() const { return scratch_.path(); }
  [[nodiscard]] std::unique_ptr<Checkpoint> open() const { return open_checkpoint(path().string()); }
  void expect_refused_at(const std::string& where, const std::string& what) const {
    expect_refused([&] { static_cast<void>(open()); }, where, what);
  }

 private:
  ScratchDirectory scratch_;
};

std::vector<Tensor> with(std::vector<Tensor> tensors, const std::string& name,
                         const std::function<void(Tensor&)>& change) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& tensor) { return tensor.name == name; });
  EXPECT_NE(found, tensors.end()) << name;
  change(*found);
  return tensors;
}

std::vector<Tensor> without(std::vector<Tensor> tensors, const std::string& part) {
  std::erase_if(tensors, [&](const Tensor& tensor) { return tensor.name.find(part) != std::string::npos; });
  return tensors;
}

std::vector<Tensor> plus(std::vector<Tensor> tensors, const std::string& name) {
  tensors.push_back(make_tensor(name, Dtype::kBF16, {2}, "1234"));
  return tensors;
}

void expect_same_tensors(const Checkpoint& left, const Checkpoint& right) {
  EXPECT_EQ(left.names(), right.names());
  for (const std::string& name : right.names()) {
    const Tensor tensor = left.tensor(name);
    EXPECT_EQ(tensor.name, name);
    EXPECT_EQ(tensor.shape, right.tensor(name).shape) << name;
    EXPECT_EQ(bytes_text(tensor), bytes_text(right.tensor(name))) << name;
  }
}

TEST(ModelDirectory, TheFixturesOfTransformersOpen) {
  const auto small = open_checkpoint((kFixtures / "hybrid-small").string());
  EXPECT_EQ(small->config().layer_count(), 8);
  EXPECT_EQ(small->config().mtp_layers, 0);
  EXPECT_EQ(small->names().size(), 109U);
  EXPECT_EQ(small->expect("layers.3.self_attn.q_proj.weight", {192, 48}).dtype, Dtype::kBF16);
  const auto large = open_checkpoint((kFixtures / "hybrid-headdim256").string());
  EXPECT_EQ(large->config().head_dim, 256);
  EXPECT_EQ(large->config().rotary_dim, 64);
  EXPECT_EQ(large->expect("layers.0.linear_attn.conv1d.weight", {1280, 1, 4}).element_count(), 5120);
  for (const std::string& name : large->names()) EXPECT_FALSE(to_floats(large->tensor(name)).empty());
}

TEST(ModelDirectory, TheEmbeddingOfAFixtureIsTheGoldensFirstHiddenState) {
  const auto model = open_checkpoint((kFixtures / "hybrid-small").string());
  const SafetensorsFile golden(kFixtures / "hybrid-small/golden-97.safetensors");
  const std::vector<float> embedding = to_floats(model->tensor("embed_tokens.weight"));
  const std::vector<float> hidden = to_floats(golden.tensor("hidden.0"));
  const Tensor ids = golden.tensor("input_ids");
  for (std::size_t position = 0; position < 97; ++position) {
    std::int32_t id = 0;
    std::memcpy(&id, ids.bytes.data() + position * sizeof(id), sizeof(id));
    for (std::size_t i = 0; i < 48; ++i)
      EXPECT_EQ(hidden[position * 48 + i], embedding[static_cast<std::size_t>(id) * 48 + i]);
  }
}

TEST(ModelDirectory, TheEmbeddedModelOpensFromItsShards) {
  const auto model = open_checkpoint((std::filesystem::path(TARE_SOURCE_DIR) / "models/embedded").string());
  EXPECT_EQ(model->config().hidden_size, 256);
  EXPECT_EQ(model->config().mtp_layers, 1);
  std::int64_t parameters = 0;
  for (const std::string& name : model->names()) parameters += model->tensor(name).element_count();
  EXPECT_EQ(parameters, 12'300'080);
}

TEST(ModelDirectory, EveryPublishedPrefixIsFound) {
  const auto wanted = small_model();
  struct Prefixes {
    std::string body, head, mtp;
  };
  for (const Prefixes& prefixes :
       {Prefixes{"model.", "lm_head", "mtp."}, Prefixes{"model.language_model.", "lm_head", "mtp."},
        Prefixes{"language_model.model.", "language_model.lm_head", "mtp."},
        Prefixes{"model.", "lm_head", "model.mtp."}}) {
    std::vector<Tensor> tensors;
    for (const std::string& name : wanted->names()) {
      tensors.push_back(wanted->tensor(name));
      if (name.starts_with("mtp."))
        tensors.back().name = prefixes.mtp + name.substr(4);
      else
        tensors.back().name = name == "lm_head.weight" ? prefixes.head + ".weight" : prefixes.body + name;
    }
    const SmallModel model(tensors);
    expect_same_tensors(*model.open(), *wanted);
  }
}

TEST(ModelDirectory, VisionAndRedundantTensorsAreLeftOut) {
  std::vector<Tensor> tensors = plus(small_tensors(), "model.visual.patch_embed.proj.weight");
  tensors = plus(plus(tensors, "visual.merger.norm.bias"), "model.layers.3.self_attn.rotary_emb.inv_freq");
  const SmallModel model(tensors);
  expect_same_tensors(*model.open(), *small_model());
}

TEST(ModelDirectory, TiedEmbeddingsHaveNoHeadOfTheirOwn) {
  Json config = small_config();
  config["tie_word_embeddings"] = true;
  const SmallModel with_copy(small_tensors(), config);
  EXPECT_FALSE(with_copy.open()->has("lm_head.weight"));
  const SmallModel plain(without(small_tensors(), "lm_head"), config);
  EXPECT_FALSE(plain.open()->has("lm_head.weight"));
  SmallModel(without(small_tensors(), "lm_head")).expect_refused_at("", "tensor 'lm_head.weight' [64, 16] is missing");
}

TEST(ModelDirectory, AnMtpHeadIsThereWholeOrNotAtAll) {
  const SmallModel dropped(without(small_tensors(), "mtp."));
  EXPECT_EQ(dropped.open()->config().mtp_layers, 0);
  SmallModel(without(small_tensors(), "mtp.fc")).expect_refused_at("", "tensor 'mtp.fc.weight' [16, 32] is missing");
  Json config = small_config();
  config["mtp_num_hidden_layers"] = 0;
  EXPECT_FALSE(SmallModel(small_tensors(), config).open()->has("mtp.fc.weight"));
}

TEST(ModelDirectory, AWrongShapeIsNamedWithFoundAndWanted) {
  const auto halve = [](Tensor& tensor) {
    tensor.shape = {8};
    tensor.bytes = tensor.bytes.subspan(0, 16);
  };
  SmallModel(with(small_tensors(), kInputNorm, halve))
      .expect_refused_at("tensor '" + kInputNorm + "'", "has shape [8], config.json demands [16]");
  const auto transpose = [](Tensor& tensor) { std::swap(tensor.shape[0], tensor.shape[1]); };
  SmallModel(with(small_tensors(), "model.layers.0.mlp.down_proj.weight", transpose))
      .expect_refused_at("down_proj", "has shape [24, 16], config.json demands [16, 24]");
}

TEST(ModelDirectory, MissingAndSurplusTensorsAreNamed) {
  SmallModel(without(small_tensors(), "layers.2.linear_attn.A_log"))
      .expect_refused_at("", "tensor 'layers.2.linear_attn.A_log' [6] is missing");
  SmallModel(plus(small_tensors(), "model.layers.0.mlp.gate_proj.bias"))
      .expect_refused_at("tensor 'model.layers.0.mlp.gate_proj.bias'", "is not a tensor of the model");
  SmallModel(plus(small_tensors(), "transformer.h.0.weight"))
      .expect_refused_at("transformer.h.0", "not a tensor of this");
  SmallModel(without(small_tensors(), "embed_tokens")).expect_refused_at("", "has no embed_tokens.weight");
  SmallModel(plus(small_tensors(), "language_model.lm_head.weight")).expect_refused_at("lm_head", "is the same as");
}

TEST(ModelDirectory, WeightsOfOtherDtypesAreRefused) {
  const auto eight_bits = [](Tensor& tensor) {
    tensor.dtype = Dtype::kF8E4M3;
    tensor.bytes = tensor.bytes.subspan(0, 16);
  };
  SmallModel(with(small_tensors(), kInputNorm, eight_bits)).expect_refused_at(kInputNorm, "holds F8_E4M3");
}

TEST(ModelDirectory, Float32AndFloat16WeightsAreFine) {
  const auto widen = [](Tensor& tensor) {
    const std::string bytes = raw_bytes(to_floats(tensor));
    tensor = make_tensor(tensor.name, Dtype::kF32, tensor.shape, bytes);
  };
  const SmallModel model(with(small_tensors(), "model.layers.0.linear_attn.A_log", widen));
  const Tensor tensor = model.open()->tensor("layers.0.linear_attn.A_log");
  EXPECT_EQ(tensor.dtype, Dtype::kF32);
  EXPECT_EQ(to_floats(tensor), to_floats(small_model()->tensor("layers.0.linear_attn.A_log")));
}

TEST(ModelDirectory, ANanWeightIsFoundWithItsTensorWhenItIsWidened) {
  const auto spoil = [](Tensor& tensor) {
    std::string bytes = bytes_text(tensor);
    bytes[10] = static_cast<char>(0xC0);
    bytes[11] = 0x7F;
    tensor = make_tensor(tensor.name, tensor.dtype, tensor.shape, bytes);
  };
  const SmallModel model(with(small_tensors(), kInputNorm, spoil));
  const auto checkpoint = model.open();
  expect_refused([&] { static_cast<void>(to_floats(checkpoint->tensor("layers.1.input_layernorm.weight"))); },
                 "tensor 'layers.1.input_layernorm.weight'", "element 5 is NaN");
}

TEST(ModelDirectory, FusedProjectionsArePresentedSplit) {
  // Model specification, section 2.5, row by row: 2 key heads of 4, 3 value heads of 5 a key head.
  const auto wanted = small_model();
  std::vector<Tensor> tensors;
  const auto row_of = [](const Tensor& tensor, std::int64_t row) {
    return bytes_text(tensor).substr(static_cast<std::size_t>(row) * 32, 32);
  };
  for (const std::string& name : wanted->names()) {
    if (name.find("in_proj_") == std::string::npos) {
      tensors.push_back(wanted->tensor(name));
      tensors.back().name = text_only_name(name);
    }
  }
  for (const std::string layer : {"layers.0.", "layers.1.", "layers.2."}) {
    const Tensor qkv = wanted->tensor(layer + "linear_attn.in_proj_qkv.weight");
    const Tensor z = wanted->tensor(layer + "linear_attn.in_proj_z.weight");
    const Tensor b = wanted->tensor(layer + "linear_attn.in_proj_b.weight");
    const Tensor a = wanted->tensor(layer + "linear_attn.in_proj_a.weight");
    std::string projections;
    std::string gates;
    for (std::int64_t head = 0; head < 2; ++head) {
      for (std::int64_t i = 0; i < 4; ++i) projections += row_of(qkv, head * 4 + i);         // q
      for (std::int64_t i = 0; i < 4; ++i) projections += row_of(qkv, 8 + head * 4 + i);     // k
      for (std::int64_t i = 0; i < 15; ++i) projections += row_of(qkv, 16 + head * 15 + i);  // v
      for (std::int64_t i = 0; i < 15; ++i) projections += row_of(z, head * 15 + i);
      for (std::int64_t i = 0; i < 3; ++i) gates += row_of(b, head * 3 + i);
      for (std::int64_t i = 0; i < 3; ++i) gates += row_of(a, head * 3 + i);
    }
    tensors.push_back(
        make_tensor("model." + layer + "linear_attn.in_proj_qkvz.weight", Dtype::kBF16, {76, 16}, projections));
    tensors.push_back(make_tensor("model." + layer + "linear_attn.in_proj_ba.weight", Dtype::kBF16, {12, 16}, gates));
  }
  const SmallModel model(tensors);
  expect_same_tensors(*model.open(), *wanted);

  const auto cut = [](Tensor& tensor) {
    tensor.shape = {11, 16};
    tensor.bytes = tensor.bytes.subspan(0, 11 * 32);
  };
  SmallModel(with(tensors, "model.layers.1.linear_attn.in_proj_ba.weight", cut))
      .expect_refused_at("in_proj_ba", "has shape [11, 16], config.json demands [12, 16]");
  tensors.push_back(wanted->tensor("layers.0.linear_attn.in_proj_z.weight"));
  tensors.back().name = "model.layers.0.linear_attn.in_proj_z.weight";
  SmallModel(tensors).expect_refused_at("in_proj_qkvz",
                                        "is fused, but layers.0.linear_attn.in_proj_z.weight is there too");
}

// A sharded copy of the small model; every test spoils one thing.
class ShardedModel : public testing::Test {
 protected:
  ShardedModel() {
    write_config(path(), small_config());
    std::vector<Tensor> tensors = small_tensors();
    const auto middle = tensors.begin() + static_cast<std::ptrdiff_t>(tensors.size() / 2);
    write_safetensors(path() / kFirst, std::vector<Tensor>(tensors.begin(), middle));
    write_safetensors(path() / kSecond, std::vector<Tensor>(middle, tensors.end()));
    for (auto tensor = tensors.begin(); tensor != tensors.end(); ++tensor)
      index["weight_map"][tensor->name] = tensor < middle ? kFirst : kSecond;
  }

  const char* const kFirst = "model-00001-of-00002.safetensors";
  const char* const kSecond = "model-00002-of-00002.safetensors";
  ScratchDirectory scratch;
  Json index = {{"metadata", {{"total_size", 1}}}, {"weight_map", Json::object()}};

  [[nodiscard]] const std::filesystem::path& path() const { return scratch.path(); }
  [[nodiscard]] std::unique_ptr<Checkpoint> open() const {
    write_file_atomically(path() / "model.safetensors.index.json", index.dump());
    return open_checkpoint(path().string());
  }
  void expect_refused_at(const std::string& where, const std::string& what) const {
    expect_refused([&] { static_cast<void>(open()); }, where, what);
  }
};

TEST_F(ShardedModel, IsTheModelOfOneFile) {
  expect_same_tensors(*open(), *small_model());
}

TEST_F(ShardedModel, OpensWithoutAnIndex) {
  expect_same_tensors(*open_checkpoint(path().string()), *small_model());
}

TEST_F(ShardedModel, AMissingShardIsNamed) {
  std::filesystem::remove(path() / kSecond);
  expect_refused_at(kSecond, "this shard is missing");
}

TEST_F(ShardedModel, ATruncatedShardIsNamed) {
  const std::string whole = read_text_file(path() / kSecond);
  write_file_atomically(path() / kSecond, std::string_view(whole).substr(0, whole.size() - 1));
  expect_refused_at(kSecond, "beyond the file");
}

TEST_F(ShardedModel, ATensorThatIsNotInItsShardIsNamed) {
  index["weight_map"]["model.embed_tokens.weight"] = kSecond;
  expect_refused_at(kSecond, "has no tensor 'model.embed_tokens.weight'");
}

TEST_F(ShardedModel, ATensorInTwoShardsIsNamed) {
  std::filesystem::copy_file(path() / kFirst, path() / "model-00003.safetensors");
  expect_refused([&] { static_cast<void>(open_checkpoint(path().string())); }, "model-00003.safetensors", "is also in");
}

TEST_F(ShardedModel, ShardsOutsideTheDirectoryAreRefused) {
  for (const char* file : {"../other.safetensors", "/etc/passwd", "", "..", "a/b.safetensors"}) {
    index["weight_map"]["model.embed_tokens.weight"] = file;
    expect_refused_at("index.json", "not a file name");
  }
}

TEST_F(ShardedModel, ABadIndexIsRefused) {
  index["weight_map"]["model.embed_tokens.weight"] = 5;
  expect_refused_at("index.json", "must be a file name");
  index["weight_map"] = Json::object();
  expect_refused_at("index.json", "is empty");
  index.erase("weight_map");
  expect_refused_at("index.json", "has no weight_map");
}

TEST(ModelDirectory, ADirectoryWithoutWeightsOrConfigIsRefused) {
  const ScratchDirectory scratch;
  const auto refused = [&](const std::string& where, const std::string& what) {
    expect_refused([&] { static_cast<void>(open_checkpoint(scratch.path().string())); }, where, what);
  };
  refused("config.json", "is not there");
  write_config(scratch.path(), small_config());
  refused(scratch.path().string(), "has no *.safetensors file");
  expect_refused([&] { static_cast<void>(open_checkpoint((scratch.path() / "absent").string())); }, "absent",
                 "is not a model directory");
}

TEST(ModelDirectory, TheDigestNamesConfigAndEveryByteOfData) {
  const std::string digest = SmallModel().open()->digest();
  EXPECT_EQ(digest.size(), 32U);
  EXPECT_EQ(SmallModel().open()->digest(), digest);
  const auto flip = [](Tensor& tensor) {
    std::string bytes = bytes_text(tensor);
    bytes[0] = static_cast<char>(bytes[0] ^ 1);
    tensor = make_tensor(tensor.name, tensor.dtype, tensor.shape, bytes);
  };
  for (const std::string& name : {kInputNorm, std::string("lm_head.weight"), std::string("mtp.norm.weight")})
    EXPECT_NE(SmallModel(with(small_tensors(), name, flip)).open()->digest(), digest) << name;
  Json config = small_config();
  config["rms_norm_eps"] = 1e-5;
  EXPECT_NE(SmallModel(small_tensors(), config).open()->digest(), digest);
  const SmallModel generating;
  write_file_atomically(generating.path() / "generation_config.json", R"({"eos_token_id": 7})");
  EXPECT_NE(generating.open()->digest(), digest);
}

// A model whose embedding takes more than 1 GB, in a file with a hole: nearly nothing lies on the disk.
class LargeModel {
 public:
  LargeModel() {
    constexpr std::int64_t kVocabulary = 40'000'000;
    Json config = small_config();
    config["vocab_size"] = kVocabulary;
    config["tie_word_embeddings"] = true;
    write_config(scratch_.path(), config);
    std::vector<Tensor> tensors = without(without(small_tensors(), "lm_head"), "embed_tokens");
    Json header = Json::object();
    header["model.embed_tokens.weight"] = {
        {"dtype", "BF16"}, {"shape", {kVocabulary, 16}}, {"data_offsets", {0, kVocabulary * 32}}};
    std::int64_t offset = kVocabulary * 32;
    std::string rest;
    for (const Tensor& tensor : tensors) {
      const std::int64_t end = offset + static_cast<std::int64_t>(tensor.bytes.size());
      header[tensor.name] = {
          {"dtype", dtype_name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
      rest += bytes_text(tensor);
      offset = end;
    }
    const std::string head = safetensors_bytes(header.dump(), "");
    data_begin_ = static_cast<std::int64_t>(head.size());
    std::ofstream file(path(), std::ios::binary);
    file << head;
    file.seekp(data_begin_ + kVocabulary * 32);
    file << rest;
  }

  void write_at(std::int64_t offset_in_data, char byte) const {
    std::fstream file(path(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(data_begin_ + offset_in_data);
    file.put(byte);
  }
  [[nodiscard]] std::string digest() const { return open_checkpoint(scratch_.path().string())->digest(); }

 private:
  ScratchDirectory scratch_;
  std::int64_t data_begin_ = 0;

  [[nodiscard]] std::filesystem::path path() const { return scratch_.path() / "model.safetensors"; }
};

TEST(ModelDirectory, TheDigestOfALargeModelSamplesItsData) {
  const LargeModel model;
  const std::string digest = model.digest();
  model.write_at(5'000'000, 1);  // between the first two of 64 pieces of 1 MB
  EXPECT_EQ(model.digest(), digest);
  model.write_at(999'999, 1);  // the last byte of the first piece
  EXPECT_NE(model.digest(), digest);
}

TEST(ModelDirectory, ExpectChecksNameAndShape) {
  const auto model = small_model();
  EXPECT_EQ(model->expect("norm.weight", {16}).shape, (Shape{16}));
  expect_refused([&] { static_cast<void>(model->expect("norm.weight", {17})); }, "tensor 'norm.weight'",
                 "has shape [16], the model needs [17]");
  expect_refused([&] { static_cast<void>(model->expect("absent", {1})); }, "synthetic:", "has no tensor 'absent'");
}

}  // namespace
}  // namespace tare::engine

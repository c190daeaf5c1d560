// The loader: every byte it puts into device memory equals the host's, its plan equals what it allocates, and what is
// wrong with a checkpoint is said by name.
#include <gmock/gmock.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <map>

#include "base/error.h"
#include "engine/checkpoint/synthetic.h"
#include "engine/cuda/weights/model_weights.h"
#include "tests/cuda/gpu/gpu_test.h"
#include "tests/cuda/gpu/loading_oracle.h"
#include "tests/cuda/gpu/sanitized.h"
#include "tests/source_folder.h"

namespace tare::engine::test {
namespace {

class Loading : public GpuTest {};

// A checkpoint with its tensors changed as they are handed out. Not a SyntheticCheckpoint, whatever is inside: its
// tensors are uploaded.
class Altered final : public Checkpoint {
 public:
  Altered(std::unique_ptr<Checkpoint> inner, std::function<void(Tensor&)> alter)
      : inner_(std::move(inner)), alter_(std::move(alter)) {}
  const ModelConfig& config() const override { return inner_->config(); }
  std::string digest() const override { return inner_->digest(); }
  bool has(const std::string& name) const override { return inner_->has(name); }
  std::vector<std::string> names() const override { return inner_->names(); }
  Tensor tensor(const std::string& name) const override {
    Tensor tensor = inner_->tensor(name);
    alter_(tensor);
    return tensor;
  }

 private:
  std::unique_ptr<Checkpoint> inner_;
  std::function<void(Tensor&)> alter_;
};

template <class Element>
void replace(Tensor& tensor, Dtype dtype, std::vector<Element> elements) {
  auto storage = std::make_shared<std::vector<Element>>(std::move(elements));
  tensor.dtype = dtype;
  tensor.bytes = std::as_bytes(std::span<const Element>(*storage));
  tensor.storage = std::move(storage);
}

// FP32 numbers that BF16 does not hold.
void widen(Tensor& tensor) {
  std::vector<float> values = to_floats(tensor);
  for (float& value : values) value *= 1.00123F;
  replace(tensor, Dtype::kF32, std::move(values));
}
void narrow(Tensor& tensor) {
  const std::vector<float> values = to_floats(tensor);
  std::vector<std::uint16_t> halves;
  std::transform(values.begin(), values.end(), std::back_inserter(halves), float_to_float16);
  replace(tensor, Dtype::kF16, std::move(halves));
}

EngineOptions with_codec(WeightCodec codec) {
  EngineOptions options;
  options.weights.format = codec.format;
  options.weights.scales = codec.scales;
  return options;
}

std::vector<float> stacked(const Checkpoint& checkpoint, const std::vector<std::string>& names) {
  std::vector<float> values;
  for (const std::string& name : names) {
    const std::vector<float> more = to_floats(checkpoint.tensor(name));
    values.insert(values.end(), more.begin(), more.end());
  }
  return values;
}

class ModelCheck {
 public:
  ModelCheck(const Checkpoint& checkpoint, const EngineOptions& options)
      : checkpoint_(checkpoint), options_(options), weights_(load_cuda_weights(checkpoint, options)) {}

  void run() const {
    const ModelConfig& config = checkpoint_.config();
    plain(weights_.embedding, {"embed_tokens.weight"});
    gain(weights_.final_norm, "norm.weight");
    projection(weights_.head, {config.tie_word_embeddings ? "embed_tokens.weight" : "lm_head.weight"},
               TensorClass::kHead, 0);
    ASSERT_EQ(std::ssize(weights_.layers), config.layer_count());
    for (std::int64_t i = 0; i < config.layer_count(); ++i) {
      const CudaLayerWeights& layer = weights_.layers[static_cast<std::size_t>(i)];
      const std::string name = fmt::format("layers.{}.", i);
      gain(layer.input_norm, name + "input_layernorm.weight");
      gain(layer.post_norm, name + "post_attention_layernorm.weight");
      projection(layer.gate_up, {name + "mlp.gate_proj.weight", name + "mlp.up_proj.weight"}, TensorClass::kMlp, i,
                 /*alternating=*/true);
      projection(layer.down, {name + "mlp.down_proj.weight"}, TensorClass::kMlp, i);
      const bool linear = config.layers[static_cast<std::size_t>(i)] == LayerKind::kLinearAttention;
      ASSERT_EQ(layer.gdn.has_value(), linear);
      ASSERT_EQ(layer.attention.has_value(), !linear);
      linear ? gdn(*layer.gdn, name + "linear_attn.", i) : attention(*layer.attention, name + "self_attn.", i);
    }
  }

  // Bytes by part, of the buffers that are there.
  [[nodiscard]] std::map<std::string, std::uint64_t> allocated() const {
    std::map<std::string, std::uint64_t> bytes;
    bytes["embedding"] = weights_.embedding.bytes();
    bytes["head"] = weights_.head.bytes() + weights_.final_norm.bytes();
    for (const CudaLayerWeights& layer : weights_.layers) {
      bytes["mlp"] += layer.post_norm.bytes() + layer.gate_up.bytes() + layer.down.bytes();
      if (layer.gdn) {
        const CudaGdnLayerWeights& gdn = *layer.gdn;
        bytes["gdn"] += layer.input_norm.bytes() + gdn.qkvz.bytes() + gdn.gates.bytes() + gdn.out.bytes() +
                        gdn.convolution.bytes() + gdn.decay_rate.bytes() + gdn.dt_bias.bytes() + gdn.norm.bytes();
      } else {
        const CudaAttentionLayerWeights& attention = *layer.attention;
        bytes["attention"] += layer.input_norm.bytes() + attention.qkv.bytes() + attention.out.bytes() +
                              attention.q_norm.bytes() + attention.k_norm.bytes();
      }
    }
    return bytes;
  }

 private:
  const Checkpoint& checkpoint_;
  const EngineOptions& options_;
  CudaModelWeights weights_;

  void projection(const CudaProjection& found, const std::vector<std::string>& names, TensorClass tensors,
                  std::int64_t layer, bool alternating = false) const {
    const WeightCodec codec = options_.codec_of(tensors, layer);
    const std::vector<float> values = stacked(checkpoint_, names);
    std::vector<std::int64_t> parts;
    for (const std::string& name : names) parts.push_back(checkpoint_.shape(name).front());
    const std::int64_t columns = checkpoint_.tensor(names.front()).shape[1];
    EXPECT_EQ(found.names, names);
    EXPECT_EQ(found.matrix.codec(), codec) << names.front();
    EXPECT_EQ(found.matrix.columns, columns) << names.front();
    EXPECT_EQ(found.matrix.rows, std::ssize(values) / columns) << names.front();
    EXPECT_EQ(found.matrix.tiles, found.memory.data());
    EXPECT_TRUE(same_bytes(read_bytes(found.memory), host_tiles(codec, values, columns, parts, alternating)))
        << names.front() << " in " << to_text(codec);
  }
  void plain(const DeviceBuffer& found, const std::vector<std::string>& names) const {
    EXPECT_TRUE(same_bytes(read_bytes(found), host_bfloat16(stacked(checkpoint_, names)))) << names.front();
  }
  void floats(const DeviceBuffer& found, const std::string& name, const std::function<float(float)>& change) const {
    std::vector<float> values = to_floats(checkpoint_.tensor(name));
    std::transform(values.begin(), values.end(), values.begin(), change);
    EXPECT_TRUE(same_bytes(read_bytes(found), values)) << name;
  }
  void gain(const DeviceBuffer& found, const std::string& name) const {
    floats(found, name, [](float value) { return 1.0F + value; });
  }
  void gdn(const CudaGdnLayerWeights& found, const std::string& name, std::int64_t layer) const {
    projection(found.qkvz, {name + "in_proj_qkv.weight", name + "in_proj_z.weight"}, TensorClass::kGdn, layer);
    projection(found.out, {name + "out_proj.weight"}, TensorClass::kGdn, layer);
    plain(found.gates, {name + "in_proj_b.weight", name + "in_proj_a.weight"});
    const auto same = [](float value) { return value; };
    floats(found.convolution, name + "conv1d.weight", same);
    floats(found.dt_bias, name + "dt_bias", same);
    floats(found.norm, name + "norm.weight", same);
    floats(found.decay_rate, name + "A_log",
           [](float value) { return static_cast<float>(std::exp(static_cast<double>(value))); });
  }
  void attention(const CudaAttentionLayerWeights& found, const std::string& name, std::int64_t layer) const {
    projection(found.qkv, {name + "q_proj.weight", name + "k_proj.weight", name + "v_proj.weight"},
               TensorClass::kAttention, layer);
    projection(found.out, {name + "o_proj.weight"}, TensorClass::kAttention, layer);
    gain(found.q_norm, name + "q_norm.weight");
    gain(found.k_norm, name + "k_norm.weight");
  }
};

constexpr const char* kOddTied =
    "synthetic:hidden=72,intermediate=331,layers=4,vocab=1037,heads=4,kv_heads=2,head_dim=24,rotary=12,"
    "linear_key_heads=2,linear_value_heads=6,linear_key_head_dim=20,linear_value_head_dim=28,tied=1?seed=5";
constexpr const char* kUntied =
    "synthetic:hidden=256,intermediate=512,layers=5,vocab=2000,heads=4,kv_heads=2,head_dim=64,rotary=32,"
    "linear_key_heads=2,linear_value_heads=6,linear_key_head_dim=64,linear_value_head_dim=64,tied=0?seed=9";

std::vector<std::string> models() {
  return {(source_folder() / "tests/fixtures/hybrid-small").string(),
          (source_folder() / "tests/fixtures/hybrid-headdim256").string(),
          (source_folder() / "models/embedded").string(), kOddTied, kUntied};
}

// Calls `check` with each model in each format.
void for_models_and_codecs(const std::function<void(const std::string&, const Checkpoint&, WeightCodec)>& check) {
  const std::vector<std::string> all = models();
  for (std::size_t model = 0; model < all.size(); ++model) {
    SCOPED_TRACE(all[model]);
    const std::unique_ptr<Checkpoint> checkpoint = open_checkpoint(all[model]);
    std::size_t codec = 0;
    for (const WeightCodec& format : kAllCodecs)
      if (has_turn("models a format", model, codec++, all.size())) check(all[model], *checkpoint, format);
  }
}

TEST_F(Loading, EveryByteIsTheHostsInEveryFormat) {
  for_models_and_codecs([](const std::string&, const Checkpoint& checkpoint, WeightCodec codec) {
    const EngineOptions options = with_codec(codec);
    ModelCheck(checkpoint, options).run();
  });
}

TEST_F(Loading, OverridesChooseTheFormatOfEachMatrix) {
  EngineOptions options = with_codec(WeightFormat::kQ4);
  options.weights.overrides = {{TensorClass::kMlp, 1, 2, WeightFormat::kQ3},
                               {TensorClass::kGdn, 0, 0, WeightFormat::kQ8},
                               {TensorClass::kAttention, 3, 3, WeightFormat::kFP8},
                               {TensorClass::kHead, 0, 0, WeightFormat::kBF16}};
  const std::unique_ptr<Checkpoint> checkpoint = open_checkpoint(kOddTied);
  ModelCheck(*checkpoint, options).run();
}

TEST_F(Loading, WiderTensorsAreEncodedFromAllTheirBits) {
  for (const WeightCodec codec : kAllCodecs) {
    const Altered checkpoint(open_checkpoint(kUntied), [](Tensor& tensor) {
      // One part of each stack, so that its BF16 neighbours are widened with it; and a few in FP16.
      const auto is = [&](const char* text) { return tensor.name.find(text) != std::string::npos; };
      if (is("in_proj_z") || is("k_proj") || is("up_proj") || is("layers.0.mlp.down_proj") || is("lm_head") ||
          is("in_proj_a") || is("A_log") || is("linear_attn.norm"))
        widen(tensor);
      if (is("o_proj") || is("conv1d") || is("embed_tokens")) narrow(tensor);
    });
    const EngineOptions options = with_codec(codec);
    ModelCheck(checkpoint, options).run();
  }
}

// A vocabulary that needs several runs of rows: 128 MB hold 65,536 rows of 1,024 BF16 numbers, half as many FP32.
TEST_F(Loading, LargeMatricesAreLoadedInRuns) {
  constexpr const char* kModel =
      "synthetic:hidden=1024,intermediate=64,layers=1,vocab=70003,heads=2,kv_heads=1,head_dim=32,rotary=16,"
      "linear_key_heads=1,linear_value_heads=2,linear_key_head_dim=32,linear_value_head_dim=32,tied=0?seed=4";
  const auto made = open_checkpoint(kModel);
  const EngineOptions options = with_codec(WeightFormat::kQ4);
  const CudaModelWeights on_device = load_cuda_weights(*made, options);
  const CudaModelWeights uploaded = load_cuda_weights(Altered(open_checkpoint(kModel), [](Tensor&) {}), options);
  const CudaModelWeights wide = load_cuda_weights(Altered(open_checkpoint(kModel),
                                                          [](Tensor& tensor) {
                                                            if (tensor.name == "lm_head.weight")
                                                              replace(tensor, Dtype::kF32, to_floats(tensor));
                                                          }),
                                                  options);
  const std::vector<std::byte> head = read_bytes(uploaded.head.memory);
  EXPECT_TRUE(same_bytes(read_bytes(on_device.head.memory), head));
  EXPECT_TRUE(same_bytes(read_bytes(wide.head.memory), head));
  const Tensor embedding = made->tensor("embed_tokens.weight");
  EXPECT_TRUE(same_bytes(read_bytes(on_device.embedding), embedding.bytes));
  EXPECT_TRUE(same_bytes(read_bytes(uploaded.embedding), embedding.bytes));
  // Row blocks on both sides of the run's end, and the last one, against the host's encoder.
  const Tensor rows = made->tensor("lm_head.weight");
  const std::size_t block = static_cast<std::size_t>(tile_bytes(WeightFormat::kQ4, kUnitRows, 1024));
  for (const std::int64_t index : {127, 128, 255, 256, 273}) {
    const std::int64_t first = index * kUnitRows;
    const std::int64_t count = std::min<std::int64_t>(kUnitRows, 70003 - first);
    EXPECT_TRUE(same_bytes(std::span(head).subspan(static_cast<std::size_t>(index) * block, block),
                           host_tiles(WeightFormat::kQ4, to_floats(rows.rows(first, count)), 1024)))
        << "row block " << index;
  }
}

TEST_F(Loading, ThePlanIsWhatIsAllocated) {
  TARE_SKIP_WHERE_RACECHECKED("EveryByteIsTheHostsInEveryFormat");
  for_models_and_codecs([](const std::string& model, const Checkpoint& checkpoint, WeightCodec codec) {
    const EngineOptions options = with_codec(codec);
    std::map<std::string, std::uint64_t> planned;
    for (const MemoryPart& part : plan_cuda_weights(checkpoint.config(), options)) planned[part.name] = part.bytes;
    EXPECT_GT(planned.at("staging"), 0U);
    planned.erase("staging");
    EXPECT_THAT(ModelCheck(checkpoint, options).allocated(), testing::ContainerEq(planned))
        << model << " in " << to_text(codec);
  });
}

ErrorParts error_of(const EngineOptions& options, const std::function<void(Tensor&)>& alter) {
  try {
    static_cast<void>(load_cuda_weights(Altered(open_checkpoint(kUntied), alter), options));
  } catch (const Error& error) {
    return error.parts();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

// One element of the tensor of that name becomes `value`, in FP32.
std::function<void(Tensor&)> with_element(const std::string& name, std::size_t element, float value) {
  return [=](Tensor& tensor) {
    if (tensor.name != name) return;
    std::vector<float> values = to_floats(tensor);
    values.at(element) = value;
    replace(tensor, Dtype::kF32, std::move(values));
  };
}

TEST_F(Loading, ScalesThatOverflowAreNamedByTensorAndElement) {
  const std::string name = "layers.3.self_attn.k_proj.weight";  // the second of its stack
  for (const WeightCodec codec : kAllCodecs) {
    if (codec.format == WeightFormat::kBF16 || has_tensor_scale(codec)) continue;
    const ErrorParts error = error_of(with_codec(codec), with_element(name, 77 * 256 + 130, -1e9F));
    EXPECT_EQ(error.kind, ErrorKind::kInput);
    EXPECT_THAT(error.where, testing::HasSubstr(name));
    EXPECT_THAT(error.where, testing::HasSubstr(fmt::format("element {}", 77 * 256 + 130)));
    EXPECT_THAT(error.what, testing::HasSubstr("too large for a group's FP16 scale"));
    EXPECT_THAT(error.hint, testing::HasSubstr("weights.overrides"));
  }
  EXPECT_NO_THROW(static_cast<void>(
      load_cuda_weights(Altered(open_checkpoint(kUntied), with_element(name, 5, -1e9F)), EngineOptions{})));
}

TEST_F(Loading, NumbersThatAreNotFiniteAreNamedByTensorAndElement) {
  // With E4M3 scales it is the pass before, for the tensors' scales, that finds them.
  for (const ScaleFormat scales : {ScaleFormat::kFP16, ScaleFormat::kE4M3}) {
    const EngineOptions options = with_codec({WeightFormat::kQ4, scales});
    for (const char* name :
         {"layers.0.linear_attn.in_proj_z.weight", "layers.1.linear_attn.in_proj_a.weight", "embed_tokens.weight",
          "lm_head.weight", "norm.weight", "layers.0.input_layernorm.weight"}) {
      // As BF16, which the host does not look through, and as FP32.
      const ErrorParts narrow_error = error_of(options, [&](Tensor& tensor) {
        if (tensor.name != name) return;
        std::vector<std::uint16_t> bits = host_bfloat16(to_floats(tensor));
        bits.at(201) = 0x7FC0;
        replace(tensor, Dtype::kBF16, std::move(bits));
      });
      EXPECT_EQ(narrow_error.kind, ErrorKind::kInput);
      EXPECT_THAT(narrow_error.where, testing::HasSubstr(name));
      EXPECT_THAT(narrow_error.what, testing::HasSubstr("element 201 is NaN")) << name;
      const ErrorParts wide_error = error_of(options, with_element(name, 203, -std::numeric_limits<float>::infinity()));
      EXPECT_THAT(wide_error.where, testing::HasSubstr(name));
      EXPECT_THAT(wide_error.what, testing::HasSubstr("element 203 is -inf")) << name;
    }
  }
}

TEST_F(Loading, WrongShapesAndTypesAreNamed) {
  const EngineOptions options = with_codec(WeightFormat::kQ8);
  const std::string name = "layers.0.mlp.up_proj.weight";
  const ErrorParts shape = error_of(options, [&](Tensor& tensor) {
    if (tensor.name == name) tensor.shape = {256, 512};
  });
  EXPECT_THAT(shape.where, testing::HasSubstr(name));
  EXPECT_EQ(shape.what, "has shape [256, 512], the model needs [512, 256]");
  const ErrorParts type = error_of(options, [&](Tensor& tensor) {
    if (tensor.name == name) tensor.dtype = Dtype::kI16;
  });
  EXPECT_THAT(type.where, testing::HasSubstr(name));
  EXPECT_THAT(type.what, testing::HasSubstr("holds I16"));
}

// The largest shape of the family, as it is measured: how long it takes, and its last rows against the host.
TEST_F(Loading, The27BShapeIsMadeInSeconds) {
  const int layers = amount("layers", 64, 64, 1);
  const SyntheticCheckpoint checkpoint(
      fmt::format("synthetic:27b,layers={},vocab={}?seed=1", layers, amount("rows of the head", 248320, 248320, 2000)));
  const EngineOptions options = with_codec(WeightFormat::kQ4);
  std::uint64_t planned = 0;
  for (const MemoryPart& part : plan_cuda_weights(checkpoint.config(), options)) planned += part.bytes;
  std::size_t free = 0;
  std::size_t total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  if (free < planned + planned / 16) GTEST_SKIP() << "needs " << planned << " bytes of GPU memory";
  const auto begin = std::chrono::steady_clock::now();
  const CudaModelWeights weights = load_cuda_weights(checkpoint, options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("synthetic:27b in q4: {} bytes planned, loaded in {:.2f} s\n", planned, seconds);
  if (!sanitized()) {
    EXPECT_LT(seconds, 60);
  }

  constexpr std::int64_t kColumns = 5120;
  const std::int64_t first = checkpoint.config().vocab_size / kUnitRows * kUnitRows - kUnitRows;
  const SyntheticRecipe recipe = checkpoint.recipe("lm_head.weight");
  std::vector<float> values;
  for (std::int64_t element = first * kColumns; element < (first + kUnitRows) * kColumns; ++element)
    values.push_back(bfloat16_to_float(synthetic_weight(recipe, static_cast<std::uint64_t>(element))));
  const std::vector<std::byte> wanted = host_tiles(WeightFormat::kQ4, values, kColumns);
  const std::size_t place = static_cast<std::size_t>(first / kUnitRows) * wanted.size();
  EXPECT_TRUE(same_bytes(read_bytes(weights.head.memory.data() + place, wanted.size()), wanted));
}

}  // namespace
}  // namespace tare::engine::test

// The CPU backend's contract: quantised weights, errors, capacity, the byte account.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "base/json_reader.h"
#include "engine/backend/argmax.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/packed_matrix.h"
#include "engine/formats/absmax.h"
#include "engine/formats/weight_codes.h"
#include "tests/engine/cpu_fixture.h"
#include "tests/engine/cpu_reference_model.h"
#include "tests/error_of.h"

namespace tare::engine::test {
namespace {

// A checkpoint with one element of one tensor replaced by NaN.
class WithNaN final : public Checkpoint {
 public:
  WithNaN(std::unique_ptr<Checkpoint> inner, std::string broken)
      : inner_(std::move(inner)), broken_(std::move(broken)) {}
  const ModelConfig& config() const override { return inner_->config(); }
  std::string digest() const override { return inner_->digest(); }
  bool has(const std::string& name) const override { return inner_->has(name); }
  std::vector<std::string> names() const override { return inner_->names(); }
  Tensor tensor(const std::string& name) const override {
    Tensor tensor = inner_->tensor(name);
    if (name != broken_) return tensor;
    const auto bytes = std::make_shared<std::vector<std::byte>>(tensor.bytes.begin(), tensor.bytes.end());
    const std::size_t last = bytes->size() - dtype_bytes(tensor.dtype);
    std::memset(bytes->data() + last, 0xFF, dtype_bytes(tensor.dtype));  // NaN in every floating-point format
    tensor.bytes = *bytes;
    tensor.storage = bytes;
    return tensor;
  }

 private:
  std::unique_ptr<Checkpoint> inner_;
  std::string broken_;
};

// By definition, with the scale of the whole tensor where the codec has one.
void dequantize(std::vector<float>& values, std::size_t columns, WeightCodec codec) {
  const float tensor_scale = has_tensor_scale(codec) ? tensor_scale_of(codec.format, absmax_of(values)) : 1.0F;
  for (std::size_t row = 0; row < values.size(); row += columns)
    for (std::size_t begin = 0; begin < columns; begin += 64) {
      const std::span<float> group = std::span(values).subspan(row + begin, std::min<std::size_t>(64, columns - begin));
      decode_weights(codec, tensor_scale, encode_weights(codec, tensor_scale, group), group);
    }
}

TEST(CpuBackend, QuantisedWeightsGiveTheLogitsOfTheirDequantisedValues) {
  constexpr ScaleFormat kBytes = ScaleFormat::kE4M3;
  for (const WeightCodec codec :
       {WeightCodec{WeightFormat::kQ8}, WeightCodec{WeightFormat::kQ5}, WeightCodec{WeightFormat::kQ4},
        WeightCodec{WeightFormat::kQ3}, WeightCodec{WeightFormat::kFP8}, WeightCodec{WeightFormat::kNVFP4, kBytes},
        WeightCodec{WeightFormat::kQ4, kBytes}, WeightCodec{WeightFormat::kFP8, kBytes}}) {
    const std::unique_ptr<Checkpoint> checkpoint = open_checkpoint(fixture("hybrid-headdim256").string());
    const std::vector<std::int32_t> text = Golden(fixture("hybrid-headdim256") / "golden-97.safetensors").tokens;
    const std::span<const std::int32_t> tokens = std::span(text).first(40);
    ReferenceModel reference(*checkpoint, [&](const std::string& name, std::vector<float>& rows, std::size_t columns) {
      const bool gate = name.ends_with("in_proj_a.weight") || name.ends_with("in_proj_b.weight");
      if (!gate) dequantize(rows, columns, codec);
    });
    const std::vector<Doubles> expected = reference.logits(tokens);
    ReferenceModel unquantised(*checkpoint, [](const std::string&, std::vector<float>&, std::size_t) {});
    const std::vector<Doubles> original = unquantised.logits(tokens);

    EngineOptions options = exact_options();
    options.weights.format = codec.format;
    options.weights.scales = codec.scales;
    const std::unique_ptr<Backend> backend = make_cpu_backend(*checkpoint, options);
    const Captured captured = capture_prefill(*backend, tokens);
    double from_reference = 0;
    double from_original = 0;
    for (std::size_t i = 0; i < captured.logits.size(); ++i) {
      const std::size_t vocab = expected[0].size();
      from_reference = std::max(from_reference, std::fabs(captured.logits[i] - expected[i / vocab][i % vocab]));
      from_original = std::max(from_original, std::fabs(captured.logits[i] - original[i / vocab][i % vocab]));
    }
    EXPECT_LE(from_reference, 3e-5);  // FP32 rounding only, as in the goldens
    EXPECT_GE(from_original, 1e-2);   // the control: quantisation itself is far above it
  }
}

TEST(CpuBackend, TheReferenceModelEqualsTheGoldens) {
  const std::unique_ptr<Checkpoint> checkpoint = open_checkpoint(fixture("hybrid-headdim256").string());
  const Golden golden(fixture("hybrid-headdim256") / "golden-97.safetensors");
  ReferenceModel reference(*checkpoint, [](const std::string&, std::vector<float>&, std::size_t) {});
  const std::vector<Doubles> logits = reference.logits(golden.tokens);
  const std::vector<float> expected = golden.floats("logits");
  double most = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    most = std::max(most,
                    std::fabs(logits[i / logits[0].size()][i % logits[0].size()] - static_cast<double>(expected[i])));
  EXPECT_LE(most, 1e-5);
}

TEST(CpuBackend, Q8ActivationsStayNearAndDiffer) {
  const Golden golden(fixture("hybrid-headdim256") / "golden-97.safetensors");
  EngineOptions options = exact_options();
  options.weights.format = WeightFormat::kQ8;
  const std::unique_ptr<Backend> wide = open_backend("hybrid-headdim256", options);
  options.activations.format = ActivationFormat::kQ8;
  const std::unique_ptr<Backend> narrow = open_backend("hybrid-headdim256", options);
  const double difference =
      max_difference(capture_prefill(*wide, golden.tokens).logits, capture_prefill(*narrow, golden.tokens).logits);
  EXPECT_GT(difference, 1e-4);
  EXPECT_LT(difference, 0.5);
}

TEST(CpuBackend, OverridesChangeTheNamedTensorsOnly) {
  EngineOptions options = exact_options();
  options.weights.overrides = {{TensorClass::kMlp, 1, 2, WeightFormat::kQ4},
                               {TensorClass::kHead, 0, 0, WeightFormat::kQ8}};
  const std::unique_ptr<Backend> backend = open_backend("hybrid-headdim256", options);
  for (const InventoryEntry& entry : backend->inventory(10, 1).entries) {
    const bool mlp = entry.tensor.starts_with("layers.1.mlp") || entry.tensor.starts_with("layers.2.mlp");
    const bool projection = entry.tensor.ends_with("_proj.weight");
    if (!mlp && !projection && entry.tensor != "lm_head.weight") continue;
    EXPECT_EQ(entry.format, mlp ? "q4" : entry.tensor == "lm_head.weight" ? "q8" : "bf16") << entry.tensor;
  }
}

TEST(CpuBackend, EveryInstructionSetAgreesWithTheGoldens) {
  const Golden golden(fixture("hybrid-headdim256") / "golden-97.safetensors");
  for (const std::string& name : available_instruction_sets()) {
    EngineOptions options = exact_options(GdnForm::kChunked);
    options.cpu.instruction_set = name;
    const std::unique_ptr<Backend> backend = open_backend("hybrid-headdim256", options);
    EXPECT_EQ(backend->description()["instruction_set"], name);
    EXPECT_LE(max_difference(capture_prefill(*backend, golden.tokens).logits, golden.floats("logits")), 3e-5) << name;
  }
}

TEST(CpuBackend, TwoBackendsOfDifferentInstructionSetsDoNotDisturbEachOther) {
  const std::vector<std::int32_t> tokens = {1, 2, 3, 4, 5};
  EngineOptions options = exact_options();
  const std::unique_ptr<Backend> best = open_backend("hybrid-small", options);
  const std::vector<float> before = capture_prefill(*best, tokens).logits;
  options.cpu.instruction_set = available_instruction_sets().back();
  const std::unique_ptr<Backend> plain = open_backend("hybrid-small", options);
  capture_prefill(*plain, tokens);
  best->reset();
  EXPECT_TRUE(same_bits(capture_prefill(*best, tokens).logits, before));
}

TEST(CpuBackend, NaNWeightsAreRefusedByName) {
  for (const std::string name : {"layers.0.linear_attn.in_proj_qkv.weight", "embed_tokens.weight", "norm.weight",
                                 "layers.3.self_attn.k_norm.weight", "layers.0.linear_attn.in_proj_a.weight"}) {
    const WithNaN checkpoint(open_checkpoint(fixture("hybrid-headdim256").string()), name);
    const ErrorParts error =
        error_of([&] { static_cast<void>(make_cpu_backend(checkpoint, exact_options())); }).parts();
    EXPECT_EQ(error.kind, ErrorKind::kInput);
    EXPECT_THAT(error.where + error.what, testing::HasSubstr(name));
    EXPECT_THAT(error.what,
                testing::HasSubstr(fmt::format("element {} is NaN", checkpoint.tensor(name).element_count() - 1)));
  }
}

TEST(CpuBackend, BadTokensAndFullCachesAreRefusedAndChangeNothing) {
  EngineOptions options = exact_options();
  options.context = 8;
  const std::unique_ptr<Backend> backend = open_backend("hybrid-small", options);
  const std::vector<std::int32_t> good = {1, 2, 3, 4, 5, 6};
  backend->prefill(good);
  const std::int32_t vocab = static_cast<std::int32_t>(backend->config().vocab_size);
  for (const std::vector<std::int32_t>& bad : {std::vector<std::int32_t>{1, vocab}, {-1}, {}, {1, 2, 3}}) {
    EXPECT_EQ(error_of([&] { backend->prefill(bad); }).parts().kind, ErrorKind::kInput);
    EXPECT_EQ(error_of([&] { backend->verify(bad); }).parts().kind, ErrorKind::kInput);
  }
  EXPECT_THAT(error_of([&] {
                backend->verify(std::vector<std::int32_t>{1, vocab});
              })
                  .parts()
                  .where,
              testing::HasSubstr("position 7"));
  EXPECT_EQ(backend->frontier(), 6);
  // To the exact last slot.
  const std::vector<std::int32_t> last = {7, 8};
  EXPECT_NO_THROW(backend->verify(last));
  backend->commit(2);
  EXPECT_EQ(backend->frontier(), backend->capacity());
}

TEST(CpuBackend, VerifyHandsOutWhatIsAskedForAndAlwaysTheBest) {
  const std::unique_ptr<Backend> backend = open_backend("hybrid-small", exact_options());
  const std::vector<std::int32_t> tokens = {1, 2, 3};
  backend->prefill(tokens);
  const VerifyOutput all = backend->verify(tokens, {.logits = true, .hidden = true});
  const std::size_t vocab = all.logits.size() / tokens.size();
  EXPECT_EQ(static_cast<std::int64_t>(vocab), backend->config().vocab_size);
  EXPECT_EQ(static_cast<std::int64_t>(all.hidden.size()), 3 * backend->config().hidden_size);
  std::vector<std::int32_t> best;
  for (std::size_t i = 0; i < tokens.size(); ++i) best.push_back(argmax(all.logits.subspan(i * vocab, vocab)));
  EXPECT_THAT(all.best, testing::ElementsAreArray(best));
  const VerifyOutput none = backend->verify(tokens, {.logits = false, .hidden = false});
  EXPECT_THAT(none.best, testing::ElementsAreArray(best));
  EXPECT_TRUE(none.logits.empty());
  EXPECT_TRUE(none.hidden.empty());
}

TEST(CpuBackend, CommitWithoutAVerifyIsRefused) {
  const std::unique_ptr<Backend> backend = open_backend("hybrid-small", exact_options());
  const std::vector<std::int32_t> tokens = {1, 2};
  backend->prefill(tokens);
  EXPECT_THROW(backend->commit(1), Error);
  backend->verify(tokens);
  EXPECT_THROW(backend->commit(3), Error);
  backend->commit(1);
  EXPECT_THROW(backend->commit(1), Error);
}

// A checkpoint whose final norm is so large that logits overflow.
class WithHugeNorm final : public Checkpoint {
 public:
  explicit WithHugeNorm(std::unique_ptr<Checkpoint> inner) : inner_(std::move(inner)) {}
  const ModelConfig& config() const override { return inner_->config(); }
  std::string digest() const override { return inner_->digest(); }
  bool has(const std::string& name) const override { return inner_->has(name); }
  std::vector<std::string> names() const override { return inner_->names(); }
  Tensor tensor(const std::string& name) const override {
    Tensor tensor = inner_->tensor(name);
    if (name != "norm.weight") return tensor;
    const auto values = std::make_shared<std::vector<float>>(static_cast<std::size_t>(tensor.element_count()), 3e38F);
    tensor.dtype = Dtype::kF32;
    tensor.bytes = std::as_bytes(std::span(*values));
    tensor.storage = values;
    return tensor;
  }

 private:
  std::unique_ptr<Checkpoint> inner_;
};

TEST(CpuBackend, LogitsThatAreNotFiniteAreReportedWithTheirPosition) {
  for (const ActivationFormat format : {ActivationFormat::kFP32, ActivationFormat::kQ8}) {
    EngineOptions options = exact_options();
    options.activations.format = format;
    options.weights.format = WeightFormat::kQ8;
    const WithHugeNorm checkpoint(open_checkpoint(fixture("hybrid-small").string()));
    const std::unique_ptr<Backend> backend = make_cpu_backend(checkpoint, options);
    const std::vector<std::int32_t> tokens = {1, 2, 3};
    const ErrorParts error = error_of([&] { backend->prefill(tokens); }).parts();
    EXPECT_EQ(error.kind, ErrorKind::kInvalid);
    EXPECT_THAT(error.where, testing::HasSubstr("position 2"));
    EXPECT_EQ(backend->frontier(), 0);
    EXPECT_THAT(error_of([&] { backend->verify(tokens); }).parts().where, testing::HasSubstr("position 0"));
  }
}

TEST(CpuBackend, TheInventoryCountsWhatTheKernelsRead) {
  for (const WeightFormat format : {WeightFormat::kBF16, WeightFormat::kQ8, WeightFormat::kQ5, WeightFormat::kQ4,
                                    WeightFormat::kQ3, WeightFormat::kFP8, WeightFormat::kNVFP4}) {
    EngineOptions options = exact_options();
    options.weights.format = format;
    options.kv.key = options.kv.value = CacheFormat::kBF16;
    const std::unique_ptr<Backend> backend = open_backend("hybrid-headdim256", options);
    const ModelConfig& config = backend->config();
    const auto packed = [](WeightFormat f, std::int64_t rows, std::int64_t columns) {
      return PackedMatrix(f, rows, columns).bytes();
    };
    const std::int64_t d = config.hidden_size;
    std::uint64_t expected = packed(format, config.vocab_size, d);
    std::uint64_t vectors = static_cast<std::uint64_t>(d);
    for (const LayerKind kind : config.layers) {
      expected += 2 * packed(format, config.intermediate_size, d) + packed(format, d, config.intermediate_size);
      vectors += 2 * static_cast<std::uint64_t>(d);
      if (kind == LayerKind::kLinearAttention) {
        expected += packed(format, config.conv_channels(), d) + packed(format, config.linear_value_channels(), d) +
                    packed(format, d, config.linear_value_channels()) +
                    packed(WeightFormat::kBF16, 2 * config.linear_value_heads, d);
        vectors += static_cast<std::uint64_t>(config.conv_channels() * config.conv_kernel +
                                              2 * config.linear_value_heads + config.linear_value_head_dim);
      } else {
        expected += packed(format, 2 * config.query_channels(), d) +
                    2 * packed(format, config.key_value_channels(), d) + packed(format, d, config.query_channels());
        vectors += 2 * static_cast<std::uint64_t>(config.head_dim);
      }
    }
    const WeightInventory inventory = backend->inventory(100, 1);
    EXPECT_EQ(inventory.bytes_per_round(AccessPattern::kStream), expected + 4 * vectors);
    EXPECT_EQ(inventory.bytes_per_round(AccessPattern::kGather), static_cast<std::uint64_t>(2 * d));
    // One attention layer: 101 positions read and one written, keys and values of BF16.
    EXPECT_EQ(inventory.bytes_per_round(AccessPattern::kCache),
              static_cast<std::uint64_t>(102 * 2 * 2 * config.key_value_channels()));
    EXPECT_GT(inventory.bytes_per_round(AccessPattern::kState), 0U);
    EXPECT_GT(backend->inventory(200, 1).bytes_per_round(), inventory.bytes_per_round());
    EXPECT_GT(backend->inventory(100, 8).bytes_per_round(), inventory.bytes_per_round());
  }
}

TEST(CpuBackend, Q3StreamsQ4sBytesAndSaysSo) {
  EngineOptions options = exact_options();
  const auto head_of = [&](WeightFormat format) {
    options.weights.format = format;
    const WeightInventory inventory = open_backend("hybrid-headdim256", options)->inventory(0, 1);
    for (const InventoryEntry& entry : inventory.entries)
      if (entry.tensor == "layers.0.mlp.down_proj.weight") return entry;
    return InventoryEntry{};
  };
  const InventoryEntry three = head_of(WeightFormat::kQ3);
  EXPECT_EQ(three.format, "q3 in the words of q4");
  EXPECT_EQ(three.bytes_per_round, head_of(WeightFormat::kQ4).bytes_per_round);
  EXPECT_GT(three.bytes_per_round, 0U);
}

}  // namespace
}  // namespace tare::engine::test

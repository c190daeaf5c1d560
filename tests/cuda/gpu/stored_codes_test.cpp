// A checkpoint that `tare quantize` wrote, on the GPU: every byte that loading makes of the weights it was made from.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <functional>

#include "base/error.h"
#include "base/json_reader.h"
#include "engine/backend/tensor_class.h"
#include "engine/cuda/cuda_backend.h"
#include "engine/cuda/drafter/mtp_weights.h"
#include "engine/cuda/product/product.h"
#include "engine/cuda/weights/load_projection.h"
#include "engine/quantize/quantise_checkpoint.h"
#include "tests/cuda/gpu/gpu_test.h"
#include "tests/cuda/gpu/loading_oracle.h"
#include "tests/cuda/gpu/sanitized.h"
#include "tests/engine/scratch_directory.h"
#include "tests/source_folder.h"

namespace tare::engine::test {
namespace {

namespace fs = std::filesystem;

EngineOptions with(std::initializer_list<const char*> assignments) {
  EngineOptions options;
  options.backend = BackendKind::kCuda;
  options.context = 256;
  for (const char* assignment : assignments) apply_option(options, assignment);
  return options;
}

std::vector<EngineOptions> variants() {
  std::vector<EngineOptions> all;
  for (const WeightCodec codec : kAllCodecs) {
    if (codec.format == WeightFormat::kBF16) continue;
    all.push_back(with({}));
    all.back().weights.format = codec.format;
    all.back().weights.scales = codec.scales;
  }
  all.push_back(with(
      {"weights.format=q8",
       R"(weights.overrides=[{"tensors": "mlp", "layers": [1, 2], "format": "q5"}, {"tensors": "gdn", "format": "bf16"},
           {"tensors": "head", "format": "nvfp4"}])"}));
  return all;
}

// Calls compare(name, a, b) for every matrix and its twin.
void for_projections(const CudaModelWeights& a, const CudaModelWeights& b,
                     const std::function<void(const CudaProjection&, const CudaProjection&)>& compare) {
  ASSERT_EQ(a.layers.size(), b.layers.size());
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    compare(a.layers[i].gate_up, b.layers[i].gate_up);
    compare(a.layers[i].down, b.layers[i].down);
    if (a.layers[i].gdn) {
      compare(a.layers[i].gdn->qkvz, b.layers[i].gdn->qkvz);
      compare(a.layers[i].gdn->out, b.layers[i].gdn->out);
    } else {
      compare(a.layers[i].attention->qkv, b.layers[i].attention->qkv);
      compare(a.layers[i].attention->out, b.layers[i].attention->out);
    }
  }
  compare(a.head, b.head);
}

class StoredCodesOnGpu : public GpuTest {
 protected:
  ScratchDirectory scratch_;
  int written_ = 0;

  std::unique_ptr<Checkpoint> write(const Checkpoint& checkpoint, const EngineOptions& options) {
    const fs::path out = scratch_.path() / fmt::format("out-{}", written_++);
    ThreadPool pool(4);
    (void)quantise_checkpoint(checkpoint, options, out, pool);
    return open_checkpoint(out.string());
  }
};

// Short groups (hybrid-small: 48 and 80 columns), a tied head (the embedded model), formats by class and layer.
TEST_F(StoredCodesOnGpu, AreTheBytesOfQuantisingAtLoad) {
  const std::vector<std::string> models = {"tests/fixtures/hybrid-small", "tests/fixtures/hybrid-headdim256",
                                           "models/embedded"};
  for (std::size_t index = 0; index < models.size(); ++index) {
    const std::string& model = models[index];
    const auto original = open_checkpoint((source_folder() / model).string());
    std::size_t variant = 0;
    for (const EngineOptions& options : variants()) {
      if (!has_turn("models a format", index, variant++, models.size())) continue;
      const auto stored = write(*original, options);
      const EngineOptions settled = with_stored_weights(EngineOptions{}, *stored);
      const CudaModelWeights from_codes = load_cuda_weights(*stored, settled);
      const CudaModelWeights from_weights = load_cuda_weights(*original, options);
      int matrices = 0;
      for_projections(from_codes, from_weights, [&](const CudaProjection& a, const CudaProjection& b) {
        EXPECT_EQ(a.matrix.codec(), b.matrix.codec());
        EXPECT_TRUE(same_bytes(read_bytes(a.memory), read_bytes(b.memory)))
            << model << " " << a.names.front() << " " << stored_format(a.matrix);
        ++matrices;
      });
      EXPECT_GE(matrices, 4 * 4 + 1);
    }
  }
}

// The MTP head's weights are a drafter's, and stored with the model's.
TEST_F(StoredCodesOnGpu, OfTheMtpHeadToo) {
  const auto original = open_checkpoint((source_folder() / "models/embedded").string());
  for (const EngineOptions& options : variants()) {
    const auto stored = write(*original, options);
    const CudaMtpWeights a = load_mtp_weights(*stored, with_stored_weights(EngineOptions{}, *stored));
    const CudaMtpWeights b = load_mtp_weights(*original, options);
    const std::pair<const CudaProjection*, const CudaProjection*> pairs[] = {{&a.fc, &b.fc},
                                                                             {&a.attention.qkv, &b.attention.qkv},
                                                                             {&a.attention.out, &b.attention.out},
                                                                             {&a.gate_up, &b.gate_up},
                                                                             {&a.down, &b.down}};
    for (const auto& [from_codes, from_weights] : pairs) {
      EXPECT_NE(from_codes->matrix.format, WeightFormat::kBF16);
      EXPECT_TRUE(same_bytes(read_bytes(from_codes->memory), read_bytes(from_weights->memory)))
          << from_codes->names.front() << " " << stored_format(from_codes->matrix);
    }
  }
}

TEST_F(StoredCodesOnGpu, AChangedByteIsSeen) {  // the control of the comparison above
  const auto original = open_checkpoint((source_folder() / "tests/fixtures/hybrid-small").string());
  const auto stored = write(*original, with({"weights.format=q5"}));
  const auto codes = stored->codes("layers.0.mlp.down_proj.weight");
  ASSERT_NE(codes, nullptr);
  const StackedMatrix matrix{
      {{"layers.0.mlp.down_proj.weight", codes->rows}}, codes->columns, {WeightFormat::kQ5, ScaleFormat::kFP16}, {}};
  WeightStage stage(*stored, staging_bytes(std::array{matrix}));
  const CudaProjection good = load_projection(stage, matrix);
  EXPECT_TRUE(stage.has_codes(matrix));
  std::vector<std::byte> rows(codes->codes.bytes.begin(), codes->codes.bytes.end());
  rows[rows.size() - 2] ^= std::byte{0x10};
  const DeviceBuffer changed = on_device(rows);
  const DeviceBuffer scales = on_device(std::vector<std::byte>(codes->scales.bytes.begin(), codes->scales.bytes.end()));
  const PoisonedBuffer tiles(good.memory.bytes());
  launch_store_codes(matrix.codec, {changed.data(), scales.data(), 0, codes->rows, codes->columns}, tiles.data(), {});
  synchronize();
  const std::vector<std::byte> found = read_bytes(tiles.data(), good.memory.bytes());
  const std::vector<std::byte> wanted = read_bytes(good.memory);
  EXPECT_EQ(std::count_if(found.begin(), found.end(),
                          [at = 0U, &wanted](std::byte byte) mutable { return byte != wanted[at++]; }),
            1);
  EXPECT_TRUE(tiles.canaries_intact());
}

// A shortlist of the head: chosen rows of what is stored, under the scale of the whole tensor.
TEST_F(StoredCodesOnGpu, ChosenRowsAreThoseRows) {
  const auto original = open_checkpoint((source_folder() / "models/embedded").string());
  for (const WeightCodec codec : kAllCodecs) {
    if (codec.format == WeightFormat::kBF16) continue;
    EngineOptions options = with({});
    options.weights.format = codec.format;
    options.weights.scales = codec.scales;
    const auto stored = write(*original, options);
    StackedMatrix head = WeightPlan(original->config(), options).head();
    head.chosen = {3, 4, 5, 77, 300, 301, 1000, 1023};
    WeightStage from_codes(*stored, staging_bytes(std::array{head}));
    WeightStage from_weights(*original, staging_bytes(std::array{head}));
    ASSERT_TRUE(from_codes.has_codes(head));
    ASSERT_FALSE(from_weights.has_codes(head));
    const CudaProjection a = load_projection(from_codes, head);
    const CudaProjection b = load_projection(from_weights, head);
    EXPECT_TRUE(same_bytes(read_bytes(a.memory), read_bytes(b.memory))) << to_text(codec);
    StackedMatrix others = head;
    others.chosen.back() = 1022;
    const CudaProjection c = load_projection(from_codes, others);
    EXPECT_FALSE(same_bytes(read_bytes(a.memory), read_bytes(c.memory))) << to_text(codec);
  }
}

class StoredCodesBackend : public HopperTest {};

TEST_F(StoredCodesBackend, GivesTheLogitsOfQuantisingAtLoadAndRefusesOtherWeights) {
  ScratchDirectory scratch;
  const auto original = open_checkpoint((source_folder() / "tests/fixtures/hybrid-headdim256").string());
  const std::vector<std::int32_t> tokens = {5, 9, 2, 77, 31, 8, 120, 64};
  int written = 0;
  std::size_t variant = 0;
  for (const EngineOptions& options : variants()) {
    if (!has_turn("formats of four", 0, variant++, 4)) continue;
    const fs::path out = scratch.path() / fmt::format("out-{}", written++);
    ThreadPool pool(4);
    (void)quantise_checkpoint(*original, options, out, pool);
    const auto stored = open_checkpoint(out.string());
    const auto from_codes = make_cuda_backend(*stored, with({}));
    const auto from_weights = make_cuda_backend(*original, options);
    EXPECT_EQ(to_json(from_codes->options())["weights"], to_json(options)["weights"]);
    const auto run = [&](Backend& backend) {
      const std::span<const float> last = backend.prefill(tokens);
      std::vector<float> logits(last.begin(), last.end());
      const VerifyOutput output = backend.verify(std::span(tokens).first(3));
      logits.insert(logits.end(), output.logits.begin(), output.logits.end());
      return logits;
    };
    const std::vector<float> a = run(*from_codes);
    const std::vector<float> b = run(*from_weights);
    ASSERT_EQ(a.size(), b.size());
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << to_json(options)["weights"];
    EXPECT_EQ(from_codes->inventory(10, 1).bytes_per_round(), from_weights->inventory(10, 1).bytes_per_round());
    if (options.weights.format != WeightFormat::kQ4) {
      EXPECT_THROW((void)make_cuda_backend(*stored, with({"weights.format=q4"})), Error);
    }
  }
  // A screen in other bits needs the numbers that the codes were made from.
  const fs::path out = scratch.path() / "untied";
  ThreadPool pool(4);
  (void)quantise_checkpoint(*original, with({"weights.format=q8"}), out, pool);
  if (!original->config().tie_word_embeddings) {
    EXPECT_THROW((void)make_cuda_backend(*open_checkpoint(out.string()), with({"head.screen=q4"})), Error);
  }
}

}  // namespace
}  // namespace tare::engine::test

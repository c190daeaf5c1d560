// The block drafter on the GPU: against the golden of the public implementation with FP32 activations, fast against
// exact, and what a draft may not change.
#include <algorithm>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/synthetic.h"
#include "engine/cuda/drafter/block_drafter.h"
#include "engine/cuda/weights/load_projection.h"
#include "engine/formats/float_formats.h"
#include "tests/cuda/gpu/gpu_test.h"
#include "tests/cuda/gpu/sanitized.h"
#include "tests/source_folder.h"

namespace tare::engine::test {
namespace {

using Drafter = GpuTest;
using DrafterHopper = HopperTest;

const std::filesystem::path kFixture = source_folder() / "tests/fixtures/block-drafter";

// The target of the fixture is its taps and embeddings; only its sizes matter.
ModelConfig fixture_target() {
  ModelConfig config;
  config.hidden_size = 48;
  config.intermediate_size = 96;
  config.vocab_size = 320;
  config.layers.assign(8, LayerKind::kFullAttention);
  config.max_positions = 4096;
  config.rms_norm_eps = 1e-6F;
  return config;
}

class FixtureTarget final : public Checkpoint {
 public:
  const ModelConfig& config() const override { return config_; }
  std::string digest() const override { return ""; }
  bool has(const std::string&) const override { return false; }
  Tensor tensor(const std::string& name) const override { throw input_error(name, "the fixture has no target"); }
  std::vector<std::string> names() const override { return {}; }

 private:
  ModelConfig config_ = fixture_target();
};

// A drafter with the embedding and head of a random target.
class DrafterCase {
 public:
  DrafterCase(const BlockDrafterCheckpoint& checkpoint, const EngineOptions& options, std::int64_t capacity)
      : options_(options), config_(checkpoint.config()), device_(open_cuda_device(0)) {
    const SyntheticCheckpoint source("synthetic:hidden=" + std::to_string(config_.hidden_size) +
                                     ",vocab=" + std::to_string(config_.vocab_size) + ",layers=4,tied=0?seed=9");
    const StackedMatrix head{
        {{"lm_head.weight", config_.vocab_size}}, config_.hidden_size, options.format_of(TensorClass::kHead, 4)};
    WeightStage stage(source, staging_bytes(std::vector{head}));
    head_ = load_projection(stage, head);
    const Tensor embedding = source.tensor("embed_tokens.weight");
    embedding_ = DeviceBuffer(embedding.bytes.size(), "embedding");
    copy_to_device(embedding_, embedding.bytes);
    if (options.activations.format != ActivationFormat::kFP32)
      products_ = std::make_unique<PrefillProducts>(std::size_t{64} << 20);
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    drafter_ = std::make_unique<CudaBlockDrafter>(
        checkpoint, options_, capacity, device_,
        DrafterTarget{embedding_.as<std::uint16_t>(), &proposals_, products_.get()}, stream_);
  }
  DrafterCase(const DrafterCase&) = delete;
  DrafterCase& operator=(const DrafterCase&) = delete;
  ~DrafterCase() {
    drafter_.reset();
    (void)cudaStreamDestroy(stream_);
  }

  [[nodiscard]] CudaBlockDrafter& drafter() { return *drafter_; }
  [[nodiscard]] std::int64_t columns() const { return config_.tap_count() * config_.hidden_size; }

  // Features as a round leaves them, row i of `features` at row rows[i] of the taps, the others poisoned.
  void put_taps(std::span<const float> features, std::span<const std::int32_t> rows) const {
    fill_device(drafter_->taps().round, static_cast<std::size_t>(kMostRoundTokens * columns()) * 4, 0xFF);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      copy_to_device(drafter_->taps().round + rows[i] * columns() * 4,
                     std::as_bytes(features.subspan(i * static_cast<std::size_t>(columns()),
                                                    static_cast<std::size_t>(columns()))));
    }
  }
  // Absorbs them all, in pieces of at most `step`; the last piece is left to the draft.
  void absorb(std::span<const float> features, std::int64_t first, int step = kMostRoundTokens) {
    const std::int64_t count = static_cast<std::int64_t>(features.size()) / columns();
    for (std::int64_t begin = 0; begin < count; begin += step) {
      drafter_->settle();
      check_cuda(cudaStreamSynchronize(stream_), "settle");
      const std::int64_t rows = std::min<std::int64_t>(step, count - begin);
      std::vector<std::int32_t> places;
      for (std::int64_t i = 0; i < rows; ++i) places.push_back(static_cast<std::int32_t>((i * 5 + 3) % 32));
      put_taps(
          features.subspan(static_cast<std::size_t>(begin * columns()), static_cast<std::size_t>(rows * columns())),
          places);
      drafter_->absorb(places, std::vector<std::int32_t>(places.size()), first + begin);
    }
  }
  void absorb_prefill(std::span<const float> features, std::int64_t first) {
    std::vector<std::uint16_t> narrow;
    for (const float value : features) narrow.push_back(float_to_bfloat16(value));
    copy_to_device(drafter_->taps().prefill, std::as_bytes(std::span<const std::uint16_t>(narrow)));
    const std::vector<std::int32_t> tokens(features.size() / static_cast<std::size_t>(columns()));
    drafter_->absorb_prefill(tokens, nullptr, first);
  }
  [[nodiscard]] std::vector<double> hidden(int rows) const {
    std::vector<float> values(static_cast<std::size_t>(rows * config_.hidden_size));
    copy_to_host(std::as_writable_bytes(std::span(values)), reinterpret_cast<const std::byte*>(drafter_->hidden()));
    return {values.begin(), values.end()};
  }

 private:
  EngineOptions options_;
  BlockDrafterConfig config_;
  CudaDevice device_;
  CudaProjection head_;
  CudaProposalHead proposals_{head_};
  DeviceBuffer embedding_;
  std::unique_ptr<PrefillProducts> products_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<CudaBlockDrafter> drafter_;
};

EngineOptions options_of(ActivationFormat activations, WeightFormat weights) {
  EngineOptions options;
  options.backend = BackendKind::kCuda;
  options.activations.format = activations;
  options.weights.format = weights;
  options.prefill.chunk = 4096;
  return options;
}

std::vector<float> random_features(std::int64_t count, std::uint64_t seed) {
  Philox random(seed);
  std::vector<float> features(static_cast<std::size_t>(count));
  for (float& value : features) value = bfloat16_to_float(float_to_bfloat16(static_cast<float>(2 * random.normal())));
  return features;
}

struct Draft {
  std::vector<std::int32_t> tokens;
  std::vector<float> log_probabilities;
  bool operator==(const Draft&) const = default;
};
Draft take(const DraftOutput& output) {
  return {{output.tokens.begin(), output.tokens.end()},
          {output.log_probabilities.begin(), output.log_probabilities.end()}};
}

// NaN when anything is.
double largest_difference(const std::vector<double>& got, const std::vector<float>& want) {
  double worst = got.size() == want.size() ? 0 : std::nan("");
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double difference = std::fabs(got[i] - static_cast<double>(want[i]));
    if (!(difference <= worst)) worst = difference;
  }
  return worst;
}

TEST_F(Drafter, EqualsTheGoldenOfThePublicImplementation) {
  const FixtureTarget target;
  const auto checkpoint = open_block_drafter(kFixture.string(), target);
  const SafetensorsFile golden(kFixture / "golden.safetensors");
  for (const bool one_by_one : {false, true}) {
    DrafterCase a_case(*checkpoint, options_of(ActivationFormat::kFP32, WeightFormat::kBF16), 64);
    std::int64_t frontier = 0;
    for (const std::string round : {"round1", "round2"}) {
      const std::vector<float> features = to_floats(golden.tensor(round + ".context_features"));
      const std::vector<float> block = to_floats(golden.tensor(round + ".block_embeddings"));
      const std::vector<float> want = to_floats(golden.tensor(round + ".output_hidden"));
      a_case.absorb(features, frontier, one_by_one ? 1 : kMostRoundTokens);
      frontier += static_cast<std::int64_t>(features.size()) / a_case.columns();
      a_case.drafter().set_block_callback([&](float* x) {
        check_cuda(cudaDeviceSynchronize(), "begin_draft");
        copy_to_device(reinterpret_cast<std::byte*>(x), std::as_bytes(std::span<const float>(block)));
      });
      const DraftOutput output = a_case.drafter().draft({.anchor = 1, .tokens = 7, .candidates = 4}, frontier);
      EXPECT_EQ(output.rows, 7);
      const double worst = largest_difference(a_case.hidden(8), want);
      std::printf("%s: largest difference from the golden %.2e\n", round.c_str(), worst);
      EXPECT_LE(worst, 3e-5) << round;
    }
  }
}

// The trained drafter of the embedded model, against a program that shares nothing with its training.
TEST_F(Drafter, EqualsTheGoldenOfTheEmbeddedModelsDrafter) {
  const auto target = open_checkpoint((source_folder() / "models" / "embedded").string());
  const auto checkpoint = open_block_drafter((source_folder() / "models" / "embedded" / "drafter").string(), *target);
  const SafetensorsFile golden(source_folder() / "tests/fixtures/embedded-drafter.safetensors");
  const std::vector<float> features = to_floats(golden.tensor("context_features"));
  const std::vector<float> block = to_floats(golden.tensor("block_embeddings"));
  const std::vector<float> want = to_floats(golden.tensor("output_hidden"));
  DrafterCase a_case(*checkpoint, options_of(ActivationFormat::kFP32, WeightFormat::kBF16), 64);
  a_case.absorb(features, 0);
  a_case.drafter().set_block_callback([&](float* x) {
    check_cuda(cudaDeviceSynchronize(), "begin_draft");
    copy_to_device(reinterpret_cast<std::byte*>(x), std::as_bytes(std::span<const float>(block)));
  });
  const std::int64_t frontier = static_cast<std::int64_t>(features.size()) / a_case.columns();
  (void)a_case.drafter().draft({.anchor = 1, .tokens = 15, .candidates = 1}, frontier);
  const double worst = largest_difference(a_case.hidden(16), want);
  std::printf("embedded: largest difference from the golden %.2e\n", worst);
  EXPECT_LE(worst, 3e-5);
}

// A mistake that the golden must catch: the context one position late.
TEST_F(Drafter, ContextAtAWrongPositionIsCaught) {
  const FixtureTarget target;
  const auto checkpoint = open_block_drafter(kFixture.string(), target);
  const SafetensorsFile golden(kFixture / "golden.safetensors");
  DrafterCase a_case(*checkpoint, options_of(ActivationFormat::kFP32, WeightFormat::kBF16), 64);
  const std::vector<float> block = to_floats(golden.tensor("round1.block_embeddings"));
  const std::vector<float> want = to_floats(golden.tensor("round1.output_hidden"));
  const std::vector<float> features = to_floats(golden.tensor("round1.context_features"));
  a_case.absorb(std::span<const float>(features).first(static_cast<std::size_t>(a_case.columns())), 0);
  a_case.absorb(features, 1);
  a_case.drafter().set_block_callback([&](float* x) {
    check_cuda(cudaDeviceSynchronize(), "begin_draft");
    copy_to_device(reinterpret_cast<std::byte*>(x), std::as_bytes(std::span<const float>(block)));
  });
  (void)a_case.drafter().draft({.anchor = 1, .tokens = 7, .candidates = 4}, 38);
  const std::vector<double> got = a_case.hidden(8);
  EXPECT_GT(relative_error(got, std::vector<double>(want.begin(), want.end())), 1e-3);
}

// Real head sizes, narrow otherwise.
const SyntheticCheckpoint& narrow_target() {
  static const SyntheticCheckpoint target("synthetic:hidden=512,intermediate=1024,layers=8,vocab=5000?seed=3");
  return target;
}

TEST_F(DrafterHopper, FastArithmeticIsNearTheExact) {
  const auto checkpoint = open_block_drafter(kSyntheticDrafter, narrow_target());
  std::size_t turn = 0;
  for (const WeightFormat format : {WeightFormat::kQ4, WeightFormat::kQ8, WeightFormat::kBF16}) {
    for (const int context : in_turn("contexts", {1, 40, 300}, 3, turn++)) {
      DrafterCase fast(*checkpoint, options_of(ActivationFormat::kBF16, format), 1024);
      DrafterCase exact(*checkpoint, options_of(ActivationFormat::kFP32, format), 1024);
      const std::vector<float> features = random_features(context * fast.columns(), 21);
      fast.absorb(features, 0, 16);
      exact.absorb(features, 0, 16);
      for (const int tokens : some("token counts", {15, 1, 31}, 3, 2)) {
        const DraftRequest request{.anchor = 77, .tokens = tokens, .candidates = 8};
        const Draft got = take(fast.drafter().draft(request, context));
        const Draft want = take(exact.drafter().draft(request, context));
        const double error = relative_error(fast.hidden(tokens + 1), exact.hidden(tokens + 1));
        double largest = 0;
        int same = 0;
        for (std::size_t i = 0; i < got.tokens.size(); i += 8) {
          same += got.tokens[i] == want.tokens[i] ? 1 : 0;
          const double difference =
              std::fabs(static_cast<double>(got.log_probabilities[i] - want.log_probabilities[i]));
          if (!(difference <= largest)) largest = difference;
        }
        std::printf("%s, context %d, %d tokens: hidden %.2e, first log-probability %.3f, first tokens equal %d\n",
                    to_text(format).c_str(), context, tokens, error, largest, same);
        EXPECT_LT(error, 2e-2) << to_text(format) << ", context " << context << ", " << tokens << " tokens";
        EXPECT_LT(largest, 0.1);
        EXPECT_GE(2 * same, tokens);
      }
    }
  }
}

TEST_F(DrafterHopper, PrefillMakesTheContextOfRounds) {
  const auto checkpoint = open_block_drafter(kSyntheticDrafter, narrow_target());
  const EngineOptions options = options_of(ActivationFormat::kBF16, WeightFormat::kQ4);
  DrafterCase rounds(*checkpoint, options, 3000);
  DrafterCase prefill(*checkpoint, options, 3000);
  const int tokens = amount("tokens", 2100, 2100, 280);
  const int piece = tokens / 7 * 5;
  const std::vector<float> features = random_features(tokens * rounds.columns(), 22);
  rounds.absorb(features, 0);
  const auto first = static_cast<std::size_t>(piece * rounds.columns());
  prefill.absorb_prefill(std::span<const float>(features).first(first), 0);
  prefill.absorb_prefill(std::span<const float>(features).subspan(first), piece);
  const DraftRequest request{.anchor = 5, .tokens = 15, .candidates = 8};
  (void)rounds.drafter().draft(request, tokens);
  (void)prefill.drafter().draft(request, tokens);
  const double error = relative_error(prefill.hidden(16), rounds.hidden(16));
  std::printf("prefill against rounds: hidden %.2e\n", error);
  EXPECT_LT(error, 1e-2);
}

// Bit for bit: a draft repeated, graphs or not, features projected within the draft or before it, whatever was drafted
// in between.
TEST_F(DrafterHopper, DraftsAreReproducible) {
  const auto checkpoint = open_block_drafter(kSyntheticDrafter, narrow_target());
  EngineOptions options = options_of(ActivationFormat::kBF16, WeightFormat::kQ4);
  DrafterCase graphs(*checkpoint, options, 1500);
  options.cuda.graph = false;
  options.cuda.programmatic = false;
  DrafterCase plain(*checkpoint, options, 1500);
  const std::vector<float> features = random_features(1100 * graphs.columns(), 23);
  const DraftRequest request{.anchor = 9, .tokens = 15, .candidates = 32, .temperature = 0.8};
  std::int64_t frontier = 0;
  const std::int64_t many = amount<std::int64_t>("tokens at once", 900, 900, 100);
  for (const std::int64_t count : some<std::int64_t>("pieces", {1, 7, 8, 9, 16, 17, 32, many, 64, 3}, 10, 4)) {
    const std::span<const float> piece = std::span<const float>(features).subspan(
        static_cast<std::size_t>(frontier * graphs.columns()), static_cast<std::size_t>(count * graphs.columns()));
    graphs.absorb(piece, frontier);
    plain.absorb(piece, frontier);
    frontier += count;
    const Draft once = take(graphs.drafter().draft(request, frontier));
    (void)graphs.drafter().draft({.anchor = 1, .tokens = 31, .candidates = 1}, frontier);
    EXPECT_TRUE(take(graphs.drafter().draft(request, frontier)) == once) << "at " << frontier;
    plain.drafter().settle();
    EXPECT_TRUE(take(plain.drafter().draft(request, frontier)) == once) << "at " << frontier;
    Draft other =
        take(graphs.drafter().draft({.anchor = 10, .tokens = 15, .candidates = 32, .temperature = 0.8}, frontier));
    EXPECT_FALSE(other == once);
  }
}

TEST_F(DrafterHopper, TheLastSlotsOfTheContext) {
  const auto checkpoint = open_block_drafter(kSyntheticDrafter, narrow_target());
  DrafterCase a_case(*checkpoint, options_of(ActivationFormat::kBF16, WeightFormat::kQ4), 50);
  a_case.absorb(random_features(44 * a_case.columns(), 24), 0);
  EXPECT_EQ(a_case.drafter().draft({.anchor = 5, .tokens = 15, .candidates = 2}, 44).rows, 5);
  a_case.absorb(random_features(5 * a_case.columns(), 25), 44);
  EXPECT_EQ(a_case.drafter().draft({.anchor = 5, .tokens = 15, .candidates = 2}, 49).rows, 0);
  EXPECT_THROW((void)a_case.drafter().draft({.anchor = 5000, .tokens = 1, .candidates = 2}, 44), Error);
  EXPECT_THROW((void)a_case.drafter().draft({.anchor = 5, .tokens = 32, .candidates = 2}, 44), Error);
}

TEST_F(Drafter, FeaturesThatAreNotFiniteAreReported) {
  const auto checkpoint = open_block_drafter(kSyntheticDrafter, narrow_target());
  DrafterCase a_case(*checkpoint, options_of(ActivationFormat::kFP32, WeightFormat::kBF16), 50);
  std::vector<float> features = random_features(3 * a_case.columns(), 26);
  features[100] = std::nanf("");
  a_case.absorb(features, 0);
  EXPECT_THROW((void)a_case.drafter().draft({.anchor = 5, .tokens = 3, .candidates = 2}, 3), Error);
}

}  // namespace
}  // namespace tare::engine::test

// The block drafter of the CPU backend against the public reference's golden rounds, against double precision, and what
// it refuses.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>

#include "base/philox.h"
#include "engine/cpu/block_drafter.h"
#include "tests/engine/cpu_fixture.h"
#include "tests/engine/cpu_reference_drafters.h"
#include "tests/engine/embedded_model.h"
#include "tests/engine/model_files.h"

namespace tare::engine::test {
namespace {

using testing::HasSubstr;

// The fixture's drafter fits hybrid-small: hidden 48, vocabulary 320, 8 layers.
constexpr const char* kTarget = "hybrid-small";
constexpr std::int64_t kContext = 37;

// A directory with the fixture's weights and a config.json of its own.
void write_drafter(const std::filesystem::path& directory, const Json& config) {
  std::filesystem::copy_file(fixture("block-drafter") / "model.safetensors", directory / "model.safetensors");
  write_config(directory, config);
}

Json fixture_config() {
  return read_json_file(fixture("block-drafter") / "config.json");
}

// A drafter by itself, with its target's weights.
struct Alone {
  explicit Alone(const std::string& directory, const std::string& model = fixture(kTarget).string())
      : target(open_checkpoint(model)),
        kernels(select_kernels("auto")),
        pool(2),
        weights(load_model_weights(*target, exact_options(), pool)),
        source(open_block_drafter(directory, *target)),
        drafter(*source, exact_options(), weights, ProposalHead(weights.head), kernels, pool, 128) {}

  void absorb(const std::vector<float>& features, std::int64_t position) {
    const std::size_t width = source->config().taps.size() * static_cast<std::size_t>(source->config().hidden_size);
    const auto count = static_cast<std::int64_t>(features.size() / width);
    drafter.taps()->rows.reserve(count);
    for (std::int64_t row = 0; row < count; ++row)
      std::copy_n(features.data() + static_cast<std::size_t>(row) * width, width, drafter.taps()->rows.row(row));
    drafter.absorb_features(count, position);
  }
  std::vector<float> outputs(const std::vector<float>& block, std::int64_t frontier) {
    const auto hidden = static_cast<std::size_t>(source->config().hidden_size);
    const auto count = static_cast<std::int64_t>(block.size() / hidden);
    RowBuffer rows(source->config().hidden_size);
    rows.reserve(count);
    for (std::int64_t row = 0; row < count; ++row)
      std::copy_n(block.data() + static_cast<std::size_t>(row) * hidden, hidden, rows.row(row));
    drafter.run_block(rows, count, frontier);
    std::vector<float> result;
    const ActivationRows out = drafter.final_rows().view(count);
    for (std::int64_t row = 0; row < count; ++row)
      result.insert(result.end(), out.values + row * out.stride, out.values + row * out.stride + hidden);
    return result;
  }

  std::unique_ptr<Checkpoint> target;
  Kernels kernels;
  ThreadPool pool;
  ModelWeights weights;
  std::unique_ptr<BlockDrafterCheckpoint> source;
  BlockDrafter drafter;
};

std::vector<float> golden(const std::string& name) {
  static const SafetensorsFile file(fixture("block-drafter") / "golden.safetensors");
  return to_floats(file.tensor(name));
}

std::vector<Doubles> rows_of(const std::vector<float>& values, std::size_t width) {
  std::vector<Doubles> rows;
  for (std::size_t begin = 0; begin < values.size(); begin += width)
    rows.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(begin),
                      values.begin() + static_cast<std::ptrdiff_t>(begin + width));
  return rows;
}

double difference_from(const std::vector<Doubles>& expected, const std::vector<float>& found) {
  double most = expected.size() * expected.front().size() == found.size() ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double difference =
        std::fabs(expected[i / expected.front().size()][i % expected.front().size()] - static_cast<double>(found[i]));
    if (!(difference <= most)) most = difference;
  }
  return most;
}

TEST(BlockDrafter, BothGoldenRounds) {
  Alone alone(fixture("block-drafter").string());
  alone.absorb(golden("round1.context_features"), 0);
  const std::vector<float> first = alone.outputs(golden("round1.block_embeddings"), kContext);
  EXPECT_LE(max_difference(first, golden("round1.output_hidden")), 3e-5);
  alone.absorb(golden("round2.context_features"), kContext);
  EXPECT_LE(
      max_difference(alone.outputs(golden("round2.block_embeddings"), kContext + 4), golden("round2.output_hidden")),
      3e-5);
  // Context at and past the frontier is not seen.
  EXPECT_TRUE(same_bits(alone.outputs(golden("round1.block_embeddings"), kContext), first));
  // The control: a context one position short is.
  EXPECT_GE(
      max_difference(alone.outputs(golden("round1.block_embeddings"), kContext - 1), golden("round1.output_hidden")),
      1e-2);
}

// The trained drafter, against a program that shares nothing with its training; and through the backend, where the
// taps are the engine's own.
TEST(BlockDrafter, TheEmbeddedModelsDrafterEqualsItsGolden) {
  const SafetensorsFile file(fixture("embedded-drafter.safetensors"));
  const std::vector<std::int32_t> tokens = integers(file.tensor("input_ids"));
  const std::span<const std::int32_t> context = std::span(tokens).first(tokens.size() - 1);
  Alone alone(embedded_drafter(), embedded_model());
  alone.absorb(to_floats(file.tensor("context_features")), 0);
  EXPECT_LE(max_difference(
                alone.outputs(to_floats(file.tensor("block_embeddings")), static_cast<std::int64_t>(context.size())),
                to_floats(file.tensor("output_hidden"))),
            3e-5);
  EngineOptions options = exact_options();
  options.speculate.drafter = embedded_drafter();
  const std::unique_ptr<Backend> backend = make_cpu_backend(*open_checkpoint(embedded_model()), options);
  backend->prefill(context);
  const DraftOutput draft = backend->draft({tokens.back(), 15, 1, 1});
  EXPECT_THAT(draft.tokens, testing::ElementsAreArray(integers(file.tensor("draft_tokens"))));
}

// Windows, causality, and more rows than the block it was trained for.
TEST(BlockDrafter, EveryMaskEqualsDoublePrecision) {
  const std::vector<float> features = golden("round1.context_features");
  std::vector<float> block = golden("round1.block_embeddings");
  const std::vector<float> more = golden("round2.block_embeddings");
  block.insert(block.end(), more.begin(), more.end());
  const auto with = [](const std::vector<std::string>& kinds, std::int64_t window, const Json& causal) {
    Json config = fixture_config();
    config["layer_types"] = kinds;
    config["sliding_window"] = window;
    config["is_causal"] = causal;
    return config;
  };
  const std::string sliding = "sliding_attention";
  const std::string full_kind = "full_attention";
  const std::vector<Json> configs = {fixture_config(),
                                     with({sliding, full_kind, sliding}, 5, nullptr),  // causal within the block
                                     with({sliding, full_kind, sliding}, 5, false),
                                     with({sliding, sliding, sliding}, 17, true),
                                     with({full_kind, full_kind, full_kind}, 1, true),
                                     with({sliding, full_kind, full_kind}, 1, nullptr),  // sees itself alone
                                     with({sliding, sliding, sliding}, 4096, false)};
  std::vector<std::vector<float>> results;
  for (const Json& config : configs) {
    const ScratchDirectory scratch;
    write_drafter(scratch.path(), config);
    Alone alone(scratch.path().string());
    alone.absorb(features, 0);
    results.push_back(alone.outputs(block, kContext));
    const ReferenceBlockDrafter reference(*alone.source, alone.source->config());
    EXPECT_LE(difference_from(reference.outputs(rows_of(features, 3 * 48), rows_of(block, 48)), results.back()), 3e-5)
        << config.dump();
  }
  // The configurations really differ; a window beyond the text is none.
  for (std::size_t i = 1; i + 1 < results.size(); ++i)
    EXPECT_GE(max_difference(results[0], results[i]), 1e-3) << configs[i].dump();
  EXPECT_TRUE(same_bits(results.front(), results.back()));
}

TEST(BlockDrafter, VisiblePositions) {
  using Range = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(visible_positions({0, false}, 2, 8, 40), Range(0, 48));
  EXPECT_EQ(visible_positions({0, true}, 2, 8, 40), Range(0, 43));
  EXPECT_EQ(visible_positions({3, true}, 2, 8, 40), Range(40, 43));
  EXPECT_EQ(visible_positions({3, false}, 2, 8, 40), Range(40, 45));
  EXPECT_EQ(visible_positions({3, false}, 7, 8, 40), Range(45, 48));
  EXPECT_EQ(visible_positions({100, true}, 0, 8, 40), Range(0, 41));
}

// --- through the backend

EngineOptions drafting_options() {
  EngineOptions options = exact_options();
  options.speculate.drafter = fixture("block-drafter").string();
  return options;
}

std::vector<std::int32_t> text(std::int64_t count) {
  const Philox numbers(5, 5);
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<std::int32_t>(320 * numbers.uniform_at(static_cast<std::uint64_t>(i))));
  return tokens;
}

// Log-probabilities [rows][vocab] of the block at the end of `tokens`, from hidden states that the backend captured:
// tap l is hidden[l + 1 - shift].
std::vector<Doubles> expected_rows(const std::vector<std::int32_t>& tokens, std::int32_t anchor, std::size_t rows,
                                   double temperature, std::size_t shift = 0) {
  const std::unique_ptr<Checkpoint> target = open_checkpoint(fixture(kTarget).string());
  const auto source = open_block_drafter(fixture("block-drafter").string(), *target);
  const std::unique_ptr<Backend> backend = open_backend(kTarget, exact_options());
  const Captured captured = capture_prefill(*backend, tokens);
  std::vector<Doubles> features(tokens.size());
  for (std::size_t t = 0; t < tokens.size(); ++t)
    for (const std::int64_t tap : source->config().taps) {
      const auto first =
          captured.hidden[static_cast<std::size_t>(tap) + 1 - shift].begin() + static_cast<std::ptrdiff_t>(t * 48);
      features[t].insert(features[t].end(), first, first + 48);
    }
  const std::vector<float> embedding = to_floats(target->tensor("embed_tokens.weight"));
  std::vector<Doubles> block;
  for (std::size_t row = 0; row <= rows; ++row) {
    const auto token = static_cast<std::ptrdiff_t>(row == 0 ? anchor : source->config().mask_token);
    block.emplace_back(embedding.begin() + token * 48, embedding.begin() + (token + 1) * 48);
  }
  const std::vector<float> head = to_floats(target->tensor("lm_head.weight"));
  const std::vector<Doubles> outputs = ReferenceBlockDrafter(*source, source->config()).outputs(features, block);
  std::vector<Doubles> result;
  for (std::size_t row = 1; row <= rows; ++row) {
    Doubles logits(320);
    for (std::size_t i = 0; i < logits.size(); ++i)
      for (std::size_t k = 0; k < 48; ++k) logits[i] += static_cast<double>(head[i * 48 + k]) * outputs[row][k];
    result.push_back(log_softmax(logits, temperature));
  }
  return result;
}

// The largest difference of a draft's log-probabilities from the expected ones, or infinity when the candidates are
// not the largest, up to that difference.
double difference(const DraftOutput& draft, const std::vector<Doubles>& expected) {
  double most = 0;
  for (std::int64_t row = 0; row < draft.rows; ++row) {
    const Doubles& law = expected[static_cast<std::size_t>(row)];
    Doubles sorted = law;
    std::sort(sorted.rbegin(), sorted.rend());
    for (std::int64_t rank = 0; rank < draft.candidates; ++rank) {
      const auto at = static_cast<std::size_t>(row * draft.candidates + rank);
      const auto found = static_cast<double>(draft.log_probabilities[at]);
      most = std::max({most, std::fabs(found - law[static_cast<std::size_t>(draft.tokens[at])]),
                       std::fabs(found - sorted[static_cast<std::size_t>(rank)])});
    }
  }
  return most;
}

TEST(BlockDrafter, DraftsAreThoseOfTheTargetsHiddenStates) {
  const std::vector<std::int32_t> tokens = text(60);
  const std::unique_ptr<Backend> backend = open_backend(kTarget, drafting_options());
  ASSERT_TRUE(backend->has_drafter());
  EXPECT_EQ(backend->options().speculate.draft_tokens, 7);
  backend->prefill(tokens);
  for (const double temperature : {1.0, 0.5, 3.0}) {
    const DraftOutput draft = backend->draft({11, 7, 320, temperature});
    ASSERT_EQ(draft.rows, 7);
    ASSERT_EQ(draft.candidates, 320);
    EXPECT_LE(difference(draft, expected_rows(tokens, 11, 7, temperature)),
              4e-4);  // what logits of this model differ by
  }
  // Controls: taps one layer off, another anchor, a position too many.
  const DraftOutput draft = backend->draft({11, 7, 5, 1});
  EXPECT_GE(difference(draft, expected_rows(tokens, 11, 7, 1, 1)), 1e-2);
  EXPECT_GE(difference(draft, expected_rows(tokens, 12, 7, 1)), 1e-2);
  EXPECT_GE(difference(draft, expected_rows(text(61), 11, 7, 1)), 1e-2);
}

// Rows beyond the trained block are more masks; fewer are a shorter block.
TEST(BlockDrafter, OtherLengthsThanTheBlocks) {
  const std::vector<std::int32_t> tokens = text(40);
  const std::unique_ptr<Backend> backend = open_backend(kTarget, drafting_options());
  backend->prefill(tokens);
  for (const std::int64_t rows : {1, 3, 21}) {
    const DraftOutput draft = backend->draft({11, rows, 4, 1});
    ASSERT_EQ(draft.rows, rows);
    EXPECT_LE(difference(draft, expected_rows(tokens, 11, static_cast<std::size_t>(rows), 1)), 4e-4) << rows;
  }
}

TEST(BlockDrafter, QuantisedWeightsOfItsOwnClass) {
  EngineOptions options = drafting_options();
  options.weights.overrides = {{TensorClass::kDrafter, 0, 1, WeightFormat::kQ4}};
  const std::unique_ptr<Backend> backend = open_backend(kTarget, options);
  std::size_t q4 = 0;
  for (const InventoryEntry& entry : backend->inventory(10, 1).entries) {
    const bool chosen = entry.tensor == "drafter.fc.weight" || entry.tensor.starts_with("drafter.layers.0.") ||
                        entry.tensor.starts_with("drafter.layers.1.");
    if (!entry.tensor.ends_with("_proj.weight") && entry.tensor != "drafter.fc.weight") continue;
    EXPECT_EQ(entry.format, chosen ? "q4" : "bf16") << entry.tensor;
    q4 += chosen;
  }
  EXPECT_EQ(q4, 15U);
  const std::vector<std::int32_t> tokens = text(40);
  backend->prefill(tokens);
  const double moved = difference(backend->draft({11, 7, 4, 1}), expected_rows(tokens, 11, 7, 1));
  EXPECT_GT(moved, 1e-3);
  EXPECT_LT(moved, 2);
}

// --- what is refused

void expect_option_refused(const std::string& model, const std::string& drafter, const std::string& where,
                           const std::string& what) {
  expect_refused(
      [&] {
        EngineOptions options = exact_options();
        options.speculate.drafter = drafter;
        (void)make_cpu_backend(*open_checkpoint(model), options);
      },
      where, what);
}

TEST(BlockDrafter, WrongDraftersAreRefused) {
  const std::string drafter = fixture("block-drafter").string();
  expect_option_refused(fixture(kTarget).string(), "/no/such/folder", "speculate.drafter",
                        "'/no/such/folder' is not a directory");
  expect_option_refused(fixture("hybrid-headdim256").string(), drafter, "config.json",
                        "is a drafter for another target");
  expect_option_refused(fixture(kTarget).string(), fixture(kTarget).string(), "config.json.architectures",
                        "'Qwen3_5ForCausalLM' is not supported");
  expect_option_refused(fixture(kTarget).string(), "synthetic", "", "synthetic");
}

TEST(BlockDrafter, LogitsThatAreNotFiniteAreAnErrorWithTheirPosition) {
  const ScratchDirectory scratch;
  write_config(scratch.path(), fixture_config());
  const SafetensorsFile file(fixture("block-drafter") / "model.safetensors");
  std::vector<Tensor> tensors;
  for (const std::string& name : file.names())
    tensors.push_back(name == "norm.weight"
                          ? make_tensor(name, Dtype::kF32, {48}, raw_bytes(std::vector<float>(48, 3e38F)))
                          : file.tensor(name));
  write_safetensors(scratch.path() / "model.safetensors", tensors);
  EngineOptions options = drafting_options();
  options.speculate.drafter = scratch.path().string();
  const std::unique_ptr<Backend> backend = open_backend(kTarget, options);
  backend->prefill(text(10));
  try {
    (void)backend->draft({1, 7, 4, 1});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_EQ(error.parts().where, "position 11");
    EXPECT_THAT(error.parts().what, HasSubstr("drafter's logits are not finite"));
  }
}

// --- candidates

TEST(DraftRows, CandidatesAreTheLargestLogitsTiesToTheLowestId) {
  const Kernels kernels = select_kernels("auto");
  ThreadPool pool(2);
  DraftRows rows(kernels, pool);
  for (const std::int64_t vocab : {1, 2, 63, 64, 65, 4096, 5003})
    for (const std::int64_t candidates : {std::int64_t{1}, std::int64_t{8}, vocab}) {
      if (candidates > vocab) continue;
      constexpr std::int64_t kRows = 3;
      const Philox numbers(static_cast<std::uint64_t>(vocab), static_cast<std::uint64_t>(candidates));
      std::vector<float> logits(static_cast<std::size_t>(kRows * vocab));
      for (std::size_t i = 0; i < logits.size(); ++i)  // rounded, so that many are equal
        logits[i] = std::round(20 * static_cast<float>(numbers.normal_at(i))) / 10;
      rows.begin(kRows, candidates);
      rows.fill(0, logits, vocab, 0.7);
      const DraftOutput output = rows.output();
      for (std::int64_t row = 0; row < kRows; ++row) {
        const std::span<const float> law =
            std::span(logits).subspan(static_cast<std::size_t>(row * vocab), static_cast<std::size_t>(vocab));
        const Doubles expected = log_softmax(Doubles(law.begin(), law.end()), 0.7);
        std::vector<std::int32_t> ids(law.size());
        std::iota(ids.begin(), ids.end(), 0);
        std::stable_sort(ids.begin(), ids.end(), [&law](std::int32_t a, std::int32_t b) {
          return law[static_cast<std::size_t>(a)] > law[static_cast<std::size_t>(b)];
        });
        for (std::int64_t rank = 0; rank < candidates; ++rank) {
          const auto at = static_cast<std::size_t>(row * candidates + rank);
          ASSERT_EQ(output.tokens[at], ids[static_cast<std::size_t>(rank)]) << vocab << ", rank " << rank;
          EXPECT_NEAR(output.log_probabilities[at], expected[static_cast<std::size_t>(output.tokens[at])], 2e-5);
        }
      }
    }
}

}  // namespace
}  // namespace tare::engine::test

// The streamed reference on the CPU against what transformers computed (tests/fixtures/README.md), and against itself
// in other shapes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/thread_pool.h"
#include "engine/cpu/gdn_definition.h"
#include "engine/streamed/cpu_streamed.h"
#include "engine/streamed/matrix_product.h"
#include "engine/streamed/streamed_work.h"
#include "engine/streamed/window_scores.h"
#include "tests/engine/cpu_fixture.h"
#include "tests/engine/model_files.h"
#include "tests/engine/streamed_fixture.h"

namespace tare::engine::test {
namespace {

constexpr std::uint64_t kPlenty = std::uint64_t{1} << 30;

std::vector<float> cpu_logits(const Checkpoint& checkpoint, std::span<const std::int32_t> tokens, int threads = 2,
                              std::vector<std::vector<float>>* hidden = nullptr) {
  const auto backend = make_cpu_streamed(checkpoint, {1, static_cast<std::int64_t>(tokens.size())}, threads, kPlenty);
  return streamed_logits(checkpoint, *backend, tokens, hidden);
}

struct GoldenCase {
  const char* model;
  const char* golden;
  double tolerance;  // tests/fixtures/README.md: what FP32 rounding alone moves
};

class StreamedGoldens : public testing::TestWithParam<GoldenCase> {};

TEST_P(StreamedGoldens, LogitsEqualTransformers) {
  const GoldenCase& test = GetParam();
  const auto checkpoint = open_checkpoint(fixture(test.model).string());
  const Golden golden(fixture(test.model) / test.golden);
  std::vector<std::vector<float>> hidden;
  const std::vector<float> logits = cpu_logits(*checkpoint, golden.tokens, 2, &hidden);
  const double difference = max_difference(logits, golden.floats("logits"));
  EXPECT_LT(difference, test.tolerance);
  RecordProperty("difference", std::to_string(difference));
  for (std::size_t i = 0; i + 1 < hidden.size(); ++i) {  // the last golden is after the final norm
    const std::string name = "hidden." + std::to_string(i);
    if (!golden.file.has(name)) continue;
    EXPECT_LT(max_difference(hidden[i], golden.floats(name)), test.tolerance) << name;
  }
}

TEST_P(StreamedGoldens, LogProbabilitiesOfTheNextTokenEqualTransformers) {
  const GoldenCase& test = GetParam();
  const auto checkpoint = open_checkpoint(fixture(test.model).string());
  const Golden golden(fixture(test.model) / test.golden);
  const ScratchDirectory scratch;
  const std::filesystem::path out = scratch.path() / "reference.safetensors";
  const std::vector<StreamedWindow> windows = {{{"golden", "prose"}, golden.tokens}};
  const auto backend = make_cpu_streamed(*checkpoint, {1, static_cast<std::int64_t>(golden.tokens.size())}, 2, kPlenty);
  (void)run_streamed(*checkpoint, *backend, windows, {.out = out, .backend = "cpu"});
  const Reference reference = read_reference(out);
  EXPECT_LT(max_difference(reference.next_log_probability, golden.floats("logprob_of_next")), test.tolerance);
  EXPECT_EQ(reference.digests.checkpoint, checkpoint->digest());
  EXPECT_FALSE(std::filesystem::exists(out.string() + ".work")) << "a finished reference leaves nothing beside it";
}

INSTANTIATE_TEST_SUITE_P(Fixtures, StreamedGoldens,
                         testing::Values(GoldenCase{"hybrid-small", "golden-97.safetensors", 4e-4},
                                         GoldenCase{"hybrid-small", "golden-261.safetensors", 4e-4},
                                         GoldenCase{"hybrid-headdim256", "golden-97.safetensors", 3e-5},
                                         GoldenCase{"hybrid-headdim256", "golden-261.safetensors", 3e-5}));

// A planted fault: every tensor in turn is off by 10 % (a gain that forgets its 1 is farther off), and the comparison
// with the golden sees each.
TEST(StreamedFaults, AFaultInAnyTensorIsSeenByTheGoldens) {
  const auto checkpoint = open_checkpoint(fixture("hybrid-headdim256").string());
  const Golden golden(fixture("hybrid-headdim256") / "golden-97.safetensors");
  const std::span<const std::int32_t> tokens = std::span(golden.tokens).first(33);
  const std::vector<float> wanted = golden.floats("logits");
  const std::size_t compared = tokens.size() * static_cast<std::size_t>(checkpoint->config().vocab_size);
  std::size_t tensors = 0;
  for (const std::string& name : checkpoint->names()) {
    if (name.starts_with("mtp.")) continue;
    const ChangedCheckpoint changed(*checkpoint, name, [](float value, std::size_t) { return value * 1.1F + 0.01F; });
    const double difference = max_difference(cpu_logits(changed, tokens), std::span(wanted).first(compared));
    EXPECT_GT(difference, 10 * 3e-5) << name;
    ++tensors;
  }
  EXPECT_EQ(tensors, 3U + 3 * 14 + 11);
}

TEST(StreamedModel, ShorterWindowsHaveTheSameBits) {
  const auto checkpoint = open_checkpoint(fixture("hybrid-small").string());
  const Golden golden(fixture("hybrid-small") / "golden-261.safetensors");
  const std::vector<float> whole = cpu_logits(*checkpoint, golden.tokens);
  for (const std::size_t length : {1, 2, 63, 64, 65, 96, 97, 129}) {
    const std::vector<float> logits = cpu_logits(*checkpoint, std::span(golden.tokens).first(length));
    EXPECT_TRUE(same_bits(logits, std::span(whole).first(logits.size()))) << length;
  }
}

TEST(StreamedModel, ThreadsDoNotChangeTheBits) {
  const auto checkpoint = open_checkpoint(fixture("hybrid-headdim256").string());
  const Golden golden(fixture("hybrid-headdim256") / "golden-261.safetensors");
  EXPECT_TRUE(same_bits(cpu_logits(*checkpoint, golden.tokens, 1), cpu_logits(*checkpoint, golden.tokens, 3)));
}

TEST(StreamedModel, WindowsDoNotSeeEachOther) {
  const auto checkpoint = open_checkpoint(fixture("hybrid-small").string());
  const std::vector<StreamedWindow> windows = random_windows(5, 65, checkpoint->config().vocab_size);
  const auto together = make_cpu_streamed(*checkpoint, {5, 65}, 2, kPlenty);
  ASSERT_EQ(together->batch_windows(), 5);
  together->load_embedding();
  for (std::int64_t i = 0; i < 5; ++i) together->embed(i, windows[static_cast<std::size_t>(i)].tokens);
  for (std::int64_t layer = 0; layer < checkpoint->config().layer_count(); ++layer) {
    together->load_layer(layer);
    EXPECT_EQ(together->run_layer(0, 5), -1);
  }
  together->load_head();
  for (std::int64_t i = 0; i < 5; ++i) {
    const std::vector<float> alone = cpu_logits(*checkpoint, windows[static_cast<std::size_t>(i)].tokens);
    std::vector<float> logits(alone.size());
    together->logits(i, logits);
    EXPECT_TRUE(same_bits(logits, alone)) << i;
  }
}

TEST(StreamedProducts, EqualDoublePrecision) {
  Philox random(3);
  ThreadPool pool(2);
  for (const auto& [count, rows, columns] : std::vector<std::array<std::int64_t, 3>>{
           {1, 1, 1}, {3, 31, 5}, {97, 33, 511}, {95, 64, 512}, {96, 600, 513}, {7, 32, 1500}}) {
    const auto numbers = [&](std::int64_t size) {
      std::vector<float> values(static_cast<std::size_t>(size));
      for (float& value : values) value = static_cast<float>(random.normal());
      return values;
    };
    const std::vector<float> a = numbers(count * columns);
    const std::vector<float> b = numbers(rows * columns);
    std::vector<float> c = numbers(count * rows);
    const std::vector<float> before = c;
    PackedMatrix packed;
    packed.resize(rows, columns);
    for (std::int64_t panel = 0; panel < packed.panel_count(); ++panel)
      packed.fill_panel(panel, b.data() + panel * kPanelRows * columns, columns, 1);
    multiply(pool, {a.data(), columns}, count, packed, {c.data(), rows}, ProductTarget::kAdd);
    double most = 0;
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t n = 0; n < rows; ++n) {
        double sum = static_cast<double>(before[static_cast<std::size_t>(i * rows + n)]);
        for (std::int64_t l = 0; l < columns; ++l)
          sum += static_cast<double>(a[static_cast<std::size_t>(i * columns + l)]) *
                 static_cast<double>(b[static_cast<std::size_t>(n * columns + l)]);
        most = std::max(most, std::abs(sum - static_cast<double>(c[static_cast<std::size_t>(i * rows + n)])));
      }
    EXPECT_LT(most, 3e-7 * static_cast<double>(columns) + 1e-6) << count << " " << rows << " " << columns;
  }
}

TEST(StreamedProducts, RecurrenceEqualsItsDefinitionInDouble) {
  Philox random(4);
  constexpr std::int64_t kTokens = 70;
  constexpr std::int64_t kKeys = 13;
  constexpr std::int64_t kValues = 41;
  std::vector<float> query, key, value, alpha, beta;
  std::vector<double> state(kKeys * kValues);
  std::vector<float> wanted;
  for (std::int64_t t = 0; t < kTokens; ++t) {
    const auto vector = [&](std::int64_t size, double scale, std::vector<float>& all) {
      std::vector<double> own;
      for (std::int64_t i = 0; i < size; ++i) {
        all.push_back(static_cast<float>(random.normal() * scale));
        own.push_back(static_cast<double>(all.back()));
      }
      return own;
    };
    alpha.push_back(static_cast<float>(std::exp(-0.3 * random.uniform())));
    beta.push_back(static_cast<float>(random.uniform()));
    GdnToken token;
    token.query = vector(kKeys, 0.3, query);
    token.key = vector(kKeys, 0.3, key);
    token.value = vector(kValues, 1, value);
    token.gates = {static_cast<double>(beta.back()), std::log(static_cast<double>(alpha.back()))};
    for (const double o : gdn_step(token, state).o) wanted.push_back(static_cast<float>(o));
  }
  std::vector<float> out(wanted.size());
  std::vector<float> space;
  run_recurrence({.tokens = kTokens,
                  .key_dim = kKeys,
                  .value_dim = kValues,
                  .query = {query.data(), kKeys},
                  .key = {key.data(), kKeys},
                  .value = {value.data(), kValues},
                  .alpha = alpha.data(),
                  .beta = beta.data(),
                  .gate_stride = 1,
                  .out = {out.data(), kValues}},
                 space);
  EXPECT_LT(max_difference(out, wanted), 2e-6);
}

TEST(StreamedScores, OfAPositionAreThoseOfASortedList) {
  Philox random(5);
  std::vector<float> logits(300);
  for (float& logit : logits) logit = static_cast<float>(random.below(40)) / 4 - 3;  // many are equal
  std::vector<std::int32_t> top_ids(2 * 64);
  std::vector<float> top(2 * 64);
  std::vector<float> normalizers(2);
  std::vector<float> next(1);
  WindowScores scores{
      .top_ids = top_ids, .top_log_probabilities = top, .log_sum_exp = normalizers, .next_log_probability = next};
  std::vector<std::int32_t> order;
  score_position(logits, 0, 17, scores, order);
  score_position(logits, 1, -1, scores, order);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  std::vector<std::int32_t> ids(logits.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i);
  std::stable_sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  EXPECT_EQ(scores.first_not_finite, -1);
  for (std::size_t position = 0; position < 2; ++position) {
    EXPECT_NEAR(normalizers[position], std::log(sum), 1e-6);
    for (std::size_t i = 0; i < 64; ++i) {
      EXPECT_EQ(top_ids[position * 64 + i], ids[i]);
      EXPECT_NEAR(top[position * 64 + i], logits[static_cast<std::size_t>(ids[i])] - std::log(sum), 1e-6);
    }
  }
  EXPECT_NEAR(next[0], logits[17] - std::log(sum), 1e-6);
}

TEST(StreamedWork, FlopsOfThe27BAreThoseOfItsWeights) {
  const auto model = open_checkpoint("synthetic:27b?seed=1");
  // 25,624,600,064 parameters are read for a token; of these the norms (129 of 5120, 48 of 128, 16 x 2 of 256), A_log
  // and dt_bias (48 x 2 of 48) are no products. Then 48 recurrences, and attention over half the window.
  const double weights = 25'624'600'064.0 - 129 * 5120 - 48 * 128 - 16 * 2 * 256 - 48 * 2 * 48;
  const double recurrences = 7.0 * 128 * 128 * 48 * 48;
  const double attention = 4.0 * 24 * 256 * 16 * (2048 + 1) / 2;
  EXPECT_DOUBLE_EQ(reference_flops(model->config(), 44, 2048), (2 * weights + recurrences + attention) * 44 * 2048);
}

TEST(StreamedWork, The27BFitsIntoTheMemoryOfAWorkstation) {
  const auto model = open_checkpoint("synthetic:27b?seed=1");
  const StreamedMemory memory = plan_cpu_streamed(*model, {44, 2048}, 2, 0);
  EXPECT_LT(total_bytes(memory.host), 16'000'000'000U);
  EXPECT_EQ(memory.slots, 2);
  EXPECT_EQ(plan_cpu_streamed(*model, {44, 2048}, 2, std::uint64_t{8} << 30).slots, 44);
}

}  // namespace
}  // namespace tare::engine::test

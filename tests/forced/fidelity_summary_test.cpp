#include "forced/fidelity_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>

#include "base/error.h"
#include "base/philox.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/decode/sampling.h"
#include "tests/forced/fidelity_reference.h"
#include "tests/source_folder.h"

namespace tare::forced {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::filesystem::path fixture() {
  return source_folder() / "tests" / "fixtures" / "fidelity";
}

template <class Element>
std::vector<Element> values_of(const engine::Tensor& tensor) {
  std::vector<Element> values(static_cast<std::size_t>(tensor.element_count()));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

struct Case {
  std::vector<float> reference_logits;
  std::vector<float> logits;
  std::int64_t vocab = 0;
  engine::Reference reference;
  WindowScores scores;
};

WindowScores score_all(const std::vector<float>& logits, const engine::Reference& reference, int bits = kNoRounding) {
  ThreadPool pool(2);
  WindowScores scores = make_window_scores(reference);
  const auto window_size = static_cast<std::size_t>(reference.window_tokens * reference.vocab_size);
  for (std::int64_t w = 0; w < reference.window_count(); ++w) {
    // In two pieces, the way they come from a model.
    const auto all = std::span(logits).subspan(static_cast<std::size_t>(w) * window_size, window_size);
    const auto cut = static_cast<std::size_t>(5 * reference.vocab_size);
    auto& own = scores[static_cast<std::size_t>(w)];
    score_rows(pool, all.first(cut), reference, w, 0, own, bits);
    score_rows(pool, all.subspan(cut), reference, w, 5, own, bits);
  }
  return scores;
}

Case numpy_case() {
  const engine::SafetensorsFile file(fixture() / "case.safetensors");
  const engine::Tensor logits = file.tensor("logits");
  Case result;
  result.vocab = logits.shape.at(2);
  result.logits = values_of<float>(logits);
  result.reference_logits = values_of<float>(file.tensor("reference_logits"));
  result.reference = test::reference_of(result.reference_logits, values_of<std::int32_t>(file.tensor("tokens")),
                                        {{"a", "prose"}, {"b", "code"}, {"c", "prose"}, {"d", "code"}}, result.vocab);
  result.scores = score_all(result.logits, result.reference);
  return result;
}

TEST(FidelityGolden, EveryPositionEqualsNumpys) {
  const Case numpy = numpy_case();
  const Json golden = read_json_file(fixture() / "golden.json");
  std::size_t row = 0;
  for (const auto& window : numpy.scores) {
    for (const PositionScore& score : window) {
      const Json& wanted = golden["positions"][row++];
      EXPECT_NEAR(score.kl64, wanted["kl64"].get<double>(), 1e-6) << row;
      EXPECT_NEAR(score.kl64_tail, wanted["kl64_tail"].get<double>(), 1e-6) << row;
      EXPECT_LE(score.kl64_tail, wanted["full"].get<double>() + kReferenceRounding) << row;
      EXPECT_NEAR(score.nll, wanted["nll"].get<double>(), 1e-9) << row;
      EXPECT_EQ(score.best, wanted["best"].get<int>()) << row;
      EXPECT_EQ(score.agrees ? 1 : 0, wanted["agrees"].get<int>()) << row;
    }
  }
  EXPECT_EQ(row, golden["positions"].size());
}

// Means, perplexity, quantiles and standard errors are llama-perplexity's where its definitions are the same.
TEST(FidelityGolden, SummariesEqualNumpys) {
  const Case numpy = numpy_case();
  const Json golden = read_json_file(fixture() / "golden.json");
  ASSERT_EQ(summary_kinds(numpy.reference), (std::vector<std::string>{"all", "prose", "code"}));
  for (const std::string& kind : summary_kinds(numpy.reference)) {
    const FidelitySummary summary = summarise(numpy.reference, numpy.scores, kind);
    const Json& wanted = golden["summaries"][kind];
    const auto near = [&](const std::string& name, double got) {
      EXPECT_NEAR(got, wanted[name].get<double>(), 1e-6) << kind << " " << name;
    };
    near("kl64", summary.kl64.mean);
    near("kl64_tail", summary.kl64_tail.mean);
    near("kl64_tail_standard_error", summary.kl64_tail.independent_standard_error);
    near("kl64_tail_trimmed", summary.trimmed_kl64_tail);
    near("agrees", summary.top1.mean);
    near("nll", summary.nll.mean);
    near("nll_standard_error", summary.nll.independent_standard_error);
    near("nll_difference", summary.nll_difference.mean);
    near("perplexity", summary.perplexity);
    for (std::size_t i = 0; i < summary.quantiles.size(); ++i)
      EXPECT_NEAR(summary.quantiles[i], wanted["kl64_tail_quantiles"][i].get<double>(), 1e-6) << kind << " " << i;
    for (std::size_t i = 0; i < summary.margins.size(); ++i) {
      EXPECT_EQ(summary.margins[i].positions, wanted["margin_positions"][i].get<std::int64_t>()) << kind << " " << i;
      EXPECT_EQ(summary.margins[i].agreed, wanted["margin_agreed"][i].get<std::int64_t>()) << kind << " " << i;
    }
  }
}

// The stored answers are the script's, wherever numpy is.
TEST(FidelityGolden, IsWhatTheScriptComputes) {
  if (std::system("python3 -c 'import numpy' 2>/dev/null") != 0) GTEST_SKIP() << "python3 has no numpy";
  const std::string script = (fixture() / "make_case.py").string();
  EXPECT_EQ(std::system(("python3 '" + script + "' --check").c_str()), 0);
}

TEST(Fidelity, CountsFromTheFirstPositionAsked) {
  const Case numpy = numpy_case();
  const FidelitySummary half = summarise(numpy.reference, numpy.scores, "all", {.first_position = 12});
  EXPECT_EQ(half.positions, 4 * (24 - 1 - 12));
  double sum = 0;
  for (const auto& window : numpy.scores)
    for (std::size_t i = 12; i < window.size(); ++i) sum += window[i].nll;
  EXPECT_NEAR(half.nll.mean, sum / static_cast<double>(half.positions), 1e-12);
  EXPECT_THROW((void)summarise(numpy.reference, numpy.scores, "all", {.first_position = 23}), Error);
  EXPECT_THROW((void)summarise(numpy.reference, numpy.scores, "verse", {}), Error);
}

// Equal windows move the arm and the baseline alike: the paired difference is narrower than either.
TEST(Fidelity, PairedDifferencesAreByWindow) {
  const Case numpy = numpy_case();
  const WindowScores rounded = score_all(numpy.logits, numpy.reference, 6);
  const FidelityDifference difference = summarise_difference(numpy.reference, rounded, numpy.scores, "all");
  const FidelitySummary arm = summarise(numpy.reference, rounded, "all");
  const FidelitySummary baseline = summarise(numpy.reference, numpy.scores, "all");
  EXPECT_NEAR(difference.kl64_tail.mean, arm.kl64_tail.mean - baseline.kl64_tail.mean, 1e-12);
  ASSERT_TRUE(difference.kl64_tail.interval.has_value());
  EXPECT_LT(difference.kl64_tail.interval->half_width(), arm.kl64_tail.interval->half_width() / 4);
  EXPECT_LE(*difference.kl64_tail.upper_bound, difference.kl64_tail.interval->high);
  const FidelityDifference none = summarise_difference(numpy.reference, rounded, rounded, "all");
  EXPECT_EQ(none.kl64_tail.mean, 0);
  EXPECT_EQ(*none.kl64_tail.upper_bound, 0);
}

TEST(Fidelity, InfiniteScoresAreCountedAndNotHidden) {
  Case numpy = numpy_case();
  numpy.scores[2][7].kl64_tail = std::numeric_limits<double>::infinity();
  const FidelitySummary summary = summarise(numpy.reference, numpy.scores, "all");
  EXPECT_EQ(summary.infinite, 1);
  EXPECT_TRUE(std::isinf(summary.kl64_tail.mean));
  EXPECT_FALSE(summary.kl64_tail.interval.has_value());
  EXPECT_TRUE(to_json(summary)["kl64_tail"]["mean"].is_null());
  EXPECT_EQ(summarise(numpy.reference, numpy.scores, "code").infinite, 0);
}

TEST(WindowScores, NameTheWindowAndThePositionOfANaN) {
  Case numpy = numpy_case();
  numpy.logits[static_cast<std::size_t>((2 * 24 + 9) * numpy.vocab + 17)] = std::numeric_limits<float>::quiet_NaN();
  try {
    (void)score_all(numpy.logits, numpy.reference);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("window c, position 9"), HasSubstr("token 17"), HasSubstr("NaN")));
  }
}

TEST(WindowScores, RoundAsTheEnginesInstrumentDoes) {
  const Case numpy = numpy_case();
  std::vector<float> rounded = numpy.logits;
  for (float& logit : rounded) logit = engine::round_mantissa(logit, 5);
  const WindowScores wanted = score_all(rounded, numpy.reference);
  const WindowScores got = score_all(numpy.logits, numpy.reference, 5);
  EXPECT_EQ(got[1][4].kl64_tail, wanted[1][4].kl64_tail);
  EXPECT_NE(got[1][4].kl64_tail, numpy.scores[1][4].kl64_tail);
}

// 100,000 positions of a vocabulary of 4,096 in a second of two cores: by processor time, since others compute here.
TEST(WindowScores, HundredThousandPositionsTakeLessThanTwoProcessorSeconds) {
  constexpr std::int64_t kVocab = 4096;
  constexpr std::int64_t kTokens = 1001;
  constexpr int kTimes = 100;
  Philox random(9);
  std::vector<float> logits(kTokens * kVocab);
  for (float& logit : logits) logit = static_cast<float>(8 * (random.uniform() + random.uniform() + random.uniform()));
  std::vector<std::int32_t> tokens(kTokens);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random.below(kVocab));
  const engine::Reference reference = test::reference_of(logits, tokens, {{"a", "prose"}}, kVocab);
  ThreadPool pool(2);
  WindowScores scores = make_window_scores(reference);
  const std::clock_t start = std::clock();
  for (int time = 0; time < kTimes; ++time) score_rows(pool, logits, reference, 0, 0, scores[0]);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  RecordProperty("processor_seconds", std::to_string(seconds));
  std::printf("100,000 positions of %lld: %.2f processor seconds\n", static_cast<long long>(kVocab), seconds);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer takes its own time";
#else
  EXPECT_LT(seconds, 2.0);
#endif
}

}  // namespace
}  // namespace tare::forced

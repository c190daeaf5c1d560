// tare fidelity's library: arms against a reference of their own model, from the walk to the verdict.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/digest.h"
#include "base/error.h"
#include "base/file.h"
#include "base/philox.h"
#include "engine/backends/make_backend.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/decode/session.h"
#include "engine/tokenizer/tokenizer.h"
#include "forced/fidelity_policy.h"
#include "forced/forced_passes.h"
#include "forced/rounds_file.h"
#include "forced/windows.h"
#include "harness/fidelity/decision_states.h"
#include "harness/fidelity/fidelity_report.h"
#include "harness/fidelity/measure_fidelity.h"
#include "harness/fidelity/needle_arms.h"
#include "harness/fidelity/rollout_arms.h"
#include "tests/forced/fidelity_reference.h"
#include "tests/source_folder.h"

namespace tare::harness {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string model() {
  return (source_folder() / "tests" / "fixtures" / "hybrid-small").string();
}

engine::EngineOptions options_of(const std::vector<std::string>& assignments) {
  engine::EngineOptions options;
  engine::apply_option(options, "cpu.threads=1");
  engine::apply_option(options, "kv.key=fp32");
  engine::apply_option(options, "kv.value=fp32");
  for (const std::string& assignment : assignments) engine::apply_option(options, assignment);
  return options;
}

constexpr std::int64_t kTokens = 33;

// Of the engine itself in FP32, decoded token by token: what `tare reference` computes, by other code.
const engine::Reference& reference() {
  static const engine::Reference made = [] {
    const auto checkpoint = engine::open_checkpoint(model());
    const auto backend = engine::make_backend(*checkpoint, options_of({}));
    const std::int64_t vocab = checkpoint->config().vocab_size;
    std::vector<engine::ReferenceWindow> windows;
    for (int i = 0; i < 44; ++i) windows.push_back({"w" + std::to_string(i), i % 2 == 0 ? "prose" : "code"});
    Philox random(8);
    std::vector<std::int32_t> tokens(windows.size() * kTokens);
    for (std::int32_t& token : tokens)
      token = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocab)));
    std::vector<float> logits;
    for (std::size_t w = 0; w < windows.size(); ++w)
      forced::prefill_window(
          *backend, std::span(tokens).subspan(w * kTokens, kTokens), {.logits = true, .hidden = false},
          [&](const forced::PassRows& rows) { logits.insert(logits.end(), rows.logits.begin(), rows.logits.end()); });
    engine::Reference reference = forced::test::reference_of(logits, tokens, windows, vocab);
    reference.digests = {checkpoint->digest(), "", digest("texts"), digest_tokens(tokens)};
    engine::check_reference(reference, "made");
    return reference;
  }();
  return made;
}

FidelityMeasurement measure(const std::vector<FidelityArm>& arms, bool ladder = false) {
  FidelitySettings settings;
  settings.model = model();
  settings.arms = arms;
  settings.round_nodes = {1, 6};
  settings.ladder = ladder;
  return measure_fidelity(reference(), settings, [](const std::string&, std::int64_t, std::int64_t) {});
}

const Json& row_of(const Json& fidelity, const std::string& arm, const std::string& path, std::int64_t nodes,
                   const std::string& head, const std::string& kind = "all") {
  for (const Json& row : fidelity["rows"])
    if (row["arm"] == arm && row["path"] == path && row.value("nodes", std::int64_t{0}) == nodes &&
        row["head"] == head && row["kind"] == kind)
      return row;
  throw std::runtime_error("no row of " + arm + " " + path + " " + head);
}

double kl(const Json& row) {
  return row["kl64_tail"]["mean"].get<double>();
}

Json json_of(const FidelityMeasurement& measurement) {
  return fidelity_json(reference(), measurement,
                       {.model = "m", .reference_file = "r", .reference_digest = "d", .summary = {}});
}

TEST(MeasureFidelity, TheEngineItselfLosesNothingOnAnyPath) {
  const Json fidelity = json_of(measure({{"fp32", options_of({})}}));
  // prefill own; decode 1 and 6, own and exact head; three kinds each.
  EXPECT_EQ(fidelity["rows"].size(), 15U);
  for (const Json& row : fidelity["rows"]) {
    EXPECT_LT(std::abs(kl(row)), 1e-6) << row["path"] << row["head"];
    EXPECT_GT(row["top1"]["mean"].get<double>(), 0.999);
    EXPECT_NEAR(row["perplexity"].get<double>(), row["reference_perplexity"].get<double>(), 1e-3);
    EXPECT_FALSE(row.contains("difference"));
  }
  EXPECT_GT(fidelity["arms"][0]["bytes_per_round"].get<double>(), 0);
  EXPECT_GT(fidelity["arms"][0]["decode_tokens_per_second"].get<double>(), 0);
}

TEST(MeasureFidelity, TellsLayersFromHeadAndOrdersFormats) {
  const Json fidelity =
      json_of(measure({{"bf16", options_of({})},
                       {"q8", options_of({"weights.format=q8"})},
                       {"q3", options_of({"weights.format=q3"})},
                       {"q3 head", options_of({R"(weights.overrides=[{"tensors": "head", "format": "q3"}])"})}}));
  EXPECT_LT(kl(row_of(fidelity, "bf16", "decode", 1, "own")), kl(row_of(fidelity, "q8", "decode", 1, "own")));
  EXPECT_LT(10 * kl(row_of(fidelity, "q8", "decode", 1, "own")), kl(row_of(fidelity, "q3", "decode", 1, "own")));
  EXPECT_GT(kl(row_of(fidelity, "q3 head", "decode", 1, "own")), 1e-4);
  EXPECT_LT(kl(row_of(fidelity, "q3 head", "decode", 1, "exact")), 1e-6) << "its layers are exact";
  EXPECT_EQ(kl(row_of(fidelity, "q3", "decode", 1, "own")), kl(row_of(fidelity, "q3", "decode", 6, "own")))
      << "rounds that reject say what token by token says";
  EXPECT_TRUE(row_of(fidelity, "q3", "prefill", 0, "own").contains("difference"));
}

// What is finished can be written while the rest goes on, in the order of the arms however many walk at a time.
TEST(MeasureFidelity, HandsOnArmsAsTheyAreDone) {
  FidelitySettings settings;
  settings.model = model();
  settings.arms = {
      {"a", options_of({})}, {"b", options_of({"weights.format=q8"})}, {"c", options_of({"weights.format=q4"})}};
  settings.round_nodes = {4};
  settings.jobs = 3;
  const engine::Reference few = first_windows(reference(), 4);
  const FidelityConditions conditions{.model = "m", .reference_file = "r", .reference_digest = "d", .summary = {}};
  Json fidelity = begin_fidelity(few, "a", conditions);
  EXPECT_EQ(fidelity["complete"], false);
  std::vector<std::size_t> arms;
  const FidelityMeasurement measurement = measure_fidelity(
      few, settings, [](const std::string&, std::int64_t, std::int64_t) {},
      [&](const FidelityMeasurement& so_far) {
        arms.push_back(so_far.arms.size());
        add_arm(fidelity, few, so_far, conditions);
        EXPECT_THAT(fidelity_markdown(fidelity), HasSubstr("stopped"));
      });
  EXPECT_EQ(arms, (std::vector<std::size_t>{1, 2, 3}));
  fidelity["complete"] = true;
  EXPECT_EQ(fidelity, fidelity_json(few, measurement, conditions));
  EXPECT_THAT(fidelity_markdown(fidelity), testing::Not(HasSubstr("stopped")));
}

TEST(MeasureFidelity, AScreenedHeadHasItsChoicesScored) {
  const Json fidelity = json_of(measure({{"fp32", options_of({})}, {"screen", options_of({"head.screen=q4"})}}));
  const Json& row = row_of(fidelity, "screen", "decode", 1, "screened");
  EXPECT_GT(row["top1"]["mean"].get<double>(), 0.95);
  EXPECT_TRUE(row["kl64_tail"]["mean"].is_null());
  EXPECT_EQ(row["infinite"], 0) << "unknown is not infinite";
  EXPECT_LT(std::abs(kl(row_of(fidelity, "screen", "decode", 1, "exact"))), 1e-6);
  EXPECT_THAT(fidelity_markdown(fidelity), HasSubstr("screened"));
}

TEST(MeasureFidelity, TheLadderIsTheInstrumentPerturb) {
  const Json fidelity = json_of(
      measure({{"fp32", options_of({})}, {"rounded", options_of({"perturb.place=logits", "perturb.bits=4"})}}, true));
  ASSERT_EQ(fidelity["ladder"].size(), 3U * (kFirstRung - kLastRung + 1));
  double last = -1;
  std::int64_t turned = -1;
  for (const Json& rung : fidelity["ladder"]) {
    if (rung["path"] != "prefill") continue;
    EXPECT_GE(kl(rung), last - 1e-7) << "rung " << rung["rung"];
    last = kl(rung);
    if (rung["rung"] == kFirstRung) turned = rung["turned"];
    if (rung["rung"] == kLastRung) {
      EXPECT_EQ(rung["bits"], 4);
      EXPECT_EQ(kl(rung), kl(row_of(fidelity, "rounded", "prefill", 0, "own")));
      EXPECT_GT(rung["turned"].get<std::int64_t>(), turned);
    }
  }
  EXPECT_GT(last, 1e-5) << "a rung of 2^-5 must be seen";
  EXPECT_THAT(fidelity_markdown(fidelity), HasSubstr("2^-20"));
}

// A copy of the model in which a codec went wrong in one matrix of 40: the two halves of every byte are read in the
// other order, so neighbours change places.
std::filesystem::path model_of_swapped_nibbles() {
  const std::filesystem::path copy = std::filesystem::path(testing::TempDir()) / "fidelity_swapped";
  std::filesystem::remove_all(copy);
  std::filesystem::copy(model(), copy);
  std::string bytes = read_text_file(copy / "model.safetensors");
  const engine::SafetensorsFile file(std::filesystem::path(model()) / "model.safetensors");
  const std::vector<std::string> names = file.names();
  const auto name = std::find_if(names.begin(), names.end(), [](const std::string& tensor) {
    return tensor.ends_with("layers.1.mlp.down_proj.weight");
  });
  const engine::Tensor tensor = file.tensor(*name);
  const auto begin = static_cast<std::size_t>(tensor.bytes.data() - file.data_bytes().data()) +
                     (bytes.size() - file.data_bytes().size());
  for (std::size_t at = begin; at + 4 <= begin + tensor.bytes.size(); at += 4) {
    std::swap(bytes[at], bytes[at + 2]);
    std::swap(bytes[at + 1], bytes[at + 3]);
  }
  write_file_atomically(copy / "model.safetensors", bytes);
  return copy;
}

// The positive control: a corrupted codec must fail where the sound one passes.
TEST(FidelityGate, ACorruptedCodecFails) {
  const FidelityMeasurement sound = measure({{"bf16", options_of({})}, {"q8", options_of({"weights.format=q8"})}});
  const Json policy_json = parse_json(R"({"margins": {"kl64_tail": 0.02, "top1": 0.25}})", "policy");
  const forced::FidelityPolicy policy = forced::read_fidelity_policy(JsonReader(policy_json, "policy"));
  const auto verdict = [&](const FidelityMeasurement& measured) {
    Json fidelity = json_of(measured);
    add_verdicts(fidelity, forced::judge_fidelity(fidelity, policy, "f"), "p");
    EXPECT_THAT(fidelity_markdown(fidelity), HasSubstr("Verdict"));
    return fidelity["verdict"].get<std::string>();
  };
  EXPECT_EQ(verdict(sound), "non_inferior");

  FidelitySettings settings;
  settings.model = model_of_swapped_nibbles().string();
  settings.reference_model = model();
  settings.arms = {{"q8", options_of({"weights.format=q8"})}};
  settings.round_nodes = {1, 6};
  FidelityMeasurement corrupted =
      measure_fidelity(reference(), settings, [](const std::string&, std::int64_t, std::int64_t) {});
  std::filesystem::remove_all(settings.model);
  FidelityMeasurement both = measure({{"bf16", options_of({})}});
  both.arms.push_back(corrupted.arms.front());
  for (FidelityPass& pass : corrupted.passes) both.passes.push_back(std::move(pass));
  EXPECT_EQ(verdict(both), "worse");
}

TEST(DecisionStates, AreReachedColdAndContinuedAndAgain) {
  ASSERT_EQ(decision_states(reference()).size(), 64U);
  FidelitySettings settings;
  settings.model = model();
  settings.arms = {{"fp32", options_of({})}, {"q3", options_of({"weights.format=q3"})}};
  const std::vector<ArmDecisions> decisions =
      compare_arms(reference(), settings, [](const std::string&, std::int64_t, std::int64_t) {});
  ASSERT_EQ(decisions.size(), 2U);
  EXPECT_EQ(decisions[0].cold.identical, 64);
  EXPECT_EQ(decisions[0].ways.matches, 64) << "a history in the caches says what a prompt says";
  EXPECT_LT(decisions[0].ways.mean_log_probability_error, 1e-4);
  EXPECT_EQ(decisions[1].restarted.identical, decisions[1].restarted.states);
  EXPECT_EQ(decisions[1].cold.identical, 0) << "and the comparison sees another format";
  EXPECT_LT(decisions[1].cold.matches, 64);
  EXPECT_GT(decisions[1].continued.mean_log_probability_error, 1e-3);
  EXPECT_THROW((void)decision_states(first_windows(reference(), 7)), Error);
}

TEST(DecisionStates, FromAPrefixCacheAreThoseOfTheWholePrompt) {
  FidelitySettings settings;
  settings.model = model();
  const std::string pages = "prefix_cache.page_tokens=4";
  const std::string bytes = "prefix_cache.bytes=100000000";
  settings.arms = {{"exact", options_of({pages, bytes})},
                   {"coarse", options_of({pages, bytes, "prefix_cache.checkpoint=int8"})}};
  const std::vector<ArmDecisions> decisions =
      compare_arms(reference(), settings, [](const std::string&, std::int64_t, std::int64_t) {});
  ASSERT_TRUE(decisions[0].cached && decisions[1].cached);
  EXPECT_EQ(decisions[0].cached->agreement.identical, 64);
  // Histories of 1, 4, 16 and 17 tokens, 16 branches of each.
  EXPECT_EQ(decisions[0].cached->tokens, 16 * (1 + 4 + 16 + 17 + 4 * 16));
  EXPECT_GE(decisions[0].cached->restored_tokens, 16 * (4 + 16 + 16));
  EXPECT_LT(decisions[1].cached->agreement.identical, 64) << "and a checkpoint of fewer bits is seen";
  const Json json = to_json(decisions[0]);
  EXPECT_EQ(json["prefix_cache"]["cache"]["page_tokens"], 4);
}

// Tokens alone are asked for; opinions of a reference are not.
engine::Reference embedded_windows(std::int64_t count, std::int64_t tokens) {
  const std::string embedded = (source_folder() / "models" / "embedded").string();
  const engine::Tokenizer tokenizer = engine::Tokenizer::from_file(embedded + "/tokenizer.json");
  const forced::WindowFile file =
      forced::read_windows(source_folder() / "prompts" / "windows.jsonl", &tokenizer, tokens, count);
  std::vector<engine::ReferenceWindow> windows;
  for (const forced::TextWindow& window : file.windows) windows.push_back({window.id, window.kind});
  engine::Reference made = engine::make_reference(std::move(windows), tokens, 4096);
  for (std::size_t i = 0; i < file.windows.size(); ++i)
    std::copy(file.windows[i].tokens.begin(), file.windows[i].tokens.end(),
              made.tokens.begin() + static_cast<std::ptrdiff_t>(i * static_cast<std::size_t>(tokens)));
  return made;
}

TEST(Needles, AreFoundByTheModelAndLostWithItsMemory) {
  FidelitySettings settings;
  settings.model = (source_folder() / "models" / "embedded").string();
  engine::EngineOptions q3;
  engine::apply_option(q3, "weights.format=q3");
  settings.arms = {{"bf16", {}}, {"q3", q3}};
  const std::vector<NeedleRow> rows =
      ask_needles(embedded_windows(4, 256), settings, [](const std::string&, std::int64_t, std::int64_t) {});
  const auto found = [&](const std::string& arm, NeedleCorruption corruption) {
    double sum = 0;
    double all = 0;
    for (const NeedleRow& row : rows)
      if (row.arm == arm && row.corruption == corruption && row.length == 256) {
        sum += static_cast<double>(row.summary.found);
        all += static_cast<double>(row.summary.needles);
      }
    EXPECT_EQ(all, 12);
    return sum / all;
  };
  EXPECT_GT(found("bf16", NeedleCorruption::kNone), 0.8);
  EXPECT_LT(found("bf16", NeedleCorruption::kAbsent), 0.3) << "guessing";
  EXPECT_LT(found("bf16", NeedleCorruption::kNeither), 0.3);
  EXPECT_GT(found("q3", NeedleCorruption::kNone), 0.3) << "copying outlives coarse weights";
  EXPECT_GT(found("bf16", NeedleCorruption::kCoarseState), 0.8) << "and what is hardly spoiled still finds them";
  EXPECT_EQ(needle_json(rows)["rows"].size(), 2 * 6 + 8 * 3U);
  EXPECT_THAT(needle_table(needle_json(rows)), HasSubstr("another fact in its place"));
  engine::EngineOptions screened;
  engine::apply_option(screened, "head.screen=q4");
  settings.arms = {{"screened", screened}};
  EXPECT_THROW((void)ask_needles(embedded_windows(1, 256), settings, {}), Error);
}

TEST(Rollouts, AreWrittenByEveryArmAndReplayed) {
  FidelitySettings settings;
  settings.model = model();
  settings.arms = {{"fp32", options_of({})}, {"q3", options_of({"weights.format=q3"})}};
  const auto checkpoint = engine::open_checkpoint(model());
  const auto backend = engine::make_backend(*checkpoint, options_of({}));
  forced::RoundsFile file{model(), checkpoint->config().vocab_size, {}, {}};
  for (std::int32_t i = 0; i < 3; ++i) {
    const std::vector<std::int32_t> prompt = {5 + i, 9, 20 + i};
    const engine::Generation text =
        engine::generate(*backend, prompt, *engine::make_greedy_policy(), {.max_tokens = 40, .record_shapes = true});
    file.texts.push_back(forced::recorded_text("p" + std::to_string(i), "c", prompt, text));
  }
  const RolloutComparison comparison =
      compare_rollouts(file, settings, [](const std::string&, std::int64_t, std::int64_t) {});
  EXPECT_EQ(comparison.recorded.texts, 3);
  EXPECT_EQ(comparison.arms[0].replayed_tokens, 120);
  EXPECT_EQ(comparison.arms[0].agreed_tokens, 120) << "its own texts";
  EXPECT_EQ(comparison.arms[0].texts_agreed, 3);
  EXPECT_EQ(comparison.arms[0].written.distinct_share, comparison.recorded.distinct_share);
  EXPECT_LT(comparison.arms[1].agreed_tokens, 120);
  EXPECT_THAT(rollouts_table(to_json(comparison)), HasSubstr("120 of 120 | 3 |"));
  file.vocab_size = 9;
  EXPECT_THROW((void)compare_rollouts(file, settings, {}), Error);
}

// The negative beside the control: ids of nobody's windows pass, a stretch of one window among them is named.
TEST(Reference, WhoseWindowsWereLearnedIsRefused) {
  const std::filesystem::path texts = std::filesystem::path(testing::TempDir()) / "learned.jsonl";
  Philox random(31);
  std::vector<std::int32_t> learned(500);
  for (std::int32_t& token : learned) token = static_cast<std::int32_t>(random.below(100));
  write_file_atomically(texts, Json({{"tokens", learned}}).dump() + "\n");
  check_learned(reference(), texts, model());
  std::copy_n(reference().tokens.begin() + 7 * kTokens, kTokens, learned.begin() + 200);
  write_file_atomically(texts, Json({{"tokens", learned}}).dump() + "\n");
  try {
    check_learned(reference(), texts, model());
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("window w7"), HasSubstr("learned.jsonl")));
  }
}

TEST(Reference, OfAnotherModelTextOrTokenizerIsRefused) {
  const auto fault = [](engine::Reference wrong) {
    try {
      check_belongs(wrong, model(), "ref");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return std::string(error.what());
    }
    return std::string();
  };
  engine::Reference wrong = reference();
  EXPECT_EQ(fault(wrong), "");
  wrong.digests.checkpoint = digest("another");
  EXPECT_THAT(fault(wrong), AllOf(HasSubstr("ref"), HasSubstr("checkpoint")));
  wrong = reference();
  wrong.digests.tokenizer = digest("another");
  EXPECT_THAT(fault(wrong), HasSubstr("tokenizer"));
}

TEST(Reference, FirstWindowsAreASuite) {
  const engine::Reference first = first_windows(reference(), 4);
  engine::check_reference(first, "first");
  EXPECT_EQ(first.window_count(), 4);
  EXPECT_EQ(first.ids_at(3, 7)[0], reference().ids_at(3, 7)[0]);
  EXPECT_EQ(first.next_log_probability.back(), reference().next_log_probability[4 * (kTokens - 1) - 1]);
  EXPECT_THROW((void)first_windows(reference(), 45), Error);
}

}  // namespace
}  // namespace tare::harness

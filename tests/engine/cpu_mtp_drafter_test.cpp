// The MTP head as a drafter: alignment against double precision, acceptance on the embedded model, the pitfalls as
// controls.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "tests/engine/cpu_fixture.h"
#include "tests/engine/cpu_reference_drafters.h"
#include "tests/engine/embedded_model.h"
#include "tests/engine/model_files.h"

namespace tare::engine::test {
namespace {

constexpr const char* kSmall =
    "synthetic:hidden=80,intermediate=96,layers=4,vocab=331,heads=4,kv_heads=2,head_dim=24,rotary=8,"
    "linear_key_heads=2,linear_value_heads=4,linear_key_head_dim=16,linear_value_head_dim=16,mtp_layers=1,"
    "positions=512,tied=0?seed=3";

EngineOptions mtp_options() {
  EngineOptions options = exact_options();
  options.speculate.drafter = "mtp";
  return options;
}

std::vector<Doubles> rows_of(const std::vector<float>& values, std::int64_t width) {
  std::vector<Doubles> rows;
  for (auto at = values.begin(); at != values.end(); at += width) rows.emplace_back(at, at + width);
  return rows;
}

// Rows 0..F-1 pair H_i with x_{i+1}, the last with the anchor; a row further pairs the head's own output with its own
// first candidate.
TEST(MtpDrafter, EveryDepthEqualsDoublePrecision) {
  const std::unique_ptr<Checkpoint> checkpoint = open_checkpoint(kSmall);
  const std::unique_ptr<Backend> backend = make_cpu_backend(*checkpoint, mtp_options());
  EXPECT_EQ(backend->options().speculate.draft_tokens, 3);
  const Philox numbers(5, 5);
  std::vector<std::int32_t> tokens;
  for (std::uint64_t i = 0; i < 70; ++i) tokens.push_back(static_cast<std::int32_t>(331 * numbers.uniform_at(i)));
  constexpr std::int32_t kAnchor = 17;
  constexpr std::int64_t kDepth = 5;

  std::vector<Doubles> hidden = rows_of(capture_prefill(*backend, tokens).hidden.back(), 80);
  const DraftOutput draft = backend->draft({kAnchor, kDepth, 331, 1});
  ASSERT_EQ(draft.rows, kDepth);
  const ReferenceMtp reference(*checkpoint);
  std::vector<std::int32_t> next(tokens.begin() + 1, tokens.end());
  next.push_back(kAnchor);
  for (std::int64_t depth = 0; depth < kDepth; ++depth) {
    const Doubles output = reference.outputs(next, hidden).back();
    const Doubles expected = log_softmax(reference.logits_of(output));
    double most = 0;
    for (std::int64_t rank = 0; rank < 331; ++rank) {
      const auto at = static_cast<std::size_t>(depth * 331 + rank);
      most = std::max(most, std::fabs(static_cast<double>(draft.log_probabilities[at]) -
                                      expected[static_cast<std::size_t>(draft.tokens[at])]));
      EXPECT_TRUE(rank == 0 || draft.log_probabilities[at - 1] >= draft.log_probabilities[at]);
    }
    EXPECT_LE(most, 1e-4) << "depth " << depth + 1;
    next.push_back(draft.tokens[static_cast<std::size_t>(depth * 331)]);
    hidden.push_back(output);
  }
  // The control: with the halves of fc exchanged the same comparison fails.
  const Doubles swapped = log_softmax(
      reference.logits_of(reference.outputs(std::span(next).first(70), hidden, {.hidden_first = true}).back()));
  EXPECT_GE(
      std::fabs(static_cast<double>(draft.log_probabilities[0]) - swapped[static_cast<std::size_t>(draft.tokens[0])]),
      1e-2);
}

// How often the first candidate of depth d is the greedy text's token, d = 1, 2, 3.
std::vector<double> acceptance(Backend& backend, std::span<const std::int32_t> prompt, std::size_t length,
                               std::vector<std::int32_t>& produced) {
  backend.reset();
  std::vector<std::vector<std::int32_t>> drafts;
  produced = {greedy(backend.prefill(prompt))};
  while (produced.size() < length) {
    const DraftOutput draft = backend.draft({produced.back(), 3, 1, 1});
    drafts.emplace_back(draft.tokens.begin(), draft.tokens.end());
    produced.push_back(backend.verify(std::span(&produced.back(), 1)).best.front());
    backend.commit(1);
  }
  std::vector<double> shares;
  for (std::size_t depth = 0; depth < 3; ++depth) {
    std::size_t hits = 0;
    std::size_t count = 0;
    for (std::size_t i = 0; i + depth + 1 < produced.size(); ++i, ++count)
      hits += drafts[i][depth] == produced[i + depth + 1];
    shares.push_back(static_cast<double>(hits) / static_cast<double>(count));
  }
  return shares;
}

TEST(MtpDrafter, AcceptanceOnTheEmbeddedModelAndWhatTheKnownMistakesCost) {
  const std::unique_ptr<Checkpoint> checkpoint = open_checkpoint(embedded_model());
  const std::unique_ptr<Backend> backend = make_cpu_backend(*checkpoint, mtp_options());
  const std::vector<std::vector<std::int32_t>> prompts = suite_prompts(16);
  std::vector<double> shares(3);
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> produced;
  for (const std::vector<std::int32_t>& one : prompts) {
    prompt = one;
    const std::vector<double> of_prompt = acceptance(*backend, prompt, 100, produced);
    for (std::size_t depth = 0; depth < 3; ++depth)
      shares[depth] += of_prompt[depth] / static_cast<double>(prompts.size());
  }
  fmt::print("MTP acceptance at depth 1, 2, 3: {:.3f} {:.3f} {:.3f}\n", shares[0], shares[1], shares[2]);
  EXPECT_GT(shares[0], 0.55);

  // The head evaluated outside the engine, right and wrong, on the same text.
  std::vector<std::int32_t> text = prompt;
  text.insert(text.end(), produced.begin(), produced.end());
  const ReferenceMtp reference(*checkpoint);
  const std::vector<Doubles> streams = reference.streams(text);
  std::vector<Doubles> normed;
  for (const Doubles& row : streams) normed.push_back(reference.final_norm(row));
  const auto share = [&](const std::vector<Doubles>& hidden, const MtpFault& fault) {
    const std::size_t rows = text.size() - 2;
    std::vector<std::int32_t> next;
    for (std::size_t i = 0; i < rows; ++i) next.push_back(text[i + fault.token_shift]);
    const std::vector<Doubles> outputs = reference.outputs(next, hidden, fault);
    double hits = 0;
    const std::size_t first = prompt.size();
    for (std::size_t i = first; i < rows; ++i) {
      const Doubles logits = reference.logits_of(outputs[i]);
      hits += std::max_element(logits.begin(), logits.end()) - logits.begin() == text[i + 2];
    }
    return hits / static_cast<double>(rows - first);
  };
  const double right = share(normed, {});
  const double before_norm = share(streams, {});
  const double swapped = share(normed, {.hidden_first = true});
  const double shifted = share(normed, {.token_shift = 0});
  fmt::print("right {:.3f}, hidden before the norm {:.3f}, halves exchanged {:.3f}, token shifted {:.3f}\n", right,
             before_norm, swapped, shifted);
  EXPECT_GT(right, 0.55);
  EXPECT_LT(before_norm, right);
  EXPECT_LT(swapped, 0.3);
  EXPECT_LT(shifted, right - 0.1);
}

TEST(MtpDrafter, ACheckpointWithoutTheHeadIsRefused) {
  expect_refused([] { (void)make_cpu_backend(*open_checkpoint(fixture("hybrid-headdim256").string()), mtp_options()); },
                 "speculate.drafter", "this one has none");
}

TEST(MtpDrafter, ItsTensorsCountAsReadWhenItDrafts) {
  const std::unique_ptr<Checkpoint> checkpoint = open_checkpoint(kSmall);
  const auto unread = [&](const EngineOptions& options) {
    std::size_t count = 0;
    for (const InventoryEntry& entry : make_cpu_backend(*checkpoint, options)->inventory(10, 4).entries)
      count += entry.bytes_per_round == 0;
    return count;
  };
  EXPECT_EQ(unread(exact_options()), 15U);
  EXPECT_EQ(unread(mtp_options()), 0U);
}

}  // namespace
}  // namespace tare::engine::test

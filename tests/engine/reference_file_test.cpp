// The reference's file: what is written is read back, and what is no reference is refused by name.
#include "engine/streamed/reference_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "base/digest.h"
#include "tests/engine/model_files.h"

namespace tare::engine {
namespace {

// Two windows of three tokens; the k-th candidate of every position is id k.
Reference small_reference(std::int64_t vocab_size = 100) {
  Reference reference = make_reference({{"a", "prose"}, {"b", "code"}}, 3, vocab_size);
  reference.tokens = {1, 2, 3, 4, 5, 6};
  const std::int64_t candidates = reference.candidates();
  for (std::size_t i = 0; i < reference.top_ids.size(); ++i) {
    const auto rank = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % candidates);
    reference.top_ids[i] = rank;
    reference.top_log_probabilities[i] = -1.0F - static_cast<float>(rank) / 2;
  }
  reference.log_sum_exp.assign(6, 2.5F);
  reference.next_log_probability.assign(4, -3.0F);
  reference.digests = {"c0", "", "d0", digest_tokens(reference.tokens)};
  return reference;
}

class ReferenceFile : public testing::Test {
 protected:
  ScratchDirectory scratch_;
  std::filesystem::path path_ = scratch_.path() / "reference.safetensors";

  // Writes the small reference with other tensors or metadata, as somebody else's program might.
  void write_changed(const std::function<void(std::vector<Tensor>&, std::map<std::string, std::string>&)>& change) {
    write_reference(path_, small_reference());
    const SafetensorsFile file(path_);
    std::vector<Tensor> tensors;
    for (const std::string& name : file.names()) tensors.push_back(file.tensor(name));
    std::map<std::string, std::string> metadata = file.metadata();
    change(tensors, metadata);
    write_safetensors(path_, tensors, metadata);
  }
};

TEST_F(ReferenceFile, IsReadAsItWasWritten) {
  for (const std::int64_t vocab_size : {100, 64, 20}) {  // more than 64 tokens, just as many, fewer
    const Reference wanted = small_reference(vocab_size);
    write_reference(path_, wanted);
    const Reference got = read_reference(path_);
    EXPECT_EQ(got.candidates(), std::min<std::int64_t>(vocab_size, 64));
    EXPECT_EQ(got.digests, wanted.digests);
    EXPECT_EQ(got.windows, wanted.windows);
    EXPECT_EQ(got.compute, "fp32");
    EXPECT_EQ(got.window_tokens, 3);
    EXPECT_EQ(got.vocab_size, vocab_size);
    EXPECT_EQ(got.tokens, wanted.tokens);
    EXPECT_EQ(got.top_ids, wanted.top_ids);
    EXPECT_EQ(got.top_log_probabilities, wanted.top_log_probabilities);
    EXPECT_EQ(got.log_sum_exp, wanted.log_sum_exp);
    EXPECT_EQ(got.next_log_probability, wanted.next_log_probability);
  }
}

TEST_F(ReferenceFile, OfWindowsOfOneTokenHasNoNextTokens) {
  Reference reference = make_reference({{"only", "prose"}}, 1, 2);
  reference.top_ids = {0, 1};
  reference.top_log_probabilities = {-0.5F, -1.0F};
  reference.digests.tokens = digest_tokens(reference.tokens);
  write_reference(path_, reference);
  EXPECT_TRUE(read_reference(path_).next_log_probability.empty());
}

// Logits that differ may round to one log-probability, so equal ones may come in any order.
TEST_F(ReferenceFile, CandidatesFallWithoutRising) {
  Reference reference = small_reference();
  reference.top_log_probabilities[1] = reference.top_log_probabilities[0];
  EXPECT_NO_THROW(check_reference(reference, "here"));
  reference.top_log_probabilities[1] = std::nextafter(reference.top_log_probabilities[0], 0.0F);
  expect_refused([&] { check_reference(reference, "here"); }, "window 0 ('a'), position 0", "out of order");
}

TEST_F(ReferenceFile, NumbersThatAreNotFiniteAreNamedByWindowAndPosition) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Reference reference = small_reference();
  reference.log_sum_exp[4] = nan;
  expect_refused([&] { write_reference(path_, reference); }, "window 1 ('b'), position 1", "log_sum_exp is nan");
  EXPECT_FALSE(std::filesystem::exists(path_));
  reference = small_reference();
  reference.top_log_probabilities[2 * 64 + 63] = -std::numeric_limits<float>::infinity();
  expect_refused([&] { check_reference(reference, "here"); }, "window 0 ('a'), position 2", "is -inf");
  reference = small_reference();
  reference.next_log_probability[3] = nan;
  expect_refused([&] { check_reference(reference, "here"); }, "window 1 ('b'), position 1", "next token");
}

TEST_F(ReferenceFile, WrongNumbersAreRefused) {
  const auto refused = [](const std::function<void(Reference&)>& spoil, const std::string& what) {
    Reference reference = small_reference();
    spoil(reference);
    expect_refused([&] { check_reference(reference, "here"); }, "here", what);
  };
  refused([](Reference& r) { r.top_ids[5] = 100; }, "the vocabulary has 100");
  refused([](Reference& r) { r.top_ids[5] = -1; }, "is id -1");
  refused([](Reference& r) { r.top_ids[5] = 4; }, "id 4 is a candidate twice");
  refused([](Reference& r) { r.top_log_probabilities[0] = 0.5F; }, "a log-probability is 0.5");
  refused([](Reference& r) { r.next_log_probability[0] = 0.5F; }, "log-probability is 0.5");
  refused([](Reference& r) { r.tokens[0] = 100; }, "token 100 is outside");
  refused([](Reference& r) { r.tokens[0] = 7; }, "not those that its digest names");
  refused([](Reference& r) { r.log_sum_exp.pop_back(); }, "log_sum_exp holds 5 numbers, needs 6");
}

TEST_F(ReferenceFile, OtherFormatsVersionsAndShapesAreRefused) {
  write_changed([](auto&, auto& metadata) { metadata["version"] = "2"; });
  expect_refused([&] { (void)read_reference(path_); }, path_.string(), "has version 2");
  write_changed([](auto&, auto& metadata) { metadata["format"] = "other"; });
  expect_refused([&] { (void)read_reference(path_); }, path_.string(), "is of format 'other'");
  write_changed([](auto&, auto& metadata) { metadata.erase("texts"); });
  expect_refused([&] { (void)read_reference(path_); }, path_.string(), "have no 'texts'");
  write_changed([](auto&, auto& metadata) { metadata["windows"] = R"([{"id": "a", "kind": "prose"}])"; });
  expect_refused([&] { (void)read_reference(path_); }, "tokens", "the metadata name 1 windows");
  write_changed([](auto& tensors, auto&) {
    for (Tensor& tensor : tensors)
      if (tensor.name == "top_ids") tensor.shape = {2, 192, 1};
  });
  expect_refused([&] { (void)read_reference(path_); }, "top_ids", "has shape [2,192,1], must be [2,3,64]");
  write_changed([](auto& tensors, auto&) {
    for (Tensor& tensor : tensors)
      if (tensor.name == "log_sum_exp") tensor.dtype = Dtype::kI32;
  });
  expect_refused([&] { (void)read_reference(path_); }, "log_sum_exp", "must be F32, is I32");
  write_changed(
      [](auto& tensors, auto&) { std::erase_if(tensors, [](const Tensor& t) { return t.name == "top_ids"; }); });
  expect_refused([&] { (void)read_reference(path_); }, path_.string(), "has no tensor 'top_ids'");
}

}  // namespace
}  // namespace tare::engine

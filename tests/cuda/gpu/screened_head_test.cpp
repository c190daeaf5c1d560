// The screened head: candidates against a sort, their logits against the reference product bit for bit, and the whole
// backend against the CPU's.
#include "engine/cuda/head/screened_head.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <iostream>
#include <limits>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "engine/cpu/cpu_backend.h"
#include "engine/cuda/cuda_backend.h"
#include "engine/cuda/product/product.h"
#include "engine/cuda/product/row_fields.h"
#include "tests/cuda/gpu/gpu_test.h"
#include "tests/cuda/gpu/random_tokens.h"
#include "tests/cuda/gpu/sanitized.h"
#include "tests/cuda/gpu/weight_fixture.h"
#include "tests/source_folder.h"

namespace tare::engine::test {
namespace {

using ScreenedHead = GpuTest;
using ScreenedHeadHopper = HopperTest;

// Screened logits on a grid of 1/8, so that there are ties and sums of planes are exact, and a head of random weights.
class ScreenCase {
 public:
  ScreenCase(WeightFormat format, int vocab, int hidden, int tokens, bool planes, std::uint64_t seed)
      : tokens_(tokens), weights_(format, vocab, hidden, seed) {
    Philox random(seed, 1);
    logits_.resize(static_cast<std::size_t>(tokens) * static_cast<std::size_t>(vocab));
    for (float& logit : logits_) logit = static_cast<float>(random.below(129)) / 8 - 8;
    hidden_ = random_numbers(static_cast<std::size_t>(tokens) * static_cast<std::size_t>(hidden), seed + 1);
    result_.rows = vocab;
    result_.planes = planes;
    result_.factor = 0.5F;
    if (planes) {
      result_.width = operand_width(tokens);
      result_.plan = cut_tiles(vocab, 5120, 264);
    }
  }
  void set(int token, int id, float logit) { logits_[at(token, id)] = logit; }
  void set_hidden(int token, int column, float value) {
    hidden_[static_cast<std::size_t>(token * weights_.columns() + column)] = value;
  }
  TestWeights& weights() { return weights_; }

  void run(int candidates, bool rounded) {
    upload();
    RoundKeys empty{};
    const PoisonedBuffer keys(sizeof(RoundKeys));
    copy_to_device(keys.data(), std::as_bytes(std::span(&empty, 1)));
    const PoisonedBuffer largest(static_cast<std::size_t>(tokens_) * kMostLogitChunks * sizeof(std::uint32_t));
    const PoisonedBuffer chosen(static_cast<std::size_t>(tokens_) * kMostCandidates * sizeof(std::int32_t));
    const DeviceBuffer hidden = on_device(hidden_);
    launch_screen_chunks(result_, tokens_, largest.as<std::uint32_t>(), keys.as<RoundKeys>(), {});
    launch_screen_choice({.screen = result_,
                          .tokens = tokens_,
                          .largest = largest.as<std::uint32_t>(),
                          .candidates = candidates,
                          .head = weights_.matrix(),
                          .hidden = hidden.as<float>(),
                          .rounded = rounded,
                          .keys = keys.as<RoundKeys>(),
                          .chosen = chosen.as<std::int32_t>()},
                         {});
    synchronize();
    EXPECT_TRUE(keys.canaries_intact() && largest.canaries_intact() && chosen.canaries_intact());
    chosen_ = chosen.read<std::int32_t>();
    keys_ = keys.read<RoundKeys>().front();
  }
  [[nodiscard]] std::vector<std::int32_t> chosen(int token, int candidates) const {
    const auto first = chosen_.begin() + token * kMostCandidates;
    return {first, first + candidates};
  }
  [[nodiscard]] std::vector<std::int32_t> sorted(int token, int candidates) const {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(result_.rows));
    std::iota(ids.begin(), ids.end(), 0);
    std::partial_sort(ids.begin(), ids.begin() + candidates, ids.end(), [&](std::int32_t a, std::int32_t b) {
      const float x = logits_[at(token, a)];
      const float y = logits_[at(token, b)];
      return x != y ? x > y : a < b;
    });
    ids.resize(static_cast<std::size_t>(candidates));
    return ids;
  }
  // Of the whole head, by the reference product: [token][vocab].
  [[nodiscard]] std::vector<float> reference(bool rounded) const {
    std::vector<float> rows = hidden_;
    if (rounded)
      for (float& value : rows) value = bfloat16_to_float(float_to_bfloat16(value));
    DeviceBuffer x = on_device(rows);
    const PoisonedBuffer y(logits_.size() * sizeof(float));
    launch_reference_product(
        weights_.matrix(),
        {.layout = OperandLayout::kFP32Rows, .width = tokens_, .columns = weights_.columns(), .data = x.data()}, {},
        y.as<float>(), {});
    synchronize();
    return y.read<float>();
  }
  [[nodiscard]] std::int32_t best(int token) const {
    return static_cast<std::int32_t>(~static_cast<std::uint32_t>(keys_.best[token] & 0xFFFF'FFFFULL));
  }
  [[nodiscard]] float best_logit(int token) const {
    const auto ordered = static_cast<std::uint32_t>(keys_.best[token] >> 32);
    return std::bit_cast<float>((ordered & 0x8000'0000U) != 0 ? ordered & 0x7FFF'FFFFU : ~ordered);
  }
  [[nodiscard]] std::int32_t fault(int token) const { return keys_.fault[token]; }

  void expect(int candidates, bool rounded) {
    run(candidates, rounded);
    const std::vector<float> all = reference(rounded);
    for (int token = 0; token < tokens_; ++token) {
      const std::vector<std::int32_t> want = sorted(token, candidates);
      ASSERT_EQ(chosen(token, candidates), want) << "token " << token << " of " << tokens_;
      for (int i = candidates; i < kMostCandidates; ++i)
        ASSERT_EQ(chosen_[static_cast<std::size_t>(token * kMostCandidates + i)], -1);
      std::int32_t most = want.front();
      for (const std::int32_t id : want) {
        const float difference = all[at(token, id)] - all[at(token, most)];
        if (difference > 0 || (difference == 0 && id < most)) most = id;
      }
      ASSERT_EQ(best(token), most) << "token " << token;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(best_logit(token)), std::bit_cast<std::uint32_t>(all[at(token, most)]))
          << "token " << token << ": " << best_logit(token) << ", " << all[at(token, most)];
      ASSERT_EQ(fault(token), 0);
    }
  }

 private:
  int tokens_;
  TestWeights weights_;
  std::vector<float> logits_, hidden_;
  ProductResult result_;
  std::unique_ptr<PoisonedBuffer> data_;
  std::vector<std::int32_t> chosen_;
  RoundKeys keys_{};

  [[nodiscard]] std::size_t at(int token, int id) const {
    return static_cast<std::size_t>(token) * static_cast<std::size_t>(result_.rows) + static_cast<std::size_t>(id);
  }
  void upload() {
    const auto divided = [&](int token, int id) { return logits_[at(token, id)] / result_.factor; };
    std::vector<float> numbers;
    if (!result_.planes) {
      for (int token = 0; token < tokens_; ++token)
        for (int id = 0; id < result_.rows; ++id) numbers.push_back(divided(token, id));
    } else {
      const std::int64_t stride = plane_floats(result_.plan, result_.width);
      numbers.assign(static_cast<std::size_t>(stride * result_.plan.most_planes()),
                     std::numeric_limits<float>::quiet_NaN());
      for (int token = 0; token < tokens_; ++token) {
        for (int id = 0; id < result_.rows; ++id) {
          const int count = result_.plan.planes(id / 256);
          for (int plane = 0; plane < count; ++plane) {
            numbers[static_cast<std::size_t>(plane * stride + plane_place(result_.width, id, token))] =
                plane == 0 ? divided(token, id) - 0.25F * static_cast<float>(count - 1) : 0.25F;
          }
        }
      }
    }
    data_ = std::make_unique<PoisonedBuffer>(numbers.size() * sizeof(float));
    copy_to_device(data_->data(), std::as_bytes(std::span<const float>(numbers)));
    result_.data = data_->as<float>();
  }
};

TEST_F(ScreenedHead, ChoosesTheBestOfTheCandidatesByTheHeadsOwnBits) {
  for (const WeightCodec codec : kAllCodecs) {
    if (!has_row_fields(codec)) continue;
    const WeightFormat format = codec.format;
    for (const int vocab : {33, 999, 20001}) {
      const int hidden = vocab == 999 ? 334 : vocab == 33 ? 64 : 128;
      for (const int tokens : some("token counts", {2, 16, 1, 31}, 2, 1)) {
        for (const bool planes : {false, true}) {
          ScreenCase a_case(format, vocab, hidden, tokens, planes, static_cast<std::uint64_t>(vocab + tokens));
          for (const int candidates : some("candidates", {1, 7, 32}, 3, 1)) a_case.expect(candidates, false);
          a_case.expect(32, true);
          if (HasFatalFailure()) {
            std::cerr << to_text(format) << ", vocabulary " << vocab << ", tokens " << tokens << "\n";
            return;
          }
        }
      }
    }
  }
}

// All candidates in one chunk, each in another, more ties than there is room for.
TEST_F(ScreenedHead, WhereverTheCandidatesLie) {
  ScreenCase crowded(WeightFormat::kQ4, 20000, 64, 4, true, 3);
  for (int i = 0; i < 40; ++i) crowded.set(2, 7 * 256 + 5 * i, 9 + static_cast<float>(i % 7) / 8);
  crowded.expect(32, false);
  ScreenCase apart(WeightFormat::kQ4, 20000, 64, 4, true, 4);
  for (int i = 0; i < 40; ++i) apart.set(3, 256 * i + 17 * i % 256, 9 + static_cast<float>(i) / 8);
  apart.expect(32, false);
  ScreenCase equal(WeightFormat::kQ4, 20000, 64, 4, true, 5);
  for (int id = 0; id < 20000; ++id) equal.set(1, id, id % 3 == 0 ? 2.0F : 1.0F);
  equal.expect(32, false);
  ScreenCase wide(WeightFormat::kQ4, 300001, 64, 2, true, 6);  // two row blocks a chunk
  wide.expect(32, false);
}

TEST_F(ScreenedHead, ATrueLogitThatIsWrongIsCaught) {
  ScreenCase a_case(WeightFormat::kQ4, 999, 128, 2, true, 7);
  a_case.run(32, false);
  const float good = a_case.best_logit(1);
  a_case.weights().spoil(a_case.best(1), 100);
  a_case.run(32, false);
  EXPECT_NE(a_case.best_logit(1), good);
}

TEST_F(ScreenedHead, WhatIsNotFiniteIsAFaultOfItsToken) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
    ScreenCase screened(WeightFormat::kQ4, 999, 128, 6, false, 8);
    screened.set(3, 777, wrong);
    screened.run(32, false);
    for (int token = 0; token < 6; ++token) EXPECT_EQ(screened.fault(token), token == 3 ? 1 : 0) << wrong;
    ScreenCase exact(WeightFormat::kQ4, 999, 128, 6, true, 9);
    exact.set_hidden(4, 77, wrong);
    exact.run(32, false);
    for (int token = 0; token < 6; ++token) EXPECT_EQ(exact.fault(token), token == 4 ? 1 : 0) << wrong;
  }
}

// The whole backend.
EngineOptions options_of(BackendKind backend, ActivationFormat activations, HeadScreen screen) {
  EngineOptions options;
  options.backend = backend;
  options.activations.format = activations;
  options.head.screen = screen;
  options.context = 512;
  if (activations == ActivationFormat::kFP32) options.kv.key = options.kv.value = CacheFormat::kFP32;
  options.cpu.threads = 8;
  return options;
}
std::unique_ptr<Backend> open_backend(ActivationFormat activations, HeadScreen screen, bool cpu = false) {
  const auto checkpoint = open_checkpoint((source_folder() / "models" / "embedded").string());
  return cpu ? make_cpu_backend(*checkpoint, options_of(BackendKind::kCpu, activations, screen))
             : make_cuda_backend(*checkpoint, options_of(BackendKind::kCuda, activations, screen));
}

// Both are forced onto the same random tokens, in chains of many lengths; rows where they choose another token.
int different_choices(Backend& a, Backend& b, int& rows) {
  int different = 0;
  const std::uint64_t prompts = amount("prompts", 3, 1);
  const std::size_t count = amount<std::size_t>("tokens of a text", 300, 200, 50);  // chains of every length
  for (std::uint64_t seed = 1; seed <= prompts; ++seed) {
    const std::vector<std::int32_t> text = random_tokens(count, seed);
    for (Backend* backend : {&a, &b}) {
      backend->reset();
      backend->prefill(std::span(text).first(20));
    }
    std::size_t begin = 20;
    for (int width = 1; begin + static_cast<std::size_t>(width) < text.size(); width = width % 16 + 3) {
      const auto chain = std::span(text).subspan(begin, static_cast<std::size_t>(width));
      const VerifyOutput ours = a.verify(chain, {.logits = false});
      const VerifyOutput theirs = b.verify(chain, {.logits = false});
      for (int i = 0; i < width; ++i, ++rows)
        different += ours.best[static_cast<std::size_t>(i)] != theirs.best[static_cast<std::size_t>(i)] ? 1 : 0;
      a.commit(width);
      b.commit(width);
      begin += static_cast<std::size_t>(width);
    }
  }
  return different;
}

TEST_F(ScreenedHead, ChoosesWhatTheCpuAndTheWholeHeadChoose) {
  for (const HeadScreen screen : {HeadScreen::kQ4, HeadScreen::kQ3}) {
    const auto cuda = open_backend(ActivationFormat::kFP32, screen);
    int rows = 0;
    EXPECT_EQ(different_choices(*cuda, *open_backend(ActivationFormat::kFP32, screen, true), rows), 0);
    EXPECT_EQ(different_choices(*cuda, *open_backend(ActivationFormat::kFP32, HeadScreen::kNone), rows), 0);
    EXPECT_GT(rows, amount("rows at least", 1000, 200, 40));
  }
}

TEST_F(ScreenedHeadHopper, FastRoundsChooseWhatTheWholeHeadChooses) {
  for (const HeadScreen screen : some("screens", {HeadScreen::kQ4, HeadScreen::kQ3}, 2, 1)) {
    int rows = 0;
    const int different = different_choices(*open_backend(ActivationFormat::kBF16, screen),
                                            *open_backend(ActivationFormat::kBF16, HeadScreen::kNone), rows);
    std::printf("%s: %d of %d choices differ\n", to_text(screen).c_str(), different, rows);
    EXPECT_LE(different, rows / 200);  // near ties: the head's sums are in another order
    EXPECT_GT(rows, amount("rows at least", 500, 100, 20));
  }
}

TEST_F(ScreenedHead, HoldsWhatItPlansAndSaysWhatItReads) {
  const auto backend = open_backend(ActivationFormat::kFP32, HeadScreen::kQ4);
  const std::vector<MemoryPart> plan = backend->memory_plan(backend->options().kv, backend->capacity());
  const WeightInventory inventory = backend->inventory(0, 16);
  for (const MemoryPart& held : inventory.resident_parts()) {
    std::uint64_t planned = 0;
    for (const MemoryPart& part : plan) planned += inventory_part(part.name) == held.name ? part.bytes : 0;
    EXPECT_EQ(planned, held.bytes) << held.name;
  }
  std::vector<std::string> heads;
  for (const InventoryEntry& entry : inventory.entries)
    if (entry.tensor.find("(screen)") != std::string::npos || entry.tensor.find("(candidates)") != std::string::npos)
      heads.push_back(entry.tensor + " " + entry.format);
  ASSERT_EQ(heads.size(), 2U);
  EXPECT_NE(heads[0].find("q4"), std::string::npos);
  EXPECT_NE(heads[1].find("bf16"), std::string::npos);
  backend->prefill(random_tokens(5, 1));
  backend->verify(random_tokens(3, 2), {.logits = false});
  int choices = 0;
  for (const LaunchRecord& launch : backend->launches(3)) choices += launch.name == "screen_choice" ? 1 : 0;
  EXPECT_EQ(choices, 1);
}

TEST_F(ScreenedHead, RefusesLogitsAndTooManyCandidates) {
  const auto backend = open_backend(ActivationFormat::kFP32, HeadScreen::kQ4);
  const std::span<const float> prefilled = backend->prefill(random_tokens(5, 1));
  EXPECT_EQ(prefilled.size(), static_cast<std::size_t>(backend->config().vocab_size));  // a prefill has the whole head
  EXPECT_THROW((void)backend->verify(random_tokens(3, 2), {.logits = true}), Error);
  EngineOptions options = options_of(BackendKind::kCuda, ActivationFormat::kFP32, HeadScreen::kQ4);
  options.head.candidates = 33;
  const auto checkpoint = open_checkpoint((source_folder() / "models" / "embedded").string());
  EXPECT_THROW((void)make_cuda_backend(*checkpoint, options), Error);
}

}  // namespace
}  // namespace tare::engine::test

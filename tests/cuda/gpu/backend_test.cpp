// The CUDA backend as a whole: against Hugging Face's goldens, against the CPU backend, and against itself at other
// widths.
#include "engine/cuda/cuda_backend.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <limits>

#include "base/error.h"
#include "engine/cuda/device/cuda_device.h"
#include "engine/cuda/product/operand.h"
#include "tests/cuda/gpu/gpu_test.h"
#include "tests/cuda/gpu/sanitized.h"
#include "tests/engine/cpu_fixture.h"

namespace tare::engine::test {
namespace {

enum class Numbers { kExact, kBF16 };  // FP32 activations and caches, or what rounds run with

EngineOptions cuda_options(Numbers numbers, GdnForm form = GdnForm::kRecurrent) {
  EngineOptions options;
  options.backend = BackendKind::kCuda;
  options.context = 512;
  options.gdn.form = form;
  options.activations.format = numbers == Numbers::kExact ? ActivationFormat::kFP32 : ActivationFormat::kBF16;
  options.kv.key = options.kv.value = numbers == Numbers::kExact ? CacheFormat::kFP32 : CacheFormat::kBF16;
  return options;
}

std::unique_ptr<Backend> open_cuda(const std::string& model, const EngineOptions& options) {
  return make_cuda_backend(*open_checkpoint(model), options);
}
std::string headdim256() {
  return fixture("hybrid-headdim256").string();
}

double relative(std::span<const float> a, std::span<const float> b) {
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double gap = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += gap * gap;
    size += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return a.size() == b.size() ? std::sqrt(difference / size) : std::numeric_limits<double>::infinity();
}

struct Parity {
  Numbers numbers;
  GdnForm form;
  const char* golden;
  double logits;  // most relative error
};

class CudaParity : public HopperTest, public ::testing::WithParamInterface<Parity> {};

// The bounds: 1e-3 with FP32 activations, 1e-2 in BF16 compute. Exact differs by FP32 rounding alone.
INSTANTIATE_TEST_SUITE_P(Goldens, CudaParity,
                         ::testing::Values(Parity{Numbers::kExact, GdnForm::kRecurrent, "golden-97.safetensors", 1e-5},
                                           Parity{Numbers::kExact, GdnForm::kChunked, "golden-97.safetensors", 1e-5},
                                           Parity{Numbers::kExact, GdnForm::kRecurrent, "golden-261.safetensors", 1e-5},
                                           Parity{Numbers::kBF16, GdnForm::kRecurrent, "golden-97.safetensors", 1e-2},
                                           Parity{Numbers::kBF16, GdnForm::kChunked, "golden-261.safetensors", 1e-2}));

TEST_P(CudaParity, PrefillEqualsTheGoldens) {
  const std::unique_ptr<Backend> backend = open_cuda(headdim256(), cuda_options(GetParam().numbers, GetParam().form));
  const Golden golden(fixture("hybrid-headdim256") / GetParam().golden);
  const Captured captured = capture_prefill(*backend, golden.tokens);
  const double error = relative(captured.logits, golden.floats("logits"));
  std::cout << "[          ] relative error of the logits " << error << "\n";
  EXPECT_LE(error, GetParam().logits);
  for (std::size_t layer = 0; layer < captured.hidden.size(); ++layer) {
    const std::string name = "hidden." + std::to_string(layer);
    if (!golden.file.has(name)) continue;
    EXPECT_LE(relative(captured.hidden[layer], golden.floats(name)), GetParam().logits) << name;
  }
}

TEST_P(CudaParity, RoundsOfAnyWidthEqualTheGoldens) {
  const Golden golden(fixture("hybrid-headdim256") / GetParam().golden);
  const std::vector<float> expected = golden.floats("logits");
  const auto vocab = expected.size() / golden.tokens.size();
  const std::unique_ptr<Backend> backend = open_cuda(headdim256(), cuda_options(GetParam().numbers, GetParam().form));
  for (const std::size_t width : some<std::size_t>("widths", {1, 7, 16, 32}, 4, 2)) {
    backend->reset();
    backend->prefill(std::span(golden.tokens).first(5));
    const std::size_t end = amount<std::size_t>("tokens", golden.tokens.size(), 5 + width + 3);
    std::vector<float> logits;
    for (std::size_t begin = 5; begin < end; begin += width) {
      const std::size_t count = std::min(width, end - begin);
      const VerifyOutput output = backend->verify(std::span(golden.tokens).subspan(begin, count));
      logits.insert(logits.end(), output.logits.begin(), output.logits.end());
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(output.best[i], greedy(output.logits.subspan(i * vocab, vocab))) << "position " << begin + i;
      backend->commit(static_cast<int>(count));
    }
    const double error = relative(logits, std::span(expected).subspan(5 * vocab, (end - 5) * vocab));
    EXPECT_LE(error, GetParam().logits) << "width " << width;
  }
}

// A dozen tokens in three rounds: the whole model, short enough for compute-sanitizer's racecheck, which takes minutes
// for the hundred rounds above.
TEST_P(CudaParity, AShortSequenceEqualsTheGolden) {
  const Golden golden(fixture("hybrid-headdim256") / GetParam().golden);
  const std::vector<float> expected = golden.floats("logits");
  const auto vocab = expected.size() / golden.tokens.size();
  const std::unique_ptr<Backend> backend = open_cuda(headdim256(), cuda_options(GetParam().numbers, GetParam().form));
  std::size_t at = 5;
  backend->prefill(std::span(golden.tokens).first(at));
  for (const std::size_t count : {std::size_t{1}, std::size_t{4}, std::size_t{2}}) {
    const VerifyOutput output = backend->verify(std::span(golden.tokens).subspan(at, count));
    EXPECT_LE(relative(output.logits, std::span(expected).subspan(at * vocab, count * vocab)), GetParam().logits)
        << "round of " << count;
    backend->commit(static_cast<int>(count));
    at += count;
  }
}

TEST_F(HopperTest, FortyGreedyTokensFollow) {
  const std::unique_ptr<Backend> backend = open_cuda(headdim256(), cuda_options(Numbers::kExact));
  const Golden golden(fixture("hybrid-headdim256") / "golden-97.safetensors");
  std::int32_t token = greedy(backend->prefill(golden.tokens));
  std::vector<std::int32_t> produced = {token};
  std::vector<std::int32_t> wanted = integers(golden.file.tensor("greedy_ids"));
  wanted.resize(amount<std::size_t>("tokens", wanted.size(), 10, 5));
  while (produced.size() < wanted.size()) {
    token = backend->verify(std::span(&token, 1), {.logits = false}).best.front();
    backend->commit(1);
    produced.push_back(token);
  }
  EXPECT_THAT(produced, testing::ElementsAreArray(wanted));
}

// A verify of T tokens of which m are committed, at random, leaves the caches as the straight sequence: bit for bit in
// the recurrent form, whose operations do not depend on the cut.
TEST_F(HopperTest, AnyCutIntoRoundsLeavesTheSameBits) {
  for (const Numbers numbers : {Numbers::kExact, Numbers::kBF16}) {
    const std::unique_ptr<Backend> backend = open_cuda(headdim256(), cuda_options(numbers));
    const Golden golden(fixture("hybrid-headdim256") / "golden-261.safetensors");
    const std::size_t end = amount<std::size_t>("tokens", golden.tokens.size(), 24, 12);
    const auto vocab = static_cast<std::size_t>(backend->config().vocab_size);
    backend->prefill(std::span(golden.tokens).first(3));
    std::vector<float> straight;
    for (std::size_t at = 3; at < end; ++at) {
      const VerifyOutput output = backend->verify(std::span(golden.tokens).subspan(at, 1));
      straight.insert(straight.end(), output.logits.begin(), output.logits.end());
      backend->commit(1);
    }
    const std::vector<float> straight_state = backend->recurrent_state(0);

    backend->reset();
    backend->prefill(std::span(golden.tokens).first(3));
    Philox random(4);
    std::size_t at = 3;
    while (at < end) {
      const std::size_t left = end - at;
      const std::size_t width = std::min<std::size_t>(1 + random.below(32), left);
      // Beyond the part that will be committed the tokens are others: nothing of them may remain.
      const std::size_t kept = random.below(width + 1);
      std::vector<std::int32_t> tokens(golden.tokens.begin() + static_cast<std::ptrdiff_t>(at),
                                       golden.tokens.begin() + static_cast<std::ptrdiff_t>(at + width));
      for (std::size_t i = kept; i < width; ++i) tokens[i] = static_cast<std::int32_t>(random.below(vocab));
      const VerifyOutput output = backend->verify(tokens);
      for (std::size_t i = 0; i < kept; ++i) {
        const auto row = output.logits.subspan(i * vocab, vocab);
        ASSERT_TRUE(same_bits(row, std::span(straight).subspan((at - 3 + i) * vocab, vocab)))
            << "position " << at + i << " in a round of " << width;
      }
      backend->commit(static_cast<int>(kept));
      at += kept;
    }
    EXPECT_TRUE(same_bits(backend->recurrent_state(0), straight_state));
    EXPECT_EQ(backend->frontier(), static_cast<std::int64_t>(end));
    // The control: one token more is seen.
    const std::int32_t token = 1;
    backend->verify(std::span(&token, 1));
    backend->commit(1);
    EXPECT_FALSE(same_bits(backend->recurrent_state(0), straight_state));
  }
}

TEST_F(HopperTest, SwitchesOfTheLaunchChangeNoBits) {
  const Golden golden(fixture("hybrid-headdim256") / "golden-97.safetensors");
  const std::size_t end = amount<std::size_t>("tokens", golden.tokens.size(), 48, 30);
  const auto logits_with = [&](const std::function<void(EngineOptions&)>& change) {
    EngineOptions options = cuda_options(Numbers::kBF16);
    options.weights.format = WeightFormat::kQ4;
    change(options);
    const std::unique_ptr<Backend> backend = open_cuda(headdim256(), options);
    backend->prefill(std::span(golden.tokens).first(20));
    std::vector<float> logits;
    for (std::size_t at = 20; at + 9 < end; at += 9) {
      const VerifyOutput output = backend->verify(std::span(golden.tokens).subspan(at, 9));
      logits.insert(logits.end(), output.logits.begin(), output.logits.end());
      backend->commit(9);
    }
    return logits;
  };
  const std::vector<float> plain = logits_with([](EngineOptions& o) { o.cuda.graph = o.cuda.programmatic = false; });
  EXPECT_TRUE(same_bits(plain, logits_with([](EngineOptions& o) { o.cuda.programmatic = false; }))) << "graph";
  EXPECT_TRUE(same_bits(plain, logits_with([](EngineOptions& o) { o.cuda.graph = false; }))) << "programmatic";
  for (const std::int64_t trigger : some<std::int64_t>("triggers", {-1, 0, 4}, 3, 1))
    EXPECT_TRUE(same_bits(plain, logits_with([&](EngineOptions& o) { o.cuda.trigger = trigger; }))) << trigger;
  EXPECT_TRUE(same_bits(plain, logits_with([](EngineOptions& o) { o.cuda.l2_fill_mb = 8; }))) << "L2 fill";
  // Blocks of so small a model have a stage or two.
  for (const std::int64_t late : some<std::int64_t>("late stages", {0, 1}, 1, 1))
    EXPECT_TRUE(same_bits(plain, logits_with([&](EngineOptions& o) { o.cuda.late_stages = late; }))) << late;
  if (racechecked()) return;  // the control runs no other kernels than tests of formats
  EXPECT_FALSE(same_bits(plain, logits_with([](EngineOptions& o) { o.weights.format = WeightFormat::kQ3; })));
}

// The handicap inside a round: the clock of the GPU says what was spun, the round is longer by it, and no bit changes.
TEST_F(HopperTest, AHandicapInAKernelIsSpunAndSaid) {
  constexpr std::int64_t kSpunNs = 2'000'000;
  constexpr std::int64_t kTimerStepNs = 2'000;
  const int all_rounds = amount("rounds", 8, 8, 3);
  const Golden golden(fixture("hybrid-headdim256") / "golden-97.safetensors");
  struct Rounds {
    std::vector<float> logits;
    double least_ns = std::numeric_limits<double>::infinity();
  };
  const auto run = [&](HandicapPlace place, bool graph) {
    EngineOptions options = cuda_options(Numbers::kBF16);
    options.cuda.graph = graph;
    options.handicap.place = place;
    options.handicap.ns = place == HandicapPlace::kKernel ? kSpunNs : 0;
    const std::unique_ptr<Backend> backend = open_cuda(headdim256(), options);
    backend->prefill(std::span(golden.tokens).first(20));
    Rounds rounds;
    for (int i = 0; i < all_rounds; ++i) {
      const auto start = std::chrono::steady_clock::now();
      const VerifyOutput output =
          backend->verify(std::span(golden.tokens).subspan(static_cast<std::size_t>(20 + i), 1));
      const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
      backend->commit(1);
      if (i > 0) rounds.least_ns = std::min(rounds.least_ns, took.count());  // the first one makes the graph
      rounds.logits.insert(rounds.logits.end(), output.logits.begin(), output.logits.end());
      if (place == HandicapPlace::kKernel) {
        EXPECT_GE(output.spun_ns, kSpunNs);
        if (!sanitized()) {
          EXPECT_LE(output.spun_ns, kSpunNs + kTimerStepNs + kSpunNs / 10);
        }
      } else {
        EXPECT_EQ(output.spun_ns, 0);
      }
    }
    return rounds;
  };
  for (const bool graph : {false, true}) {
    const Rounds plain = run(HandicapPlace::kNone, graph);
    const Rounds slow = run(HandicapPlace::kKernel, graph);
    EXPECT_TRUE(same_bits(plain.logits, slow.logits));
    EXPECT_GE(slow.least_ns, static_cast<double>(kSpunNs)) << "graph " << graph;
    if (!sanitized()) {
      EXPECT_LT(plain.least_ns, static_cast<double>(kSpunNs)) << "the model is too slow to see the handicap";
    }
  }
}

TEST_F(HopperTest, EveryFormatComesNearTheCpu) {
  const Golden golden(fixture("hybrid-headdim256") / "golden-97.safetensors");
  const auto text = std::span(golden.tokens).first(amount<std::size_t>("tokens", golden.tokens.size(), 97, 20));
  std::vector<WeightCodec> codecs = {WeightFormat::kBF16, {WeightFormat::kNVFP4, ScaleFormat::kE4M3}};
  for (const ScaleFormat scales : {ScaleFormat::kFP16, ScaleFormat::kE4M3})
    for (const WeightFormat format :
         {WeightFormat::kQ8, WeightFormat::kQ5, WeightFormat::kQ4, WeightFormat::kQ3, WeightFormat::kFP8})
      codecs.emplace_back(format, scales);
  for (const WeightCodec codec : codecs) {
    const std::string weights = to_text(codec.format) + " " + to_text(codec.scales) + " scales";
    for (const Numbers numbers : {Numbers::kExact, Numbers::kBF16}) {
      EngineOptions options = cuda_options(numbers);
      options.weights.format = codec.format;
      options.weights.scales = codec.scales;
      const std::unique_ptr<Backend> cuda = open_cuda(headdim256(), options);
      const Captured on_gpu = capture_prefill(*cuda, text);
      EngineOptions cpu = exact_options();
      cpu.weights.format = codec.format;
      cpu.weights.scales = codec.scales;
      const Captured expected = capture_prefill(*open_backend("hybrid-headdim256", cpu), text);
      const double error = relative(on_gpu.logits, expected.logits);
      std::cout << "[          ] " << weights << (numbers == Numbers::kExact ? " exact " : " bf16 ") << error << "\n";
      const double bound = numbers == Numbers::kExact ? 1e-5 : 2e-2;
      EXPECT_LE(error, bound) << weights;
    }
  }
}

TEST_F(HopperTest, CacheAndStateFormatsComeNear) {
  const Golden golden(fixture("hybrid-headdim256") / "golden-261.safetensors");
  const auto text = std::span(golden.tokens).first(amount<std::size_t>("tokens", golden.tokens.size(), 261, 40));
  const auto logits_with = [&](const std::function<void(EngineOptions&)>& change) {
    EngineOptions options = cuda_options(Numbers::kExact);
    change(options);
    return capture_prefill(*open_cuda(headdim256(), options), text).logits;
  };
  std::vector<float> exact = golden.floats("logits");
  exact.resize(exact.size() / golden.tokens.size() * text.size());
  const auto check = [&](const char* name, double bound, const std::function<void(EngineOptions&)>& change) {
    const double error = relative(logits_with(change), exact);
    std::cout << "[          ] " << name << " " << error << "\n";
    EXPECT_LE(error, bound) << name;
    EXPECT_GT(error, 1e-6) << name << " changed nothing";
  };
  check("bf16 caches", 1e-2, [](EngineOptions& o) { o.kv.key = o.kv.value = CacheFormat::kBF16; });
  check("fp8 caches", 1e-1, [](EngineOptions& o) { o.kv.key = o.kv.value = CacheFormat::kFP8; });
  check("fp16 state", 1e-2, [](EngineOptions& o) { o.state.recurrent = StateFormat::kFP16; });
  check("bf16 state", 5e-2, [](EngineOptions& o) { o.state.recurrent = StateFormat::kBF16; });
  check("int8 state", 1e-1, [](EngineOptions& o) { o.state.recurrent = StateFormat::kInt8; });
  check("rotated fp8 keys", 1e-1, [](EngineOptions& o) {
    o.kv.key = CacheFormat::kFP8;
    o.kv.rotation = KeyRotation::kHadamard;
  });
  check("int8 caches", 2e-2, [](EngineOptions& o) { o.kv.key = o.kv.value = CacheFormat::kInt8; });
  check("nvfp4 caches", 3e-1, [](EngineOptions& o) { o.kv.key = o.kv.value = CacheFormat::kNVFP4; });
  check("rotated nvfp4 keys", 3e-1, [](EngineOptions& o) {
    o.kv.key = CacheFormat::kNVFP4;
    o.kv.rotation = KeyRotation::kHadamard;
  });
  check("bf16 columns", 1e-2, [](EngineOptions& o) { o.state.convolution = CacheFormat::kBF16; });
}

// Caches with scales: the CPU's have the same numbers but where a sum that was rounded otherwise turns a code, so both
// backends are much nearer to each other than to FP32 caches. On tensor cores, and of unlike formats in FP32.
TEST_F(HopperTest, CachesWithScalesAreTheCPUs) {
  const Golden golden(fixture("hybrid-headdim256") / "golden-261.safetensors");
  const auto text = std::span(golden.tokens).first(amount<std::size_t>("tokens", golden.tokens.size(), 80, 40));
  const std::size_t prompt = amount<std::size_t>("tokens of the prompt", 200, 66, 26);
  struct Caches {
    CacheFormat key, value;
    KeyRotation rotation;
  };
  for (const Caches& caches : {Caches{CacheFormat::kInt8, CacheFormat::kInt8, KeyRotation::kNone},
                               Caches{CacheFormat::kInt8, CacheFormat::kInt8, KeyRotation::kHadamard},
                               Caches{CacheFormat::kNVFP4, CacheFormat::kNVFP4, KeyRotation::kNone},
                               Caches{CacheFormat::kNVFP4, CacheFormat::kNVFP4, KeyRotation::kHadamard},
                               Caches{CacheFormat::kInt8, CacheFormat::kNVFP4, KeyRotation::kNone},
                               Caches{CacheFormat::kBF16, CacheFormat::kInt8, KeyRotation::kHadamard},
                               Caches{CacheFormat::kNVFP4, CacheFormat::kFP8, KeyRotation::kHadamard}}) {
    const auto logits_of = [&](Backend& backend, std::size_t width) {
      const std::span<const float> prefilled = backend.prefill(text.first(prompt));
      std::vector<float> logits(prefilled.begin(), prefilled.end());
      for (std::size_t at = prompt; at + 1 < text.size(); at += width) {
        const std::size_t count = std::min(width, text.size() - 1 - at);
        const VerifyOutput output = backend.verify(text.subspan(at, count), {.logits = true});
        logits.insert(logits.end(), output.logits.begin(), output.logits.end());
        backend.commit(static_cast<int>(count));
      }
      return logits;
    };
    const auto options_with = [&](EngineOptions options) {
      options.kv = {.key = caches.key, .value = caches.value, .rotation = caches.rotation};
      return options;
    };
    const std::vector<float> on_cpu = logits_of(*open_backend("hybrid-headdim256", options_with(exact_options())), 1);
    const std::vector<float> exact_caches = logits_of(*open_backend("hybrid-headdim256", exact_options()), 1);
    const double codec = relative(on_cpu, exact_caches);
    std::vector<float> first;
    for (const std::size_t width : some<std::size_t>("widths", {1, 2, 8, 5, 16}, 5, 2)) {
      const std::unique_ptr<Backend> backend = open_cuda(headdim256(), options_with(cuda_options(Numbers::kExact)));
      const std::vector<float> on_gpu = logits_of(*backend, width);
      if (first.empty()) first = on_gpu;
      EXPECT_TRUE(same_bits(on_gpu, first)) << "width " << width;
    }
    const double error = relative(first, on_cpu);
    std::cout << "[          ] " << to_text(caches.key) << ", " << to_text(caches.value)
              << (caches.rotation == KeyRotation::kNone ? "" : ", rotated") << ": " << error
              << " from the CPU, which is " << codec << " from FP32 caches\n";
    EXPECT_LT(error, 0.5 * codec);
    EXPECT_GT(codec, 1e-4) << "the control: these caches change nothing";
  }
}

// Token by token both backends store the state after every token, so they round it alike.
TEST_F(HopperTest, AnInt8StateIsTheCPUs) {
  const Golden golden(fixture("hybrid-headdim256") / "golden-97.safetensors");
  const auto text = std::span(golden.tokens).first(amount<std::size_t>("tokens", golden.tokens.size(), 30, 16));
  const auto logits_of = [&](Backend& backend) {
    std::vector<float> logits;
    for (std::size_t at = 0; at < text.size(); ++at) {
      const VerifyOutput output = backend.verify(text.subspan(at, 1), {.logits = true});
      logits.insert(logits.end(), output.logits.begin(), output.logits.end());
      backend.commit(1);
    }
    return logits;
  };
  EngineOptions on_cpu = exact_options();
  const std::vector<float> exact = logits_of(*open_backend("hybrid-headdim256", on_cpu));
  on_cpu.state.recurrent = StateFormat::kInt8;
  const std::vector<float> expected = logits_of(*open_backend("hybrid-headdim256", on_cpu));
  EngineOptions options = cuda_options(Numbers::kExact);
  options.state.recurrent = StateFormat::kInt8;
  const std::vector<float> got = logits_of(*open_cuda(headdim256(), options));
  const double error = relative(got, expected);
  const double codec = relative(expected, exact);
  std::cout << "[          ] int8 state: " << error << " from the CPU, which is " << codec << " from FP32 states\n";
  EXPECT_LT(error, 0.5 * codec);
  EXPECT_GT(codec, 1e-4) << "the control: the codec changes nothing";
}

// Keys and queries turned alike: scores are the same but for rounding, in FP32 kernels, on tensor cores, in chunks and
// token by token. The sums are those of formats/hadamard.h, so the CPU's rotated caches are near too.
TEST_F(HopperTest, ARotationOfKeysAndQueriesChangesNothingButRounding) {
  const Golden golden(fixture("hybrid-headdim256") / "golden-97.safetensors");
  const auto text = std::span(golden.tokens).first(amount<std::size_t>("tokens", golden.tokens.size(), 97, 40));
  const std::size_t rounds_from = text.size() - amount<std::size_t>("tokens in rounds", 17, 5, 3);
  for (const Numbers numbers : {Numbers::kExact, Numbers::kBF16}) {
    EngineOptions options = cuda_options(numbers);
    const auto run = [&](KeyRotation rotation) {
      options.kv.rotation = rotation;
      const std::unique_ptr<Backend> backend = open_cuda(headdim256(), options);
      Captured captured = capture_prefill(*backend, text.first(rounds_from));
      for (std::size_t i = rounds_from; i < text.size(); ++i) {
        const VerifyOutput output = backend->verify(text.subspan(i, 1), {.logits = true});
        captured.logits.insert(captured.logits.end(), output.logits.begin(), output.logits.end());
        backend->commit(1);
      }
      return captured.logits;
    };
    const std::vector<float> plain = run(KeyRotation::kNone);
    const std::vector<float> rotated = run(KeyRotation::kHadamard);
    const double error = relative(rotated, plain);
    std::cout << "[          ] rotated " << (numbers == Numbers::kExact ? "exact " : "bf16 ") << error << "\n";
    EXPECT_LE(error, numbers == Numbers::kExact ? 1e-5 : 1e-2);
    EXPECT_GT(error, 0) << "nothing was rotated";
  }
}

// 136 row blocks of gate and up: on 132 multiprocessors the product applies the activation itself, and four row blocks
// are shared. Sums of other order, and so other roundings to BF16.
TEST_F(HopperTest, AnActivatingProductChangesNothingButRounding) {
  constexpr const char* kModel =
      "synthetic:hidden=256,intermediate=17408,layers=4,vocab=2000,heads=4,kv_heads=2,head_dim=64,rotary=32,"
      "linear_key_heads=2,linear_value_heads=6,linear_key_head_dim=64,linear_value_head_dim=64,tied=0?seed=9";
  std::vector<std::int32_t> tokens(64);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * 31 % 2000);
  const auto run = [&](bool activating) {
    EngineOptions options = cuda_options(Numbers::kBF16);
    options.weights.format = WeightFormat::kQ4;
    options.cuda.activating_product = activating;
    const std::unique_ptr<Backend> backend = open_cuda(kModel, options);
    backend->prefill(std::span(tokens).first(8));
    std::vector<float> logits;
    std::size_t at = 8;
    for (const std::size_t count : some<std::size_t>("rounds", {1, 9, 3, 20, 16}, 5, 2)) {
      const VerifyOutput output = backend->verify(std::span(tokens).subspan(at, count));
      logits.insert(logits.end(), output.logits.begin(), output.logits.end());
      backend->commit(static_cast<int>(count));
      at += count;
    }
    return logits;
  };
  const std::vector<float> by_kernel = run(false);
  const std::vector<float> by_product = run(true);
  const double error = relative(by_product, by_kernel);
  std::cout << "[          ] activated by the product " << error << "\n";
  EXPECT_LE(error, 1e-2);
  if (amount("runs of the same", 2, 2, 1) > 1) {
    EXPECT_TRUE(same_bits(by_product, run(true)));
  }
  if (open_cuda_device(0).multiprocessors == 132) {
    EXPECT_GT(error, 0) << "the same kernels ran";
  }
}

TEST_F(GpuTest, ErrorsAreClear) {
  const auto message_of = [](const EngineOptions& options, const std::string& model) -> std::string {
    try {
      open_cuda(model, options);
    } catch (const Error& error) {
      std::cout << "[          ] " << error.what() << "\n";
      return error.parts().where + ": " + error.parts().what;
    }
    return "nothing was thrown";
  };
  EngineOptions options = cuda_options(Numbers::kExact);
  options.cuda.device = 63;
  EXPECT_THAT(message_of(options, headdim256()), testing::StartsWith("cuda.device: "));
  options.cuda.device = 0;
  options.activations.format = ActivationFormat::kQ8;
  EXPECT_THAT(message_of(options, headdim256()), testing::StartsWith("activations.format: "));
  // Told before anything is loaded: 27B in BF16 with a quarter of a million positions of FP32 caches.
  EngineOptions large;
  large.backend = BackendKind::kCuda;
  large.activations.format = ActivationFormat::kFP32;
  large.kv.key = large.kv.value = CacheFormat::kFP32;
  large.context = 262144;
  const std::string memory = message_of(large, "synthetic:27b,layers=512?seed=1");
  EXPECT_THAT(memory, testing::StartsWith("backend cuda: "));
  EXPECT_THAT(memory, testing::HasSubstr("key-value cache 274.95 GB"));
  EXPECT_THAT(
      message_of(cuda_options(Numbers::kExact), "synthetic:hidden=256,layers=4,vocab=512,head_dim=264,rotary=8?seed=1"),
      testing::HasSubstr("head dimension of 264"));
}

TEST_F(HopperTest, InventoryCountsWhatIsResident) {
  EngineOptions options = cuda_options(Numbers::kBF16);
  options.weights.format = WeightFormat::kQ4;
  const std::unique_ptr<Backend> backend = open_cuda(headdim256(), options);
  const WeightInventory inventory = backend->inventory(100, 1);
  options.kv.key = options.kv.value = CacheFormat::kInt8;
  const std::unique_ptr<Backend> int8 = open_cuda(headdim256(), options);
  // Rows of 256: 512 bytes in BF16, 264 in INT8.
  EXPECT_EQ(int8->inventory(100, 1).bytes_per_round(AccessPattern::kCache) * 512,
            inventory.bytes_per_round(AccessPattern::kCache) * 264);
  EXPECT_GT(inventory.bytes_per_round(AccessPattern::kStream), 0U);
  EXPECT_GT(inventory.bytes_per_round(AccessPattern::kState), 0U);
  EXPECT_GT(backend->inventory(200, 1).bytes_per_round(), inventory.bytes_per_round());
  EXPECT_TRUE(backend->launches(1).empty());
  backend->prefill(std::vector<std::int32_t>{1, 2, 3});
  const std::int32_t token = 4;
  backend->verify(std::span(&token, 1));
  const std::vector<LaunchRecord> launches = backend->launches(1);
  EXPECT_GT(launches.size(), 4U * 6U);
  std::uint64_t weights = 0;
  for (const LaunchRecord& record : launches)
    if (record.part.ends_with("_proj.weight") || record.part.ends_with("lm_head.weight")) weights += record.bytes;
  EXPECT_GT(weights, 0U);
}

}  // namespace
}  // namespace tare::engine::test

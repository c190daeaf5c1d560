// The exact head on the GPU against the CPU's, whose sums are in double precision.
#include <chrono>
#include <iostream>
#include <thread>

#include "engine/checkpoint/synthetic.h"
#include "engine/streamed/cuda/cuda_head_product.h"
#include "forced/exact_head.h"
#include "tests/cuda/gpu/gpu_test.h"
#include "tests/cuda/gpu/sanitized.h"
#include "tests/source_folder.h"

namespace tare::engine::test {
namespace {

class HeadProductOnGpu : public GpuTest {};

std::vector<float> random_hidden(std::int64_t count, std::uint64_t seed) {
  Philox random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

// The largest difference in parts of the largest logit.
double worst(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    size = std::max(size, std::fabs(static_cast<double>(b[i])));
  }
  return a.size() == b.size() ? difference / size : HUGE_VAL;
}

// Tied (the embedded model) and not, more rows than a panel, more positions than are multiplied at once.
TEST_F(HeadProductOnGpu, IsTheHostsHeadToFp32Rounding) {
  for (const std::string& model :
       {(source_folder() / "models/embedded").string(), (source_folder() / "tests/fixtures/hybrid-headdim256").string(),
        std::string("synthetic:hidden=320,intermediate=64,layers=1,vocab=20011,heads=2,"
                    "kv_heads=1,head_dim=32,rotary=16,linear_key_heads=1,"
                    "linear_value_heads=2,linear_key_head_dim=32,linear_value_head_dim=32,"
                    "tied=0?seed=4")}) {
    const auto checkpoint = open_checkpoint(model);
    const auto on_gpu = make_cuda_head_product(*checkpoint, 0);
    const forced::ExactHead on_cpu(*checkpoint);
    ASSERT_EQ(on_gpu->vocab_size(), on_cpu.vocab_size());
    ThreadPool pool(4);
    for (const std::int64_t rows : {1, 64, 67}) {
      const std::vector<float> hidden = random_hidden(rows * on_cpu.hidden_size(), 3);
      std::vector<float> found(static_cast<std::size_t>(rows * on_cpu.vocab_size()), NAN);
      std::vector<float> wanted(found.size());
      on_gpu->apply(pool, hidden, found);
      on_cpu.apply(pool, hidden, wanted);
      EXPECT_LE(worst(found, wanted), 2e-6) << model << ", rows " << rows;
      std::vector<float> other = hidden;  // the control: one number of one row is seen
      other.back() += 0.01F;
      on_gpu->apply(pool, other, found);
      EXPECT_GT(worst(found, wanted), 2e-5) << model;
    }
  }
}

double milliseconds_a_position(const HeadProduct& head, ThreadPool& pool, std::int64_t rows) {
  const std::vector<float> hidden = random_hidden(rows * head.hidden_size(), 5);
  std::vector<float> logits(static_cast<std::size_t>(rows * head.vocab_size()));
  head.apply(pool, hidden, logits);
  const auto start = std::chrono::steady_clock::now();
  head.apply(pool, hidden, logits);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  return took.count() / static_cast<double>(rows);
}

// What a position costs with the vocabulary and hidden size of the 27B; beside it an eighth of it on the CPU.
TEST_F(HeadProductOnGpu, TakesAWindowOfTheLargestVocabularyInSeconds) {
  if (sanitized()) GTEST_SKIP() << "a time, while compute-sanitizer watches";
  const auto model = [](int vocabulary) {
    return open_checkpoint(
        "synthetic:hidden=5120,intermediate=64,layers=1,vocab=" + std::to_string(vocabulary) +
        ",heads=2,kv_heads=1,head_dim=32,rotary=16,linear_key_heads=1,linear_value_heads=2,linear_key_head_dim=32,"
        "linear_value_head_dim=32,tied=0?seed=4");
  };
  const auto checkpoint = model(248320);
  ThreadPool pool(static_cast<int>(std::thread::hardware_concurrency()));
  const double on_gpu = milliseconds_a_position(*make_cuda_head_product(*checkpoint, 0), pool, 256);
  const double on_cpu = milliseconds_a_position(forced::ExactHead(*model(248320 / 8)), pool, 64);
  std::cout << "[          ] " << on_gpu << " ms a position; on " << pool.size() << " CPU threads an eighth of it "
            << on_cpu << " ms\n";
  EXPECT_LT(on_gpu * 2048, 10'000);
}

}  // namespace
}  // namespace tare::engine::test

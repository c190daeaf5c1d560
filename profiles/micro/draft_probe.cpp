// Rounds with a block drafter, phase by phase beside their floors: 27B in q4 and its 5-layer drafter, random weights. A
// round is draft, verify of a chain of the drafted tokens (tokens out, no logits) and commit of some of them, by the
// host's clock. What is committed is prescribed: random weights accept nothing.
// draft_probe [CONTEXT [TOKENS [COMMITTED [FORMAT]]]]: a JSON line to standard output.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "engine/cuda/cuda_backend.h"
#include "profiles/gpu_read_rate.h"

namespace tare::micro {
namespace {

constexpr int kWarmUp = 6;
constexpr int kRepeats = 60;
constexpr std::int64_t kRoom = 2048;  // beyond the context, for what the rounds commit
constexpr std::int64_t kCandidates = 8;

constexpr int kReadPasses = 5;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::uint64_t bytes_of(const std::vector<engine::LaunchRecord>& launches, std::int64_t context) {
  return std::accumulate(
      launches.begin(), launches.end(), std::uint64_t{0},
      [&](std::uint64_t sum, const engine::LaunchRecord& launch) { return sum + launch.bytes_at(context); });
}

void probe(std::int64_t context, std::int64_t tokens, int committed, const std::string& format, double rate) {
  engine::EngineOptions options;
  apply_option(options, "backend=cuda");
  apply_option(options, "weights.format=" + format);
  apply_option(options, "speculate.drafter=synthetic");
  apply_option(options, "speculate.candidates=1");
  options.context = context + kRoom;
  const std::unique_ptr<engine::Backend> backend =
      engine::make_cuda_backend(*engine::open_checkpoint("synthetic:27b?seed=1"), options);
  const auto vocab = static_cast<std::uint64_t>(backend->config().vocab_size);
  Philox random(1);
  const auto token = [&] { return static_cast<std::int32_t>(random.below(vocab)); };
  std::vector<std::int32_t> prompt(static_cast<std::size_t>(context));
  for (std::int32_t& one : prompt) one = token();
  backend->prefill(prompt);

  using Clock = std::chrono::steady_clock;
  const auto us = [](Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); };
  std::vector<double> draft_us;
  std::vector<double> verify_us;
  std::vector<double> round_us;
  for (int repeat = 0; repeat < kWarmUp + kRepeats; ++repeat) {
    const std::int32_t anchor = token();
    const Clock::time_point start = Clock::now();
    const engine::DraftOutput draft =
        backend->draft({.anchor = anchor, .tokens = tokens, .candidates = kCandidates, .temperature = 1});
    const Clock::time_point drafted = Clock::now();
    std::vector<std::int32_t> chain = {anchor};
    for (std::int64_t row = 0; row < draft.rows; ++row)
      chain.push_back(draft.tokens[static_cast<std::size_t>(row * draft.candidates)]);
    const Clock::time_point chained = Clock::now();
    backend->verify(chain, {.logits = false, .hidden = false});
    const Clock::time_point verified = Clock::now();
    backend->commit(std::min(committed, static_cast<int>(chain.size())));
    const Clock::time_point end = Clock::now();
    if (repeat < kWarmUp) continue;
    draft_us.push_back(us(drafted - start));
    verify_us.push_back(us(verified - chained));
    round_us.push_back(us(end - start));
  }
  const std::int64_t frontier = backend->frontier();
  const auto floor = [&](std::uint64_t bytes) { return 1e6 * static_cast<double>(bytes) / rate; };
  const std::vector<engine::LaunchRecord> draft_launches = backend->draft_launches();
  const std::uint64_t draft_bytes = bytes_of(draft_launches, frontier);
  const std::uint64_t verify_bytes = backend->inventory(frontier, tokens + 1).bytes_per_round();
  for (const engine::LaunchRecord& launch : draft_launches) {
    if (launch.bytes_at(frontier) > 0)
      fmt::print(stderr, "{:24} {:48} {:9.3f} MB\n", launch.name, launch.part,
                 1e-6 * static_cast<double>(launch.bytes_at(frontier)));
  }
  const double draft_floor = floor(draft_bytes);
  const double verify_floor = floor(verify_bytes);
  fmt::print(R"({{"what": "draft_round", "format": "{}", "context": {}, "draft_tokens": {}, "committed": {}, )"
             R"("read_rate_gbps": {:.0f}, "draft_kernels": {}, "draft_bytes": {}, "draft_floor_us": {:.1f}, )"
             R"("draft_us": {:.1f}, "draft_least_us": {:.1f}, "verify_bytes": {}, "verify_floor_us": {:.1f}, )"
             R"("verify_us": {:.1f}, "round_us": {:.1f}, "round_over_floor": {:.3f}}})"
             "\n",
             format, context, tokens, committed, 1e-9 * rate, draft_launches.size(), draft_bytes, draft_floor,
             median(draft_us), *std::min_element(draft_us.begin(), draft_us.end()), verify_bytes, verify_floor,
             median(verify_us), median(round_us), median(round_us) / (draft_floor + verify_floor));
}

}  // namespace
}  // namespace tare::micro

int main(int count, char** arguments) {
  const auto text = [&](int index, const char* otherwise) {
    return std::string(index < count ? arguments[index] : otherwise);
  };
  try {
    const tare::profiles::ReadRateSource source = tare::profiles::gpu_read_rate(0);
    const double rate = source.make(source.beyond_caches)->measure(tare::micro::kReadPasses);
    tare::micro::probe(std::atoll(text(1, "1024").c_str()), std::atoll(text(2, "15").c_str()),
                       std::atoi(text(3, "4").c_str()), text(4, "q4"), rate);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
  return 0;
}

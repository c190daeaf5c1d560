// Rounds with a block drafter, phase by phase beside their floors: 27B in q4 and its 5-layer drafter, random weights. A
// round is draft, verify of a chain of the drafted tokens (tokens out, no logits) and commit of some of them, by the
// host's clock. What is committed is prescribed: random weights accept nothing.
// draft_probe [CONTEXT [TOKENS [COMMITTED [FORMAT [kernels]]]]]: a JSON line to standard output; with "kernels" one
// more for each kernel of a draft: the time from its predecessor's end to its own, as CUPTI records it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "engine/cuda/cuda_backend.h"
#include "profiles/gpu_read_rate.h"
#include "profiles/timeline/cupti_collector.h"

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

bool is_draft(const engine::InventoryEntry& entry) {
  return entry.tensor.starts_with("drafter.") || entry.tensor.ends_with("(draft)");
}

// Draft after draft of the same round, recorded; medians over them.
void print_kernels(engine::Backend& backend, std::int64_t tokens, double rate) {
  constexpr int kDrafts = 40;
  const std::unique_ptr<profiles::KernelCollector> collector = profiles::make_cupti_collector();
  collector->start();
  for (int i = 0; i < kDrafts; ++i) {
    backend.verify(std::vector<std::int32_t>{1, 2, 3, 4}, {.logits = false, .hidden = false});
    backend.commit(4);
    (void)backend.draft({.anchor = i, .tokens = tokens, .candidates = kCandidates, .temperature = 1});
  }
  const profiles::KernelRecords kernels = collector->take();
  const std::vector<engine::LaunchRecord> launches = backend.draft_launches();
  std::vector<std::vector<double>> times(launches.size());
  std::vector<double> spans;
  for (std::size_t i = 0; i < kernels.records.size(); ++i) {
    const auto name = [&](std::size_t at) { return kernels.names[static_cast<std::size_t>(kernels.records[at].name)]; };
    if (name(i).find("begin_draft") == std::string::npos || i + launches.size() > kernels.records.size()) continue;
    for (std::size_t k = 0; k < launches.size(); ++k) {
      const std::int64_t before = k == 0 ? kernels.records[i].start_ns : kernels.records[i + k - 1].end_ns;
      times[k].push_back(1e-3 * static_cast<double>(kernels.records[i + k].end_ns - before));
    }
    spans.push_back(1e-3 *
                    static_cast<double>(kernels.records[i + launches.size() - 1].end_ns - kernels.records[i].start_ns));
  }
  if (spans.empty()) throw internal_error("no draft among the records");
  for (std::size_t k = 0; k < launches.size(); ++k) {
    fmt::print(R"({{"what": "draft_kernel", "name": "{}", "part": "{}", "us": {:.2f}, "floor_us": {:.2f}}})"
               "\n",
               launches[k].name, launches[k].part, median(times[k]),
               1e6 * static_cast<double>(launches[k].bytes_at(backend.frontier())) / rate);
  }
  fmt::print(R"({{"what": "draft_span", "us": {:.1f}, "drafts": {}, "records": {}}})"
             "\n",
             median(spans), spans.size(), kernels.records.size());
}

void probe(std::int64_t context, std::int64_t tokens, int committed, const std::string& format, bool kernels,
           double rate) {
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
  std::uint64_t draft_bytes = 0;
  std::uint64_t verify_bytes = 0;
  for (const engine::InventoryEntry& entry : backend->inventory(frontier, tokens + 1).entries)
    (is_draft(entry) ? draft_bytes : verify_bytes) += entry.bytes_per_round;
  const double draft_floor = floor(draft_bytes);
  const double verify_floor = floor(verify_bytes);
  fmt::print(R"({{"what": "draft_round", "format": "{}", "context": {}, "draft_tokens": {}, "committed": {}, )"
             R"("read_rate_gbps": {:.0f}, "draft_kernels": {}, "draft_bytes": {}, "draft_floor_us": {:.1f}, )"
             R"("draft_us": {:.1f}, "draft_least_us": {:.1f}, "verify_bytes": {}, "verify_floor_us": {:.1f}, )"
             R"("verify_us": {:.1f}, "round_us": {:.1f}, "round_over_floor": {:.3f}}})"
             "\n",
             format, context, tokens, committed, 1e-9 * rate, backend->draft_launches().size(), draft_bytes,
             draft_floor, median(draft_us), *std::min_element(draft_us.begin(), draft_us.end()), verify_bytes,
             verify_floor, median(verify_us), median(round_us), median(round_us) / (draft_floor + verify_floor));
  if (kernels) print_kernels(*backend, tokens, rate);
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
                       std::atoi(text(3, "4").c_str()), text(4, "q4"), text(5, "") == "kernels", rate);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
  return 0;
}

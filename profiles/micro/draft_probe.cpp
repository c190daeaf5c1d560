// Rounds with a drafter, phase by phase beside their floors: 27B in q4 and its 5-layer drafter, random weights. A
// round is draft, verify of a chain of the drafted tokens (tokens out, no logits) and commit of some of them, by the
// host's clock. What is committed is prescribed: random weights accept nothing.
// draft_probe [CONTEXT [TOKENS [COMMITTED [FORMAT [kernels]]]]] [PATH=VALUE ...]: a JSON line to standard output;
// options as of the engine (a shortlist needs no counts: the first tokens are taken as the most frequent); with
// "kernels" one more for each kernel of a draft: the time from its predecessor's end to its own, as CUPTI records it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "base/text.h"
#include "engine/checkpoint/safetensors.h"
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
  return entry.tensor.starts_with("drafter.") || entry.tensor.starts_with("mtp.") || entry.tensor.ends_with("(draft)");
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
  if (launches.size() < 2) throw internal_error("a draft of no kernels");
  const std::string& first_after_control = launches[1].name;  // begin_draft, or join_rows of an MTP head's first step
  std::vector<std::vector<double>> times(launches.size());
  std::vector<double> spans;
  for (std::size_t i = 0; i < kernels.records.size(); ++i) {
    const auto name = [&](std::size_t at) { return kernels.names[static_cast<std::size_t>(kernels.records[at].name)]; };
    // A draft begins with the kernel before this one; join_rows comes again within it.
    if (i + 1 >= kernels.records.size() || name(i + 1).find(first_after_control) == std::string::npos ||
        name(i).find("control") == std::string::npos || i + launches.size() > kernels.records.size())
      continue;
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

// Counts by which the first tokens are the most frequent.
void write_counts(const std::filesystem::path& path, std::int64_t vocab) {
  std::vector<std::int32_t> counts(static_cast<std::size_t>(vocab));
  for (std::int64_t id = 0; id < vocab; ++id)
    counts[static_cast<std::size_t>(id)] = static_cast<std::int32_t>(vocab - id);
  const engine::Tensor tensor{
      "counts", engine::Dtype::kI32, {vocab}, std::as_bytes(std::span<const std::int32_t>(counts)), nullptr};
  engine::write_safetensors(path, std::span(&tensor, 1));
}

void probe(std::int64_t context, std::int64_t tokens, int committed, const std::string& format, bool kernels,
           const std::vector<std::string>& assignments, double rate) {
  engine::EngineOptions options;
  apply_option(options, "backend=cuda");
  apply_option(options, "weights.format=" + format);
  apply_option(options, "speculate.drafter=synthetic");
  apply_option(options, "speculate.candidates=1");
  options.context = context + kRoom;
  for (const std::string& assignment : assignments) apply_option(options, assignment);
  const auto checkpoint = engine::open_checkpoint("synthetic:27b,mtp_layers=1?seed=1");
  if (options.proposal_head.shortlist > 0 && options.proposal_head.counts.empty()) {
    options.proposal_head.counts = (std::filesystem::temp_directory_path() / "draft_probe_counts.safetensors").string();
    write_counts(options.proposal_head.counts, checkpoint->config().vocab_size);
  }
  const std::unique_ptr<engine::Backend> backend = engine::make_cuda_backend(*checkpoint, options);
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
             R"("verify_us": {:.1f}, "round_us": {:.1f}, "round_over_floor": {:.3f}, "options": "{}"}})"
             "\n",
             format, context, tokens, committed, 1e-9 * rate, backend->draft_launches().size(), draft_bytes,
             draft_floor, median(draft_us), *std::min_element(draft_us.begin(), draft_us.end()), verify_bytes,
             verify_floor, median(verify_us), median(round_us), median(round_us) / (draft_floor + verify_floor),
             join(assignments, " "));
  if (kernels) print_kernels(*backend, tokens, rate);
}

}  // namespace
}  // namespace tare::micro

int main(int count, char** arguments) {
  std::vector<std::string> places;
  std::vector<std::string> assignments;
  for (const std::string argument : std::span(arguments + 1, arguments + count))
    (argument.find('=') == std::string::npos ? places : assignments).push_back(argument);
  const auto text = [&](std::size_t index, const char* otherwise) {
    return index < places.size() ? places[index] : std::string(otherwise);
  };
  try {
    const tare::profiles::ReadRateSource source = tare::profiles::gpu_read_rate(0);
    const double rate = source.make(source.beyond_caches)->measure(tare::micro::kReadPasses);
    tare::micro::probe(std::atoll(text(0, "1024").c_str()), std::atoll(text(1, "15").c_str()),
                       std::atoi(text(2, "4").c_str()), text(3, "q4"), text(4, "") == "kernels", assignments, rate);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
  return 0;
}

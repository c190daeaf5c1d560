// head_misses [POSITIONS] [CANDIDATES]: of so many positions of real verifies on the embedded model (100000), how often
// a screen of each format misses the head's choice, and how often a bound proves that it does not; then what the ops of
// both heads take and read, also on a synthetic model with a vocabulary of 248320 (3 GB of memory).
// docs/method/heads.md has what it printed.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/engine/head_audit.h"
#include "tests/engine/verified_rows.h"

namespace tare::engine::test {
namespace {

constexpr int kWarmVerifies = 20;
constexpr std::size_t kPrefills = 10;  // ops that ran no more often are those of prefills

// Times the ops that make choices of final hidden states.
class HeadTimes final : public Collector {
 public:
  struct Op {
    std::vector<std::int64_t> times_ns;
    std::uint64_t bytes = 0;  // of the last
  };
  void begin(const LaunchRecord& op, std::uint64_t bytes) override {
    name_ = op.name + " " + op.part;
    bytes_ = bytes;
    start_ = Clock::now();
  }
  void end() override {
    const std::int64_t ns = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
    if (!name_.ends_with("lm_head.weight") && !name_.ends_with("logits")) return;
    if (name_.starts_with("draft ")) return;
    ops_[name_].times_ns.push_back(ns);
    ops_[name_].bytes = bytes_;
  }
  void print(const std::string& title) {
    double sum_us = 0;
    std::uint64_t bytes = 0;
    for (auto& [name, op] : ops_) {
      if (op.times_ns.size() <= kPrefills) continue;
      const auto middle = op.times_ns.begin() + static_cast<std::ptrdiff_t>(op.times_ns.size() / 2);
      std::nth_element(op.times_ns.begin(), middle, op.times_ns.end());
      const auto least = *std::min_element(op.times_ns.begin(), op.times_ns.end());
      fmt::print("{}: {}: median {:.1f} us, least {:.1f} us of {}, {} bytes\n", title, name,
                 static_cast<double>(*middle) / 1e3, static_cast<double>(least) / 1e3, op.times_ns.size(), op.bytes);
      sum_us += static_cast<double>(*middle) / 1e3;
      bytes += op.bytes;
    }
    fmt::print("{}: medians add up to {:.1f} us, {} bytes\n", title, sum_us, bytes);
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::string name_;
  std::uint64_t bytes_ = 0;
  Clock::time_point start_;
  std::map<std::string, Op> ops_;
};

void print_times(const Checkpoint& checkpoint, EngineOptions options, WeightFormat weights,
                 ActivationFormat activations) {
  options.weights.format = weights;
  options.activations.format = activations;
  for (const HeadScreen screen : {HeadScreen::kNone, HeadScreen::kQ4, HeadScreen::kQ3}) {
    options.head.screen = screen;
    const std::unique_ptr<Backend> backend = make_cpu_backend(checkpoint, options);
    HeadTimes times;
    int verifies = 0;
    visit_verified_rows(*backend, suite_prompts(16), 300, [&](std::span<const float>) {
      if (++verifies == kWarmVerifies) (void)backend->set_collector(&times);
      return true;
    });
    (void)backend->set_collector(nullptr);
    times.print(
        fmt::format("head {}, activations {}, screen {}", to_text(weights), to_text(activations), to_text(screen)));
  }
}

// A head of a real vocabulary, far beyond any cache: what the screen is for.
void print_wide_times() {
  const std::unique_ptr<Checkpoint> checkpoint = open_checkpoint(
      "synthetic:hidden=1024,intermediate=256,layers=4,vocab=248320,heads=4,kv_heads=2,head_dim=64,rotary=16,"
      "linear_key_heads=2,linear_value_heads=2,linear_key_head_dim=64,linear_value_head_dim=64,positions=512,tied=0"
      "?seed=1");
  EngineOptions options;
  options.cpu.threads = 2;
  for (const HeadScreen screen : {HeadScreen::kNone, HeadScreen::kQ4}) {
    options.head.screen = screen;
    const std::unique_ptr<Backend> backend = make_cpu_backend(*checkpoint, options);
    std::vector<std::int32_t> tokens;
    for (std::int32_t i = 0; i < 16; ++i) tokens.push_back(1000 + 997 * i);
    for (const std::size_t width : {1, 4, 16}) {
      backend->reset();
      backend->prefill(tokens);
      HeadTimes times;
      (void)backend->set_collector(&times);
      for (int verify = 0; verify < 12; ++verify) {
        (void)backend->verify(std::span(tokens).first(width), {.logits = false});
        backend->commit(0);
      }
      (void)backend->set_collector(nullptr);
      times.print(fmt::format("248320 tokens, {} rows, screen {}", width, to_text(screen)));
    }
  }
}

}  // namespace
}  // namespace tare::engine::test

int main(int argc, char** argv) {
  using namespace tare::engine;
  using namespace tare::engine::test;
  const std::int64_t positions = argc > 1 ? std::atoll(argv[1]) : 100'000;
  EngineOptions options;
  options.head.candidates = argc > 2 ? std::atoll(argv[2]) : 32;
  options.context = 4096;
  options.cpu.threads = 2;
  options.speculate.drafter = embedded_drafter();
  const std::unique_ptr<Checkpoint> checkpoint = open_checkpoint(embedded_model());
  const std::unique_ptr<Backend> backend = make_cpu_backend(*checkpoint, options);
  std::vector<std::unique_ptr<HeadAuditor>> auditors;
  for (const HeadScreen screen : {HeadScreen::kQ4, HeadScreen::kQ3}) {
    options.head.screen = screen;
    for (const WeightFormat format : {WeightFormat::kBF16, WeightFormat::kQ8}) {
      options.weights.format = format;
      auditors.push_back(std::make_unique<HeadAuditor>(*checkpoint, options));
    }
  }
  // A verify of 16 nodes commits 3.5 tokens or so: 64 prompts are 290 positions a token, with room for short trees.
  const auto length = static_cast<std::size_t>(std::max<std::int64_t>(64, positions / 150));
  visit_verified_rows(*backend, suite_prompts(1), length, [&](std::span<const float> hidden) {
    for (const std::unique_ptr<HeadAuditor>& auditor : auditors) auditor->add(hidden);
    return auditors.front()->result().rows < positions;
  });
  for (const std::unique_ptr<HeadAuditor>& auditor : auditors) {
    const HeadAudit& audit = auditor->result();
    fmt::print(
        "screen {} of {}, {} candidates: {} positions, {} misses, {} the screen alone would miss, proven by norms {} "
        "by steps {}, false proofs {}, most of the bound {:.3f}\n",
        to_text(auditor->screened().screen().format()), to_text(auditor->head().format()), options.head.candidates,
        audit.rows, audit.misses, audit.screen_alone, audit.proven_by_norms, audit.proven_by_steps, audit.false_proofs,
        audit.most_of_bound);
  }
  print_times(*checkpoint, options, WeightFormat::kBF16, ActivationFormat::kFP32);
  print_times(*checkpoint, options, WeightFormat::kQ8, ActivationFormat::kFP32);
  print_times(*checkpoint, options, WeightFormat::kQ8, ActivationFormat::kQ8);
  print_wide_times();
  return auditors.front()->result().rows < positions ? 1 : 0;
}

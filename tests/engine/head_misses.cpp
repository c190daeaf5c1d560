// head_misses [POSITIONS] [CANDIDATES]: of so many positions of real verifies on the embedded model (100000), how often
// a screen of each format misses the head's choice, and how often a bound proves that it does not. docs/method/heads.md
// has what it printed.
#include <fmt/format.h>

#include <cstdlib>

#include "tests/engine/head_audit.h"
#include "tests/engine/verified_rows.h"

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
  const auto length = static_cast<std::size_t>(positions / 150);
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
  return auditors.front()->result().rows < positions ? 1 : 0;
}

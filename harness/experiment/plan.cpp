#include "harness/experiment/plan.h"

#include <algorithm>

#include "stats/schedule.h"

namespace tare::harness {
namespace {

// Bytes of the ledger, measured on ledgers of the tests: a round is three varints, a prompt result a row of integers.
constexpr std::uint64_t kBytesPerRound = 6;
constexpr std::uint64_t kBytesPerPromptResult = 220;
constexpr std::uint64_t kBytesPerRun = 1200;  // its row, its launch's, samples of the environment
constexpr std::uint64_t kBytesPerLedger = 200'000;

char letter_of(std::size_t arm) {
  return static_cast<char>('A' + arm);
}

stats::Schedule schedule_of(const Experiment& experiment) {
  const int arms = static_cast<int>(experiment.arms.size());
  const int blocks = static_cast<int>(experiment.schedule.blocks);
  return experiment.schedule.granularity == Granularity::kRun
             ? stats::make_schedule(arms, blocks, experiment.schedule.seed)
             : stats::make_resident_schedule(arms, blocks, experiment.schedule.seed);
}

// Which runs of a block are warmed up for: the first slot's only where slots are launches, every worker's otherwise.
std::vector<PlannedRun> warmups_of(const PlannedBlock& block, Granularity granularity) {
  std::vector<PlannedRun> warmups = block.runs;
  if (granularity == Granularity::kRun) warmups.resize(1);
  for (PlannedRun& run : warmups) run.warmup = true;
  return warmups;
}

}  // namespace

std::size_t Plan::run_count() const {
  std::size_t count = 0;
  for (const PlannedBlock& block : blocks) count += block.runs.size();
  return count;
}

std::size_t Plan::warmup_count() const {
  if (granularity == Granularity::kRun) return blocks.empty() ? 0 : blocks.front().warmups.size();
  std::size_t count = 0;
  for (const PlannedBlock& block : blocks) count += block.warmups.size();
  return count;
}

std::size_t Plan::launch_count() const {
  return granularity == Granularity::kRun ? run_count() + warmup_count() : run_count();
}

Plan plan(const Experiment& experiment) {
  Plan plan;
  plan.granularity = experiment.schedule.granularity;
  plan.blocks.resize(static_cast<std::size_t>(experiment.schedule.blocks));
  for (const stats::Slot& slot : schedule_of(experiment).slots) {
    PlannedBlock& block = plan.blocks.at(static_cast<std::size_t>(slot.block));
    block.block = slot.block;
    block.runs.push_back({slot.block, slot.slot, static_cast<std::size_t>(slot.arm), false});
  }
  for (PlannedBlock& block : plan.blocks) {
    std::sort(block.runs.begin(), block.runs.end(), [](const auto& a, const auto& b) { return a.slot < b.slot; });
    for (const PlannedRun& run : block.runs) block.order += letter_of(run.arm);
    if (experiment.schedule.warmup) block.warmups = warmups_of(block, plan.granularity);
  }
  return plan;
}

std::vector<std::size_t> arm_order(const Experiment& experiment, int block, std::size_t prompt_index) {
  const std::vector<int> order = stats::prompt_visit_order(static_cast<int>(experiment.arms.size()), prompt_index,
                                                           block, experiment.schedule.seed);
  return {order.begin(), order.end()};
}

double warmup_share(Granularity granularity, std::size_t texts) {
  if (granularity == Granularity::kRun || texts <= kWarmupTexts) return 1;
  return static_cast<double>(kWarmupTexts) / static_cast<double>(texts);
}

std::size_t text_walks(const PlannedBlock& block, Granularity granularity, std::size_t texts, bool with_warmups) {
  const std::size_t warming = granularity == Granularity::kRun ? texts : std::min(kWarmupTexts, texts);
  return block.runs.size() * texts + (with_warmups ? block.warmups.size() * warming : 0);
}

PlanEstimate estimate(const Plan& plan, const UnitCost& cost) {
  PlanEstimate result;
  result.runs = plan.run_count();
  result.warmups = plan.warmup_count();
  result.launches = plan.launch_count();
  result.seconds = static_cast<double>(result.runs) * cost.run_seconds +
                   static_cast<double>(result.warmups) * cost.run_seconds * cost.warmup_share +
                   static_cast<double>(result.launches) * cost.launch_seconds;
  const auto prompts = static_cast<std::uint64_t>(cost.prompts);
  const auto tokens = static_cast<std::uint64_t>(cost.tokens_per_prompt);
  const std::uint64_t bytes_per_run = kBytesPerRun + prompts * (kBytesPerPromptResult + tokens * kBytesPerRound);
  result.ledger_bytes = kBytesPerLedger + (result.runs + result.warmups) * bytes_per_run;
  return result;
}

}  // namespace tare::harness

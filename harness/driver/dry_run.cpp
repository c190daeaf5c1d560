#include "harness/driver/dry_run.h"

#include <algorithm>
#include <chrono>

#include "harness/driver/replay_texts.h"
#include "harness/worker/worker_client.h"

namespace tare::harness {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPromptsTried = 4;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The texts to try, given ones as they are; prompts still to be encoded and continued freely.
std::vector<GivenText> texts_of(const Experiment& experiment) {
  if (experiment.texts.mode == TextMode::kGiven) return given_texts_of(experiment);
  std::vector<GivenText> texts;
  for (const forced::Prompt& prompt : selected_prompts(experiment)) {
    GivenText text;
    text.text.prompt_id = prompt.id;
    text.text.prompt_tokens = prompt.tokens;
    if (prompt.tokens.empty()) text.prompt = prompt.turns.front();
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace

DryRun dry_run(const Experiment& experiment, const std::string& own_program) {
  check_paths(experiment);
  const Plan planned = plan(experiment);
  DryRun result;
  for (const PlannedBlock& block : planned.blocks) result.block_orders.push_back(block.order);

  const Arm& baseline = experiment.arms.front();
  std::vector<std::string> argv = resolve_program(experiment, baseline);
  if (argv.empty()) argv = {own_program, "worker"};
  const Clock::time_point launch_start = Clock::now();
  WorkerClient worker(baseline.name, argv, {experiment.limits.worker_start_s, experiment.limits.prompt_s});
  (void)worker.open({resolve(experiment, baseline.model), baseline.options, experiment.pinned_cores});
  const double launch_seconds = seconds_since(launch_start);

  std::vector<GivenText> texts = texts_of(experiment);
  result.prompts = texts.size();
  result.prompts_tried = std::min(kPromptsTried, texts.size());
  std::int64_t tokens = 0;
  const Clock::time_point start = Clock::now();
  for (std::size_t i = 0; i < result.prompts_tried; ++i) {
    forced::ReplayText& text = texts[i].text;
    if (text.prompt_tokens.empty()) text.prompt_tokens = worker.encode({{texts[i].prompt}}).tokens.front();
    tokens += static_cast<std::int64_t>(worker.run(call_of(experiment, text)).reply.tokens.size());
  }
  const double tried = static_cast<double>(result.prompts_tried);
  UnitCost cost;
  cost.run_seconds = seconds_since(start) / tried * static_cast<double>(result.prompts);
  cost.launch_seconds = launch_seconds;
  cost.prompts = static_cast<std::int64_t>(result.prompts);
  cost.tokens_per_prompt = tokens / static_cast<std::int64_t>(result.prompts_tried);
  result.estimate = estimate(planned, cost);
  if (experiment.profile.prompts > 0) {
    // Twin launches replay their texts and the first of them twice; their tables are small beside the rounds.
    result.twin_launches = static_cast<std::int64_t>(planned.blocks.size() * experiment.arms.size());
    const double texts_a_twin =
        std::min(static_cast<double>(experiment.profile.prompts), static_cast<double>(result.prompts)) + 1;
    result.estimate.seconds += static_cast<double>(result.twin_launches) *
                               (launch_seconds + cost.run_seconds * texts_a_twin / static_cast<double>(result.prompts));
  }
  (void)worker.close();
  return result;
}

Json to_json(const DryRun& plan) {
  return {{"block_orders", plan.block_orders},         {"prompts", plan.prompts},
          {"prompts_tried", plan.prompts_tried},       {"runs", plan.estimate.runs},
          {"warmups", plan.estimate.warmups},          {"launches", plan.estimate.launches},
          {"twin_launches", plan.twin_launches},       {"seconds", plan.estimate.seconds},
          {"ledger_bytes", plan.estimate.ledger_bytes}};
}

}  // namespace tare::harness

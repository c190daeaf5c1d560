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

struct ArmCost {
  double launch_seconds = 0;
  double run_seconds = 0;  // over all texts
  std::int64_t tokens_per_prompt = 0;
};

// One launch of the arm and a few of the texts. The baseline comes first and encodes prompts for the others.
ArmCost try_arm(const Experiment& experiment, const Arm& arm, const std::string& own_program,
                std::vector<GivenText>& texts, std::size_t tried) {
  std::vector<std::string> argv = resolve_program(experiment, arm);
  if (argv.empty()) argv = {own_program, "worker"};
  ArmCost cost;
  const Clock::time_point launch_start = Clock::now();
  WorkerClient worker(arm.name, argv, {experiment.limits.worker_start_s, experiment.limits.prompt_s});
  (void)worker.open({resolve(experiment, arm.model), arm.options, experiment.pinned_cores});
  cost.launch_seconds = seconds_since(launch_start);
  std::int64_t tokens = 0;
  double seconds = 0;
  for (std::size_t i = 0; i < tried; ++i) {
    forced::ReplayText& text = texts[i].text;
    if (text.prompt_tokens.empty()) text.prompt_tokens = worker.encode({{texts[i].prompt}}).tokens.front();
    const Clock::time_point start = Clock::now();
    tokens += static_cast<std::int64_t>(worker.run(call_of(experiment, text)).reply.tokens.size());
    seconds += seconds_since(start);
  }
  cost.run_seconds = seconds / static_cast<double>(tried) * static_cast<double>(texts.size());
  cost.tokens_per_prompt = tokens / static_cast<std::int64_t>(tried);
  (void)worker.close();
  return cost;
}

}  // namespace

DryRun dry_run(const Experiment& experiment, const std::string& own_program) {
  check_paths(experiment);
  const Plan planned = plan(experiment);
  DryRun result;
  for (const PlannedBlock& block : planned.blocks) result.block_orders.push_back(block.order);

  std::vector<GivenText> texts = texts_of(experiment);
  result.prompts = texts.size();
  result.prompts_tried = std::min(kPromptsTried, texts.size());
  // In every block each arm runs equally often, so the mean over the arms is what a run costs.
  UnitCost cost;
  for (const Arm& arm : experiment.arms) {
    const ArmCost of_arm = try_arm(experiment, arm, own_program, texts, result.prompts_tried);
    result.arms.push_back({arm.name, of_arm.launch_seconds, of_arm.run_seconds});
    const double share = 1.0 / static_cast<double>(experiment.arms.size());
    cost.launch_seconds += share * of_arm.launch_seconds;
    cost.run_seconds += share * of_arm.run_seconds;
    cost.tokens_per_prompt = std::max(cost.tokens_per_prompt, of_arm.tokens_per_prompt);
  }
  const double launch_seconds = cost.launch_seconds;
  cost.prompts = static_cast<std::int64_t>(result.prompts);
  cost.warmup_share = warmup_share(experiment.schedule.granularity, result.prompts);
  result.estimate = estimate(planned, cost);
  if (experiment.profile.prompts > 0) {
    // Twin launches replay their texts and the first of them twice; their tables are small beside the rounds.
    result.twin_launches = static_cast<std::int64_t>(planned.blocks.size() * experiment.arms.size());
    const double texts_a_twin =
        std::min(static_cast<double>(experiment.profile.prompts), static_cast<double>(result.prompts)) + 1;
    result.estimate.seconds += static_cast<double>(result.twin_launches) *
                               (launch_seconds + cost.run_seconds * texts_a_twin / static_cast<double>(result.prompts));
  }
  return result;
}

Json to_json(const DryRun& plan) {
  Json arms = Json::array();
  for (const DryRunArm& arm : plan.arms)
    arms.push_back({{"name", arm.name}, {"launch_seconds", arm.launch_seconds}, {"run_seconds", arm.run_seconds}});
  return {{"arms", arms},
          {"block_orders", plan.block_orders},
          {"prompts", plan.prompts},
          {"prompts_tried", plan.prompts_tried},
          {"runs", plan.estimate.runs},
          {"warmups", plan.estimate.warmups},
          {"launches", plan.estimate.launches},
          {"twin_launches", plan.twin_launches},
          {"seconds", plan.estimate.seconds},
          {"ledger_bytes", plan.estimate.ledger_bytes}};
}

}  // namespace tare::harness

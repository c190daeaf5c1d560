#include "harness/analysis/gathered.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"

namespace tare::harness {
namespace {

constexpr std::size_t kFewestTokens = 2;  // the first token is the prefill's; a decode round needs one more

std::string run_name(const RunRecord& run) {
  return fmt::format("run {} (block {}, slot {}, arm '{}')", run.id, run.block, run.slot, run.arm);
}

// The results of a run by measured text. Empty, with the misfit noted, unless there is exactly one of each.
std::vector<PromptResult> results_by_text(const Ledger& ledger, const RunRecord& run, Gathered& gathered) {
  std::map<std::string, PromptResult> by_prompt;
  for (PromptResult& result : ledger.prompt_results(run.id)) {
    const std::string prompt = result.prompt_id;
    by_prompt.emplace(prompt, std::move(result));
  }
  std::vector<PromptResult> results;
  for (const std::size_t text : gathered.measured) {
    const std::string& prompt = gathered.texts[text].prompt_id;
    const auto found = by_prompt.find(prompt);
    if (found == by_prompt.end()) {
      gathered.misfits.push_back(fmt::format("{} has no result of prompt '{}'", run_name(run), prompt));
      return {};
    }
    results.push_back(std::move(found->second));
  }
  if (by_prompt.size() != results.size()) {
    gathered.misfits.push_back(
        fmt::format("{} has {} results for {} texts", run_name(run), by_prompt.size(), results.size()));
    return {};
  }
  return results;
}

// The arm that the plan has at a place; the number of arms when there is no such place.
std::size_t planned_arm(const Plan& plan, std::int64_t block, std::int64_t slot, std::size_t arms) {
  if (block < 0 || static_cast<std::size_t>(block) >= plan.blocks.size()) return arms;
  const auto& runs = plan.blocks[static_cast<std::size_t>(block)].runs;
  const auto found = std::find_if(runs.begin(), runs.end(), [&](const PlannedRun& run) { return run.slot == slot; });
  return found == runs.end() ? arms : found->arm;
}

void count_run(const Ledger& ledger, const RunRecord& run, Gathered& gathered) {
  const std::vector<Arm>& arms = gathered.experiment.arms;
  CountedRun counted;
  counted.record = run;
  counted.arm = planned_arm(gathered.plan, run.block, run.slot, arms.size());
  if (counted.arm == arms.size() || arms[counted.arm].name != run.arm) {
    gathered.misfits.push_back(run_name(run) + " is not what the schedule has at its place");
    return;
  }
  const auto launch = std::find_if(gathered.launches.begin(), gathered.launches.end(),
                                   [&](const LaunchRecord& candidate) { return candidate.id == run.launch_id; });
  if (launch == gathered.launches.end() || launch->arm != run.arm) {
    gathered.misfits.push_back(run_name(run) + " has no launch of its arm");
    return;
  }
  counted.launch = static_cast<std::size_t>(launch - gathered.launches.begin());
  const bool shared = std::any_of(gathered.counted.begin(), gathered.counted.end(),
                                  [&](const CountedRun& other) { return other.launch == counted.launch; });
  if (shared) {  // the unit of both granularities is a launch with one counted run
    gathered.misfits.push_back(run_name(run) + " shares its launch with another run");
    return;
  }
  counted.results = results_by_text(ledger, run, gathered);
  gathered.counted.push_back(std::move(counted));
}

}  // namespace

bool is_complete(const Gathered& gathered) {
  const auto complete = static_cast<std::int64_t>(gathered.complete_blocks.size());
  const auto planned = static_cast<std::int64_t>(gathered.plan.blocks.size());
  return complete >= (gathered.stop ? gathered.stop->blocks : planned);
}

Gathered gather(const Ledger& ledger) {
  Gathered gathered;
  gathered.digest = ledger.identity().digest;
  gathered.experiment_json = ledger.identity().experiment;
  gathered.experiment = parse_experiment(gathered.experiment_json.dump(), ledger.file().string() + ": experiment");
  gathered.plan = plan(gathered.experiment);
  gathered.sittings = ledger.sittings();
  gathered.texts = ledger.texts();
  for (std::size_t i = 0; i < gathered.texts.size(); ++i)
    if (gathered.texts[i].tokens.size() >= kFewestTokens) gathered.measured.push_back(i);
  gathered.validations = ledger.validations();
  gathered.launches = ledger.launches();
  gathered.runs = ledger.runs();
  gathered.samples = ledger.samples();
  gathered.gpus = ledger.gpus();
  gathered.profiles = ledger.profiles();
  gathered.complete_blocks =
      ledger.complete_blocks(static_cast<std::int64_t>(gathered.plan.blocks.front().runs.size()));
  gathered.stop = ledger.stop();
  for (const RunRecord& run : gathered.runs) {
    const bool complete =
        std::binary_search(gathered.complete_blocks.begin(), gathered.complete_blocks.end(), run.block);
    if (run.state == RunState::kFinished && !run.warmup && complete) count_run(ledger, run, gathered);
  }
  std::sort(gathered.counted.begin(), gathered.counted.end(), [](const CountedRun& a, const CountedRun& b) {
    return std::pair(a.record.block, a.record.slot) < std::pair(b.record.block, b.record.slot);
  });
  return gathered;
}

}  // namespace tare::harness

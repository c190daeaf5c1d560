#include "harness/driver/run_experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/file.h"
#include "base/text.h"
#include "harness/analysis/stop_rule.h"
#include "harness/driver/launch.h"
#include "harness/driver/log.h"
#include "harness/driver/measure.h"
#include "harness/driver/replay_texts.h"
#include "harness/driver/twins.h"
#include "harness/environment/build_info.h"
#include "harness/environment/environment.h"
#include "harness/experiment/launch_rules.h"
#include "harness/ledger/launched_names.h"
#include "harness/ledger/run_lock.h"

namespace tare::harness {
namespace {

using Clock = std::chrono::steady_clock;

// Time left from the mean time of what was done in this call.
class Remaining {
 public:
  explicit Remaining(std::int64_t total) : total_(total), started_(Clock::now()) {}

  Progress step(std::string phase, std::string what) {
    ++done_;
    const double elapsed = std::chrono::duration<double>(Clock::now() - started_).count();
    const double left =
        elapsed / static_cast<double>(done_) * static_cast<double>(std::max<std::int64_t>(total_ - done_, 0));
    return {std::move(phase), std::move(what), std::min(done_, total_), total_, left};
  }

 private:
  std::int64_t total_;
  std::int64_t done_ = 0;
  Clock::time_point started_;
};

std::int64_t begin_sitting(const Experiment& experiment, Ledger& ledger) {
  SittingRecord sitting;
  sitting.started_utc_ns = steady_utc_ns();
  sitting.machine = to_json(read_machine());
  sitting.harness_build = to_json(build_info());
  const std::string file = experiment.texts.mode == TextMode::kGiven ? experiment.texts.file : experiment.prompts.file;
  sitting.prompts_digest = digest_file(resolve(experiment, file));
  return ledger.begin_sitting(std::move(sitting));
}

// The stored texts, or new ones that are stored now.
std::vector<forced::ReplayText> prepare_texts(const Experiment& experiment, Ledger& ledger, const RunSettings& settings,
                                              std::int64_t sitting) {
  std::vector<TextRecord> records = ledger.texts();
  const std::string own_program = settings.own_program.string();
  std::vector<forced::ReplayText> texts;
  const bool given = experiment.texts.mode == TextMode::kGiven;
  if (records.empty() || given) {
    Launch baseline(experiment, experiment.arms.front(), own_program, ledger, {"texts", -1, sitting});
    if (records.empty()) {
      for (const forced::ReplayText& text : write_texts(experiment, baseline, settings))
        records.push_back(to_record(text));
      ledger.store_texts(records);
    }
    for (const TextRecord& record : records) texts.push_back(to_replay_text(record));
    texts = measurable(texts);
    if (given) note_natural_choices(experiment, baseline, texts, settings);
    return texts;
  }
  for (const TextRecord& record : records) texts.push_back(to_replay_text(record));
  return measurable(texts);
}

// What the validation tells of the time that the blocks will take.
struct BaselineTimes {
  double launch_seconds = 0;
  double pass_seconds = 0;  // over all texts
  std::size_t texts = 0;
};

BaselineTimes validate_instrument(const Experiment& experiment, Ledger& ledger, const RunSettings& settings,
                                  const std::vector<forced::ReplayText>& texts, std::int64_t sitting) {
  BaselineTimes times;
  const Clock::time_point begin = Clock::now();
  Launch baseline(experiment, experiment.arms.front(), settings.own_program.string(), ledger,
                  {"validation", -1, sitting});
  times.launch_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  times.texts = texts.size();
  times.pass_seconds = validate(experiment, baseline, texts, ledger, settings);
  return times;
}

// How long the blocks would take if all arms were as fast as the baseline; from the first runs on the progress knows.
void tell_estimate(const Experiment& experiment, const Plan& planned, const std::vector<const PlannedBlock*>& todo,
                   const BaselineTimes& baseline, const RunSettings& settings) {
  if (!settings.progress) return;
  Plan left{.granularity = planned.granularity, .blocks = {}};
  for (const PlannedBlock* block : todo) left.blocks.push_back(*block);
  UnitCost cost;
  cost.run_seconds = baseline.pass_seconds;
  cost.launch_seconds = baseline.launch_seconds;
  cost.warmup_share = warmup_share(experiment.schedule.granularity, baseline.texts);
  const PlanEstimate estimated = estimate(left, cost);
  const StopSettings& stop = experiment.schedule.stop;
  std::string until = "";
  if (stop.rule == StopRule::kPrecision)
    until = fmt::format(", fewer if {} % to either side is reached before", stop.half_width_percent);
  if (stop.rule == StopRule::kTime) until = fmt::format(", as many as fit into {}", human_seconds(stop.budget_s));
  settings.progress(
      {"estimate",
       fmt::format("{} blocks of {} runs{}: about {} at the baseline's {:.2f} s a run", left.blocks.size(),
                   left.blocks.front().runs.size(), until, human_seconds(estimated.seconds), cost.run_seconds),
       0, 1, -1});
}

// The first rule of an arm that a twin launch broke; empty: none did. To measure on would be wasted: the experiment is
// invalid.
std::string other_path(const Experiment& experiment, const Ledger& ledger) {
  for (const LaunchedNames& launched : launched_names(ledger.launches(), ledger.profiles()))
    for (const Arm& arm : experiment.arms) {
      if (arm.name != launched.arm || !launched.fault.empty()) continue;
      if (const std::vector<std::string> broken = broken_launch_rules(arm, launched.names); !broken.empty())
        return broken.front();
    }
  return {};
}

// Whether the experiment has ended, by the ledger or by its stop rule now; the end is then in the ledger.
bool has_ended(const Experiment& experiment, Ledger& ledger) {
  if (ledger.stop()) return true;
  const std::optional<StopRecord> stop = stop_now(experiment, ledger);
  if (stop) ledger.store_stop(*stop);
  return stop.has_value();
}

std::string describe_blocks(const std::vector<std::int64_t>& blocks) {
  return fmt::format("{}", fmt::join(blocks, ", "));
}

}  // namespace

RunSummary run_experiment(const Experiment& experiment, const RunSettings& settings) {
  check_paths(experiment);
  std::error_code failure;
  std::filesystem::create_directories(settings.directory, failure);
  if (failure)
    throw Error(ErrorKind::kEnvironment, "cannot be made: " + failure.message(), settings.directory.string());
  const RunLock lock(settings.directory);
  Ledger ledger = Ledger::open_for_writing(settings.directory / kLedgerFile,
                                           {experiment_digest(experiment), to_json(experiment), experiment.name});
  write_file_atomically(settings.directory / "experiment.json", to_json(experiment).dump(2) + "\n");

  const Plan planned = plan(experiment);
  const auto slots = static_cast<std::int64_t>(planned.blocks.empty() ? 0 : planned.blocks.front().runs.size());
  RunSummary summary;
  summary.blocks_total = static_cast<std::int64_t>(planned.blocks.size());
  summary.went_on = !ledger.runs().empty();
  (void)ledger.interrupt_incomplete_blocks(slots, "the run before ended within this block");
  const std::vector<std::int64_t> complete = ledger.complete_blocks(slots);
  const auto is_complete = [&](int block) {
    return std::find(complete.begin(), complete.end(), block) != complete.end();
  };
  std::vector<const PlannedBlock*> todo;
  // A call that was killed between a block and the look after it has left that to us.
  if (!has_ended(experiment, ledger))
    for (const PlannedBlock& block : planned.blocks)
      if (!is_complete(block.block)) todo.push_back(&block);
  const bool measured = todo.empty();
  // Twin launches that are still to be made.
  const auto twins_left = [&] {
    std::size_t twins = 0;
    for (const PlannedBlock& block : planned.blocks)
      if (is_complete(block.block) || !todo.empty()) twins += profiles_to_make(experiment, ledger, block).arms.size();
    return twins;
  };
  summary.other_path = other_path(experiment, ledger);
  if ((measured && twins_left() == 0) || !summary.other_path.empty()) {
    summary.prompts = static_cast<std::int64_t>(ledger.texts().size());
    return summary;
  }

  const std::int64_t sitting = begin_sitting(experiment, ledger);
  const std::vector<forced::ReplayText> texts = prepare_texts(experiment, ledger, settings, sitting);
  summary.prompts = static_cast<std::int64_t>(texts.size());
  if (!measured) {
    const BaselineTimes baseline = validate_instrument(experiment, ledger, settings, texts, sitting);
    tell_estimate(experiment, planned, todo, baseline, settings);
  }

  const bool resident = experiment.schedule.granularity == Granularity::kPrompt;
  std::int64_t prompts = 0;
  for (const PlannedBlock* block : todo)
    prompts += static_cast<std::int64_t>(
        text_walks(*block, experiment.schedule.granularity, texts.size(), resident || block == todo.front()));
  prompts += static_cast<std::int64_t>(twins_left()) *
             std::min(experiment.profile.prompts, static_cast<std::int64_t>(texts.size()));
  Remaining remaining(prompts);
  GpusOfSitting gpus(ledger, sitting);
  MeasureContext context{&experiment, &texts, &ledger, &settings, sitting, &gpus, [&](const std::string& what) {
                           if (settings.progress) settings.progress(remaining.step("measurement", what));
                         }};
  try {
    for (std::size_t i = 0; i < todo.size(); ++i) {
      measure_block(context, *todo[i], resident || i == 0);
      ++summary.blocks_measured;
      make_profiles(context, profiles_to_make(experiment, ledger, *todo[i]));
      summary.other_path = other_path(experiment, ledger);
      if (!summary.other_path.empty()) return summary;
      if (has_ended(experiment, ledger)) break;
    }
  } catch (const Error& error) {
    std::vector<std::int64_t> marked;
    try {
      marked = ledger.interrupt_incomplete_blocks(
          slots, error.kind() == ErrorKind::kInterrupted ? "stopped by the user" : error.what());
    } catch (const Error& second) {  // the ledger itself cannot be written: the next call marks them
      log_warning("interrupted blocks could not be marked: {}", second.what());
    }
    if (marked.empty() || error.kind() == ErrorKind::kInterrupted) throw;
    ErrorParts parts = error.parts();
    parts.hint += fmt::format("{}block {} will be measured again; finished blocks are kept",
                              parts.hint.empty() ? "" : "; ", describe_blocks(marked));
    throw Error(parts);
  }
  // Of blocks that were finished before, when somebody stopped in between.
  for (const PlannedBlock& block : planned.blocks)
    if (is_complete(block.block)) make_profiles(context, profiles_to_make(experiment, ledger, block));
  summary.other_path = other_path(experiment, ledger);
  return summary;
}

}  // namespace tare::harness

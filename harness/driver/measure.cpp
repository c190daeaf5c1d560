#include "harness/driver/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>

#include "base/digest.h"
#include "harness/driver/launch.h"
#include "harness/driver/log.h"
#include "harness/driver/replay_texts.h"
#include "harness/driver/twins.h"
#include "harness/environment/environment.h"

namespace tare::harness {
namespace {

// A fresh process is settled when two replays of the first text in a row took the same time to 2 %; after five replays
// we go on as it is (a machine that never settles must not stop the experiment: the schedule carries the rest).
constexpr int kMostSettlingReplays = 5;
constexpr double kSettledShare = 0.02;

void settle(const MeasureContext& context, Launch& launch) {
  const RunCall call = call_of(*context.experiment, context.texts->front());
  double before = 0;
  for (int replay = 0; replay < kMostSettlingReplays; ++replay) {
    const double now = static_cast<double>(launch.run(call).reply.decode_ns);
    if (before > 0 && std::abs(now - before) <= kSettledShare * before) return;
    before = now;
  }
}

PromptResult to_result(const forced::ReplayText& text, std::int64_t position, std::int64_t started_utc_ns,
                       const TimedRun& run) {
  const RunReply& reply = run.reply;
  PromptResult result;
  result.prompt_id = text.prompt_id;
  result.position = position;
  result.started_utc_ns = started_utc_ns;
  result.prompt_tokens = static_cast<std::int64_t>(text.prompt_tokens.size());
  result.tokens = static_cast<std::int64_t>(reply.tokens.size());
  result.agreed_tokens = reply.agreed;
  result.prefill_ns = reply.prefill_ns;
  result.time_to_first_token_ns = reply.first_token_ns;
  result.decode_tokens = result.tokens - 1;
  result.decode_ns = reply.decode_ns;
  result.inner_ns = reply.total_ns;
  result.outer_ns = run.outer_ns;
  result.outcome = reply.outcome;
  result.text_digest = digest_tokens(reply.tokens);
  if (!reply.natural.empty()) result.natural_digest = digest_tokens(reply.natural);
  result.rounds.duration_ns = reply.round_ns;
  result.rounds.tokens = reply.round_tokens;
  result.rounds.spun_ns = reply.round_spun_ns;
  result.rounds.nodes = reply.round_nodes;
  result.rounds.drafted = reply.round_drafted;
  result.rounds.cut = reply.round_cut;
  result.rounds.phase_ns = reply.round_phase_ns;
  if (result.rounds.spun_ns.empty()) result.rounds.spun_ns.assign(reply.round_ns.size(), 0);
  return result;
}

PromptResult replay(const MeasureContext& context, Launch& launch, std::size_t index, RunWatch& watch,
                    std::int64_t run_id) {
  const forced::ReplayText& text = (*context.texts)[index];
  const std::int64_t started = steady_utc_ns();
  RunCall call = call_of(*context.experiment, text);
  call.natural = true;  // a worker sends them after its clock has stopped
  watch.replay_begins(run_id);
  const TimedRun run = launch.run(call);
  watch.replay_ends(run_id);
  if (run.reply.tokens != text.tokens)
    throw Error(ErrorKind::kInvalid,
                fmt::format("committed {} tokens and ended with '{}'; the text has {} tokens", run.reply.tokens.size(),
                            run.reply.outcome, text.tokens.size()),
                fmt::format("prompt {}", text.prompt_id),
                "every arm must walk the same text; a larger 'context' may help");
  return to_result(text, static_cast<std::int64_t>(index), started, run);
}

// Arm names from plan indices.
const Arm& arm_of(const MeasureContext& context, const PlannedRun& run) {
  return context.experiment->arms[run.arm];
}

// Records the runs that could not be finished and lets the error go on; an interruption leaves runs as they are (the
// block is marked as interrupted by the caller). `body` takes out of `running` what it has finished.
template <class Body>
void recording_failure(const MeasureContext& context, std::vector<std::int64_t> running, const Body& body) {
  try {
    body(running);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInterrupted) {
      for (const std::int64_t run_id : running) {
        try {
          context.ledger->fail_run(run_id, steady_utc_ns(), error.what());
        } catch (const Error& second) {  // the ledger itself cannot be written: the next sitting marks the run
          log_warning("that run {} failed could not be recorded: {}", run_id, second.what());
        }
      }
    }
    throw;
  }
}

RunWatch watch_of(const MeasureContext& context, const std::vector<RunWatch::Run>& runs,
                  const std::vector<pid_t>& companions = {}) {
  return {*context.ledger, *context.gpus, context.experiment->pinned_cores, runs, companions};
}

// Granularity run: a launch of its own.
void measure_run(const MeasureContext& context, const PlannedRun& planned) {
  const Arm& arm = arm_of(context, planned);
  stop_if_interrupted(*context.settings);
  Launch launch(*context.experiment, arm, context.settings->own_program.string(), *context.ledger,
                {"measurement", planned.block, context.sitting});
  settle(context, launch);
  const std::int64_t run_id =
      context.ledger->begin_run({planned.block, planned.slot, planned.warmup}, arm.name, launch.id(), steady_utc_ns());
  recording_failure(context, {run_id}, [&](std::vector<std::int64_t>&) {
    RunWatch watch = watch_of(context, {{run_id, &launch, sampler_hz(*context.experiment, arm)}});
    RunEnd end;
    for (std::size_t i = 0; i < context.texts->size(); ++i) {
      stop_if_interrupted(*context.settings);
      end.prompts.push_back(replay(context, launch, i, watch, run_id));
      context.prompt_done(fmt::format("block {}, {} {}: {}", planned.block + 1, planned.warmup ? "warm-up" : "slot",
                                      planned.slot + 1, arm.name));
    }
    end.ended_utc_ns = steady_utc_ns();
    watch.end();
    end.samples = watch.samples(run_id);
    context.ledger->finish_run(run_id, end);
  });
}

// Granularity prompt: the block's workers are resident, and their twins beside them; which arm replays a prompt first
// alternates.
class ResidentBlock {
 public:
  ResidentBlock(const MeasureContext& context, const PlannedBlock& block) : context_(context), block_(block) {
    launches_.resize(context.experiment->arms.size());
    for (const PlannedRun& run : block.runs) {
      stop_if_interrupted(*context.settings);
      launches_[run.arm] =
          std::make_unique<Launch>(*context.experiment, arm_of(context, run), context.settings->own_program.string(),
                                   *context.ledger, LaunchPlace{"measurement", run.block, context.sitting});
    }
    // After the timed workers: what they get of memory is what they would get without twins.
    twins_ = twins_beside(context, block);
  }

  void warm_up() {
    for (const PlannedRun& run : block_.warmups)
      measure({run}, std::min(kWarmupTexts, context_.texts->size()), nullptr);
  }

  void measure_all() {
    measure(block_.runs, context_.texts->size(), twins_.get());
    if (twins_ && twins_->failed().empty()) twins_->store();
  }

 private:
  const MeasureContext& context_;
  const PlannedBlock& block_;
  std::vector<std::unique_ptr<Launch>> launches_;  // by arm
  std::unique_ptr<Twins> twins_;                   // null: none beside this block

  // When one twin fails, the others walk no further: no arm's timed walks may be without a twin before them.
  void walk_twin(Twins* twins, std::size_t arm, std::size_t text) const {
    if (twins == nullptr || text >= twins->texts() || !twins->failed().empty()) return;
    twins->walk(arm, text);
    for (const std::size_t failed : twins->failed())
      log_warning("the twin of arm '{}' failed and ends all twins beside block {}: {}",
                  context_.experiment->arms[failed].name, block_.block + 1, twins->fault(failed));
    context_.prompt_done(
        fmt::format("block {}, profile of prompt {} of {}", block_.block + 1, text + 1, twins->texts()));
  }

  void measure(const std::vector<PlannedRun>& runs, std::size_t texts, Twins* twins) {
    std::vector<std::int64_t> run_ids(launches_.size(), 0);
    std::vector<RunEnd> ends(launches_.size());
    std::vector<std::int64_t> begun;
    std::vector<RunWatch::Run> watched;
    for (const PlannedRun& run : runs) {
      Launch& launch = *launches_[run.arm];
      if (run.warmup) settle(context_, launch);
      run_ids[run.arm] = context_.ledger->begin_run({run.block, run.slot, run.warmup}, arm_of(context_, run).name,
                                                    launch.id(), steady_utc_ns());
      begun.push_back(run_ids[run.arm]);
      watched.push_back({run_ids[run.arm], &launch, sampler_hz(*context_.experiment, arm_of(context_, run))});
    }
    recording_failure(context_, begun, [&](std::vector<std::int64_t>& running) {
      RunWatch watch = watch_of(context_, watched, twins_ ? twins_->pids() : std::vector<pid_t>());
      for (std::size_t i = 0; i < texts; ++i) {
        for (const std::size_t arm : arm_order(*context_.experiment, block_.block, i)) {
          if (run_ids[arm] == 0) continue;
          stop_if_interrupted(*context_.settings);
          ends[arm].prompts.push_back(replay(context_, *launches_[arm], i, watch, run_ids[arm]));
          context_.prompt_done(fmt::format("block {}, prompt {} of {}", block_.block + 1, i + 1, texts));
          walk_twin(twins, arm, i);
        }
      }
      const std::int64_t ended = steady_utc_ns();
      watch.end();
      for (const PlannedRun& run : runs) {
        const std::int64_t run_id = run_ids[run.arm];
        ends[run.arm].ended_utc_ns = ended;
        ends[run.arm].samples = watch.samples(run_id);
        context_.ledger->finish_run(run_id, ends[run.arm]);
        std::erase(running, run_id);
      }
    });
  }
};

}  // namespace

void measure_block(const MeasureContext& context, const PlannedBlock& block, bool with_warmups) {
  if (context.experiment->schedule.granularity == Granularity::kPrompt) {
    ResidentBlock resident(context, block);
    if (with_warmups) resident.warm_up();
    resident.measure_all();
    return;
  }
  if (with_warmups)
    for (const PlannedRun& run : block.warmups) measure_run(context, run);
  for (const PlannedRun& run : block.runs) measure_run(context, run);
}

}  // namespace tare::harness

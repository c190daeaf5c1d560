#include "harness/driver/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "harness/driver/log.h"
#include "harness/environment/environment.h"

namespace tare::harness {
namespace {

std::vector<std::string> argv_of(const Experiment& experiment, const Arm& arm, const std::string& own_program) {
  std::vector<std::string> argv = resolve_program(experiment, arm);
  if (argv.empty()) argv = {own_program, "worker"};
  return argv;
}

// What the worker says of itself, with the name of its program: digests of two kinds of programs are not comparable.
Json build_of(const HelloReply& hello) {
  Json build = hello.build;
  build["program"] = hello.program;
  return build;
}

// The files of a model must not change within an experiment: better to stop now than to find it in the analysis.
void refuse_changed_checkpoint(const Ledger& ledger, std::int64_t id) {
  const std::vector<LaunchRecord> launches = ledger.launches();
  const auto self =
      std::find_if(launches.begin(), launches.end(), [&](const LaunchRecord& launch) { return launch.id == id; });
  for (const LaunchRecord& earlier : launches) {
    const bool comparable = earlier.id != id && !earlier.checkpoint_digest.empty() && earlier.model == self->model &&
                            earlier.build.value("program", "") == self->build.value("program", "");
    if (comparable && earlier.checkpoint_digest != self->checkpoint_digest)
      throw Error(ErrorKind::kInvalid,
                  fmt::format("its content changed since launch {}: digest {} then, {} now", earlier.id,
                              earlier.checkpoint_digest, self->checkpoint_digest),
                  self->model, "what was measured before belongs to another model; start again in another directory");
  }
}

}  // namespace

Launch::Launch(const Experiment& experiment, const Arm& arm, const std::string& own_program, Ledger& ledger,
               const LaunchPlace& place)
    : ledger_(&ledger),
      worker_(arm.name, argv_of(experiment, arm, own_program),
              WorkerLimits{experiment.limits.worker_start_s, experiment.limits.prompt_s}) {
  LaunchRecord record;
  record.arm = arm.name;
  record.purpose = place.purpose;
  record.block = place.block;
  record.sitting = place.sitting;
  record.program = worker_.argv();
  record.pid = worker_.pid();
  record.started_utc_ns = steady_utc_ns();
  id_ = ledger.begin_launch(record);
  try {
    const std::string model = resolve(experiment, arm.model);
    opened_ = worker_.open({model, arm.options, experiment.pinned_cores});
    ledger.describe_launch(id_, opened_.options, build_of(worker_.hello()), opened_.checkpoint_digest, model);
    refuse_changed_checkpoint(ledger, id_);
  } catch (...) {
    record_end();
    throw;
  }
}

Launch::~Launch() {
  record_end();
}

std::string Launch::gpu_bus_id() const {
  const Json& description = opened_.description;
  const auto device = description.find("device");
  if (device == description.end() || !device->is_object()) return {};
  const auto id = device->find("pci_bus_id");
  return id != device->end() && id->is_string() ? id->get<std::string>() : std::string();
}

TimedRun Launch::run(const RunCall& call) {
  TimedRun timed = worker_.run(call);
  peak_memory_bytes_ = std::max(peak_memory_bytes_, timed.reply.peak_memory_bytes);
  return timed;
}

void Launch::record_end() noexcept {
  try {
    const ExitStatus status = worker_.close();
    const bool ended_well = status.code == 0 && !status.signalled;
    const auto peak = peak_memory_bytes_ > 0 ? std::optional(peak_memory_bytes_) : std::nullopt;
    ledger_->end_launch(id_, steady_utc_ns(), status.code, peak, ended_well ? std::string() : worker_.last_words());
  } catch (const std::exception& failure) {
    // The launch's rows that count are stored with its runs; its end is a note beside them.
    log_warning("the end of launch {} could not be recorded: {}", id_, failure.what());
  }
}

}  // namespace tare::harness

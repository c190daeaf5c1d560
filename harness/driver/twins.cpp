#include "harness/driver/twins.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/digest.h"
#include "harness/driver/launch.h"
#include "harness/driver/log.h"
#include "harness/driver/replay_texts.h"
#include "harness/environment/environment.h"
#include "stats/stalls.h"

namespace tare::harness {
namespace {

constexpr const char* kPurpose = "profile";
constexpr double kUsPerNs = 1e-3;

// The twin's round: mean over the rounds that its rows are means over.
double round_us(const ProfileReply& reply) {
  const std::vector<std::int64_t>& rounds = reply.run.round_ns;
  const std::vector<bool> stalled = stats::stalled_rounds(rounds);
  const bool all = reply.rounds == static_cast<std::int64_t>(rounds.size());
  std::int64_t sum_ns = 0;
  for (std::size_t i = 0; i < rounds.size(); ++i) sum_ns += all || !stalled[i] ? rounds[i] : 0;
  return kUsPerNs * static_cast<double>(sum_ns) / static_cast<double>(reply.rounds);
}

ProfileRecord to_record(const ProfileReply& reply) {
  ProfileRecord record;
  record.source = reply.source;
  record.rounds = reply.rounds;
  record.records = reply.records;
  record.dropped = reply.dropped;
  record.invalid = reply.invalid;
  record.span_us = reply.span_us;
  record.idle_us = reply.idle_us;
  record.round_us = round_us(reply);
  record.unmatched = reply.unmatched;
  record.rows = to_json(reply.rows);
  if (!reply.round.empty()) record.round = to_json(reply.round);
  if (!reply.run.natural.empty()) record.natural_digest = digest_tokens(reply.run.natural);
  return record;
}

std::size_t profiled_texts(const Experiment& experiment, std::size_t texts) {
  return std::min(texts, static_cast<std::size_t>(experiment.profile.prompts));
}

// The row of a twin's launch that could not be opened: its own where the worker was started, else one for what was not.
std::int64_t launch_of_failed(const MeasureContext& context, const Arm& arm, int block, const std::string& why) {
  for (const LaunchRecord& launch : context.ledger->launches())
    if (launch.purpose == kPurpose && launch.arm == arm.name && launch.block == block &&
        launch.sitting == context.sitting && launch.options.is_null())
      return launch.id;
  LaunchRecord record;
  record.arm = arm.name;
  record.purpose = kPurpose;
  record.block = block;
  record.sitting = context.sitting;
  record.program = resolve_program(*context.experiment, arm);
  record.started_utc_ns = steady_utc_ns();
  const std::int64_t id = context.ledger->begin_launch(record);
  context.ledger->end_launch(id, steady_utc_ns(), std::nullopt, std::nullopt, why);
  return id;
}

}  // namespace

struct Twins::Twin {
  std::size_t arm = 0;
  std::unique_ptr<Launch> launch;  // null: it was not opened, or has failed
  std::int64_t launch_id = 0;      // 0: it was not opened
  std::string fault;
  std::vector<ProfileRecord> records;
};

Twins::Twins(const MeasureContext& context, int block, const std::vector<std::size_t>& arms)
    : context_(context), block_(block), texts_(profiled_texts(*context.experiment, context.texts->size())) {
  for (const std::size_t arm : arms) {
    stop_if_interrupted(*context.settings);
    twins_.push_back(std::make_unique<Twin>());
    Twin& twin = *twins_.back();
    twin.arm = arm;
    try {
      twin.launch = std::make_unique<Launch>(*context.experiment, context.experiment->arms[arm],
                                             context.settings->own_program.string(), *context.ledger,
                                             LaunchPlace{kPurpose, block, context.sitting});
      twin.launch_id = twin.launch->id();
      (void)twin.launch->worker().profile(call_of(*context.experiment, context.texts->front()));
    } catch (const Error& error) {
      // A checkpoint whose content has changed (Launch) spoils more than the twin.
      const bool of_the_experiment = error.kind() == ErrorKind::kInvalid && !twin.launch;
      if (error.kind() == ErrorKind::kInterrupted || of_the_experiment) throw;
      fail(twin, error.what());
    }
  }
}

Twins::~Twins() = default;

Twins::Twin* Twins::find(std::size_t arm) const {
  const auto found = std::find_if(twins_.begin(), twins_.end(), [&](const auto& twin) { return twin->arm == arm; });
  return found == twins_.end() ? nullptr : found->get();
}

void Twins::fail(Twin& twin, const std::string& why) {
  twin.fault = why;
  twin.records.clear();
  twin.launch.reset();
}

void Twins::walk(std::size_t arm, std::size_t text_index) {
  Twin* twin = find(arm);
  if (twin == nullptr || !twin->launch) return;
  const forced::ReplayText& text = (*context_.texts)[text_index];
  RunCall call = call_of(*context_.experiment, text);
  call.natural = true;
  const std::int64_t started = steady_utc_ns();
  try {
    ProfileRecord record = to_record(twin->launch->worker().profile(call));
    record.launch_id = twin->launch_id;
    record.position = static_cast<std::int64_t>(text_index);
    record.prompt_id = text.prompt_id;
    record.started_utc_ns = started;
    twin->records.push_back(std::move(record));
  } catch (const Error& error) {
    fail(*twin, error.what());
  }
}

std::vector<std::size_t> Twins::failed() const {
  std::vector<std::size_t> arms;
  for (const auto& twin : twins_)
    if (!twin->fault.empty()) arms.push_back(twin->arm);
  return arms;
}

std::string Twins::fault(std::size_t arm) const {
  const Twin* twin = find(arm);
  return twin == nullptr ? std::string() : twin->fault;
}

std::vector<pid_t> Twins::pids() const {
  std::vector<pid_t> pids;
  for (const auto& twin : twins_)
    if (twin->launch) pids.push_back(twin->launch->worker_pid());
  return pids;
}

void Twins::store() const {
  std::vector<ProfileRecord> records;
  for (const auto& twin : twins_) records.insert(records.end(), twin->records.begin(), twin->records.end());
  context_.ledger->store_profiles(records);
}

void Twins::store_fault(std::size_t arm) const {
  const Twin* twin = find(arm);
  ProfileRecord record;
  record.launch_id = twin->launch_id != 0
                         ? twin->launch_id
                         : launch_of_failed(context_, context_.experiment->arms[arm], block_, twin->fault);
  record.prompt_id = context_.texts->front().prompt_id;
  record.fault = twin->fault;
  context_.ledger->store_profiles({record});
}

PlannedProfiles profiles_to_make(const Experiment& experiment, const Ledger& ledger, const PlannedBlock& block) {
  PlannedProfiles missing{block.block, {}};
  if (experiment.profile.prompts == 0) return missing;
  std::map<std::int64_t, LaunchRecord> launches;
  for (LaunchRecord& launch : ledger.launches()) launches[launch.id] = std::move(launch);
  const std::size_t wanted = profiled_texts(experiment, ledger.texts().size());
  // Older versions stored text by text: a launch that was interrupted then has fewer profiles than wanted.
  std::map<std::int64_t, std::size_t> profiles;
  std::set<std::string> done;
  for (const ProfileRecord& profile : ledger.profiles()) {
    const LaunchRecord& launch = launches[profile.launch_id];
    const bool complete = ++profiles[profile.launch_id] == wanted && launch.block == block.block;
    if (complete || !profile.fault.empty()) done.insert(launch.arm);
  }
  for (std::size_t arm = 0; arm < experiment.arms.size(); ++arm)
    if (!done.contains(experiment.arms[arm].name)) missing.arms.push_back(arm);
  if (block.block % 2 != 0) std::reverse(missing.arms.begin(), missing.arms.end());
  return missing;
}

std::unique_ptr<Twins> twins_beside(const MeasureContext& context, const PlannedBlock& block) {
  const PlannedProfiles wanted = profiles_to_make(*context.experiment, *context.ledger, block);
  if (wanted.arms.size() != context.experiment->arms.size()) return nullptr;
  auto twins = std::make_unique<Twins>(context, block.block, wanted.arms);
  for (const std::size_t arm : twins->failed())
    log_warning("no twins beside the timed workers of block {}: arm '{}': {}", block.block + 1,
                context.experiment->arms[arm].name, twins->fault(arm));
  return twins->failed().empty() ? std::move(twins) : nullptr;
}

void make_profiles(const MeasureContext& context, const PlannedProfiles& profiles) {
  const auto walk_all = [&](const std::vector<std::size_t>& arms) {
    auto twins = std::make_unique<Twins>(context, profiles.block, arms);
    for (std::size_t text = 0; text < twins->texts(); ++text) {
      for (const std::size_t arm : arm_order(*context.experiment, profiles.block, text)) {
        if (std::find(arms.begin(), arms.end(), arm) == arms.end()) continue;
        stop_if_interrupted(*context.settings);
        twins->walk(arm, text);
        context.prompt_done(fmt::format("block {}, profile of {}: prompt {} of {}", profiles.block + 1,
                                        context.experiment->arms[arm].name, text + 1, twins->texts()));
      }
    }
    twins->store();
    return twins;
  };
  if (profiles.arms.empty()) return;
  std::unique_ptr<Twins> together = walk_all(profiles.arms);
  const std::vector<std::size_t> failed = together->failed();
  if (profiles.arms.size() == 1) {
    if (!failed.empty()) together->store_fault(failed.front());
    return;
  }
  for (const std::size_t arm : failed)
    log_warning("the twin of arm '{}' failed beside the other twins of block {} and is tried alone: {}",
                context.experiment->arms[arm].name, profiles.block + 1, together->fault(arm));
  together.reset();
  for (const std::size_t arm : failed) {
    const std::unique_ptr<Twins> alone = walk_all({arm});
    if (!alone->failed().empty()) alone->store_fault(arm);
  }
}

}  // namespace tare::harness

#include "harness/driver/profile_arms.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "harness/driver/launch.h"
#include "harness/driver/replay_texts.h"

namespace tare::harness {
namespace {

constexpr const char* kPurpose = "profile";

ProfileRecord to_record(const ProfileReply& reply) {
  ProfileRecord record;
  record.source = reply.source;
  record.rounds = reply.rounds;
  record.records = reply.records;
  record.span_us = reply.span_us;
  record.idle_us = reply.idle_us;
  constexpr double kUsPerNs = 1e-3;
  record.round_us = kUsPerNs * static_cast<double>(reply.run.decode_ns) / static_cast<double>(reply.rounds);
  record.unmatched = reply.unmatched;
  record.rows = to_json(reply.rows);
  return record;
}

std::size_t profiled_texts(const Experiment& experiment, std::size_t texts) {
  return std::min(texts, static_cast<std::size_t>(experiment.profile.prompts));
}

}  // namespace

void make_profile(const MeasureContext& context, const PlannedProfile& profile) {
  const Arm& arm = *profile.arm;
  stop_if_interrupted(*context.settings);
  Launch launch(*context.experiment, arm, context.settings->own_program.string(), *context.ledger,
                {kPurpose, profile.block, context.sitting});
  for (std::size_t i = 0; i < profiled_texts(*context.experiment, context.texts->size()); ++i) {
    stop_if_interrupted(*context.settings);
    const forced::ReplayText& text = (*context.texts)[i];
    ProfileRecord record;
    bool ended = false;
    try {
      const RunCall call = call_of(*context.experiment, text);
      if (i == 0) (void)launch.worker().profile(call);  // warms up, as a measured launch does
      record = to_record(launch.worker().profile(call));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInterrupted) throw;
      record.fault = error.what();  // the other arms can still be profiled
      ended = true;
    }
    record.launch_id = launch.id();
    record.position = static_cast<std::int64_t>(i);
    record.prompt_id = text.prompt_id;
    context.ledger->store_profile(record);
    context.prompt_done(fmt::format("profile of {}: prompt {}", arm.name, i + 1));
    if (ended) return;
  }
}

std::vector<PlannedProfile> profiles_to_make(const Experiment& experiment, const Ledger& ledger,
                                             const std::vector<PlannedBlock>& blocks) {
  std::vector<PlannedProfile> missing;
  if (experiment.profile.prompts == 0) return missing;
  std::map<std::int64_t, LaunchRecord> launches;
  for (LaunchRecord& launch : ledger.launches()) launches[launch.id] = std::move(launch);
  const std::size_t wanted = profiled_texts(experiment, ledger.texts().size());
  // A launch that was interrupted left fewer profiles than wanted, and none that says why.
  std::map<std::int64_t, std::size_t> profiles;
  std::set<std::pair<std::int64_t, std::string>> done;
  std::set<std::string> impossible;
  for (const ProfileRecord& profile : ledger.profiles()) {
    const LaunchRecord& launch = launches[profile.launch_id];
    if (!profile.fault.empty()) impossible.insert(launch.arm);
    if (++profiles[profile.launch_id] == wanted) done.emplace(launch.block, launch.arm);
  }
  for (const PlannedBlock& block : blocks) {
    const auto first = static_cast<std::ptrdiff_t>(missing.size());
    for (const Arm& arm : experiment.arms)
      if (!done.contains({block.block, arm.name}) && !impossible.contains(arm.name))
        missing.push_back({block.block, &arm});
    if (block.block % 2 != 0) std::reverse(missing.begin() + first, missing.end());
  }
  return missing;
}

}  // namespace tare::harness

#include "harness/driver/profile_arms.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

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
  for (const ProfileRow& row : reply.rows)
    record.rows.push_back({{"kernel", row.kernel},
                           {"launch", row.launch},
                           {"part", row.part},
                           {"calls", row.calls},
                           {"us", row.us},
                           {"duration_us", row.duration_us},
                           {"bytes", row.bytes}});
  return record;
}

std::size_t profiled_texts(const Experiment& experiment, std::size_t texts) {
  return std::min(texts, static_cast<std::size_t>(experiment.profile.prompts));
}

void profile_arm(const MeasureContext& context, const Arm& arm) {
  Launch launch(*context.experiment, arm, context.settings->own_program.string(), *context.ledger,
                {kPurpose, -1, context.sitting});
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

}  // namespace

std::vector<const Arm*> arms_to_profile(const Experiment& experiment, const Ledger& ledger) {
  if (experiment.profile.prompts == 0) return {};
  std::map<std::int64_t, std::string> arm_of_launch;
  for (const LaunchRecord& launch : ledger.launches()) arm_of_launch[launch.id] = launch.arm;
  const std::size_t wanted = profiled_texts(experiment, ledger.texts().size());
  // A launch that was interrupted left fewer profiles than wanted, and none that says why.
  std::map<std::int64_t, std::size_t> profiles;
  std::set<std::string> done;
  for (const ProfileRecord& profile : ledger.profiles())
    if (++profiles[profile.launch_id] == wanted || !profile.fault.empty())
      done.insert(arm_of_launch[profile.launch_id]);
  std::vector<const Arm*> arms;
  for (const Arm& arm : experiment.arms)
    if (!done.contains(arm.name)) arms.push_back(&arm);
  return arms;
}

void profile_arms(const MeasureContext& context, const std::vector<const Arm*>& arms) {
  for (const Arm* arm : arms) profile_arm(context, *arm);
}

}  // namespace tare::harness

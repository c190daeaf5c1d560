#include "profiles/round_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "profiles/decode_rounds.h"
#include "profiles/timeline/timeline.h"
#include "profiles/trace/round_tracks.h"

namespace tare::profiles {
namespace {

constexpr std::int64_t kWarmRounds = 4;  // a graph is made in the first, clocks rise in the others

void check(const engine::Backend& backend, const RoundProfileSettings& settings) {
  if (settings.rounds < 1) throw input_error("--rounds", "must be at least 1");
  check_width(settings.width);
  if (settings.context < 1) throw input_error("--prompt-tokens", "must be at least 1");
  // Warm and measured rounds, without and then with the collector.
  const std::int64_t needed = settings.context + 2 * (settings.rounds + kWarmRounds) * settings.width;
  if (needed > backend.capacity())
    throw input_error("context",
                      fmt::format("{} tokens do not fit the {} that the caches hold", needed, backend.capacity()),
                      fmt::format("--set context={}, or fewer rounds", needed));
}

std::vector<double> run(DecodeRounds& rounds, std::int64_t count) {
  std::vector<double> us;
  for (std::int64_t i = 0; i < count; ++i) us.push_back(rounds.run_one() * 1e6);
  return us;
}

// Why the records of a round cannot be matched to the launches that the backend declares, or nothing.
std::string mismatch(const std::vector<std::vector<KernelRecord>>& rounds,
                     const std::vector<engine::LaunchRecord>& launches) {
  if (launches.empty()) return "the backend declares no launches";
  if (launches.size() != rounds.front().size())
    return fmt::format("the backend declares {} launches a round, {} kernels were recorded", launches.size(),
                       rounds.front().size());
  for (std::size_t r = 1; r < rounds.size(); ++r)
    for (std::size_t i = 0; i < launches.size(); ++i)
      if (rounds[r][i].name != rounds.front()[i].name)
        return fmt::format("kernel {} of round {} is not that of round 0", i, r);
  return {};
}

}  // namespace

RoundProfile profile_rounds(engine::Backend& backend, const RoundProfileSettings& settings,
                            const std::function<std::unique_ptr<KernelCollector>()>& make_collector) {
  check(backend, settings);
  DecodeRounds rounds(backend, settings.context, settings.width, settings.seed);
  RoundProfile profile;
  constexpr double kUsPerSecond = 1e6;
  profile.prefill_us = rounds.restart() * kUsPerSecond;
  (void)run(rounds, kWarmRounds);
  profile.timed_us = run(rounds, settings.rounds);

  const std::unique_ptr<KernelCollector> collector = make_collector();
  collector->start();
  (void)run(rounds, kWarmRounds);
  (void)collector->take();
  profile.first_context = backend.frontier();
  profile.profiled_us = run(rounds, settings.rounds);
  KernelRecords records = collector->take();

  profile.rounds = split_rounds(records, settings.rounds);
  profile.names = std::move(records.names);
  profile.launches = backend.launches(settings.width);
  profile.unmatched = mismatch(profile.rounds, profile.launches);
  if (!profile.unmatched.empty()) profile.launches = {engine::LaunchRecord{}};
  for (std::size_t i = 0; i < profile.rounds.front().size(); ++i) {
    const std::size_t launch = profile.unmatched.empty() ? i : 0;
    profile.labels.push_back({launch, profile.launches[launch].bytes});
  }
  static_cast<RoundTable&>(profile) = make_round_table(profile.rounds, profile.names, profile.launches,
                                                       [&](std::size_t, std::size_t i) { return profile.labels[i]; });
  return profile;
}

std::vector<TraceTrack> profile_tracks(const RoundProfile& profile, std::size_t rounds) {
  return round_tracks("GPU", std::span(profile.rounds).first(std::min(rounds, profile.rounds.size())), profile.names,
                      profile.launches, [&](std::size_t, std::size_t i) { return profile.labels[i]; });
}

}  // namespace tare::profiles

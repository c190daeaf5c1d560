#include "profiles/round_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>

#include "base/error.h"
#include "profiles/decode_rounds.h"
#include "profiles/timeline/timeline.h"
#include "profiles/trace/round_tracks.h"

namespace tare::profiles {
namespace {

constexpr double kUsPerSecond = 1e6;
constexpr std::int64_t kWarmRounds = 4;  // a graph is made in the first, clocks rise in the others

void check(const engine::Backend& backend, const RoundProfileSettings& settings) {
  if (settings.rounds < 1) throw input_error("--rounds", "must be at least 1");
  check_width(settings.width);
  if (settings.context < 1) throw input_error("--prompt-tokens", "must be at least 1");
  // Warm and measured rounds, without and then with the collector.
  const std::int64_t drafted = backend.has_drafter() ? backend.options().speculate.draft_tokens : 0;
  const std::int64_t needed = settings.context + 2 * (settings.rounds + kWarmRounds) * settings.width + drafted;
  if (needed > backend.capacity())
    throw input_error("context",
                      fmt::format("{} tokens do not fit the {} that the caches hold", needed, backend.capacity()),
                      fmt::format("--set context={}, or fewer rounds", needed));
}

std::vector<double> run(DecodeRounds& rounds, std::int64_t count) {
  std::vector<double> us;
  for (std::int64_t i = 0; i < count; ++i) us.push_back(rounds.run_one() * kUsPerSecond);
  return us;
}

// Launches and labels as the backend declares them. What a launch reads of the caches grows with the rounds.
void label_kernels(RoundProfile& profile, std::vector<engine::LaunchRecord> launches, std::int64_t width) {
  const auto context_of = [&](std::size_t round) {
    return profile.first_context + static_cast<std::int64_t>(round + 1) * width;
  };
  MatchedLaunches matched =
      match_launches(profile.rounds, {.kinds = {std::move(launches)}, .kind_of = {}, .context_of = context_of});
  profile.unmatched = std::move(matched.unmatched);
  profile.launches = std::move(matched.launches);
  profile.labels = std::move(matched.labels);
}

// Launches and labels as the collector was told them.
void label_ops(RoundProfile& profile, KernelRecords& records) {
  profile.of_ops = true;
  profile.launches = std::move(records.launches);
  auto label = records.labels.begin();
  for (const std::vector<KernelRecord>& round : profile.rounds) {
    const auto end = label + static_cast<std::ptrdiff_t>(round.size());
    profile.labels.emplace_back(label, end);
    label = end;
  }
}

void time_and_collect(DecodeRounds& rounds, KernelCollector& collector, std::int64_t count, RoundProfile& profile) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (!collector.pause()) throw internal_error("rounds cannot alternate under a collector that cannot pause");
    profile.timed_us.push_back(rounds.run_one() * kUsPerSecond);
    collector.start();
    profile.profiled_us.push_back(rounds.run_one() * kUsPerSecond);
  }
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

RoundProfile profile_rounds(engine::Backend& backend, const RoundProfileSettings& settings,
                            const std::function<std::unique_ptr<KernelCollector>()>& make_collector) {
  check(backend, settings);
  DecodeRounds rounds(backend, settings.context, settings.width, settings.seed);
  RoundProfile profile;
  profile.prefill_us = rounds.restart() * kUsPerSecond;
  (void)run(rounds, kWarmRounds);
  if (!settings.alternate) profile.timed_us = run(rounds, settings.rounds);

  const std::unique_ptr<KernelCollector> collector = make_collector();
  collector->start();
  (void)run(rounds, kWarmRounds);
  (void)collector->take();
  profile.first_context = backend.frontier();
  if (settings.alternate) {
    time_and_collect(rounds, *collector, settings.rounds, profile);
  } else {
    profile.profiled_us = run(rounds, settings.rounds);
  }
  KernelRecords records = collector->take();

  profile.rounds = split_rounds(records, settings.rounds);
  profile.names = std::move(records.names);
  if (records.labels.empty()) {
    std::vector<engine::LaunchRecord> launches = backend.draft_launches();
    for (engine::LaunchRecord& launch : backend.launches(settings.width)) launches.push_back(std::move(launch));
    label_kernels(profile, std::move(launches), settings.width);
  } else {
    label_ops(profile, records);
  }
  static_cast<RoundTable&>(profile) =
      make_round_table(profile.rounds, profile.names, profile.launches,
                       [&](std::size_t r, std::size_t i) { return profile.labels[r][i]; });
  return profile;
}

double RoundProfile::residual_us() const {
  return mean(timed_us) - span_us;
}

std::vector<TraceTrack> profile_tracks(const RoundProfile& profile, std::size_t rounds) {
  std::vector<TraceTrack> tracks = round_tracks(
      profile.of_ops ? "CPU" : "GPU", std::span(profile.rounds).first(std::min(rounds, profile.rounds.size())),
      profile.names, profile.launches, [&](std::size_t r, std::size_t i) { return profile.labels[r][i]; });
  if (profile.of_ops)
    for (TraceTrack& track : std::span(tracks).subspan(1)) track.name = "ops";
  return tracks;
}

}  // namespace tare::profiles

#include "profiles/round_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "profiles/decode_rounds.h"
#include "profiles/layer_names.h"
#include "profiles/timeline/timeline.h"

namespace tare::profiles {
namespace {

constexpr double kNsPerUs = 1e3;
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
  const KernelRecords records = collector->take();

  const std::vector<std::vector<KernelRecord>> by_round = split_rounds(records, settings.rounds);
  const std::vector<engine::LaunchRecord> launches = backend.launches(settings.width);
  profile.records = records.records.size();
  profile.kernels = static_cast<std::int64_t>(by_round.front().size());
  profile.unmatched = mismatch(by_round, launches);

  std::map<std::tuple<std::string, std::string, std::string>, KernelRow> rows;
  const double share_of_round = 1 / static_cast<double>(settings.rounds);
  for (const std::vector<KernelRecord>& round : by_round) {
    const Timeline timeline = make_timeline(round);
    profile.span_us += static_cast<double>(timeline.span_ns) / kNsPerUs * share_of_round;
    profile.idle_us += static_cast<double>(timeline.idle_ns()) / kNsPerUs * share_of_round;
    for (std::size_t i = 0; i < round.size(); ++i) {
      const engine::LaunchRecord launch = profile.unmatched.empty() ? launches[i] : engine::LaunchRecord{};
      const std::string& kernel = records.names[static_cast<std::size_t>(round[i].name)];
      const std::string part = without_layer_number(launch.part);
      KernelRow& row =
          rows.try_emplace({kernel, launch.name, part}, KernelRow{kernel, launch.name, part}).first->second;
      row.calls += share_of_round;
      row.duration_us += static_cast<double>(round[i].end_ns - round[i].start_ns) / kNsPerUs * share_of_round;
      row.us += static_cast<double>(timeline.share_ns[i]) / kNsPerUs * share_of_round;
      row.declared_bytes += static_cast<double>(launch.bytes) * share_of_round;
    }
  }
  for (auto& [key, row] : rows) profile.rows.push_back(std::move(row));
  std::stable_sort(profile.rows.begin(), profile.rows.end(),
                   [](const KernelRow& a, const KernelRow& b) { return a.us > b.us; });
  return profile;
}

}  // namespace tare::profiles

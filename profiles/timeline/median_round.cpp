#include "profiles/timeline/median_round.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "profiles/layer_names.h"
#include "profiles/timeline/timeline.h"

namespace tare::profiles {
namespace {

constexpr double kNsPerUs = 1000;  // divided by, so that a time prints with its three decimals

// Of the two in the middle the shorter one: a round that was.
std::size_t of_median_span(const std::vector<std::vector<KernelRecord>>& rounds) {
  std::vector<std::pair<std::int64_t, std::size_t>> spans;
  for (std::size_t r = 0; r < rounds.size(); ++r) spans.emplace_back(make_timeline(rounds[r]).span_ns, r);
  std::sort(spans.begin(), spans.end());
  return spans[(spans.size() - 1) / 2].second;
}

}  // namespace

std::vector<RoundLaunch> median_round(const RoundTable& table, const std::vector<std::vector<KernelRecord>>& rounds,
                                      std::span<const std::string> names,
                                      std::span<const engine::LaunchRecord> launches,
                                      const std::function<RecordLabel(std::size_t, std::size_t)>& label_of) {
  if (rounds.empty()) return {};
  std::map<std::tuple<std::string, std::string, std::string>, std::size_t> rows;
  for (std::size_t i = 0; i < table.rows.size(); ++i)
    rows[{table.rows[i].kernel, table.rows[i].launch, table.rows[i].part}] = i;
  const std::size_t r = of_median_span(rounds);
  const std::vector<KernelRecord>& round = rounds[r];
  const Timeline timeline = make_timeline(round);
  const std::int64_t first =
      std::min_element(round.begin(), round.end(), [](const KernelRecord& a, const KernelRecord& b) {
        return a.start_ns < b.start_ns;
      })->start_ns;
  const auto micros = [&](std::int64_t ns) { return static_cast<double>(ns - first) / kNsPerUs; };
  std::vector<RoundLaunch> result;
  for (std::size_t i = 0; i < round.size(); ++i) {
    const engine::LaunchRecord& launch = launches[label_of(r, i).launch];
    const std::string& kernel = names[static_cast<std::size_t>(round[i].name)];
    result.push_back({rows.at({kernel, launch.name, without_layer_number(launch.part)}), micros(round[i].start_ns),
                      micros(round[i].end_ns - timeline.share_ns[i]), micros(round[i].end_ns)});
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const RoundLaunch& a, const RoundLaunch& b) { return a.begin_us < b.begin_us; });
  return result;
}

}  // namespace tare::profiles

#include "profiles/timeline/round_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "profiles/layer_names.h"
#include "profiles/timeline/timeline.h"

namespace tare::profiles {
namespace {

constexpr double kUsPerNs = 1e-3;
constexpr int kNameBits = 32;  // of a key

struct Sum {
  std::int64_t calls = 0;
  std::int64_t share_ns = 0;
  std::int64_t duration_ns = 0;
  std::uint64_t bytes = 0;
};

// Of a kernel name and a launch. Rows merge launches of several layers, so texts are compared once a key, not once a
// record: imported files have millions of those.
std::uint64_t key_of(std::int32_t name, std::size_t launch) {
  return static_cast<std::uint64_t>(launch) << kNameBits | static_cast<std::uint32_t>(name);
}

std::vector<std::int32_t> kernel_names(const std::vector<KernelRecord>& round) {
  std::vector<std::int32_t> names;
  for (const KernelRecord& record : round)
    if (!record.copy) names.push_back(record.name);
  return names;
}

std::size_t kind_of(const DeclaredRounds& declared, std::size_t round) {
  return declared.kind_of ? declared.kind_of(round) : 0;
}

std::string launch_mismatch(const std::vector<std::vector<KernelRecord>>& rounds, const DeclaredRounds& declared) {
  struct First {
    std::size_t round = 0;
    std::vector<std::int32_t> names;
  };
  std::map<std::size_t, First> firsts;  // by kind
  for (std::size_t r = 0; r < rounds.size(); ++r) {
    const std::size_t kind = kind_of(declared, r);
    const std::vector<engine::LaunchRecord>& launches = declared.kinds.at(kind);
    if (launches.empty()) return "the backend declares no launches";
    std::vector<std::int32_t> names = kernel_names(rounds[r]);
    if (names.size() != launches.size())
      return fmt::format("the backend declares {} launches a round, round {} has {} kernels", launches.size(), r,
                         names.size());
    const auto [first, is_first] = firsts.try_emplace(kind, First{r, names});
    if (is_first) continue;
    const auto other = std::mismatch(names.begin(), names.end(), first->second.names.begin()).first;
    if (other != names.end())
      return fmt::format("kernel {} of round {} is not that of round {}", std::distance(names.begin(), other), r,
                         first->second.round);
  }
  return {};
}

}  // namespace

RoundTable make_round_table(const std::vector<std::vector<KernelRecord>>& rounds, std::span<const std::string> names,
                            std::span<const engine::LaunchRecord> launches,
                            const std::function<RecordLabel(std::size_t, std::size_t)>& label_of) {
  RoundTable table;
  if (rounds.empty()) return table;
  std::int64_t span_ns = 0;
  std::int64_t idle_ns = 0;
  std::unordered_map<std::uint64_t, Sum> sums;
  for (std::size_t r = 0; r < rounds.size(); ++r) {
    const std::vector<KernelRecord>& round = rounds[r];
    const Timeline timeline = make_timeline(round);
    span_ns += timeline.span_ns;
    idle_ns += timeline.idle_ns();
    table.records += round.size();
    for (std::size_t i = 0; i < round.size(); ++i) {
      const RecordLabel label = label_of(r, i);
      Sum& sum = sums[key_of(round[i].name, label.launch)];
      ++sum.calls;
      sum.share_ns += timeline.share_ns[i];
      sum.duration_ns += round[i].end_ns - round[i].start_ns;
      sum.bytes += label.bytes;
    }
  }
  const double share_of_round = 1 / static_cast<double>(rounds.size());
  std::map<std::tuple<std::string, std::string, std::string>, KernelRow> rows;
  for (const auto& [key, sum] : sums) {
    const std::string& kernel = names[static_cast<std::uint32_t>(key)];
    const engine::LaunchRecord& launch = launches[key >> kNameBits];
    const std::string part = without_layer_number(launch.part);
    KernelRow& row = rows.try_emplace({kernel, launch.name, part}, KernelRow{kernel, launch.name, part}).first->second;
    row.calls += static_cast<double>(sum.calls) * share_of_round;
    row.us += static_cast<double>(sum.share_ns) * kUsPerNs * share_of_round;
    row.duration_us += static_cast<double>(sum.duration_ns) * kUsPerNs * share_of_round;
    row.declared_bytes += static_cast<double>(sum.bytes) * share_of_round;
  }
  table.span_us = static_cast<double>(span_ns) * kUsPerNs * share_of_round;
  table.idle_us = static_cast<double>(idle_ns) * kUsPerNs * share_of_round;
  table.kernels = static_cast<double>(table.records) / static_cast<double>(rounds.size());
  for (auto& [key, row] : rows) table.rows.push_back(std::move(row));
  std::stable_sort(table.rows.begin(), table.rows.end(),
                   [](const KernelRow& a, const KernelRow& b) { return a.us > b.us; });
  return table;
}

MatchedLaunches match_launches(const std::vector<std::vector<KernelRecord>>& rounds, const DeclaredRounds& declared) {
  MatchedLaunches result;
  result.unmatched = launch_mismatch(rounds, declared);
  std::vector<std::size_t> first_of_kind;
  if (result.unmatched.empty()) {
    for (const std::vector<engine::LaunchRecord>& launches : declared.kinds) {
      first_of_kind.push_back(result.launches.size());
      result.launches.insert(result.launches.end(), launches.begin(), launches.end());
    }
  }
  const std::size_t none = result.launches.size();
  result.launches.emplace_back();
  for (std::size_t r = 0; r < rounds.size(); ++r) {
    const std::int64_t context = declared.context_of(r);
    std::vector<RecordLabel>& labels = result.labels.emplace_back();
    std::size_t kernel = first_of_kind.empty() ? none : first_of_kind[kind_of(declared, r)];
    for (const KernelRecord& record : rounds[r]) {
      if (record.copy) {
        labels.push_back({none, record.copied_bytes});
      } else {
        const std::size_t launch = std::min(kernel++, none);
        labels.push_back({launch, result.launches[launch].bytes_at(context)});
      }
    }
  }
  return result;
}

}  // namespace tare::profiles

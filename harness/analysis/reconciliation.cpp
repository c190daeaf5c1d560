#include "harness/analysis/reconciliation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "harness/analysis/gathered.h"
#include "stats/distributions.h"

namespace tare::harness {
namespace {

constexpr double kUsPerNs = 1e-3;
constexpr double kLevel = 0.95;

// What rows of two arms are matched by.
struct Key {
  std::string part;
  std::string launch;
  friend auto operator<=>(const Key&, const Key&) = default;
};

struct Amount {
  double us = 0;
  double bytes = 0;
};
using Rows = std::map<Key, Amount>;

// One prompt of one arm.
struct Point {
  double timed_us = 0;
  double span_us = 0;
  double idle_us = 0;
  double round_us = 0;
  Rows rows;
  double profiles = 0;  // twin launches that are summed up here, until average()
};
using Points = std::map<std::string, Point>;  // by prompt id

std::string name_of(const Key& key) {
  return key.part.empty() ? key.launch : fmt::format("{}  {}", key.launch, key.part);
}

Rows rows_of(const ProfileRecord& profile) {
  Rows rows;
  for (const Json& element : profile.rows) {
    JsonReader row(element, "profiles.rows");
    const std::string launch = row.has("launch") ? row.text("launch") : "";
    const Key key{row.has("part") ? row.text("part") : "", launch.empty() ? row.text("kernel") : launch};
    Amount& amount = rows[key];
    amount.us += row.number("us", 0);
    if (row.has("bytes")) amount.bytes += row.number("bytes", 0);
  }
  return rows;
}

void add_profile(Point& point, const ProfileRecord& profile) {
  point.profiles += 1;
  point.span_us += profile.span_us;
  point.idle_us += profile.idle_us;
  point.round_us += profile.round_us;
  for (const auto& [key, amount] : rows_of(profile)) {
    point.rows[key].us += amount.us;
    point.rows[key].bytes += amount.bytes;
  }
}

void average(Point& point) {
  point.span_us /= point.profiles;
  point.idle_us /= point.profiles;
  point.round_us /= point.profiles;
  for (auto& [key, amount] : point.rows) {
    amount.us /= point.profiles;
    amount.bytes /= point.profiles;
  }
}

// Mean time of a round by prompt, over the counted runs of an arm.
std::map<std::string, double> timed_rounds(const Gathered& gathered, std::size_t arm) {
  std::map<std::string, std::vector<double>> all;
  for (const CountedRun& run : gathered.counted) {
    if (run.arm != arm) continue;
    for (const PromptResult& result : run.results)
      if (result.rounds.size() > 0)
        all[result.prompt_id].push_back(kUsPerNs * static_cast<double>(result.decode_ns) /
                                        static_cast<double>(result.rounds.size()));
  }
  std::map<std::string, double> means;
  for (const auto& [prompt, values] : all)
    means[prompt] = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  return means;
}

// Mean and paired interval of differences.
void set_difference(ReconciledRow& row, const std::vector<double>& differences) {
  const auto n = static_cast<double>(differences.size());
  row.difference_us = std::accumulate(differences.begin(), differences.end(), 0.0) / n;
  if (differences.size() < 2) return;
  double squares = 0;
  for (const double value : differences) squares += (value - row.difference_us) * (value - row.difference_us);
  row.interval = stats::t_interval(row.difference_us, std::sqrt(squares / (n - 1) / n), n - 1, kLevel);
}

// Parts at which both arms launch one thing, whatever its name: there the rows are matched by part alone.
std::set<std::string> parts_with_one_launch(const Points& a, const Points& b) {
  std::map<std::string, std::set<std::string>> of_a;
  std::map<std::string, std::set<std::string>> of_b;
  for (const auto& [prompt, point] : a)
    for (const auto& [key, amount] : point.rows) of_a[key.part].insert(key.launch);
  for (const auto& [prompt, point] : b)
    for (const auto& [key, amount] : point.rows) of_b[key.part].insert(key.launch);
  std::set<std::string> parts;
  for (const auto& [part, launches] : of_a)
    if (!part.empty() && launches.size() == 1 && of_b.contains(part) && of_b[part].size() == 1) parts.insert(part);
  return parts;
}

template <class Value>
ReconciledRow compare(const std::string& what, const std::vector<const Point*>& base,
                      const std::vector<const Point*>& other, const Value& value) {
  ReconciledRow row;
  row.what = what;
  std::vector<double> differences;
  for (std::size_t i = 0; i < base.size(); ++i) {
    const Amount a = value(*base[i]);
    const Amount b = value(*other[i]);
    row.baseline_us += a.us / static_cast<double>(base.size());
    row.arm_us += b.us / static_cast<double>(base.size());
    row.baseline_bytes += a.bytes / static_cast<double>(base.size());
    row.arm_bytes += b.bytes / static_cast<double>(base.size());
    differences.push_back(b.us - a.us);
  }
  set_difference(row, differences);
  return row;
}

ReconciledDifference difference_of(const std::string& arm, const Points& baseline, const Points& other) {
  ReconciledDifference result;
  result.arm = arm;
  std::vector<const Point*> a;
  std::vector<const Point*> b;
  for (const auto& [prompt, point] : baseline) {
    const auto found = other.find(prompt);
    if (found == other.end()) continue;
    a.push_back(&point);
    b.push_back(&found->second);
  }
  result.prompts = static_cast<std::int64_t>(a.size());
  if (a.empty()) return result;
  result.timed = compare("timed round", a, b, [](const Point& point) { return Amount{point.timed_us, 0}; });
  result.idle = compare("idle", a, b, [](const Point& point) { return Amount{point.idle_us, 0}; });
  result.host = compare("host", a, b, [](const Point& point) { return Amount{point.timed_us - point.span_us, 0}; });

  const std::set<std::string> by_part = parts_with_one_launch(baseline, other);
  std::map<Key, std::pair<std::string, std::string>> names;  // launches: the baseline's, the arm's
  const auto reduced = [&](const Key& key) { return by_part.contains(key.part) ? Key{key.part, ""} : key; };
  for (const Point* point : a)
    for (const auto& [key, amount] : point->rows) names[reduced(key)].first = key.launch;
  for (const Point* point : b)
    for (const auto& [key, amount] : point->rows) names[reduced(key)].second = key.launch;
  for (const auto& [key, both] : names) {
    const auto& [of_base, of_arm] = both;
    const bool changed = !of_base.empty() && !of_arm.empty() && of_base != of_arm;
    const std::string launch = changed ? fmt::format("{} -> {}", of_base, of_arm) : of_base.empty() ? of_arm : of_base;
    const std::string what = name_of({key.part, launch});
    if (of_arm.empty()) result.only_baseline.push_back(what);
    if (of_base.empty()) result.only_arm.push_back(what);
    result.rows.push_back(compare(what, a, b, [&](const Point& point) {
      Amount sum;
      for (const auto& [row, amount] : point.rows)
        if (reduced(row) == key) sum.us += amount.us, sum.bytes += amount.bytes;
      return sum;
    }));
  }
  std::stable_sort(result.rows.begin(), result.rows.end(), [](const ReconciledRow& x, const ReconciledRow& y) {
    return std::abs(x.difference_us) > std::abs(y.difference_us);
  });
  double explained = result.idle.difference_us;
  for (const ReconciledRow& row : result.rows) explained += row.difference_us;
  result.adds_up =
      std::abs(result.host.difference_us) <= std::max(kMostResidualOfDifference * std::abs(result.timed.difference_us),
                                                      kMostResidualOfRound * result.timed.baseline_us);
  result.explained_share = result.timed.difference_us == 0 ? 0 : explained / result.timed.difference_us;
  return result;
}

ReconciledArm arm_of(const std::string& name, const Points& points) {
  ReconciledArm arm;
  arm.arm = name;
  arm.prompts = static_cast<std::int64_t>(points.size());
  const auto n = static_cast<double>(points.size());
  std::map<Key, Amount> sums;
  for (const auto& [prompt, point] : points) {
    arm.timed_us += point.timed_us / n;
    arm.span_us += point.span_us / n;
    arm.idle_us += point.idle_us / n;
    arm.profiled_us += point.round_us / n;
    for (const auto& [key, amount] : point.rows) {
      sums[key].us += amount.us / n;
      sums[key].bytes += amount.bytes / n;
    }
  }
  arm.host_us = arm.timed_us - arm.span_us;
  for (const auto& [key, amount] : sums) {
    ReconciledRow& row = arm.rows.emplace_back();
    row.what = name_of(key);
    row.arm_us = amount.us;
    row.arm_bytes = amount.bytes;
  }
  std::stable_sort(arm.rows.begin(), arm.rows.end(),
                   [](const ReconciledRow& x, const ReconciledRow& y) { return x.arm_us > y.arm_us; });
  return arm;
}

Json row_json(const ReconciledRow& row) {
  Json json = {{"what", row.what},
               {"baseline_us", row.baseline_us},
               {"arm_us", row.arm_us},
               {"difference_us", row.difference_us},
               {"baseline_bytes", row.baseline_bytes},
               {"arm_bytes", row.arm_bytes}};
  if (row.interval) json["interval_us"] = {row.interval->low, row.interval->high};
  return json;
}

}  // namespace

Reconciliation reconcile(const Ledger& ledger) {
  const std::vector<ProfileRecord> profiles = ledger.profiles();
  if (profiles.empty())
    throw input_error(ledger.file().string(), "holds no profiles",
                      "give the experiment \"profile\": {\"prompts\": 4} and run it again");
  return reconcile(gather(ledger), profiles);
}

Reconciliation reconcile(const Gathered& gathered, const std::vector<ProfileRecord>& profiles) {
  Reconciliation result;
  result.baseline = gathered.experiment.arms.front().name;
  std::vector<Points> points(gathered.experiment.arms.size());
  for (std::size_t i = 0; i < gathered.experiment.arms.size(); ++i) {
    const std::string& name = gathered.experiment.arms[i].name;
    const std::map<std::string, double> timed = timed_rounds(gathered, i);
    std::string fault = "was not profiled";
    std::string source;
    std::string unmatched;
    for (const ProfileRecord& profile : profiles) {
      const auto launch = std::find_if(gathered.launches.begin(), gathered.launches.end(),
                                       [&](const LaunchRecord& record) { return record.id == profile.launch_id; });
      if (launch == gathered.launches.end() || launch->arm != name) continue;
      fault = profile.fault;
      if (!fault.empty()) continue;
      const auto found = timed.find(profile.prompt_id);
      if (found == timed.end()) continue;
      source = profile.source;
      unmatched = profile.unmatched;
      add_profile(points[i][profile.prompt_id], profile);
      points[i][profile.prompt_id].timed_us = found->second;
    }
    for (auto& [prompt, point] : points[i]) average(point);
    if (fault.empty() && points[i].empty()) fault = "no profiled prompt was timed";
    ReconciledArm arm = points[i].empty() ? ReconciledArm{} : arm_of(name, points[i]);
    arm.arm = name;
    arm.fault = points[i].empty() ? fault : "";
    arm.source = source;
    arm.unmatched = unmatched;
    result.arms.push_back(std::move(arm));
  }
  for (std::size_t i = 1; i < points.size(); ++i)
    if (!points[i].empty() && !points.front().empty())
      result.differences.push_back(difference_of(gathered.experiment.arms[i].name, points.front(), points[i]));
  return result;
}

reports::Times times_of(const Reconciliation& reconciliation) {
  const auto row_of = [](const ReconciledRow& row) {
    reports::TimeRow result{
        .what = row.what, .baseline_us = row.baseline_us, .arm_us = row.arm_us, .difference_us = row.difference_us};
    if (row.interval) {
      result.low_us = row.interval->low;
      result.high_us = row.interval->high;
    }
    return result;
  };
  reports::Times times;
  for (const ReconciledArm& arm : reconciliation.arms) {
    reports::ArmTimes& next = times.arms.emplace_back();
    next.arm = arm.arm;
    next.fault = arm.fault;
    next.source = arm.source;
    next.prompts = arm.prompts;
    if (!arm.fault.empty()) continue;
    next.timed_us = arm.timed_us;
    next.busy_us = arm.span_us - arm.idle_us;
    next.idle_us = arm.idle_us;
    next.host_us = arm.host_us;
    next.profiled_us = arm.profiled_us;
  }
  for (const ReconciledDifference& difference : reconciliation.differences) {
    reports::TimeDifference& next = times.differences.emplace_back();
    next.arm = difference.arm;
    next.prompts = difference.prompts;
    for (const ReconciledRow& row : difference.rows) next.rows.push_back(row_of(row));
    next.idle = row_of(difference.idle);
    next.host = row_of(difference.host);
    next.timed = row_of(difference.timed);
    next.explained_share = difference.explained_share;
    next.adds_up = difference.adds_up;
    next.only_baseline = difference.only_baseline;
    next.only_arm = difference.only_arm;
  }
  return times;
}

Json to_json(const Reconciliation& reconciliation) {
  Json arms = Json::array();
  for (const ReconciledArm& arm : reconciliation.arms) {
    Json rows = Json::array();
    for (const ReconciledRow& row : arm.rows)
      rows.push_back({{"what", row.what}, {"us", row.arm_us}, {"bytes", row.arm_bytes}});
    arms.push_back({{"arm", arm.arm},
                    {"fault", arm.fault},
                    {"source", arm.source},
                    {"prompts", arm.prompts},
                    {"timed_us", arm.timed_us},
                    {"span_us", arm.span_us},
                    {"idle_us", arm.idle_us},
                    {"host_us", arm.host_us},
                    {"profiled_us", arm.profiled_us},
                    {"unmatched", arm.unmatched},
                    {"rows", rows}});
  }
  Json differences = Json::array();
  for (const ReconciledDifference& difference : reconciliation.differences) {
    Json rows = Json::array();
    for (const ReconciledRow& row : difference.rows) rows.push_back(row_json(row));
    differences.push_back({{"arm", difference.arm},
                           {"prompts", difference.prompts},
                           {"timed", row_json(difference.timed)},
                           {"idle", row_json(difference.idle)},
                           {"host", row_json(difference.host)},
                           {"explained_share", difference.explained_share},
                           {"adds_up", difference.adds_up},
                           {"only_baseline", difference.only_baseline},
                           {"only_arm", difference.only_arm},
                           {"rows", rows}});
  }
  return {{"baseline", reconciliation.baseline}, {"arms", arms}, {"differences", differences}};
}

}  // namespace tare::harness

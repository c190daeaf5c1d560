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
#include "stats/stalls.h"

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

// One cell of one arm, or the mean of a prompt's cells.
struct Point {
  double timed_us = 0;
  double stalls_us = 0;
  double span_us = 0;
  double idle_us = 0;
  double round_us = 0;
  Rows rows;
};
struct Cell {
  std::string prompt;
  std::int64_t block = 0;
  friend auto operator<=>(const Cell&, const Cell&) = default;
};
using Cells = std::map<Cell, Point>;
using Points = std::map<std::string, Point>;  // by prompt id

std::string name_of(const Key& key) {
  return name_of_row(key.launch, key.part);
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

void add(Point& sum, const Point& point) {
  sum.timed_us += point.timed_us;
  sum.stalls_us += point.stalls_us;
  sum.span_us += point.span_us;
  sum.idle_us += point.idle_us;
  sum.round_us += point.round_us;
  for (const auto& [key, amount] : point.rows) {
    sum.rows[key].us += amount.us;
    sum.rows[key].bytes += amount.bytes;
  }
}

void divide(Point& sum, double count) {
  sum.timed_us /= count;
  sum.stalls_us /= count;
  sum.span_us /= count;
  sum.idle_us /= count;
  sum.round_us /= count;
  for (auto& [key, amount] : sum.rows) {
    amount.us /= count;
    amount.bytes /= count;
  }
}

// Means of the prompts over those of their cells that `other` has too.
Points means_over(const Cells& cells, const Cells& other) {
  Points points;
  std::map<std::string, double> counts;
  for (const auto& [cell, point] : cells) {
    if (!other.contains(cell)) continue;
    add(points[cell.prompt], point);
    counts[cell.prompt] += 1;
  }
  for (auto& [prompt, point] : points) divide(point, counts[prompt]);
  return points;
}

std::int64_t common(const Cells& a, const Cells& b) {
  return std::count_if(a.begin(), a.end(), [&](const auto& entry) { return b.contains(entry.first); });
}

// A round of a cell, as timed.
struct Timed {
  double us = 0;
  double stalls_us = 0;
};

Timed timed_round(const PromptResult& result) {
  const std::vector<std::int64_t>& rounds = result.rounds.duration_ns;
  const std::vector<bool> stalled = stats::stalled_rounds(rounds);
  double others_ns = 0;
  double others = 0;
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    if (stalled[i]) continue;
    others_ns += static_cast<double>(rounds[i]);
    others += 1;
  }
  const double us = kUsPerNs * static_cast<double>(result.decode_ns) / static_cast<double>(rounds.size());
  return {us, us - kUsPerNs * others_ns / others};
}

// Means by cell over the counted runs of an arm.
std::map<Cell, Timed> timed_rounds(const Gathered& gathered, std::size_t arm) {
  std::map<Cell, std::vector<Timed>> all;
  for (const CountedRun& run : gathered.counted) {
    if (run.arm != arm) continue;
    for (const PromptResult& result : run.results)
      if (result.rounds.size() > 0) all[{result.prompt_id, run.record.block}].push_back(timed_round(result));
  }
  std::map<Cell, Timed> means;
  for (const auto& [cell, values] : all)
    for (const Timed& value : values) {
      means[cell].us += value.us / static_cast<double>(values.size());
      means[cell].stalls_us += value.stalls_us / static_cast<double>(values.size());
    }
  return means;
}

// By prompt, the different digests of what launches of an arm would have emitted; none where a worker did not say.
using Outputs = std::map<std::string, std::set<std::string>>;

// What is known of one arm before it is compared.
struct Profiled {
  ReconciledArm arm;
  Cells cells;
  Outputs outputs;
};

void add_outputs(const Gathered& gathered, std::size_t arm, Outputs& outputs) {
  for (const CountedRun& run : gathered.counted)
    if (run.arm == arm)
      for (const PromptResult& result : run.results)
        if (!result.natural_digest.empty()) outputs[result.prompt_id].insert(result.natural_digest);
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

// Prompts on which all launches of both arms chose the same, of those that both tell of.
void compare_outputs(const Outputs& baseline, const Outputs& other, ReconciledDifference& result) {
  for (const auto& [prompt, digests] : baseline) {
    const auto found = other.find(prompt);
    if (found == other.end()) continue;
    ++result.outputs_compared;
    if (digests.size() == 1 && digests == found->second) ++result.outputs_equal;
  }
}

ReconciledDifference difference_of(const std::string& arm, const Cells& cells_of_baseline, const Cells& cells_of_arm) {
  ReconciledDifference result;
  result.arm = arm;
  result.cells = common(cells_of_baseline, cells_of_arm);
  const Points baseline = means_over(cells_of_baseline, cells_of_arm);
  const Points other = means_over(cells_of_arm, cells_of_baseline);
  std::vector<const Point*> a;
  std::vector<const Point*> b;
  for (const auto& [prompt, point] : baseline) {
    a.push_back(&point);
    b.push_back(&other.at(prompt));
  }
  result.prompts = static_cast<std::int64_t>(a.size());
  if (a.empty()) return result;
  result.timed = compare("timed round", a, b, [](const Point& point) { return Amount{point.timed_us, 0}; });
  result.idle = compare("idle", a, b, [](const Point& point) { return Amount{point.idle_us, 0}; });
  result.host = compare("host", a, b, [](const Point& point) { return Amount{point.round_us - point.span_us, 0}; });
  result.stalls = compare("stalls", a, b, [](const Point& point) { return Amount{point.stalls_us, 0}; });
  result.residual = compare("residual", a, b, [](const Point& point) {
    return Amount{point.timed_us - point.stalls_us - point.round_us, 0};
  });

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
    result.rows.back().part = key.part;
  }
  std::stable_sort(result.rows.begin(), result.rows.end(), [](const ReconciledRow& x, const ReconciledRow& y) {
    return std::abs(x.difference_us) > std::abs(y.difference_us);
  });
  double explained = result.idle.difference_us + result.host.difference_us + result.stalls.difference_us;
  for (const ReconciledRow& row : result.rows) explained += row.difference_us;
  const double little_us = std::max(kMostResidualOfDifference * std::abs(result.timed.difference_us),
                                    kMostResidualOfRound * result.timed.baseline_us);
  result.adds_up = std::abs(result.residual.difference_us) <= little_us;
  result.stalled = std::abs(result.stalls.difference_us) > little_us;
  result.explained_share = result.timed.difference_us == 0 ? 0 : explained / result.timed.difference_us;
  return result;
}

void sum_up(const Cells& cells, ReconciledArm& arm) {
  const Points points = means_over(cells, cells);
  arm.cells = static_cast<std::int64_t>(cells.size());
  arm.prompts = static_cast<std::int64_t>(points.size());
  const auto n = static_cast<double>(points.size());
  std::map<Key, Amount> sums;
  for (const auto& [prompt, point] : points) {
    arm.timed_us += point.timed_us / n;
    arm.stalls_us += point.stalls_us / n;
    arm.span_us += point.span_us / n;
    arm.idle_us += point.idle_us / n;
    arm.profiled_us += point.round_us / n;
    for (const auto& [key, amount] : point.rows) {
      sums[key].us += amount.us / n;
      sums[key].bytes += amount.bytes / n;
    }
  }
  arm.host_us = arm.profiled_us - arm.span_us;
  arm.residual_us = arm.timed_us - arm.stalls_us - arm.profiled_us;
  for (const auto& [key, amount] : sums) {
    ReconciledRow& row = arm.rows.emplace_back();
    row.what = name_of(key);
    row.part = key.part;
    row.arm_us = amount.us;
    row.arm_bytes = amount.bytes;
  }
  std::stable_sort(arm.rows.begin(), arm.rows.end(),
                   [](const ReconciledRow& x, const ReconciledRow& y) { return x.arm_us > y.arm_us; });
}

// Why an arm whose collector lost this many records cannot be reconciled; empty when it can.
std::string loss_of(const ReconciledArm& arm) {
  const double lost = static_cast<double>(arm.dropped + arm.invalid);
  if (lost <= kMostLostShare * (static_cast<double>(arm.records) + lost)) return {};
  return fmt::format("the collector dropped {} records and {} have no valid times, of {}: more than one in {:.0f}",
                     arm.dropped, arm.invalid, arm.records + arm.dropped + arm.invalid, 1 / kMostLostShare);
}

Profiled profiled_arm(const Gathered& gathered, std::size_t index) {
  Profiled result;
  ReconciledArm& arm = result.arm;
  arm.arm = gathered.experiment.arms[index].name;
  const std::map<Cell, Timed> timed = timed_rounds(gathered, index);
  std::map<Cell, double> counts;
  std::string fault = "was not profiled";
  for (const ProfileRecord& profile : gathered.profiles) {
    const auto launch = std::find_if(gathered.launches.begin(), gathered.launches.end(),
                                     [&](const LaunchRecord& record) { return record.id == profile.launch_id; });
    if (launch == gathered.launches.end() || launch->arm != arm.arm) continue;
    fault = profile.fault;
    if (!fault.empty()) continue;
    const Cell cell{profile.prompt_id, launch->block};
    const auto found = timed.find(cell);
    if (found == timed.end()) continue;
    arm.source = profile.source;
    arm.unmatched = profile.unmatched;
    arm.records += profile.records;
    arm.dropped += profile.dropped;
    arm.invalid += profile.invalid;
    add(result.cells[cell], {found->second.us, found->second.stalls_us, profile.span_us, profile.idle_us,
                             profile.round_us, rows_of(profile)});
    counts[cell] += 1;
    if (!profile.natural_digest.empty()) result.outputs[profile.prompt_id].insert(profile.natural_digest);
  }
  for (auto& [cell, point] : result.cells) divide(point, counts[cell]);
  if (!result.cells.empty()) fault = loss_of(arm);
  if (fault.empty() && result.cells.empty()) fault = "no profiled prompt was timed in the same block";
  arm.fault = fault;
  if (fault.empty()) sum_up(result.cells, arm);
  add_outputs(gathered, index, result.outputs);
  arm.outputs_unsteady = std::count_if(result.outputs.begin(), result.outputs.end(),
                                       [](const auto& entry) { return entry.second.size() > 1; });
  return result;
}

}  // namespace

std::string name_of_row(const std::string& launch, const std::string& part) {
  return part.empty() ? launch : fmt::format("{}  {}", launch, part);
}

Reconciliation reconcile(const Ledger& ledger) {
  const Gathered gathered = gather(ledger);
  if (gathered.profiles.empty())
    throw input_error(ledger.file().string(), "holds no profiles",
                      "give the experiment \"profile\": {\"prompts\": 4} and run it again");
  return reconcile(gathered);
}

Reconciliation reconcile(const Gathered& gathered) {
  Reconciliation result;
  result.baseline = gathered.experiment.arms.front().name;
  std::vector<Profiled> profiled;
  for (std::size_t i = 0; i < gathered.experiment.arms.size(); ++i) profiled.push_back(profiled_arm(gathered, i));
  const Profiled& baseline = profiled.front();
  for (const Profiled& arm : profiled) {
    result.arms.push_back(arm.arm);
    if (&arm == &baseline || !arm.arm.fault.empty() || !baseline.arm.fault.empty()) continue;
    ReconciledDifference difference = difference_of(arm.arm.arm, baseline.cells, arm.cells);
    compare_outputs(baseline.outputs, arm.outputs, difference);
    result.differences.push_back(std::move(difference));
  }
  return result;
}

}  // namespace tare::harness

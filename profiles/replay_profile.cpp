#include "profiles/replay_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "profiles/nvtx/range_backend.h"
#include "profiles/timeline/cupti_collector.h"
#include "profiles/timeline/op_collector.h"
#include "profiles/timeline/profiler_present.h"
#include "profiles/timeline/timeline.h"

namespace tare::profiles {
namespace {

constexpr const char* kWhere = "profile";

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Indices of the records of each round, in order.
std::vector<std::vector<std::size_t>> assign(const KernelRecords& records, const std::vector<RoundMark>& marks) {
  std::vector<std::size_t> order(records.records.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return records.records[a].start_ns < records.records[b].start_ns;
  });
  std::vector<std::vector<std::size_t>> rounds(marks.size());
  std::size_t round = 0;
  for (const std::size_t index : order) {
    const KernelRecord& record = records.records[index];
    const std::int64_t middle = record.start_ns + (record.end_ns - record.start_ns) / 2;
    while (round < marks.size() && middle > marks[round].end_ns) ++round;
    if (round == marks.size()) break;
    if (middle >= marks[round].begin_ns) rounds[round].push_back(index);
  }
  return rounds;
}

DeclaredRounds declared_rounds(const std::vector<RoundMark>& marks, const DeclaredLaunches& declared) {
  DeclaredRounds rounds;
  std::map<std::pair<int, bool>, std::size_t> kinds;  // by nodes and whether there was a draft
  std::vector<std::size_t> kind_of;
  for (const RoundMark& mark : marks) {
    const auto [kind, is_new] = kinds.try_emplace({mark.nodes, mark.drafted}, rounds.kinds.size());
    if (is_new) rounds.kinds.push_back(declared(mark.nodes, mark.drafted));
    kind_of.push_back(kind->second);
  }
  rounds.kind_of = [kind_of = std::move(kind_of)](std::size_t round) { return kind_of[round]; };
  rounds.context_of = [marks](std::size_t round) { return marks[round].context; };
  return rounds;
}

}  // namespace

ReplayProfile make_replay_profile(const KernelRecords& records, const std::vector<RoundMark>& marks,
                                  const DeclaredLaunches& declared, const std::vector<bool>& left_out) {
  if (marks.empty()) throw Error(ErrorKind::kInvalid, "the replay had no rounds to profile", kWhere);
  const bool labelled = !records.labels.empty();
  if (labelled && records.labels.size() != records.records.size())
    throw internal_error("a collector gave records and labels of different numbers");

  if (!left_out.empty() && left_out.size() != marks.size())
    throw internal_error(
        fmt::format("{} rounds were marked, and {} are to count or not", marks.size(), left_out.size()));

  const std::vector<std::vector<std::size_t>> assigned = assign(records, marks);
  std::vector<std::vector<std::size_t>> indices;  // of the rounds that count
  std::vector<RoundMark> counted;
  std::vector<std::vector<KernelRecord>> rounds;
  for (std::size_t r = 0; r < assigned.size(); ++r) {
    if (!left_out.empty() && left_out[r]) continue;
    if (assigned[r].empty())
      throw Error(ErrorKind::kInvalid, fmt::format("round {} of {} has no records", r + 1, marks.size()), kWhere);
    indices.push_back(assigned[r]);
    counted.push_back(marks[r]);
    std::vector<KernelRecord>& round = rounds.emplace_back();
    for (const std::size_t index : assigned[r]) round.push_back(records.records[index]);
  }
  ReplayProfile profile;
  profile.rounds = static_cast<std::int64_t>(rounds.size());
  profile.dropped = records.dropped;
  profile.invalid = records.invalid;
  profile.of_ops = labelled;
  if (labelled) {
    const auto label_of = [&](std::size_t r, std::size_t i) { return records.labels[indices[r][i]]; };
    static_cast<RoundTable&>(profile) = make_round_table(rounds, records.names, records.launches, label_of);
    profile.round = median_round(profile, rounds, records.names, records.launches, label_of);
    return profile;
  }
  const MatchedLaunches matched = match_launches(rounds, declared_rounds(counted, declared));
  profile.unmatched = matched.unmatched;
  const auto label_of = [&](std::size_t r, std::size_t i) { return matched.labels[r][i]; };
  static_cast<RoundTable&>(profile) = make_round_table(rounds, records.names, matched.launches, label_of);
  profile.round = median_round(profile, rounds, records.names, matched.launches, label_of);
  return profile;
}

// Notes the round ranges of the backend that it is told about.
class ReplayProfiler::Marks final : public RangeSink {
 public:
  void push(const char* name) override {
    ++depth_;
    if (round_depth_ > 0 && std::strcmp(name, kDraftRange) == 0) marks_.back().drafted = true;
    if (std::strcmp(name, kRoundRange) != 0) return;
    round_depth_ = depth_;
    marks_.push_back({.begin_ns = now_ns()});
  }
  void verifies(int nodes) override {
    if (round_depth_ > 0) marks_.back().nodes = nodes;
  }
  void pop() override {
    if (depth_ == round_depth_) {
      marks_.back().end_ns = now_ns();
      marks_.back().context = backend_->frontier();
      round_depth_ = 0;
    }
    --depth_;
  }
  void watch(const engine::Backend& backend) { backend_ = &backend; }
  std::vector<RoundMark> take() { return std::exchange(marks_, {}); }

 private:
  const engine::Backend* backend_ = nullptr;
  std::vector<RoundMark> marks_;
  int depth_ = 0;
  int round_depth_ = 0;  // of the open round; 0: none
};

ReplayProfiler::ReplayProfiler(std::unique_ptr<engine::Backend> backend,
                               const std::function<std::unique_ptr<KernelCollector>(engine::Backend&)>& make_collector)
    : marks_(std::make_shared<Marks>()) {
  marks_->watch(*backend);
  backend_ = with_ranges(std::move(backend), marks_);
  collector_ = make_collector(*backend_);
}

ReplayProfiler::~ReplayProfiler() = default;

void ReplayProfiler::begin() {
  collector_->start();
  (void)collector_->take();
  (void)marks_->take();
}

ReplayProfile ReplayProfiler::end(const std::vector<bool>& left_out) {
  const KernelRecords records = collector_->take();
  const auto declared = [this](int nodes, bool drafted) {
    std::vector<engine::LaunchRecord> launches;
    if (drafted) launches = backend_->draft_launches();
    for (engine::LaunchRecord& launch : backend_->launches(nodes)) launches.push_back(std::move(launch));
    return launches;
  };
  return make_replay_profile(records, marks_->take(), declared, left_out);
}

std::unique_ptr<KernelCollector> make_collector_of(engine::Backend& backend) {
  if (backend.options().backend == engine::BackendKind::kCpu) return make_op_collector(backend);
  refuse_second_profiler();
  std::unique_ptr<KernelCollector> collector = make_cupti_collector();
  backend.expect_driver_records();
  return collector;
}

}  // namespace tare::profiles

// Where the time of the rounds of a replay goes: kernel by kernel or op by op, while a worker walks a text. The launch
// that does this is never the timed one (round_profile.h profiles rounds of random tokens in one process).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "profiles/timeline/kernel_records.h"
#include "profiles/timeline/median_round.h"
#include "profiles/timeline/round_table.h"

namespace tare::profiles {

// Means over the replay's rounds; the prefill is left out.
struct ReplayProfile : RoundTable {
  std::int64_t rounds = 0;    // that count
  std::uint64_t dropped = 0;  // records that the collector lost; the reader of the profile judges whether it stands
  std::uint64_t invalid = 0;  // records without valid times, left out
  bool of_ops = false;        // of the CPU, not kernels of a GPU
  std::string unmatched;      // why records carry no declared launch; empty when they do
  std::vector<RoundLaunch> round;  // the one of median span
};

// When a round began and ended on the steady clock, how many tokens the caches held at its end, and what it was.
struct RoundMark {
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t context = 0;
  int nodes = 1;         // of its verify
  bool drafted = false;  // before it
};

// What a round of that many nodes declares, for collectors that are told no labels.
using DeclaredLaunches = std::function<std::vector<engine::LaunchRecord>(int nodes, bool drafted)>;

// Sums up what lies within the marks, a record by its middle. Throws Error (invalid): no marks, a round without
// records.
// `left_out`: one a mark, rounds that do not count (stats/stalls.h); empty: all do.
[[nodiscard]] ReplayProfile make_replay_profile(const KernelRecords& records, const std::vector<RoundMark>& marks,
                                                const DeclaredLaunches& declared,
                                                const std::vector<bool>& left_out = {});

// Owns a backend and watches its rounds.
class ReplayProfiler {
 public:
  // `make_collector` is given the backend that it may watch.
  ReplayProfiler(std::unique_ptr<engine::Backend> backend,
                 const std::function<std::unique_ptr<KernelCollector>(engine::Backend&)>& make_collector);
  ~ReplayProfiler();
  ReplayProfiler(const ReplayProfiler&) = delete;
  ReplayProfiler& operator=(const ReplayProfiler&) = delete;

  [[nodiscard]] engine::Backend& backend() const { return *backend_; }
  // Forgets what was recorded before the replay.
  void begin();
  // What the replay since begin() did. Throws like make_replay_profile.
  [[nodiscard]] ReplayProfile end(const std::vector<bool>& left_out = {});

 private:
  class Marks;
  std::shared_ptr<Marks> marks_;
  std::unique_ptr<engine::Backend> backend_;
  std::unique_ptr<KernelCollector> collector_;
};

// Of the backend's kind: op timers on the CPU, CUPTI on CUDA. Throws what the collector throws, and Error (environment)
// for CUDA under another profiler (profiler_present.h).
[[nodiscard]] std::unique_ptr<KernelCollector> make_collector_of(engine::Backend& backend);

}  // namespace tare::profiles

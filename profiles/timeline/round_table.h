// Where the time of rounds goes, kernel by kernel: the table that every source of records is summed into.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/launch_record.h"
#include "profiles/timeline/kernel_records.h"

namespace tare::profiles {

// Launches of one kind: the same kernel on the same part of every layer; or copies of one kind.
struct KernelRow {
  std::string kernel;         // shortened name, from the record
  std::string launch;         // as the backend declares it; empty when launches could not be matched
  std::string part;           // likewise, or the ranges around the launch; "layers.3." written as "layers.*."
  double calls = 0;           // a round
  double us = 0;              // a round: mean of the sums of completion intervals
  double duration_us = 0;     // a round: mean of the sums of durations, waiting for predecessors included
  double declared_bytes = 0;  // a round; 0: not known
};

// Means over rounds. The rows' us and idle_us add up to span_us.
struct RoundTable {
  double span_us = 0;  // first kernel's start to last kernel's end
  double idle_us = 0;  // no kernel runs, within the span
  double kernels = 0;  // a round, copies among them
  std::uint64_t records = 0;
  std::vector<KernelRow> rows;  // most time first
};

// `names` as in KernelRecords, `label_of(round, i)` for record i of a round. Every round has at least one record.
[[nodiscard]] RoundTable make_round_table(const std::vector<std::vector<KernelRecord>>& rounds,
                                          std::span<const std::string> names,
                                          std::span<const engine::LaunchRecord> launches,
                                          const std::function<RecordLabel(std::size_t, std::size_t)>& label_of);

// What records that carry no labels of their own are: kernel k of a round is launch k as the backend declares it for a
// round of that kind, a copy is none of those and has its own bytes.
struct MatchedLaunches {
  std::string unmatched;                         // why kernels carry no declared launch; empty when they do
  std::vector<engine::LaunchRecord> launches;    // the declared ones, kind by kind, when they match; one without words
  std::vector<std::vector<RecordLabel>> labels;  // of every record of every round
};

// Rounds of a walk differ: one has a draft before its verify, the last verifies fewer nodes.
struct DeclaredRounds {
  std::vector<std::vector<engine::LaunchRecord>> kinds;
  std::function<std::size_t(std::size_t)> kind_of;  // of a round; not set: all are of the first
  // Tokens that the caches held at a round's end, for what a launch reads of them.
  std::function<std::int64_t(std::size_t)> context_of;
};
[[nodiscard]] MatchedLaunches match_launches(const std::vector<std::vector<KernelRecord>>& rounds,
                                             const DeclaredRounds& declared);

}  // namespace tare::profiles

// `tare compare DIR DIR ...`: the same arms in several run directories. Side by side what each of them found; what
// differed in their conditions; and one effect over all sittings with the spread between them (stats/pooling.h).
//
// A unit of pooling is a sitting: one call of `tare run`. A directory that was measured in several calls counts as so
// many sittings when each of them has blocks enough for an interval of its own, else as one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "stats/effect.h"
#include "stats/pooling.h"

namespace tare::harness {

struct ComparedDirectory {
  std::string path;  // as given
  std::string experiment;
  std::string experiment_digest;
  std::int64_t started_utc_ns = 0;  // of its first counted run
  std::size_t blocks = 0;           // complete
  std::size_t sittings = 0;         // with counted runs
  bool split = false;               // its sittings are units of their own
};

// Of one arm in one directory; absent where the directory has no such arm.
struct DirectoryEffect {
  std::size_t directory = 0;
  stats::Estimate estimate;  // of the whole directory: this suite, any launch
};

struct Unit {
  std::string name;  // "runs/a", "runs/a, sitting 2"
  stats::Estimate estimate;
  bool of_sitting = false;  // of a directory that was split
};

struct ComparedArm {
  std::string name;
  std::vector<DirectoryEffect> directories;
  std::vector<Unit> units;                    // that can be pooled
  std::optional<stats::PooledEffect> pooled;  // from two units on
  bool agree = true;                          // the units do not differ beyond their own errors, at alpha
};

struct ConditionDifference {
  std::string what;  // "gpu", "driver", "checkpoint", "harness", "machine", "experiment"
  std::string text;  // "driver: 580.65 in runs/a; 590.10 in runs/b"
};

struct Comparison {
  std::string baseline;  // arm
  double level = 0.95;
  std::vector<ComparedDirectory> directories;
  std::vector<ConditionDifference> differences;
  std::vector<ComparedArm> arms;           // that two directories or more have, in the first one's order
  std::vector<std::string> arms_left_out;  // that one directory alone has
};

// In the effect's measure, decode speed. Throws Error: input (fewer than two directories, one twice or a copy of
// another, no ledger), invalid (a run that is invalid by itself; other texts, another granularity, a baseline or an arm
// of the same name with other options; no arm in common), naming both sides.
[[nodiscard]] Comparison compare_runs(const std::vector<std::filesystem::path>& directories);

[[nodiscard]] std::string comparison_text(const Comparison& comparison);
[[nodiscard]] Json to_json(const Comparison& comparison);

}  // namespace tare::harness

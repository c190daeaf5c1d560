// The measure table: every quantity an experiment can compare, under the name used in experiment files, the ledger's
// analysis, verdict.json and the report. A new measure is one entry here.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tare::harness {

enum class Measure {
  kDecodeSpeed,       // tokens a second over decode rounds only: the effect; the verdict rests on it
  kTimeToFirstToken,  // seconds from the request to its first token, as the worker's clock sees it
  kPrefillSpeed,      // prompt tokens a second
  kPeakMemory,        // largest resident set of the worker process during a launch
  kTokensPerRound,    // tokens that a decode round commits
  kRoundTime,         // of a decode round: tokens a round over round time is decode speed
  kEnergyPerToken,    // joules of the arm's GPU from before a run to after it, over the run's tokens
};

struct MeasureDescription {
  Measure measure = Measure::kDecodeSpeed;
  std::string name;   // "decode_speed"
  std::string title;  // "decode speed"
  std::string unit;   // "tok/s"
  bool higher_is_better = true;
  std::string meaning;
  bool by_default = true;  // measured when an experiment names no measures
};

// All measures, in the order in which they are reported.
[[nodiscard]] std::span<const MeasureDescription> measure_table();
[[nodiscard]] const MeasureDescription& describe(Measure measure);
[[nodiscard]] std::vector<std::string> measure_names();
// Throws Error (input) with the nearest name when there is no such measure.
[[nodiscard]] Measure measure_of(std::string_view name);

}  // namespace tare::harness

#include "harness/experiment/measures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"

namespace tare::harness {
namespace {

const std::array<MeasureDescription, 7>& table() {
  static const std::array<MeasureDescription, 7> entries = {{
      {Measure::kDecodeSpeed, "decode_speed", "decode speed", "tok/s", true,
       "tokens committed by decode rounds over the seconds of those rounds, all prompts of a run"},
      {Measure::kTimeToFirstToken, "time_to_first_token", "time to first token", "ms", false,
       "from a request to its first token by the worker's clock, mean over the prompts of a run"},
      {Measure::kPrefillSpeed, "prefill_speed", "prefill speed", "tok/s", true,
       "prompt tokens over the seconds of their forward passes, all prompts of a run"},
      {Measure::kPeakMemory, "peak_memory", "peak memory", "bytes", false,
       "largest resident set of the worker process during a launch"},
      // Not by default: the two factors of decode speed, which say the same as it does where every round commits one.
      {Measure::kTokensPerRound, "tokens_per_round", "tokens a round", "tokens", true,
       "tokens committed by decode rounds over the number of those rounds, all prompts of a run", false},
      {Measure::kRoundTime, "round_time", "time of a round", "us", false,
       "time of decode rounds over their number, all prompts of a run", false},
      // Not by default: it needs a GPU, and experiments that named no measures must stay the same experiments.
      {Measure::kEnergyPerToken, "energy_per_token", "GPU energy a token", "mJ", false,
       "by the GPU's energy counter from before a run to after it, prefill and pauses included, over its tokens",
       false},
  }};
  return entries;
}

}  // namespace

std::span<const MeasureDescription> measure_table() {
  return table();
}

const MeasureDescription& describe(Measure measure) {
  const auto found =
      std::find_if(table().begin(), table().end(), [&](const auto& entry) { return entry.measure == measure; });
  if (found == table().end()) throw internal_error("a measure is missing in the measure table");
  return *found;
}

std::vector<std::string> measure_names() {
  std::vector<std::string> names;
  for (const MeasureDescription& entry : table()) names.push_back(entry.name);
  return names;
}

Measure measure_of(std::string_view name) {
  for (const MeasureDescription& entry : table())
    if (entry.name == name) return entry.measure;
  throw input_error("", fmt::format("unknown measure '{}'", name), name_hint(name, measure_names()));
}

}  // namespace tare::harness

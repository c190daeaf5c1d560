// One measure of the counted runs as the statistics want it: prompts x runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/analysis/gathered.h"
#include "stats/analysis.h"
#include "stats/observations.h"

namespace tare::harness {

struct MeasuredValues {
  stats::Observations observations;
  bool by_prompt = true;    // false: one value a launch, so there are no prompts to resample
  std::string why_missing;  // when it was not measured in every run; observations are empty then
};

// Rates and amounts are in the measure's unit.
[[nodiscard]] MeasuredValues measured_values(const Gathered& gathered, Measure measure);

// What the experiment's granularity is to the statistics.
[[nodiscard]] stats::Granularity granularity_of(const Experiment& experiment);
[[nodiscard]] stats::Multiplicity multiplicity_of(const Experiment& experiment);
[[nodiscard]] stats::Direction direction_of(Measure measure);

// Sum of the counted runs' numerators over that of their denominators, for one arm: the arm's value of the measure.
[[nodiscard]] double arm_value(const stats::Observations& observations, int arm);

}  // namespace tare::harness

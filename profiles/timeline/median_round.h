// One round launch by launch, of many that a table sums up: the one of median span.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "profiles/timeline/round_table.h"

namespace tare::profiles {

// Microseconds from the round's first begin.
struct RoundLaunch {
  std::size_t row = 0;  // of the table
  double begin_us = 0;
  double alone_us = 0;  // end less the completion interval: these last parts of all launches do not overlap
  double end_us = 0;
};

// In order of their begin. `table` is what make_round_table made of the same arguments.
[[nodiscard]] std::vector<RoundLaunch> median_round(
    const RoundTable& table, const std::vector<std::vector<KernelRecord>>& rounds, std::span<const std::string> names,
    std::span<const engine::LaunchRecord> launches,
    const std::function<RecordLabel(std::size_t, std::size_t)>& label_of);

}  // namespace tare::profiles

// Rounds of one walk that something held up: another process on the core, a hypervisor, a page fault storm.
//
// A round is stalled when it took more than kStallFactor times the median of its walk. The rounds of a walk do nearly
// the same work, so a limit far from the median takes no work for a stall, and the median does not move when fewer than
// half of the rounds are stalled. Not for weighing configurations: what holds one up may be its own doing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tare::stats {

// On a shared machine a stall is a turn of the scheduler, several milliseconds against rounds of a fraction of one;
// clocks and neighbours on the bus change a round by less than twice.
constexpr double kStallFactor = 3;

// For every round whether it was stalled.
[[nodiscard]] std::vector<bool> stalled_rounds(std::span<const std::int64_t> durations_ns);

}  // namespace tare::stats

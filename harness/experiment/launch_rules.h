// What an arm must and must not launch, as an experiment states it: exact names, or with a star at one end or both.
// The names are those of `tare profile` and `tare reconcile`: kernels, and launches as the engine declares them.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/experiment/experiment.h"

namespace tare::harness {

// "gdn*" begins with, "*gate" ends with, "*norm*" contains; without a star the whole name.
[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view name);
// Why a text is no pattern; empty when it is one: a star elsewhere than at the ends, nothing beside stars.
[[nodiscard]] std::string pattern_fault(std::string_view pattern);

[[nodiscard]] bool has_launch_rules(const Arm& arm);
// What one twin launch of an arm broke, a sentence each: "arm 'q4' launched 'product q8', which it must not". Empty:
// the path that ran is the one that was meant.
[[nodiscard]] std::vector<std::string> broken_launch_rules(const Arm& arm, const std::set<std::string>& launched);

}  // namespace tare::harness

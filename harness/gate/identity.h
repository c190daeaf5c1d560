// What a number belongs to: which GPU, driver, checkpoint, harness and machine. Numbers of different ones do not
// compare unless the policy says that they may (docs/protocol/policy.md, may_differ).
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/analysis/gathered.h"

namespace tare::harness {

// Values by the words of kDifferences; a side that does not know one (no GPU) has an empty set.
using Identity = std::map<std::string, std::set<std::string>>;

// Of all sittings of a run directory, and of the counted launches of one arm (index into the experiment's arms).
[[nodiscard]] Identity identity_of(const Gathered& gathered, std::size_t arm);

struct IdentityDifference {
  std::string what;  // of kDifferences
  std::string text;  // "gpu: NVIDIA H200 (GPU-1) here, NVIDIA H100 (GPU-2) in the baseline"
};
// Every word whose values differ, or that one side alone does not know; more than one value on a side is a difference
// too, since it was not one machine then.
[[nodiscard]] std::vector<IdentityDifference> differences(const Identity& here, const Identity& baseline);

}  // namespace tare::harness

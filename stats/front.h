// Which of several things, each with a gain and a loss, are not beaten in both (the non-dominated, or Pareto, front).
#pragma once

#include <span>
#include <vector>

namespace tare::stats {

// For every i whether no j has at least its gain and at most its loss, one of the two strictly. NaN in either: false,
// and it beats nothing. It compares numbers as they are: whether two of them differ is another question (intervals).
// gain and loss have one length, else Error (internal).
[[nodiscard]] std::vector<bool> non_dominated(std::span<const double> gain, std::span<const double> loss);

}  // namespace tare::stats

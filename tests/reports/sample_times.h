// Times of rounds for tests and for looking at: made up, but their parts add up as real ones do.
#pragma once

#include <cstddef>
#include <string>

#include "reports/findings.h"

namespace tare::reports::sample {

// q8, q4 and q8 again on the CPU, op by op, of `findings` of three arms; q8 again has a host below zero (its profile is
// longer than its timed round). With a round and a read rate.
void add_op_times(Findings& findings);

// One arm on a GPU, `kinds` kinds of kernels that wait for each other while they are on the GPU already; 64 layers.
void add_kernel_times(Findings& findings, std::size_t kinds);

// Every name of the times replaced.
void rename_times(Times& times, const std::string& name);

}  // namespace tare::reports::sample

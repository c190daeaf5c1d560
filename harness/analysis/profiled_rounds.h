// One round of every arm, launch by launch, as the report draws it.
#pragma once

#include "harness/analysis/gathered.h"
#include "reports/findings.h"

namespace tare::harness {

// Gives every arm of `times` the round of its first prompt's first profile that holds one: the same prompt for all arms
// that were profiled whole. Profiles of workers that send none, and of older ledgers, leave it empty.
void add_profiled_rounds(reports::Times& times, const Gathered& gathered);

}  // namespace tare::harness

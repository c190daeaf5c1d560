// A table of kernels as the commands print it, whatever recorded them.
#pragma once

#include <string>

#include "base/json_reader.h"
#include "profiles/timeline/round_table.h"

namespace tare::harness {

// One object a row.
[[nodiscard]] Json kernel_rows_json(const profiles::RoundTable& table);

// Rows, idle time and span, in microseconds a round. The words say what span and idle time are of.
void print_kernel_table(const profiles::RoundTable& table, const std::string& span_words,
                        const std::string& idle_words = "idle between kernels");

}  // namespace tare::harness

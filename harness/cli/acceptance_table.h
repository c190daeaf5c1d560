// How the command line shows acceptance.
#pragma once

#include "base/json_reader.h"
#include "forced/acceptance.h"

namespace tare::harness {

void print_acceptance(const forced::Acceptance& acceptance);
[[nodiscard]] Json to_json(const forced::Acceptance& acceptance);

}  // namespace tare::harness

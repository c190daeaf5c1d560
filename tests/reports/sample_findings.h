// Findings for tests and for looking at: made up, but of the shape and size of a real experiment.
#pragma once

#include "reports/findings.h"

namespace tare::reports::sample {

// Three arms (q8, q4, q8 under another name), 64 prompts, one block of 18 runs after three warm-up runs, one
// interrupted run, a linear drift. Numbers come from a fixed seed.
[[nodiscard]] Findings three_arms();

// Two arms, the second with a known handicap of 1 %; ten blocks at granularity "prompt"; no drift fit.
[[nodiscard]] Findings handicap();

// A full matrix of three weight formats, two caches and two thread counts; q3 with int8 is left out: 10 arms, with an
// interaction. And the same factors one at a time: 5 arms.
[[nodiscard]] Findings matrix();
[[nodiscard]] Findings one_at_a_time();

// three_arms with every name and text replaced by something that a format could trip over.
[[nodiscard]] Findings hostile();

// three_arms as it is when validation failed: no values and no effects.
[[nodiscard]] Findings invalid();

// The characters that hostile() puts into names.
[[nodiscard]] const std::string& hostile_name();

}  // namespace tare::reports::sample

// How much the GPU tests do where compute-sanitizer watches every access, a hundred times slower: with TARE_SANITIZED
// set (scripts/sanitize sets it) they make fewer tokens, rounds, prompts or repeats of the same kernels, and say so.
// What kernels run, in which formats and shapes, is never less; what needs the whole amount (times, floors of an
// average) is not judged.
#pragma once

#include <iostream>

#include "base/file.h"

namespace tare::engine::test {

inline bool sanitized() {
  static const bool set = environment_variable("TARE_SANITIZED").has_value();
  return set;
}

// `whole`, or `least` under a sanitizer.
template <class Count>
Count amount(const char* what, Count whole, Count least) {
  if (!sanitized()) return whole;
  std::cout << "[SANITIZED ] " << what << ": " << least << " of " << whole << std::endl;
  return least;
}

}  // namespace tare::engine::test

// How much the GPU tests do where compute-sanitizer watches every access, a hundred times slower: with TARE_SANITIZED
// set (scripts/sanitize sets it) they make fewer tokens, rounds, prompts, places or repeats of the same kernels, and
// say so. What kernels run, in which formats and shapes, is never less; what needs the whole amount (times, floors of
// an average) is not judged.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"

namespace tare::engine::test {

inline bool sanitized() {
  static const bool set = environment_variable("TARE_SANITIZED").has_value();
  return set;
}

// Once a test.
template <class Count>
void say_less(const char* what, Count least, Count whole) {
  static std::set<std::string> said;
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  if (!said.insert(std::string(test->test_suite_name()) + "." + test->name() + " " + what).second) return;
  std::cout << "[SANITIZED ] " << what << ": " << least << " of " << whole << std::endl;
}

// `whole`, or `least` under a sanitizer.
template <class Count>
Count amount(const char* what, Count whole, Count least) {
  if (!sanitized()) return whole;
  say_less(what, least, whole);
  return least;
}

// All, or the last `least` under a sanitizer.
template <class Value>
std::vector<Value> some(const char* what, std::initializer_list<Value> all, std::size_t least) {
  const std::size_t kept = amount(what, all.size(), least);
  return {all.end() - kept, all.end()};
}

}  // namespace tare::engine::test

// How much the GPU tests do where compute-sanitizer watches every access: with TARE_SANITIZED set to the tool's name
// (scripts/sanitize-gpu sets it) they make fewer tokens, rounds, prompts, places or repeats of the same kernels, and
// say so; under racecheck, which follows shared memory on the host and is ten times slower than memcheck, fewer still.
// Over all tests every kernel runs, in every format and shape; what needs the whole amount (times, floors of an
// average) is not judged.
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
inline bool racechecked() {
  static const bool set = environment_variable("TARE_SANITIZED") == "racecheck";
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

// `whole`, or `memchecked` under memcheck, or `raced` under racecheck.
template <class Count>
Count amount(const char* what, Count whole, Count memchecked, Count raced) {
  const Count count = !sanitized() ? whole : racechecked() ? raced : memchecked;
  if (count != whole) say_less(what, count, whole);
  return count;
}
template <class Count>
Count amount(const char* what, Count whole, Count least) {
  return amount(what, whole, least, least);
}

// All, or so many of the last ones.
template <class Value>
std::vector<Value> some(const char* what, std::initializer_list<Value> all, std::size_t memchecked, std::size_t raced) {
  const std::size_t kept = amount(what, all.size(), memchecked, raced);
  return std::vector<Value>(all.end() - kept, all.end());
}
template <class Value>
std::vector<Value> some(const char* what, std::initializer_list<Value> all, std::size_t least) {
  return some(what, all, least, least);
}

// All, or the last `least` under memcheck, or under racecheck one of those, another at every turn.
template <class Value>
std::vector<Value> in_turn(const char* what, std::initializer_list<Value> all, std::size_t least, std::size_t turn) {
  if (!racechecked()) return some(what, all, least);
  say_less(what, std::size_t{1}, all.size());
  return {*(all.end() - least + turn % least)};
}

// For two loops, one of `count`: all pairs, or under racecheck those with one of the `count` for each of the other
// loop.
inline bool has_turn(const char* what, std::size_t of_count, std::size_t other, std::size_t count) {
  if (!racechecked()) return true;
  say_less(what, std::size_t{1}, count);
  return (of_count + other) % count == 0;
}

}  // namespace tare::engine::test

// First in a test of numbers, a control most often, whose launches are another test's, too: racecheck, which looks at
// the order of accesses, has seen them there.
#define TARE_SKIP_WHERE_RACECHECKED(other)                                                              \
  do {                                                                                                  \
    if (::tare::engine::test::racechecked()) GTEST_SKIP() << "racecheck sees these launches in " other; \
  } while (false)

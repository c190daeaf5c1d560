// One program for all targets under libFuzzer; the first argument after the program's name is taken off: --target=NAME.
// With --seeds=DIR it writes the target's seeds there and ends.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/file.h"
#include "tests/fuzz/targets.h"

namespace {

const tare::fuzz::Target* chosen = nullptr;

const char* value_of(const char* argument, const char* name) {
  const std::size_t length = std::strlen(name);
  return std::strncmp(argument, name, length) == 0 ? argument + length : nullptr;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  static const std::vector<tare::fuzz::Target> targets = tare::fuzz::all_targets();
  int kept = 1;
  const char* seeds = nullptr;
  for (int i = 1; i < *count; ++i) {
    char* argument = (*arguments)[i];
    if (const char* name = value_of(argument, "--target="); name != nullptr) {
      for (const tare::fuzz::Target& target : targets)
        if (target.name == name) chosen = &target;
    } else if (const char* folder = value_of(argument, "--seeds="); folder != nullptr) {
      seeds = folder;
    } else {
      (*arguments)[kept++] = argument;
    }
  }
  *count = kept;
  if (chosen == nullptr) {
    std::fprintf(stderr, "error: no such target; there are:");
    for (const tare::fuzz::Target& target : targets) std::fprintf(stderr, " %s", target.name.c_str());
    std::fprintf(stderr, "\n");
    std::exit(2);
  }
  if (seeds != nullptr) {
    for (std::size_t i = 0; i < chosen->seeds.size(); ++i)
      tare::write_file_atomically(std::string(seeds) + "/seed-" + std::to_string(i), chosen->seeds[i]);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)tare::fuzz::answer_of(*chosen, {reinterpret_cast<const char*>(data), size});
  return 0;
}

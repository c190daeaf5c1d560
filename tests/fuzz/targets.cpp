#include "tests/fuzz/targets.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "base/error.h"

namespace tare::fuzz {

std::vector<Target> all_targets() {
  std::vector<Target> targets = engine_targets();
  for (Target& target : harness_targets()) targets.push_back(std::move(target));
  return targets;
}

void with_file(std::string_view bytes, const std::string& name, const std::function<void(const std::string&)>& parse) {
  // One folder a process: fuzzers run beside each other.
  static const std::filesystem::path folder = [] {
    const auto path = std::filesystem::temp_directory_path() / ("tare-fuzz-" + std::to_string(getpid()));
    std::filesystem::create_directories(path);
    return path;
  }();
  const std::filesystem::path file = folder / name;
  {
    std::ofstream stream(file, std::ios::binary | std::ios::trunc);
    stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  parse(file.string());
}

Answer answer_of(const Target& target, std::string_view bytes) {
  try {
    target.parse(bytes);
    return Answer::kValue;
  } catch (const Error&) {
    return Answer::kError;
  }
}

}  // namespace tare::fuzz

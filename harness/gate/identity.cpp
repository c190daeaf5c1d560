#include "harness/gate/identity.h"

#include <fmt/format.h>

#include "base/text.h"
#include "harness/gate/policy.h"

namespace tare::harness {
namespace {

constexpr const char* kUnsupported = "unsupported";  // what a sitting says of a name that could not be read

std::string text_of(const std::set<std::string>& values) {
  if (values.empty()) return "not known";
  return join(std::vector<std::string>(values.begin(), values.end()), " and ");
}

}  // namespace

Identity identity_of(const Gathered& gathered, std::size_t arm) {
  Identity identity;
  for (const std::string_view word : kDifferences) identity[std::string(word)] = {};
  for (const GpuRecord& gpu : gathered.gpus) {
    identity["gpu"].insert(fmt::format("{} ({})", gpu.facts.name, gpu.facts.uuid));
    identity["driver"].insert(gpu.facts.driver_version);
  }
  for (const SittingRecord& sitting : gathered.sittings) {
    identity["harness"].insert(sitting.harness_build.dump());
    for (const char* key : {"cpu_model", "product"}) {
      const bool named = sitting.machine.contains(key) && sitting.machine[key].is_string();
      if (named && sitting.machine[key] != kUnsupported)
        identity["machine"].insert(fmt::format("{} {}", key, sitting.machine[key].get<std::string>()));
    }
  }
  for (const CountedRun& run : gathered.counted)
    if (run.arm == arm) identity["checkpoint"].insert(gathered.launches[run.launch].checkpoint_digest);
  return identity;
}

std::vector<IdentityDifference> differences(const Identity& here, const Identity& baseline) {
  std::vector<IdentityDifference> found;
  for (const std::string_view view : kDifferences) {
    const std::string word(view);
    const std::set<std::string>& of_here = here.at(word);
    const std::set<std::string>& of_baseline = baseline.at(word);
    // A machine has two names, processor and product; of anything else a side has one.
    const bool one = word == "machine" || (of_here.size() <= 1 && of_baseline.size() <= 1);
    if (of_here == of_baseline && one) continue;
    found.push_back(
        {word, fmt::format("{}: {} here, {} in the baseline", word, text_of(of_here), text_of(of_baseline))});
  }
  return found;
}

}  // namespace tare::harness

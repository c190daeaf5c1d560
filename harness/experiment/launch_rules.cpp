#include "harness/experiment/launch_rules.h"

#include <fmt/format.h>

#include <algorithm>

namespace tare::harness {

bool matches_pattern(std::string_view pattern, std::string_view name) {
  const bool open_start = pattern.starts_with('*');
  if (open_start) pattern.remove_prefix(1);
  const bool open_end = pattern.ends_with('*');
  if (open_end) pattern.remove_suffix(1);
  if (open_start && open_end) return name.find(pattern) != std::string_view::npos;
  if (open_start) return name.ends_with(pattern);
  if (open_end) return name.starts_with(pattern);
  return name == pattern;
}

std::string pattern_fault(std::string_view pattern) {
  if (pattern.starts_with('*')) pattern.remove_prefix(1);
  if (pattern.ends_with('*')) pattern.remove_suffix(1);
  if (pattern.empty()) return "names nothing";
  if (pattern.find('*') != std::string_view::npos) return "may have a star at its ends only";
  return {};
}

bool has_launch_rules(const Arm& arm) {
  return !arm.must_launch.empty() || !arm.must_not_launch.empty();
}

std::vector<std::string> broken_launch_rules(const Arm& arm, const std::set<std::string>& launched) {
  std::vector<std::string> broken;
  const auto first_match = [&](const std::string& pattern) {
    return std::find_if(launched.begin(), launched.end(),
                        [&](const std::string& name) { return matches_pattern(pattern, name); });
  };
  for (const std::string& pattern : arm.must_launch)
    if (first_match(pattern) == launched.end())
      broken.push_back(fmt::format("arm '{}' did not launch '{}', which it must", arm.name, pattern));
  for (const std::string& pattern : arm.must_not_launch)
    if (const auto found = first_match(pattern); found != launched.end())
      broken.push_back(*found == pattern ? fmt::format("arm '{}' launched '{}', which it must not", arm.name, pattern)
                                         : fmt::format("arm '{}' launched '{}', and must not launch '{}'", arm.name,
                                                       *found, pattern));
  return broken;
}

}  // namespace tare::harness

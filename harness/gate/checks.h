// One function a section of the policy; each adds its checks.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/analysis/gathered.h"
#include "harness/gate/policy.h"
#include "reports/gate.h"

namespace tare::harness {

// Two sides of a gate: `baseline` is the same run or another one.
struct GateSides {
  const Gathered& here;
  const Gathered& baseline;
  std::size_t baseline_arm = 0;   // in the baseline's experiment
  std::vector<std::size_t> arms;  // to be judged, in here's experiment
  bool stored = false;            // baseline is another run
};

// Verdict and outcome of a rule that is kept or broken: non_inferior, worse, or invalid when it could not be seen.
[[nodiscard]] reports::GateCheck kept(std::string section, std::string name, bool holds, std::string text);
[[nodiscard]] reports::GateCheck not_seen(std::string section, std::string name, std::string text);

// Whether the rows may be compared, how many texts were validated, whether all of it was measured. True when numbers
// may be read.
[[nodiscard]] bool check_validation(const GateSides& sides, const ValidationRule& rule,
                                    std::vector<reports::GateCheck>& checks);
// GPU, driver, checkpoint, harness, machine. True when the sides are of one kind, or may differ.
[[nodiscard]] bool check_identity(const GateSides& sides, const std::set<std::string>& may_differ,
                                  std::vector<reports::GateCheck>& checks);
void check_speed(const GateSides& sides, const GatePolicy& policy, std::vector<reports::GateCheck>& checks);
void check_memory(const GateSides& sides, const MemoryRule& rule, std::vector<reports::GateCheck>& checks);
void check_launches(const GateSides& sides, const LaunchRules& rules, std::vector<reports::GateCheck>& checks);
void check_fidelity(const std::filesystem::path& directory, const forced::FidelityPolicy& rule,
                    std::vector<reports::GateCheck>& checks);

}  // namespace tare::harness

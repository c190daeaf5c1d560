// Findings of a simulated ledger.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "harness/analysis/analysis.h"
#include "tests/harness/ledger_rows.h"
#include "tests/harness/simulated_ledger.h"

namespace tare::harness {

struct Analysed {
  reports::Findings findings;
  SimulatedTruth truth;
};

inline Analysed analysed(const SimulatedRun& run) {
  const FreshFolder fresh;
  const std::filesystem::path& folder = fresh.path();
  const SimulatedTruth truth = write_simulated_ledger(run, folder);
  return {analyse(Ledger::open_for_reading(folder / kLedgerFile)), truth};
}

// A clock with all that the machine does to us: launches that differ, drift, noise, a cold first slot (the warm-up's).
inline stats::ClockModel restless_clock(std::vector<double> log_effects) {
  stats::ClockModel clock;
  clock.base_seconds = 0.05;
  clock.log_effects = std::move(log_effects);
  clock.reaction_sd = 0.002;
  clock.launch_sd = 0.002;
  clock.noise_sd = 0.005;
  clock.drift = stats::DriftKind::kLinear;
  clock.drift_size = 0.03;
  return clock;
}

inline bool has_warning(const std::vector<reports::Warning>& warnings, const std::string& code) {
  return std::any_of(warnings.begin(), warnings.end(), [&](const auto& warning) { return warning.code == code; });
}

}  // namespace tare::harness

// What on this machine would spoil a measurement, asked before there is one. The thresholds are those of rules.h.
#pragma once

#include <string>
#include <vector>

#include "harness/environment/environment.h"
#include "harness/environment/gpu.h"

namespace tare::harness {

enum class CheckState {
  kGood,
  kNote,     // worth knowing
  kSpoils,   // weakens numbers that are measured now
  kUnknown,  // cannot be read here
};
[[nodiscard]] std::string to_text(CheckState state);  // "good", "note", "spoils", "unknown"

struct Check {
  std::string name;   // stable word: "governor", "neighbours", "gpu_power_limit"
  std::string about;  // the GPU, where there may be several; else empty
  CheckState state = CheckState::kGood;
  std::string found;  // with its numbers
  std::string mend;   // what to do; empty when good
};

struct DoctorSettings {
  double seconds = 2;  // of watching; at least 1, for the kernel counts in hundredths
  SystemFiles files;
  std::string nvml_library = kNvmlLibrary;
};

struct Diagnosis {
  Machine machine;
  std::vector<Check> checks;

  [[nodiscard]] std::size_t count(CheckState state) const;
};

// Watches the machine for `seconds`, with a fixed piece of work on one core over and over: when its times scatter, so
// will those of a worker.
[[nodiscard]] Diagnosis diagnose(const DoctorSettings& settings);
[[nodiscard]] Json to_json(const Diagnosis& diagnosis);

}  // namespace tare::harness

// The machine around and during measured runs: readings before, by the sampler, and after.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/driver/launch.h"
#include "harness/environment/gpu.h"
#include "harness/environment/sampler.h"
#include "harness/ledger/ledger.h"

namespace tare::harness {

// The GPUs that launches name, opened through NVML when the first one is asked for: an experiment without a GPU never
// opens it.
class GpusOfSitting {
 public:
  GpusOfSitting(Ledger& ledger, std::int64_t sitting) : ledger_(&ledger), sitting_(sitting) {}
  // Null for an empty id, and for a GPU that NVML does not give; the ledger then says why.
  [[nodiscard]] const GpuDevice* find(const std::string& pci_bus_id);

 private:
  Ledger* ledger_;
  std::int64_t sitting_;
  std::unique_ptr<Nvml> nvml_;
  std::map<std::string, std::optional<GpuDevice>> devices_;
};

// Runs that are measured together: one at granularity run, one an arm at granularity prompt.
class RunWatch {
 public:
  struct Run {
    std::int64_t run_id = 0;
    const Launch* launch = nullptr;
    double sampler_hz = 0;  // 0: no sampler
  };
  // Reads and stores what is before the runs, then starts the samplers. Launches of `runs` outlive this object.
  // `companions`: process groups that are ours and not measured; they are no neighbours.
  RunWatch(Ledger& ledger, GpusOfSitting& gpus, const std::vector<int>& pinned_cores, const std::vector<Run>& runs,
           const std::vector<pid_t>& companions);

  // The run's sampler reads between the two.
  void replay_begins(std::int64_t run_id);
  void replay_ends(std::int64_t run_id);

  // After the last replay of all runs: ends all samplers. Then the samples of each run, the sampler's and what is after
  // it, can be asked for once.
  void end();
  [[nodiscard]] std::vector<StoredSample> samples(std::int64_t run_id);

 private:
  struct Entry {
    Watched watched;
    std::unique_ptr<Sampler> sampler;  // null: none
  };
  std::map<std::int64_t, Entry> runs_;
  std::map<std::int64_t, std::vector<StoredSample>> samples_;
};

}  // namespace tare::harness

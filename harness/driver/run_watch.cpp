#include "harness/driver/run_watch.h"

#include <utility>

#include "base/error.h"
#include "harness/driver/log.h"

namespace tare::harness {

const GpuDevice* GpusOfSitting::find(const std::string& pci_bus_id) {
  if (pci_bus_id.empty()) return nullptr;
  const auto known = devices_.find(pci_bus_id);
  if (known != devices_.end()) return known->second ? &*known->second : nullptr;
  std::optional<GpuDevice>& device = devices_[pci_bus_id];
  try {
    if (!nvml_) nvml_ = std::make_unique<Nvml>();
    device = nvml_->device(pci_bus_id);
    ledger_->store_gpu(sitting_, device->facts());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kEnvironment || device) throw;  // a ledger that cannot be written is another matter
    GpuFacts facts;
    facts.pci_bus_id = pci_bus_id;
    facts.missing.push_back({"everything", error.what()});
    ledger_->store_gpu(sitting_, facts);
    log_warning("no readings of GPU {}: {}", pci_bus_id, error.what());
  }
  return device ? &*device : nullptr;
}

RunWatch::RunWatch(Ledger& ledger, GpusOfSitting& gpus, const std::vector<int>& pinned_cores,
                   const std::vector<Run>& runs, const std::vector<pid_t>& companions) {
  std::vector<pid_t> groups = companions;
  groups.reserve(groups.size() + runs.size());
  for (const Run& run : runs) groups.push_back(run.launch->worker_pid());
  for (const Run& run : runs) runs_[run.run_id].watched = {groups, pinned_cores, gpus.find(run.launch->gpu_bus_id())};
  for (const Run& run : runs) ledger.store_sample({run.run_id, "before", sample_fully(runs_[run.run_id].watched)});
  for (const Run& run : runs)
    if (run.sampler_hz > 0)
      runs_[run.run_id].sampler = std::make_unique<Sampler>(run.sampler_hz, runs_[run.run_id].watched);
}

void RunWatch::replay_begins(std::int64_t run_id) {
  const Entry& entry = runs_.at(run_id);
  if (entry.sampler) entry.sampler->follow();
}

void RunWatch::replay_ends(std::int64_t run_id) {
  const Entry& entry = runs_.at(run_id);
  if (entry.sampler) entry.sampler->rest();
}

void RunWatch::end() {
  for (auto& [run_id, entry] : runs_) {
    if (!entry.sampler) continue;
    for (EnvironmentSample& sample : entry.sampler->finish())
      samples_[run_id].push_back({run_id, "sampler", std::move(sample)});
    entry.sampler.reset();
  }
  for (auto& [run_id, entry] : runs_) samples_[run_id].push_back({run_id, "after", sample_fully(entry.watched)});
}

std::vector<StoredSample> RunWatch::samples(std::int64_t run_id) {
  return std::move(samples_.at(run_id));
}

}  // namespace tare::harness

// One life of a worker as the ledger sees it: started, described, ended, whatever happens in between.
#pragma once

#include <cstdint>
#include <string>

#include "harness/experiment/experiment.h"
#include "harness/ledger/ledger.h"
#include "harness/worker/worker_client.h"

namespace tare::harness {

struct LaunchPlace {
  std::string purpose;      // "texts", "validation", "measurement"
  std::int64_t block = -1;  // -1 outside blocks
  std::int64_t sitting = 0;
};

class Launch {
 public:
  // Starts the arm's worker and opens its model. Throws what WorkerClient throws; a worker that was started is in the
  // ledger with its end and last words.
  Launch(const Experiment& experiment, const Arm& arm, const std::string& own_program, Ledger& ledger,
         const LaunchPlace& place);
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  // Asks the worker to end and records how it ended.
  ~Launch();

  [[nodiscard]] std::int64_t id() const { return id_; }
  [[nodiscard]] const OpenReply& opened() const { return opened_; }
  [[nodiscard]] WorkerClient& worker() { return worker_; }
  [[nodiscard]] pid_t worker_pid() const { return worker_.pid(); }  // also the number of its process group
  // Of the GPU it uses, as it says: description.device.pci_bus_id of its answer to `open`. Empty: none, or it does not
  // say.
  [[nodiscard]] std::string gpu_bus_id() const;
  // One forced or free prompt; keeps the peak memory for the record.
  TimedRun run(const RunCall& call);

 private:
  Ledger* ledger_;
  WorkerClient worker_;
  OpenReply opened_;
  std::int64_t id_ = 0;
  std::int64_t peak_memory_bytes_ = 0;

  void record_end() noexcept;
};

}  // namespace tare::harness

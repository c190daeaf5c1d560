// Keeps two `tare run` off one directory: flock on a file beside the ledger, released by the system when the process
// ends, however it ends.
#pragma once

#include <filesystem>

namespace tare::harness {

class RunLock {
 public:
  // Takes the lock on `directory`/run.lock. Throws Error (input) naming the process that holds it, or Error
  // (environment) when the directory cannot be written.
  explicit RunLock(const std::filesystem::path& directory);
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&& other) noexcept;
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();

 private:
  int file_ = -1;
};

}  // namespace tare::harness

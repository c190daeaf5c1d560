// A thread that reads the machine a few times a second while a run goes on: what happened *within* a run (a clock that
// stepped, a power cap that bit, a neighbour that came and went) is not in the readings before and after it.
//
// It lives in the harness's process, which sleeps while a worker is timed, so a worker stays exactly as it is without a
// sampler, whoever wrote it. What it costs is what it takes from the machine: every sample carries the processor time
// that it cost (EnvironmentSample::cost_ns), and an A/A experiment with and without it is in docs/results/cpu.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "harness/environment/environment.h"

namespace tare::harness {

class Sampler {
 public:
  // At rest until follow(). `rate_hz` above 0. The thread keeps off `watched.cores` when other cores are left to it.
  Sampler(double rate_hz, Watched watched, const SystemFiles& files = {});
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  // Ends the thread; waits for a sample that is being taken.
  ~Sampler();

  void follow();  // samples are taken from the next tick on
  void rest();    // none is, and nothing is read
  // Ends the thread and hands over what was read, in the order of time.
  [[nodiscard]] std::vector<EnvironmentSample> finish();

 private:
  std::chrono::nanoseconds period_;
  std::vector<int> timed_cores_;
  QuickReader reader_;
  std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  bool ended_ = false;
  bool following_ = false;
  std::vector<EnvironmentSample> samples_;
  std::thread thread_;  // last: it uses what stands above

  void run();
  void end();
};

}  // namespace tare::harness

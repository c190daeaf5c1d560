// Progress of long work on standard error: one line that is rewritten at a terminal, otherwise one line now and then.
#pragma once

#include <chrono>
#include <string>

#include "harness/driver/run_experiment.h"

namespace tare::harness {

class ProgressPrinter {
 public:
  ProgressPrinter();
  ~ProgressPrinter();
  ProgressPrinter(const ProgressPrinter&) = delete;
  ProgressPrinter& operator=(const ProgressPrinter&) = delete;

  void show(const Progress& progress);
  // Ends the rewritten line, so that other text can follow.
  void finish();

 private:
  bool terminal_;
  bool open_line_ = false;
  std::string last_phase_;
  std::chrono::steady_clock::time_point last_shown_;
};

}  // namespace tare::harness

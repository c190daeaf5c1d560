// The harness's side of one launch: starts a worker, says hello, opens the model, runs prompts, closes. A worker that
// dies, hangs past its limit or answers nonsense becomes one Error that carries its last words.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/worker/child_process.h"
#include "harness/worker/protocol.h"

namespace tare::harness {

struct WorkerLimits {
  double start_s = 120;  // from the start of the program to its answer to `open`
  double call_s = 300;   // from any other call to its answer
  double close_s = 10;   // from `close` to its answer, and from there to its end
};

// A run's reply with the same request's time as seen from outside.
struct TimedRun {
  RunReply reply;
  std::int64_t outer_ns = 0;
};

class WorkerClient {
 public:
  // Starts the program and says hello. `name` is the arm's, for errors. Throws Error: input (program not there, another
  // protocol version), environment (it died or hung; last words in the hint).
  WorkerClient(std::string name, std::vector<std::string> argv, WorkerLimits limits);

  [[nodiscard]] const HelloReply& hello() const { return hello_; }
  [[nodiscard]] pid_t pid() const { return process_.pid(); }
  [[nodiscard]] const std::vector<std::string>& argv() const { return process_.argv(); }

  // Each throws the worker's own Error (put within the arm's name), or Error (environment) when it died or hung.
  OpenReply open(const OpenCall& call);
  EncodeReply encode(const EncodeCall& call);
  TimedRun run(const RunCall& call);
  ProfileReply profile(const RunCall& call);
  // Asks it to end and waits; a worker that does not end in time is killed. Never throws.
  ExitStatus close() noexcept;

  [[nodiscard]] std::string last_words() { return process_.last_words(); }

 private:
  std::string name_;
  WorkerLimits limits_;
  ChildProcess process_;
  std::chrono::steady_clock::time_point started_;
  HelloReply hello_;

  struct Answer {
    Json json;
    std::int64_t outer_ns = 0;
  };
  Answer ask(const std::string& call, const std::string& line, std::chrono::nanoseconds timeout);
  [[nodiscard]] std::string where(const std::string& call) const;
  [[nodiscard]] std::chrono::nanoseconds start_time_left() const;
  [[nodiscard]] std::chrono::nanoseconds call_time() const;
};

}  // namespace tare::harness

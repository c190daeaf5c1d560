// A child process that speaks lines: started in a process group of its own (an interrupt at the terminal does not reach
// it), killed when its parent dies (Linux PR_SET_PDEATHSIG) or when this object goes. No orphan is left.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace tare::harness {

// How a process ended.
struct ExitStatus {
  int code = 0;  // exit code; 128 + signal when a signal ended it
  bool signalled = false;
};
// "exit code 3", "killed by signal 9 (Killed)".
[[nodiscard]] std::string to_text(const ExitStatus& status);

// No answer of a worker is near it (a profile of 27B has 2 MB); a program that never ends its line must not take all
// memory of the machine on which others are timed.
constexpr std::size_t kLongestLineBytes = std::size_t{256} << 20;

class ChildProcess {
 public:
  // Starts argv[0] (looked up in PATH when it has no '/'). Throws Error (input) when the program is not there or cannot
  // be executed. Must be called from a thread that lives as long as the child is wanted.
  explicit ChildProcess(std::vector<std::string> argv);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] const std::vector<std::string>& argv() const { return argv_; }

  enum class WriteResult { kWritten, kEnd, kTimeout };
  // Writes the line and a line break. kEnd: the child no longer reads. kTimeout: it took only a part of it, or nothing.
  // What it writes is read meanwhile, so that neither waits for the other.
  [[nodiscard]] WriteResult write_line(const std::string& line, std::chrono::nanoseconds timeout);

  enum class ReadResult { kLine, kEnd, kTimeout, kTooLong };
  // Next line of the child's standard output. kEnd: it closed its output. kTooLong: kLongestLineBytes without a line
  // break. Standard error is drained meanwhile.
  ReadResult read_line(std::string& line, std::chrono::nanoseconds timeout);

  // The end of its standard error: at most 20 lines and 4,096 bytes, printable.
  [[nodiscard]] std::string last_words();

  void close_input();
  // Waits for the end; nothing when it still runs after `timeout`.
  std::optional<ExitStatus> wait(std::chrono::nanoseconds timeout);
  // Kills the whole process group and waits.
  ExitStatus kill();

 private:
  std::vector<std::string> argv_;
  pid_t pid_ = -1;
  int input_ = -1;   // we write
  int output_ = -1;  // we read
  int error_ = -1;   // we read
  std::string pending_;
  std::size_t scanned_ = 0;  // bytes of pending_ known to hold no line break
  std::string error_text_;
  std::optional<ExitStatus> status_;

  // Waits for output or error text, and for room in the input when that is wanted; true when there was any before the
  // deadline. Output and error text are read.
  bool pump(std::chrono::steady_clock::time_point deadline, bool for_input = false);
  bool take_line(std::string& line);
};

// Absolute path of argv[0] as execvp would find it. Throws Error (input) naming the program when there is none.
[[nodiscard]] std::string find_program(const std::string& name);

}  // namespace tare::harness

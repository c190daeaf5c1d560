// Starting the built program and catching its exit code and both streams.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace tare::e2e {

struct Finished {
  int code = 0;  // exit code; 128 + signal when killed
  std::string out;
  std::string err;
};

// A program running in `folder`, its streams in files there.
class Running {
 public:
  Running(const std::vector<std::string>& argv, const std::filesystem::path& folder);
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running();

  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const;
  // What it has written to standard error so far.
  [[nodiscard]] std::string err_so_far() const;
  // True once standard error holds `text`; false when `time` is over or the program has ended without it.
  [[nodiscard]] bool says(const std::string& text, std::chrono::seconds time);
  [[nodiscard]] Finished wait();

 private:
  std::filesystem::path out_;
  std::filesystem::path err_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;

  bool poll_end();
};

[[nodiscard]] Finished run(const std::vector<std::string>& argv, const std::filesystem::path& folder);
// The program under test.
[[nodiscard]] std::string tare();

}  // namespace tare::e2e

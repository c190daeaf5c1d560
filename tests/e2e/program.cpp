#include "tests/e2e/program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "base/file.h"

namespace tare::e2e {
namespace {

std::string unique_name() {
  static std::atomic<int> count{0};
  return "program-" + std::to_string(::getpid()) + "-" + std::to_string(count++);
}

}  // namespace

std::string tare() {
  return std::string(TARE_BINARY_DIR) + "/bin/tare";
}

Running::Running(const std::vector<std::string>& argv, const std::filesystem::path& folder) {
  const std::string name = unique_name();
  out_ = folder / (name + ".out");
  err_ = folder / (name + ".err");
  std::vector<char*> arguments;
  std::vector<std::string> copy = argv;
  for (std::string& argument : copy) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  const std::string out = out_.string();
  const std::string err = err_.string();
  const std::string place = folder.string();
  pid_ = ::fork();
  if (pid_ == 0) {
    const int out_file = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    const int err_file = ::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::dup2(out_file, STDOUT_FILENO);
    ::dup2(err_file, STDERR_FILENO);
    if (::chdir(place.c_str()) == 0) ::execvp(arguments[0], arguments.data());
    ::_exit(126);
  }
  if (pid_ < 0) throw std::runtime_error("fork failed");
}

Running::~Running() {
  if (!ended_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, &status_, 0);
  }
}

void Running::signal(int number) const {
  ::kill(pid_, number);
}

std::string Running::err_so_far() const {
  return std::filesystem::exists(err_) ? read_text_file(err_) : std::string();
}

bool Running::poll_end() {
  if (!ended_) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
  return ended_;
}

bool Running::says(const std::string& text, std::chrono::seconds time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (true) {
    const bool ended = poll_end();
    if (err_so_far().find(text) != std::string::npos) return true;
    if (ended || std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

Finished Running::wait() {
  if (!ended_) ::waitpid(pid_, &status_, 0);
  ended_ = true;
  Finished finished;
  finished.code = WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
  finished.out = read_text_file(out_);
  finished.err = read_text_file(err_);
  return finished;
}

Finished run(const std::vector<std::string>& argv, const std::filesystem::path& folder) {
  return Running(argv, folder).wait();
}

}  // namespace tare::e2e

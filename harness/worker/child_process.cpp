#include "harness/worker/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "base/file.h"

namespace tare::harness {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLastWordsBytes = 4096;
constexpr std::size_t kLastWordsLines = 20;
constexpr std::size_t kReadBytes = 65536;
constexpr int kExecFailed = 127;

struct Pipe {
  int read = -1;
  int write = -1;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw Error(ErrorKind::kEnvironment, std::string("cannot make a pipe: ") + std::strerror(errno));
  return {ends[0], ends[1]};
}

void close_descriptor(int& descriptor) {
  if (descriptor >= 0) ::close(descriptor);
  descriptor = -1;
}

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 1'000'000'000));
}

ExitStatus status_of(int raw) {
  if (WIFSIGNALED(raw)) return {128 + WTERMSIG(raw), true};
  return {WEXITSTATUS(raw), false};
}

// A child that died would raise SIGPIPE in a write: it is ignored meanwhile, EPIPE tells the same.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &ignore, &before_);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;
  ~NoPipeSignal() { ::sigaction(SIGPIPE, &before_, nullptr); }

 private:
  struct sigaction before_ {};
};

// In the child, after fork: only async-signal-safe calls.
[[noreturn]] void become(char* const* argv, const char* path, const Pipe& in, const Pipe& out, const Pipe& err,
                         pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kExecFailed);  // the parent died before the line above
  ::dup2(in.read, STDIN_FILENO);
  ::dup2(out.write, STDOUT_FILENO);
  ::dup2(err.write, STDERR_FILENO);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGXFSZ, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execv(path, argv);
  constexpr std::string_view kMessage = "cannot execute the program\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  ::_exit(kExecFailed);
}

}  // namespace

std::string to_text(const ExitStatus& status) {
  if (status.signalled)
    return fmt::format("killed by signal {} ({})", status.code - 128, ::strsignal(status.code - 128));
  return fmt::format("exit code {}", status.code);
}

std::string find_program(const std::string& name) {
  const auto executable = [](const std::string& path) {
    std::error_code ignored;
    return ::access(path.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(path, ignored);
  };
  if (name.find('/') != std::string::npos) {
    if (executable(name)) return name;
  } else {
    const std::string path = environment_variable("PATH").value_or("/usr/bin:/bin");
    std::size_t begin = 0;
    while (begin <= path.size()) {
      const std::size_t end = std::min(path.find(':', begin), path.size());
      std::string candidate = path.substr(begin, end - begin) + "/" + name;
      if (executable(candidate)) return candidate;
      begin = end + 1;
    }
  }
  throw input_error(name, "is not a program that can be executed",
                    "check the arm's 'program' (path and execute permission)");
}

ChildProcess::ChildProcess(std::vector<std::string> argv) : argv_(std::move(argv)) {
  if (argv_.empty()) throw internal_error("a child process without a program");
  const std::string path = find_program(argv_.front());
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  std::vector<char*> arguments;
  for (std::string& argument : argv_) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become(arguments.data(), path.c_str(), in, out, err, parent);
  const int reason = errno;
  close_descriptor(in.read);
  close_descriptor(out.write);
  close_descriptor(err.write);
  input_ = in.write;
  output_ = out.read;
  error_ = err.read;
  if (pid_ < 0) {
    close_descriptor(input_);
    close_descriptor(output_);
    close_descriptor(error_);
    throw Error(ErrorKind::kEnvironment, std::string("cannot start a process: ") + std::strerror(reason),
                argv_.front());
  }
  ::setpgid(pid_, pid_);  // in both processes, so that it holds whichever runs first
  ::fcntl(input_, F_SETFL, O_NONBLOCK);
  ::fcntl(output_, F_SETFL, O_NONBLOCK);
  ::fcntl(error_, F_SETFL, O_NONBLOCK);
}

ChildProcess::~ChildProcess() {
  kill();
  close_descriptor(input_);
  close_descriptor(output_);
  close_descriptor(error_);
}

ChildProcess::WriteResult ChildProcess::write_line(const std::string& line, std::chrono::nanoseconds timeout) {
  if (input_ < 0) return WriteResult::kEnd;
  const Clock::time_point deadline = Clock::now() + timeout;
  const std::string text = line + "\n";
  const NoPipeSignal while_writing;
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = ::write(input_, text.data() + written, text.size() - written);
    if (count > 0) {
      written += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN) {
      if (!pump(deadline, true) && Clock::now() >= deadline) return WriteResult::kTimeout;
    } else if (errno != EINTR) {
      return WriteResult::kEnd;
    }
  }
  return WriteResult::kWritten;
}

bool ChildProcess::take_line(std::string& line) {
  const std::size_t end = pending_.find('\n', scanned_);
  if (end == std::string::npos) {
    scanned_ = pending_.size();
    return false;
  }
  line = pending_.substr(0, end);
  pending_.erase(0, end + 1);
  scanned_ = 0;
  return true;
}

bool ChildProcess::pump(Clock::time_point deadline, bool for_input) {
  // Descriptors below 0 are passed over.
  std::array<pollfd, 3> watched = {{{pending_.size() > kLongestLineBytes ? -1 : output_, POLLIN, 0},
                                    {error_, POLLIN, 0},
                                    {for_input ? input_ : -1, POLLOUT, 0}}};
  const int ready = ::poll(watched.data(), watched.size(), milliseconds_until(deadline));
  if (ready <= 0) return false;
  const auto drain = [](int& descriptor, std::string& text) {
    std::array<char, kReadBytes> buffer;
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(count));
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      close_descriptor(descriptor);
    }
  };
  if (watched[0].revents != 0) drain(output_, pending_);
  if (watched[1].revents != 0) drain(error_, error_text_);
  if (error_text_.size() > 2 * kLastWordsBytes) error_text_.erase(0, error_text_.size() - kLastWordsBytes);
  return true;
}

ChildProcess::ReadResult ChildProcess::read_line(std::string& line, std::chrono::nanoseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  while (true) {
    if (take_line(line)) return ReadResult::kLine;
    if (pending_.size() > kLongestLineBytes) return ReadResult::kTooLong;
    if (output_ < 0) return ReadResult::kEnd;
    if (!pump(deadline) && Clock::now() >= deadline) return ReadResult::kTimeout;
  }
}

std::string ChildProcess::last_words() {
  while (error_ >= 0 && pump(Clock::now())) {
  }
  std::string words = error_text_.substr(error_text_.size() - std::min(error_text_.size(), kLastWordsBytes));
  std::size_t lines = 0;
  for (std::size_t i = words.size(); i-- > 0;) {
    if (words[i] == '\n' && i + 1 < words.size() && ++lines == kLastWordsLines) {
      words.erase(0, i + 1);
      break;
    }
  }
  for (char& character : words) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 && character != '\n' && character != '\t') character = '?';
  }
  while (!words.empty() && words.back() == '\n') words.pop_back();
  return words;
}

void ChildProcess::close_input() {
  close_descriptor(input_);
}

std::optional<ExitStatus> ChildProcess::wait(std::chrono::nanoseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  while (!status_) {
    int raw = 0;
    const pid_t ended = ::waitpid(pid_, &raw, WNOHANG);
    if (ended == pid_) {
      status_ = status_of(raw);
      ::kill(-pid_, SIGKILL);  // children of its own that outlive it
    } else if (ended < 0 && errno != EINTR) {
      status_ = ExitStatus{kExecFailed, false};
    } else if (Clock::now() >= deadline) {
      return std::nullopt;
    } else {
      if (error_ >= 0 && output_ >= 0) pump(std::min(deadline, Clock::now() + std::chrono::milliseconds(2)));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return status_;
}

ExitStatus ChildProcess::kill() {
  if (!status_ && pid_ > 0) {
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);  // should it not have reached its own group yet
    int raw = 0;
    while (::waitpid(pid_, &raw, 0) < 0 && errno == EINTR) {
    }
    status_ = status_of(raw);
  }
  return status_.value_or(ExitStatus{});
}

}  // namespace tare::harness

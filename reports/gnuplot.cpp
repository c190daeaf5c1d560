#include "reports/gnuplot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "reports/escape.h"

namespace tare::reports {
namespace {

constexpr const char* kInstall = "on Debian 12: apt-get install gnuplot-nox";
constexpr int kNotStarted = 127;          // what a child says that could not become gnuplot
constexpr std::size_t kLastWords = 2000;  // bytes of gnuplot's complaint that are kept

// A file descriptor that is closed when it goes.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

Error failure(const std::string& what, const std::filesystem::path& script, const std::string& hint = {}) {
  return Error(ErrorKind::kEnvironment, what, script.string(), hint);
}

// In the child, between fork and exec: only calls that are safe there.
[[noreturn]] void become(const char* program, const char* directory, const char* before, const char* script,
                         int output) {
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing < 0 || ::chdir(directory) != 0 || ::dup2(nothing, STDIN_FILENO) < 0 ||
      ::dup2(output, STDOUT_FILENO) < 0 || ::dup2(output, STDERR_FILENO) < 0)
    ::_exit(kNotStarted);
  if (*before == '\0') ::execlp(program, program, "-d", script, static_cast<char*>(nullptr));
  ::execlp(program, program, "-d", "-e", before, script, static_cast<char*>(nullptr));
  ::_exit(kNotStarted);
}

// Reads what the child prints until it closes its end or the time is up; false when the time was up.
bool listen(int input, double limit_s, std::string& words) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_s));
  std::array<char, 4096> buffer{};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return false;
    pollfd wait{input, POLLIN, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return false;
    const ssize_t count = ::read(input, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    words.append(buffer.data(), static_cast<std::size_t>(count));
    if (words.size() > 2 * kLastWords) words.erase(0, words.size() - kLastWords);
  }
}

}  // namespace

void run_gnuplot(const std::string& program, const std::filesystem::path& directory, const std::string& script,
                 double limit_s, const std::string& before) {
  const std::filesystem::path place = directory / script;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw failure(fmt::format("no pipe to gnuplot: {}", std::strerror(errno)), place);
  const Descriptor input(ends[0]);
  Descriptor output(ends[1]);
  const std::string directory_text = directory.string();
  const pid_t child = ::fork();
  if (child < 0) throw failure(fmt::format("gnuplot cannot be started: {}", std::strerror(errno)), place);
  if (child == 0) become(program.c_str(), directory_text.c_str(), before.c_str(), script.c_str(), output.number());
  output.close();

  std::string words;
  const bool ended = listen(input.number(), limit_s, words);
  if (!ended) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended) throw failure(fmt::format("gnuplot took longer than {} s and was ended", limit_s), place);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotStarted)
    throw failure(fmt::format("gnuplot is not there ('{}' cannot be started)", visible_text(program)), place, kInstall);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw failure(fmt::format("gnuplot failed: {}", running_text(words)), place,
                  "the script and its data are kept beside it");
}

}  // namespace tare::reports

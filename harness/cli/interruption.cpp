#include "harness/cli/interruption.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace tare::harness {
namespace {

// A signal handler can reach nothing but a global.
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void on_signal(int) {
  const int before = errno;
  interrupted.store(true);
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  constexpr std::string_view kMessage =
      "\nstopping at the next edge, what is finished is kept; once more stops at once\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
  errno = before;
}

}  // namespace

const std::atomic<bool>* interruption() {
  ::signal(SIGINT, &on_signal);
  ::signal(SIGTERM, &on_signal);
  return &interrupted;
}

}  // namespace tare::harness

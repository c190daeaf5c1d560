#include "harness/cli/progress_printer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/text.h"

namespace tare::harness {
namespace {

// At a terminal: often enough to look alive. In a file: seldom enough to be read.
constexpr auto kTerminalInterval = std::chrono::milliseconds(200);
constexpr auto kFileInterval = std::chrono::seconds(15);

}  // namespace

ProgressPrinter::ProgressPrinter() : terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressPrinter::~ProgressPrinter() {
  finish();
}

void ProgressPrinter::show(const Progress& progress) {
  const auto now = std::chrono::steady_clock::now();
  const bool new_phase = progress.phase != last_phase_;
  const std::chrono::steady_clock::duration interval = terminal_
                                                           ? std::chrono::steady_clock::duration(kTerminalInterval)
                                                           : std::chrono::steady_clock::duration(kFileInterval);
  if (!new_phase && now - last_shown_ < interval && progress.done < progress.total) return;
  last_phase_ = progress.phase;
  last_shown_ = now;
  const double share =
      progress.total > 0 ? 100.0 * static_cast<double>(progress.done) / static_cast<double>(progress.total) : 0;
  std::string line = fmt::format("{:<11} {:5.1f} %  {}", progress.phase, share, progress.what);
  if (progress.seconds_left >= 0) line += fmt::format(", {} left", human_seconds(progress.seconds_left));
  if (terminal_) {
    std::fprintf(stderr, "\r\033[K%s", line.c_str());
    open_line_ = true;
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
}

void ProgressPrinter::finish() {
  if (open_line_) std::fputc('\n', stderr);
  open_line_ = false;
}

}  // namespace tare::harness

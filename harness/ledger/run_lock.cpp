#include "harness/ledger/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"

namespace tare::harness {
namespace {

constexpr const char* kLockFile = "run.lock";

std::string content_of(int file) {
  std::array<char, 64> buffer{};
  const ssize_t size = ::pread(file, buffer.data(), buffer.size(), 0);
  std::string content(buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  while (!content.empty() && content.back() == '\n') content.pop_back();
  return content;
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kLockFile;
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0)
    throw Error(ErrorKind::kEnvironment, fmt::format("cannot be opened for writing: {}", std::strerror(errno)),
                path.string(), "is the directory there, and may you write into it?");
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    const int reason = errno;
    const std::string holder = content_of(file_);
    ::close(std::exchange(file_, -1));
    if (reason != EWOULDBLOCK)
      throw Error(ErrorKind::kEnvironment, fmt::format("cannot be locked: {}", std::strerror(reason)), path.string());
    throw input_error(directory.string(),
                      fmt::format("another `tare run` works on this directory{}",
                                  holder.empty() ? "" : fmt::format(" (process {})", holder)),
                      "wait until it has ended, or give another --out");
  }
  // Whose lock it is, for the message above. A failure to write it costs only that.
  const std::string holder = fmt::format("{}\n", ::getpid());
  if (::ftruncate(file_, 0) == 0 && ::pwrite(file_, holder.data(), holder.size(), 0) < 0) return;
}

RunLock::RunLock(RunLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

RunLock& RunLock::operator=(RunLock&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

RunLock::~RunLock() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace tare::harness

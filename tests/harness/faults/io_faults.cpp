#include "tests/harness/faults/io_faults.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tare::faults {
namespace {

// Plain data: these functions run before constructors do, and in programs that fork.
IoFault chosen = IoFault::kNone;
long left = 0;  // changes until the fault
std::array<char, 4096> watched{};
bool asked_environment = false;

void read_environment() {
  asked_environment = true;
  const char* text = std::getenv("TARE_IO_FAULT");
  if (text == nullptr) return;
  std::array<char, 8> kind{};
  long n = 0;
  std::array<char, 4096> path{};
  if (std::sscanf(text, "%7[a-z]:%ld:%4095[^\n]", kind.data(), &n, path.data()) != 3) std::abort();
  const bool kills = std::strcmp(kind.data(), "kill") == 0;
  if (!kills && std::strcmp(kind.data(), "full") != 0) std::abort();
  set_io_fault(kills ? IoFault::kKill : IoFault::kDiskFull, n, path.data());
}

bool is_watched(const char* path) {
  return std::strstr(path, watched.data()) != nullptr;
}

// Whether this change of a file shall not happen; a process that is to be killed does not come back.
bool strikes(const char* path, bool writes) {
  if (!asked_environment) read_environment();
  if (chosen == IoFault::kNone || !is_watched(path)) return false;
  if (chosen == IoFault::kDiskFull && !writes) return false;
  if (--left > 0) return false;
  if (chosen == IoFault::kKill) ::raise(SIGKILL);
  errno = ENOSPC;
  return true;
}

bool strikes(int descriptor, bool writes) {
  std::array<char, 64> link{};
  std::array<char, 4096> path{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", descriptor);
  const ssize_t size = ::readlink(link.data(), path.data(), path.size() - 1);
  return size > 0 && strikes(path.data(), writes);
}

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

void set_io_fault(IoFault fault, long n, const std::string& path) {
  asked_environment = true;
  chosen = fault;
  left = n;
  std::snprintf(watched.data(), watched.size(), "%s", path.c_str());
}

}  // namespace tare::faults

using tare::faults::next;
using tare::faults::strikes;

extern "C" {

ssize_t write(int file, const void* bytes, size_t count) {
  if (strikes(file, true)) return -1;
  return next<ssize_t (*)(int, const void*, size_t)>("write")(file, bytes, count);
}

ssize_t writev(int file, const iovec* pieces, int count) {
  if (strikes(file, true)) return -1;
  return next<ssize_t (*)(int, const iovec*, int)>("writev")(file, pieces, count);
}

ssize_t pwrite(int file, const void* bytes, size_t count, off_t offset) {
  if (strikes(file, true)) return -1;
  return next<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite")(file, bytes, count, offset);
}

ssize_t pwrite64(int file, const void* bytes, size_t count, off64_t offset) {
  if (strikes(file, true)) return -1;
  return next<ssize_t (*)(int, const void*, size_t, off64_t)>("pwrite64")(file, bytes, count, offset);
}

ssize_t sendfile(int out, int in, off_t* offset, size_t count) {
  if (strikes(out, true)) return -1;
  return next<ssize_t (*)(int, int, off_t*, size_t)>("sendfile")(out, in, offset, count);
}

ssize_t sendfile64(int out, int in, off64_t* offset, size_t count) {
  if (strikes(out, true)) return -1;
  return next<ssize_t (*)(int, int, off64_t*, size_t)>("sendfile64")(out, in, offset, count);
}

int ftruncate(int file, off_t size) noexcept {
  if (strikes(file, false)) return -1;
  return next<int (*)(int, off_t)>("ftruncate")(file, size);
}

int ftruncate64(int file, off64_t size) noexcept {
  if (strikes(file, false)) return -1;
  return next<int (*)(int, off64_t)>("ftruncate64")(file, size);
}

int rename(const char* from, const char* to) noexcept {
  if (strikes(to, false)) return -1;
  return next<int (*)(const char*, const char*)>("rename")(from, to);
}

int unlink(const char* path) noexcept {
  if (strikes(path, false)) return -1;
  return next<int (*)(const char*)>("unlink")(path);
}

int remove(const char* path) noexcept {
  if (strikes(path, false)) return -1;
  return next<int (*)(const char*)>("remove")(path);
}

}  // extern "C"

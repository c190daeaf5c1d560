// The n-th change of a file fails on purpose. Linked into a test program these functions come before libc's for all
// libraries of the program, SQLite and the C++ library among them; as a library of its own, by LD_PRELOAD, for any.
#pragma once

#include <string>

namespace tare::faults {

enum class IoFault {
  kNone,
  kKill,      // the n-th change does not happen: SIGKILL, as by the kernel or a user
  kDiskFull,  // the n-th write and all after it find no space (ENOSPC); renaming and removing still work
};

// Counts changes (write, truncate, rename, remove) of files whose path holds `path`, from now on. n counts from 1.
// With LD_PRELOAD the environment says the same: TARE_IO_FAULT="kill:N:PATH" or "full:N:PATH".
void set_io_fault(IoFault fault, long n, const std::string& path);

}  // namespace tare::faults

// The time of day jumps, for the program that this library is preloaded into: at every kCallsBetween-th question it is
// set back by an hour, or forth again. Clocks that nobody sets go on as they are.
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

#include <atomic>

namespace {

constexpr time_t kJumpSeconds = 3600;
constexpr long kCallsBetween = 5;  // a run asks a few times, so that it begins and ends in different hours now and then

std::atomic<long> calls{0};

// Seconds that the time of day lies off at this call.
time_t offset() {
  return calls.fetch_add(1) / kCallsBetween % 2 == 0 ? 0 : -kJumpSeconds;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  static const auto next = reinterpret_cast<int (*)(clockid_t, timespec*)>(::dlsym(RTLD_NEXT, "clock_gettime"));
  const int code = next(clock, now);
  if (code == 0 && clock == CLOCK_REALTIME) now->tv_sec += offset();
  return code;
}

int gettimeofday(timeval* __restrict now, void* __restrict zone) noexcept {
  static const auto next = reinterpret_cast<int (*)(timeval*, void*)>(::dlsym(RTLD_NEXT, "gettimeofday"));
  const int code = next(now, zone);
  if (code == 0) now->tv_sec += offset();
  return code;
}

}  // extern "C"

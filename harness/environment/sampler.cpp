#include "harness/environment/sampler.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tare::harness {
namespace {

// Moves the calling thread off the given cores, if others are left to it. Best effort: where the thread runs is a
// matter of politeness, and its cost is recorded either way.
void keep_off(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cores.empty() || ::sched_getaffinity(0, sizeof set, &set) != 0) return;
  for (const int core : cores)
    if (core >= 0 && core < CPU_SETSIZE) CPU_CLR(static_cast<std::size_t>(core), &set);
  if (CPU_COUNT(&set) > 0) (void)::sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

Sampler::Sampler(double rate_hz, Watched watched, const SystemFiles& files)
    : timed_cores_(watched.cores), reader_(std::move(watched), files) {
  if (!(rate_hz > 0)) throw internal_error(fmt::format("a sampler of {} Hz", rate_hz));
  period_ = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(1 / rate_hz));
  // Signals are for the program's own thread: one that the sampler took would not wake it from its wait for a worker.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Sampler::~Sampler() {
  end();
}

void Sampler::follow() {
  const std::lock_guard lock(mutex_);
  following_ = true;
}

void Sampler::rest() {
  const std::lock_guard lock(mutex_);
  following_ = false;
}

std::vector<EnvironmentSample> Sampler::finish() {
  end();
  return std::move(samples_);
}

void Sampler::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// Ticks keep to the clock, not to what is followed: samples must not fall on the beginnings of replays only.
void Sampler::run() {
  keep_off(timed_cores_);
  auto next = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!ended_) {
    next = std::max(next + period_, std::chrono::steady_clock::now());  // after a pause of the machine: no burst
    if (wake_.wait_until(lock, next, [this] { return ended_; })) return;
    if (!following_) continue;
    lock.unlock();
    EnvironmentSample sample = reader_.sample();
    lock.lock();
    samples_.push_back(std::move(sample));
  }
}

}  // namespace tare::harness

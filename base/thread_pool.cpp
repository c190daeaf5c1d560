#include "base/thread_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tare {
namespace {

// How long a worker spins before it sleeps. A decode round's next loop follows within microseconds; a sleeping worker
// costs a wake-up of 50 us and more. 20,000 pauses are about 0.3 ms.
constexpr int kSpins = 20'000;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

struct ThreadPool::State {
  using Body = std::function<void(int, std::size_t, std::size_t)>;

  int size = 1;
  std::vector<std::thread> threads;
  std::atomic<std::size_t> generation{0};  // a new loop has begun when it changes
  std::atomic<int> running{0};             // workers not yet done with the current loop
  std::atomic<int> sleeping{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::condition_variable wake;
  std::mutex failure_mutex;
  std::exception_ptr failure;

  const Body* body = nullptr;
  std::size_t count = 0;
  std::size_t grain = 1;

  void run_share(int thread) noexcept {
    const std::size_t units = (count + grain - 1) / grain;
    const auto position = static_cast<std::size_t>(thread);
    const auto shares = static_cast<std::size_t>(size);
    const std::size_t begin = std::min(count, units * position / shares * grain);
    const std::size_t end = std::min(count, units * (position + 1) / shares * grain);
    if (begin >= end) return;
    try {
      (*body)(thread, begin, end);
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
  }

  void wait_for_loop(std::size_t seen) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (generation.load(std::memory_order_acquire) != seen) return;
      pause_briefly();
    }
    std::unique_lock lock(mutex);
    sleeping.fetch_add(1, std::memory_order_seq_cst);
    wake.wait(lock, [&] { return generation.load(std::memory_order_seq_cst) != seen; });
    sleeping.fetch_sub(1, std::memory_order_seq_cst);
  }

  void work(int thread) {
    std::size_t seen = 0;
    while (true) {
      wait_for_loop(seen);
      ++seen;
      if (stop.load(std::memory_order_acquire)) return;
      run_share(thread);
      running.fetch_sub(1, std::memory_order_release);
    }
  }

  void begin_loop() {
    generation.fetch_add(1, std::memory_order_seq_cst);
    if (sleeping.load(std::memory_order_seq_cst) > 0) {
      const std::lock_guard lock(mutex);
      wake.notify_all();
    }
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  if (threads < 1) throw input_error("cpu.threads", fmt::format("must be at least 1, is {}", threads));
  state_->size = threads;
  try {
    for (int thread = 1; thread < threads; ++thread)
      state_->threads.emplace_back([state = state_.get(), thread] { state->work(thread); });
  } catch (const std::system_error& failure) {
    state_->stop.store(true);
    state_->begin_loop();
    for (std::thread& thread : state_->threads) thread.join();
    throw Error(ErrorKind::kEnvironment, fmt::format("cannot start {} threads: {}", threads, failure.what()),
                "cpu.threads");
  }
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true, std::memory_order_release);
  state_->begin_loop();
  for (std::thread& thread : state_->threads) thread.join();
}

int ThreadPool::size() const {
  return state_->size;
}

void ThreadPool::parallel_for(std::size_t count, std::size_t grain,
                              const std::function<void(int, std::size_t, std::size_t)>& body) {
  if (count == 0) return;
  State& state = *state_;
  state.body = &body;
  state.count = count;
  state.grain = std::max<std::size_t>(grain, 1);
  if (!state.threads.empty()) {
    state.running.store(state.size - 1, std::memory_order_relaxed);
    state.begin_loop();
  }
  state.run_share(0);
  for (int spin = 0; state.running.load(std::memory_order_acquire) > 0; ++spin) {
    if (spin < kSpins) {
      pause_briefly();
    } else {
      std::this_thread::yield();  // more threads than cores: let the one we wait for run
    }
  }
  if (state.failure) {
    const std::exception_ptr failure = std::exchange(state.failure, nullptr);
    std::rethrow_exception(failure);
  }
}

}  // namespace tare

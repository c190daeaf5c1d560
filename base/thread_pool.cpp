#include "base/thread_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tare {
namespace {

// How long a worker spins before it sleeps. A decode round's next loop follows within microseconds; waking a sleeper
// costs 50 us and more. 20,000 pauses are about 0.3 ms.
constexpr int kSpins = 20'000;

// How long the caller spins for the last pieces before it sleeps. A piece rarely takes as long; what does is a worker
// that lost its core to another process in the middle of one, and a sleeping caller lets the system move it here.
constexpr int kCallerSpins = 6'000;

// Pieces that one thread's share is cut into: enough that little is left to wait for when a thread is late.
constexpr std::size_t kPiecesPerThread = 8;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// One thread's unclaimed pieces of one loop, in one word so that claiming is one compare-and-swap. A claim that comes
// late, when the loop is over, fails: the generation has moved on.
struct alignas(64) Share {
  std::atomic<std::uint64_t> word{0};  // generation (32 bits), end (16), next (16)

  static std::uint64_t pack(std::uint32_t generation, std::size_t next, std::size_t end) {
    return std::uint64_t{generation} << 32 | std::uint64_t{end} << 16 | std::uint64_t{next};
  }

  // The owner takes from the front, which is the order of memory; others take from the back.
  std::optional<std::size_t> claim(std::uint32_t generation, bool owner) {
    std::uint64_t seen = word.load(std::memory_order_acquire);
    while (true) {
      const std::size_t next = seen & 0xFFFFU;
      const std::size_t end = seen >> 16 & 0xFFFFU;
      if (static_cast<std::uint32_t>(seen >> 32) != generation || next >= end) return std::nullopt;
      const std::uint64_t taken = owner ? pack(generation, next + 1, end) : pack(generation, next, end - 1);
      if (word.compare_exchange_weak(seen, taken, std::memory_order_acq_rel, std::memory_order_acquire))
        return owner ? next : end - 1;
    }
  }
};

}  // namespace

struct ThreadPool::State {
  using Body = std::function<void(int, std::size_t, std::size_t)>;

  explicit State(int threads) : size(threads), shares(static_cast<std::size_t>(threads)) {}

  const int size;
  std::vector<std::thread> threads;
  std::vector<Share> shares;
  std::atomic<std::uint32_t> generation{0};  // a new loop has begun when it changes
  std::atomic<std::size_t> unfinished{0};    // pieces of the loop in hand
  std::atomic<int> sleeping{0};              // workers
  std::atomic<bool> caller_sleeps{false};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable finished;
  std::mutex failure_mutex;
  std::exception_ptr failure;

  // The loop in hand. Written before its shares are published and not before every piece of the last one is finished,
  // so whoever holds a claimed piece reads its own loop's values.
  const Body* body = nullptr;
  std::size_t count = 0;
  std::size_t grain = 1;
  std::size_t units = 0;   // of `grain` items
  std::size_t pieces = 0;  // in each share

  void run_piece(int thread, std::size_t share, std::size_t piece) noexcept {
    const auto total = static_cast<std::size_t>(size) * pieces;
    const std::size_t index = share * pieces + piece;
    const std::size_t begin = std::min(count, units * index / total * grain);
    const std::size_t end = std::min(count, units * (index + 1) / total * grain);
    if (begin < end) {
      try {
        (*body)(thread, begin, end);
      } catch (...) {
        const std::lock_guard lock(failure_mutex);
        if (!failure) failure = std::current_exception();
      }
    }
    const bool last = unfinished.fetch_sub(1, std::memory_order_seq_cst) == 1;
    if (last && caller_sleeps.load(std::memory_order_seq_cst)) {
      const std::lock_guard lock(mutex);
      finished.notify_one();
    }
  }

  void run_loop(int thread, std::uint32_t loop) {
    const auto own = static_cast<std::size_t>(thread);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      const std::size_t share = (own + i) % shares.size();
      while (const std::optional<std::size_t> piece = shares[share].claim(loop, i == 0))
        run_piece(thread, share, *piece);
    }
  }

  std::uint32_t wait_for_loop(std::uint32_t seen) {
    for (int spin = 0; spin < kSpins; ++spin) {
      const std::uint32_t now = generation.load(std::memory_order_acquire);
      if (now != seen) return now;
      pause_briefly();
    }
    std::unique_lock lock(mutex);
    sleeping.fetch_add(1, std::memory_order_seq_cst);
    wake.wait(lock, [&] { return generation.load(std::memory_order_seq_cst) != seen; });
    sleeping.fetch_sub(1, std::memory_order_seq_cst);
    return generation.load(std::memory_order_acquire);
  }

  void wait_for_pieces() {
    for (int spin = 0; spin < kCallerSpins; ++spin) {
      if (unfinished.load(std::memory_order_acquire) == 0) return;
      pause_briefly();
    }
    std::unique_lock lock(mutex);
    caller_sleeps.store(true, std::memory_order_seq_cst);
    finished.wait(lock, [&] { return unfinished.load(std::memory_order_seq_cst) == 0; });
    caller_sleeps.store(false, std::memory_order_relaxed);
  }

  void work(int thread) {
    std::uint32_t seen = 0;
    while (true) {
      seen = wait_for_loop(seen);
      if (stop.load(std::memory_order_acquire)) return;
      run_loop(thread, seen);
    }
  }

  void announce(std::uint32_t loop) {
    generation.store(loop, std::memory_order_seq_cst);
    if (sleeping.load(std::memory_order_seq_cst) > 0) {
      const std::lock_guard lock(mutex);
      wake.notify_all();
    }
  }
};

ThreadPool::ThreadPool(int threads) {
  if (threads < 1) throw input_error("cpu.threads", fmt::format("must be at least 1, is {}", threads));
  state_ = std::make_unique<State>(threads);
  try {
    for (int thread = 1; thread < threads; ++thread)
      state_->threads.emplace_back([state = state_.get(), thread] { state->work(thread); });
  } catch (const std::system_error& failure) {
    state_->stop.store(true);
    state_->announce(1);
    for (std::thread& thread : state_->threads) thread.join();
    throw Error(ErrorKind::kEnvironment, fmt::format("cannot start {} threads: {}", threads, failure.what()),
                "cpu.threads");
  }
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true, std::memory_order_release);
  state_->announce(state_->generation.load() + 1);
  for (std::thread& thread : state_->threads) thread.join();
}

int ThreadPool::size() const {
  return state_->size;
}

void ThreadPool::parallel_for(std::size_t count, std::size_t grain,
                              const std::function<void(int, std::size_t, std::size_t)>& body) {
  if (count == 0) return;
  State& state = *state_;
  if (state.threads.empty()) return body(0, 0, count);
  state.body = &body;
  state.count = count;
  state.grain = std::max<std::size_t>(grain, 1);
  state.units = (count + state.grain - 1) / state.grain;
  const std::size_t shares = state.shares.size();
  state.pieces = std::clamp<std::size_t>((state.units + shares - 1) / shares, 1, kPiecesPerThread);
  state.unfinished.store(shares * state.pieces, std::memory_order_relaxed);
  const std::uint32_t loop = state.generation.load(std::memory_order_relaxed) + 1;
  for (Share& share : state.shares) share.word.store(Share::pack(loop, 0, state.pieces), std::memory_order_release);
  state.announce(loop);
  state.run_loop(0, loop);
  state.wait_for_pieces();
  if (state.failure) {
    const std::exception_ptr failure = std::exchange(state.failure, nullptr);
    std::rethrow_exception(failure);
  }
}

}  // namespace tare

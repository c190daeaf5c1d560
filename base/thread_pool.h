// A fixed set of threads that run one loop at a time, made for short loops (tens of microseconds): workers spin for a
// while before they sleep. The caller takes part, so a pool of 1 has no threads of its own and no hand-over at all.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace tare {

class ThreadPool {
 public:
  // threads >= 1. Throws Error (input) below 1, Error (environment) when the system refuses threads.
  explicit ThreadPool(int threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  [[nodiscard]] int size() const;

  // Calls body(thread, begin, end) once a thread with the thread's contiguous share of [0, count): shares differ by at
  // most one unit of `grain` items. Returns when all are done. An exception of any body is rethrown here.
  // The split depends on (count, grain, size()) only.
  void parallel_for(std::size_t count, std::size_t grain,
                    const std::function<void(int thread, std::size_t begin, std::size_t end)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tare

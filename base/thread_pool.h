// A fixed set of threads that run one loop at a time, made for short loops (a few microseconds): workers spin for a
// while before they sleep, and a loop never waits for a worker that the system has not scheduled, unless that worker
// has already begun a piece of it. The caller takes part, so a pool of 1 has no threads of its own and no hand-over at
// all.
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

  // Calls body(thread, begin, end) for pieces that cover [0, count) and begin at multiples of `grain`; `thread` in
  // 0..size()-1 names the thread that runs it, one piece at a time. Returns when all are done. An exception of any
  // piece is rethrown here. The pieces depend on (count, grain, size()) only. Each thread owns a contiguous share of
  // them and begins there, so a loop repeated over the same data finds it in the same caches; who is done early takes
  // over pieces of the others, so which thread runs a piece may differ from run to run.
  void parallel_for(std::size_t count, std::size_t grain,
                    const std::function<void(int thread, std::size_t begin, std::size_t end)>& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tare

#include "stats/resampling.h"

#include "base/error.h"
#include "base/thread_pool.h"

namespace tare::stats {
namespace {

constexpr std::size_t kResampleGrain = 64;

}  // namespace

void check_bootstrap_options(const BootstrapOptions& options) {
  if (options.resamples < 100) throw input_error("bootstrap.resamples", "at least 100 are needed, 10000 are usual");
  if (options.threads < 1) throw input_error("bootstrap.threads", "must be at least 1");
  if (!(options.level > 0 && options.level < 1)) throw input_error("bootstrap.level", "must lie between 0 and 1");
}

std::size_t exhaustive_count(std::size_t units, std::size_t limit) {
  std::size_t total = 1;
  for (std::size_t i = 0; i < units; ++i) {
    if (total > limit / units) return 0;
    total *= units;
  }
  return total;
}

void for_each_resample(std::size_t resamples, int threads, const std::function<void(std::size_t, std::size_t)>& body) {
  if (threads == 1) {
    body(0, resamples);
    return;
  }
  ThreadPool pool(threads);
  pool.parallel_for(resamples, kResampleGrain, [&body](int, std::size_t begin, std::size_t end) { body(begin, end); });
}

}  // namespace tare::stats

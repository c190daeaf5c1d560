#include "profiles/ceiling.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/philox.h"
#include "profiles/read_rate.h"

namespace tare::profiles {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kBeyondCaches = std::size_t{1} << 30;  // 1 GiB: no last-level cache today holds a third of it
constexpr int kMemoryPasses = 5;
constexpr int kWarmRounds = 4;
constexpr std::uint64_t kTokenSeed = 20261129;  // any; the same text in every measurement

class Rounds {
 public:
  Rounds(engine::Backend& backend, std::int64_t context) : backend_(&backend), tokens_(kTokenSeed) {
    std::vector<std::int32_t> prompt(static_cast<std::size_t>(context));
    for (std::int32_t& token : prompt) token = next_token();
    backend.reset();
    (void)backend.prefill(prompt);
    context_ = context;
  }

  // Mean seconds a round over at least `seconds`, and at least one round. Goes back to the start when the caches fill.
  double measure(double seconds) {
    int rounds = 0;
    double spent = 0;
    while (rounds == 0 || spent < seconds) {
      if (backend_->frontier() >= backend_->capacity()) restart();
      const std::int32_t token = next_token();
      const Clock::time_point start = Clock::now();
      (void)backend_->verify(std::span(&token, 1));
      backend_->commit(1);
      spent += std::chrono::duration<double>(Clock::now() - start).count();
      ++rounds;
    }
    return spent / rounds;
  }

 private:
  engine::Backend* backend_;
  Philox tokens_;
  std::int64_t context_ = 0;

  std::int32_t next_token() {
    return static_cast<std::int32_t>(tokens_.below(static_cast<std::uint64_t>(backend_->config().vocab_size)));
  }
  void restart() { *this = Rounds(*backend_, context_); }
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

Ceiling measure_ceiling(engine::Backend& backend, int threads, const CeilingSettings& settings) {
  if (settings.context < 1 || settings.context >= backend.capacity())
    throw input_error("--context", fmt::format("must lie in 1 to {}, is {}", backend.capacity() - 1, settings.context));
  if (settings.repetitions < 1) throw input_error("--repetitions", "must be at least 1");
  ThreadPool pool(threads);
  Ceiling ceiling;
  ceiling.threads = threads;
  {
    ReadRateProbe memory(pool, kBeyondCaches);
    for (int pass = 0; pass < kMemoryPasses; ++pass)
      ceiling.memory_bytes_per_s = std::max(ceiling.memory_bytes_per_s, memory.measure(1));
  }
  ceiling.inventory = backend.inventory(settings.context, 1);
  ceiling.bytes_per_round = ceiling.inventory.bytes_per_round();
  // Beyond the caches the rate no longer depends on the size.
  ReadRateProbe probe(pool, std::min<std::size_t>(ceiling.bytes_per_round, kBeyondCaches));
  (void)probe.measure(1);

  std::vector<double> rates;
  std::vector<double> times;
  std::vector<double> shares;
  for (int repetition = 0; repetition < settings.repetitions; ++repetition) {
    const double one_pass = static_cast<double>(probe.bytes()) / probe.measure(1);
    const double rate = probe.measure(std::max(1, static_cast<int>(settings.seconds / one_pass)));
    // A new sequence every repetition: the context stays near the one that was asked for.
    Rounds rounds(backend, settings.context);
    for (int round = 0; round < kWarmRounds; ++round) (void)rounds.measure(0);
    const double round_s = rounds.measure(settings.seconds);
    ceiling.repetitions.push_back({rate, round_s});
    rates.push_back(rate);
    times.push_back(round_s);
    shares.push_back(static_cast<double>(ceiling.bytes_per_round) / rate / round_s);
  }
  ceiling.read_bytes_per_s = median(rates);
  ceiling.round_s = median(times);
  ceiling.floor_s = static_cast<double>(ceiling.bytes_per_round) / ceiling.read_bytes_per_s;
  ceiling.share = median(shares);
  if (ceiling.share > 1)
    throw Error(ErrorKind::kInvalid,
                fmt::format("a round took {:.3f} ms, less than its floor of {:.3f} ms", ceiling.round_s * 1e3,
                            ceiling.floor_s * 1e3),
                "ceiling",
                "bytes are counted that are not read, or another process disturbed the read rate; measure again");
  return ceiling;
}

}  // namespace tare::profiles

#include "profiles/ceiling.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "profiles/decode_rounds.h"
#include "stats/quantiles.h"

namespace tare::profiles {
namespace {

constexpr int kMemoryMeasurements = 5;
constexpr double kMemorySeconds = 0.1;  // of each: a GPU's clocks need some of the first one to rise
constexpr int kWarmRounds = 4;
constexpr double kHalf = 0.5;                   // the median
constexpr std::uint64_t kTokenSeed = 20261129;  // any; the same text in every measurement
// A repetition goes on where the last one ended, until the context has grown by this share of itself and by this many
// tokens: a context of 128k takes a minute to fill, and a few rounds more change a round's bytes by little.
constexpr double kDriftShare = 0.05;
constexpr std::int64_t kDriftTokens = 256;

struct Rounds {
  double round_s = 0;
  double context = 0;
};

// Reads for about so many seconds, at least once through.
double rate_over(ReadRateProbe& probe, double seconds) {
  const double one_pass_s = static_cast<double>(probe.bytes()) / probe.measure(1);
  return probe.measure(std::max(1, static_cast<int>(seconds / one_pass_s)));
}

// Rounds over at least `seconds` and at least one: means of their times and contexts. Means, as the read rate is one: a
// median would leave the disturbances of a shared machine out of one side only.
Rounds measure(DecodeRounds& rounds, const engine::Backend& backend, double seconds) {
  int count = 0;
  double spent = 0;
  double contexts = 0;
  while (count == 0 || spent < seconds) {
    spent += rounds.run_one();
    contexts += static_cast<double>(backend.frontier());
    ++count;
  }
  return {spent / count, contexts / count};
}

void check(const engine::Backend& backend, const CeilingSettings& settings) {
  check_width(settings.width);
  const std::int64_t most = backend.capacity() - settings.width;
  if (settings.context < 1 || settings.context > most)
    throw input_error("--context", fmt::format("must lie in 1 to {}, is {}", most, settings.context),
                      "set the option 'context' to hold more");
  if (settings.repetitions < 1) throw input_error("--repetitions", "must be at least 1");
}

}  // namespace

Ceiling measure_ceiling(engine::Backend& backend, const ReadRateSource& source, const CeilingSettings& settings) {
  check(backend, settings);
  Ceiling ceiling;
  ceiling.width = settings.width;
  ceiling.reader = source.reader;
  ceiling.memory_bytes = source.beyond_caches;
  {
    const std::unique_ptr<ReadRateProbe> memory = source.make(source.beyond_caches);
    for (int i = 0; i < kMemoryMeasurements; ++i)
      ceiling.memory_bytes_per_s = std::max(ceiling.memory_bytes_per_s, rate_over(*memory, kMemorySeconds));
  }
  // Beyond the caches the rate no longer depends on the size.
  const std::uint64_t first_bytes = backend.inventory(settings.context, settings.width).bytes_per_round();
  const std::unique_ptr<ReadRateProbe> probe = source.make(std::min<std::size_t>(first_bytes, source.beyond_caches));
  (void)probe->measure(1);

  DecodeRounds rounds(backend, settings.context, settings.width, kTokenSeed);
  const auto most_drift =
      std::max(kDriftTokens, static_cast<std::int64_t>(kDriftShare * static_cast<double>(settings.context)));
  std::vector<double> rates;
  std::vector<double> times;
  std::vector<double> contexts;
  for (int repetition = 0; repetition < settings.repetitions; ++repetition) {
    const double rate = rate_over(*probe, settings.seconds);
    if (backend.frontier() > settings.context + most_drift) rounds.restart();
    for (int round = 0; round < kWarmRounds; ++round) (void)rounds.run_one();
    const Rounds measured = measure(rounds, backend, settings.seconds);
    ceiling.repetitions.push_back({rate, measured.round_s, measured.context});
    rates.push_back(rate);
    times.push_back(measured.round_s);
    contexts.push_back(measured.context);
  }
  ceiling.context = static_cast<std::int64_t>(stats::quantile(contexts, kHalf));
  ceiling.inventory = backend.inventory(ceiling.context, settings.width);
  ceiling.bytes_per_round = ceiling.inventory.bytes_per_round();
  std::vector<double> shares;
  for (const CeilingRepetition& repetition : ceiling.repetitions)
    shares.push_back(static_cast<double>(ceiling.bytes_per_round) / repetition.read_bytes_per_s / repetition.round_s);
  ceiling.read_bytes_per_s = stats::quantile(rates, kHalf);
  ceiling.round_s = stats::quantile(times, kHalf);
  ceiling.floor_s = static_cast<double>(ceiling.bytes_per_round) / ceiling.read_bytes_per_s;
  ceiling.share = stats::quantile(shares, kHalf);
  ceiling.savings = format_savings(ceiling.inventory, backend.options().backend, ceiling.read_bytes_per_s);
  if (ceiling.share > 1)
    throw Error(ErrorKind::kInvalid,
                fmt::format("a round took {:.3f} ms, less than its floor of {:.3f} ms", ceiling.round_s * 1e3,
                            ceiling.floor_s * 1e3),
                "ceiling",
                "bytes are counted that are not read, or another process disturbed the read rate; measure again");
  return ceiling;
}

}  // namespace tare::profiles

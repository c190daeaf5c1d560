#include "harness/analysis/measured_values.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/error.h"
#include "harness/analysis/run_readings.h"

namespace tare::harness {
namespace {

constexpr double kSecondsPerNs = 1e-9;
constexpr double kMsPerNs = 1e-6;
constexpr double kUsPerNs = 1e-3;
constexpr double kMillijoules = 1e3;

std::vector<stats::Run> stats_runs(const Gathered& gathered) {
  const std::int64_t origin = gathered.counted.empty() ? 0 : gathered.counted.front().record.started_utc_ns;
  std::vector<stats::Run> runs;
  for (const CountedRun& run : gathered.counted) {
    const std::int64_t started = run.record.started_utc_ns - origin;
    const std::int64_t ended = run.record.ended_utc_ns.value_or(run.record.started_utc_ns) - origin;
    runs.push_back({static_cast<int>(run.arm), static_cast<int>(run.record.block), static_cast<int>(run.record.slot),
                    kSecondsPerNs * static_cast<double>(started + ended) / 2});
  }
  return runs;
}

// prompts x runs of one number of each result.
template <class Field>
std::vector<double> cells(const Gathered& gathered, double scale, Field field) {
  std::vector<double> values;
  values.reserve(gathered.measured.size() * gathered.counted.size());
  for (std::size_t prompt = 0; prompt < gathered.measured.size(); ++prompt)
    for (const CountedRun& run : gathered.counted)
      values.push_back(scale * static_cast<double>(field(run.results[prompt])));
  return values;
}

// Why the measure has no values: a worker that reports 0 did not measure it.
template <class Field>
std::string why_missing(const Gathered& gathered, const std::string& what, Field field) {
  for (const CountedRun& run : gathered.counted)
    for (const PromptResult& result : run.results)
      if (field(result) <= 0) return fmt::format("the worker of arm '{}' does not report {}", run.record.arm, what);
  return {};
}

MeasuredValues peak_memory(const Gathered& gathered, int arms) {
  MeasuredValues values;
  values.by_prompt = false;
  std::vector<double> bytes;
  for (const CountedRun& run : gathered.counted) {
    const auto peak = gathered.launches[run.launch].peak_memory_bytes;
    if (!peak || *peak <= 0) {
      values.why_missing = fmt::format("the peak memory of a launch of arm '{}' is not known", run.record.arm);
      return values;
    }
    bytes.push_back(static_cast<double>(*peak));
  }
  values.observations = stats::amount_observations(arms, 1, stats_runs(gathered), std::move(bytes));
  return values;
}

// One value a run: joules over tokens. With resident workers the arms take turns within one counter's difference.
MeasuredValues energy_per_token(const Gathered& gathered, int arms) {
  MeasuredValues values;
  values.by_prompt = false;
  if (gathered.experiment.schedule.granularity != Granularity::kRun) {
    values.why_missing = "at granularity 'prompt' the arms share the GPU's energy counter";
    return values;
  }
  std::map<std::int64_t, double> joules;  // by run id
  const ReadingsOfRuns readings = readings_of_runs(gathered);
  for (std::size_t i = 0; i < readings.runs.size(); ++i)
    if (const auto energy = energy_j(readings.runs[i])) joules[gathered.runs[readings.rows[i]].id] = *energy;
  std::vector<double> millijoules;
  for (const CountedRun& run : gathered.counted) {
    double tokens = 0;
    for (const PromptResult& result : run.results) tokens += static_cast<double>(result.tokens);
    const auto found = joules.find(run.record.id);
    // A counter that did not move counted nothing: there is no logarithm of it, and no such GPU.
    if (found == joules.end() || found->second <= 0 || tokens <= 0) {
      values.why_missing = fmt::format("there is no energy counter around a run of arm '{}'", run.record.arm);
      return values;
    }
    millijoules.push_back(kMillijoules * found->second / tokens);
  }
  values.observations = stats::amount_observations(arms, 1, stats_runs(gathered), std::move(millijoules));
  return values;
}

}  // namespace

MeasuredValues measured_values(const Gathered& gathered, Measure measure) {
  const int arms = static_cast<int>(gathered.experiment.arms.size());
  const std::size_t prompts = gathered.measured.size();
  MeasuredValues values;
  switch (measure) {
    case Measure::kDecodeSpeed:
      values.observations = stats::speed_observations(
          arms, prompts, stats_runs(gathered), cells(gathered, 1, [](const auto& r) { return r.decode_tokens; }),
          cells(gathered, kSecondsPerNs, [](const auto& r) { return r.decode_ns; }));
      return values;
    case Measure::kTokensPerRound:
      values.observations = stats::speed_observations(
          arms, prompts, stats_runs(gathered), cells(gathered, 1, [](const auto& r) { return r.decode_tokens; }),
          cells(gathered, 1, [](const auto& r) { return r.rounds.size(); }));
      return values;
    case Measure::kRoundTime:
      values.observations = stats::speed_observations(
          arms, prompts, stats_runs(gathered), cells(gathered, kUsPerNs, [](const auto& r) { return r.decode_ns; }),
          cells(gathered, 1, [](const auto& r) { return r.rounds.size(); }));
      return values;
    case Measure::kTimeToFirstToken: {
      const auto field = [](const PromptResult& r) { return r.time_to_first_token_ns; };
      values.why_missing = why_missing(gathered, "the time to first token", field);
      if (values.why_missing.empty())
        values.observations =
            stats::amount_observations(arms, prompts, stats_runs(gathered), cells(gathered, kMsPerNs, field));
      return values;
    }
    case Measure::kPrefillSpeed: {
      const auto field = [](const PromptResult& r) { return r.prefill_ns; };
      values.why_missing = why_missing(gathered, "the time of the prefill", field);
      if (values.why_missing.empty())
        values.observations = stats::speed_observations(
            arms, prompts, stats_runs(gathered), cells(gathered, 1, [](const auto& r) { return r.prompt_tokens; }),
            cells(gathered, kSecondsPerNs, field));
      return values;
    }
    case Measure::kPeakMemory:
      return peak_memory(gathered, arms);
    case Measure::kEnergyPerToken:
      return energy_per_token(gathered, arms);
  }
  throw internal_error("a measure has no values");
}

stats::Granularity granularity_of(const Experiment& experiment) {
  return experiment.schedule.granularity == Granularity::kRun ? stats::Granularity::kRun : stats::Granularity::kPrompt;
}

stats::Multiplicity multiplicity_of(const Experiment& experiment) {
  return experiment.analysis.multiplicity == Multiplicity::kHolm ? stats::Multiplicity::kHolm
                                                                 : stats::Multiplicity::kBenjaminiHochberg;
}

stats::Direction direction_of(Measure measure) {
  return describe(measure).higher_is_better ? stats::Direction::kHigherIsBetter : stats::Direction::kLowerIsBetter;
}

double arm_value(const stats::Observations& observations, int arm) {
  double numerator = 0;
  double denominator = 0;
  for (std::size_t prompt = 0; prompt < observations.prompts; ++prompt) {
    for (std::size_t run = 0; run < observations.runs.size(); ++run) {
      if (observations.runs[run].arm != arm) continue;
      numerator += observations.numerator[observations.at(prompt, run)];
      denominator += observations.denominator[observations.at(prompt, run)];
    }
  }
  return numerator / denominator;
}

}  // namespace tare::harness

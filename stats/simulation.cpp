#include "stats/simulation.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/philox.h"

namespace tare::stats {
namespace {

// Philox streams, one for each kind of draw.
enum class Stream : std::uint64_t { kBase = 1, kReaction, kLaunch, kNoise, kDrift };

constexpr double kStartUpSlots = 2;
constexpr double kAutoregression = 0.7;

Philox draws(std::uint64_t seed, Stream stream) {
  return Philox(seed, 0x51308a7e00000000 + static_cast<std::uint64_t>(stream));
}

// ln seconds added at each of `places` slots.
std::vector<double> drift_curve(const ClockModel& model, std::size_t places, std::uint64_t seed) {
  std::vector<double> curve(places, 0.0);
  Philox random = draws(seed, Stream::kDrift);
  const double last = places > 1 ? static_cast<double>(places - 1) : 1.0;
  const std::size_t chosen = places > 1 ? 1 + random.below(places - 1) : 0;
  const bool struck = random.uniform() < 0.5;
  double walk = 0;
  double state = random.normal();
  for (std::size_t i = 0; i < places; ++i) {
    const double slot = static_cast<double>(i);
    const double centred = 2 * slot / last - 1;  // -1 .. 1
    switch (model.drift) {
      case DriftKind::kNone:
        break;
      case DriftKind::kLinear:
        curve[i] = model.drift_size * centred / 2;
        break;
      case DriftKind::kQuadratic:
        curve[i] = model.drift_size * centred * centred;
        break;
      case DriftKind::kCubic:
        curve[i] = model.drift_size * centred * centred * centred / 2;
        break;
      case DriftKind::kExponential:
        curve[i] = model.drift_size * std::exp(-slot / kStartUpSlots);
        break;
      case DriftKind::kStep:
        curve[i] = i >= chosen ? model.drift_size : 0;
        break;
      case DriftKind::kRandomWalk:
        walk += model.drift_size / std::sqrt(static_cast<double>(places)) * random.normal();
        curve[i] = walk;
        break;
      case DriftKind::kAutoregressive:
        curve[i] = model.drift_size * state;
        state = kAutoregression * state + std::sqrt(1 - kAutoregression * kAutoregression) * random.normal();
        break;
      case DriftKind::kOneSlowRun:
        curve[i] = struck && i == chosen ? model.drift_size : 0;
        break;
    }
  }
  return curve;
}

double scaled_start(const Slot& slot, int arms) {
  return static_cast<double>(slot.slot) / (arms - 1) - 0.5;
}

}  // namespace

SimulatedExperiment simulate(const ClockModel& model, const Schedule& schedule, Granularity granularity,
                             std::size_t prompts, std::uint64_t seed) {
  if (model.log_effects.size() != static_cast<std::size_t>(schedule.arms) || model.log_effects[0] != 0) {
    throw input_error("clock.log_effects", "needs one number per arm, the first of them 0");
  }
  if (prompts == 0) throw input_error("clock.prompts", "at least one is needed");
  const auto arms = static_cast<std::size_t>(schedule.arms);
  const std::size_t runs = schedule.slots.size();
  const Philox base_draws = draws(seed, Stream::kBase);
  const Philox reaction_draws = draws(seed, Stream::kReaction);
  const Philox launch_draws = draws(seed, Stream::kLaunch);
  const Philox noise_draws = draws(seed, Stream::kNoise);
  const bool by_run = granularity == Granularity::kRun;
  const std::vector<double> drift = drift_curve(model, by_run ? runs : static_cast<std::size_t>(schedule.blocks), seed);

  // Seconds of each prompt in each arm on an ideal clock.
  std::vector<double> ideal(prompts * arms);
  std::vector<double> ideal_total(arms, 0);
  for (std::size_t i = 0; i < prompts; ++i) {
    const double log_base = std::log(model.base_seconds) + model.base_spread * base_draws.normal_at(i);
    for (std::size_t arm = 0; arm < arms; ++arm) {
      const double reaction = arm == 0 ? 0 : model.reaction_sd * reaction_draws.normal_at(i * arms + arm);
      ideal[i * arms + arm] = std::exp(log_base - model.log_effects[arm] - reaction);
      ideal_total[arm] += ideal[i * arms + arm];
    }
  }

  SimulatedExperiment experiment;
  for (std::size_t arm = 0; arm < arms; ++arm) {
    experiment.suite_truth.push_back(std::log(ideal_total[0] / ideal_total[arm]));
    // E[exp(-reaction)] = exp(sd^2 / 2) lengthens the arm's expected seconds.
    const double lengthening = arm == 0 ? 0 : model.reaction_sd * model.reaction_sd / 2;
    experiment.population_truth.push_back(model.log_effects[arm] - lengthening);
  }
  std::vector<Run> run_list;
  std::vector<double> seconds(prompts * runs);
  double clock_s = 0;
  for (std::size_t r = 0; r < runs; ++r) {
    const Slot& slot = schedule.slots[r];
    double shift = model.launch_sd * launch_draws.normal_at(r);
    shift += drift[by_run ? r : static_cast<std::size_t>(slot.block)];
    if (r == 0) shift += model.cold_first_slot;
    if (!by_run) shift += model.start_order * scaled_start(slot, schedule.arms);
    double run_seconds = 0;
    for (std::size_t i = 0; i < prompts; ++i) {
      const double noise = model.noise_sd * noise_draws.normal_at(i * runs + r);
      const double value = ideal[i * arms + static_cast<std::size_t>(slot.arm)] * std::exp(shift + noise);
      seconds[i * runs + r] = value;
      run_seconds += value;
    }
    run_list.push_back(
        {.arm = slot.arm, .block = slot.block, .slot = slot.slot, .mid_time_s = clock_s + run_seconds / 2});
    clock_s += run_seconds;
  }
  experiment.observations = speed_observations(schedule.arms, prompts, std::move(run_list),
                                               std::vector<double>(prompts * runs, model.tokens), std::move(seconds));
  return experiment;
}

}  // namespace tare::stats

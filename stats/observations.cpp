#include "stats/observations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/error.h"

namespace tare::stats {
namespace {

bool usable(double value) {
  return std::isfinite(value) && value > 0;
}

Error not_comparable(std::string where, std::string what) {
  return Error(ErrorKind::kInvalid, std::move(what), std::move(where));
}

void require_shape(const Observations& observations) {
  const std::size_t runs = observations.runs.size();
  const std::size_t cells = observations.prompts * runs;
  if (observations.numerator.size() != cells || observations.denominator.size() != cells) {
    throw not_comparable("observations",
                         fmt::format("{} prompts x {} runs need {} cells, got {} and {}", observations.prompts, runs,
                                     cells, observations.numerator.size(), observations.denominator.size()));
  }
}

}  // namespace

Observations speed_observations(int arms, std::size_t prompts, std::vector<Run> runs, std::vector<double> tokens,
                                std::vector<double> seconds) {
  return {.arms = arms,
          .prompts = prompts,
          .runs = std::move(runs),
          .numerator = std::move(tokens),
          .denominator = std::move(seconds)};
}

Observations amount_observations(int arms, std::size_t prompts, std::vector<Run> runs, std::vector<double> amounts) {
  std::vector<double> ones(amounts.size(), 1.0);
  return {.arms = arms,
          .prompts = prompts,
          .runs = std::move(runs),
          .numerator = std::move(amounts),
          .denominator = std::move(ones)};
}

void check_observations(const Observations& observations) {
  const std::size_t runs = observations.runs.size();
  if (observations.arms < 2) throw not_comparable("observations", "a comparison needs at least two arms");
  if (observations.prompts == 0) throw not_comparable("observations", "no prompt was measured in every run");
  require_shape(observations);
  std::vector<int> runs_of_arm(static_cast<std::size_t>(observations.arms), 0);
  std::set<std::pair<int, int>> places;
  for (std::size_t r = 0; r < runs; ++r) {
    const Run& run = observations.runs[r];
    if (run.arm < 0 || run.arm >= observations.arms) {
      throw not_comparable(fmt::format("run {}", r), fmt::format("arm {} of {} arms", run.arm, observations.arms));
    }
    if (!places.insert({run.block, run.slot}).second) {
      throw not_comparable(fmt::format("run {}", r),
                           fmt::format("block {} slot {} was measured twice", run.block, run.slot));
    }
    ++runs_of_arm[static_cast<std::size_t>(run.arm)];
  }
  for (std::size_t arm = 0; arm < runs_of_arm.size(); ++arm) {
    if (runs_of_arm[arm] == 0) throw not_comparable(fmt::format("arm {}", arm), "no run was measured");
  }
  for (std::size_t prompt = 0; prompt < observations.prompts; ++prompt) {
    for (std::size_t r = 0; r < runs; ++r) {
      const std::size_t cell = observations.at(prompt, r);
      if (usable(observations.numerator[cell]) && usable(observations.denominator[cell])) continue;
      throw not_comparable(fmt::format("prompt {}, run {}", prompt, r),
                           fmt::format("{} over {} is no rate: both must be finite and positive",
                                       observations.numerator[cell], observations.denominator[cell]));
    }
  }
}

CompletePrompts complete_prompts(const Observations& observations) {
  require_shape(observations);
  CompletePrompts result;
  Observations& kept = result.observations;
  kept.arms = observations.arms;
  kept.runs = observations.runs;
  for (std::size_t prompt = 0; prompt < observations.prompts; ++prompt) {
    bool complete = true;
    for (std::size_t r = 0; r < observations.runs.size(); ++r) {
      const std::size_t cell = observations.at(prompt, r);
      complete = complete && usable(observations.numerator[cell]) && usable(observations.denominator[cell]);
    }
    if (!complete) {
      result.dropped.push_back(prompt);
      continue;
    }
    ++kept.prompts;
    for (std::size_t r = 0; r < observations.runs.size(); ++r) {
      kept.numerator.push_back(observations.numerator[observations.at(prompt, r)]);
      kept.denominator.push_back(observations.denominator[observations.at(prompt, r)]);
    }
  }
  return result;
}

Observations runs_of(const Observations& observations, const std::vector<std::size_t>& runs) {
  Observations result{.arms = observations.arms, .prompts = observations.prompts};
  for (const std::size_t run : runs) result.runs.push_back(observations.runs.at(run));
  for (std::size_t prompt = 0; prompt < observations.prompts; ++prompt) {
    for (const std::size_t run : runs) {
      result.numerator.push_back(observations.numerator[observations.at(prompt, run)]);
      result.denominator.push_back(observations.denominator[observations.at(prompt, run)]);
    }
  }
  return result;
}

std::vector<double> run_log_rates(const Observations& observations) {
  const std::size_t runs = observations.runs.size();
  std::vector<double> numerators(runs, 0);
  std::vector<double> denominators(runs, 0);
  for (std::size_t prompt = 0; prompt < observations.prompts; ++prompt) {
    for (std::size_t r = 0; r < runs; ++r) {
      numerators[r] += observations.numerator[observations.at(prompt, r)];
      denominators[r] += observations.denominator[observations.at(prompt, r)];
    }
  }
  std::vector<double> rates(runs);
  std::transform(numerators.begin(), numerators.end(), denominators.begin(), rates.begin(),
                 [](double numerator, double denominator) { return std::log(numerator / denominator); });
  return rates;
}

PromptTotals prompt_totals(const Observations& observations, int arm) {
  PromptTotals totals;
  totals.numerator.assign(observations.prompts, 0);
  totals.denominator.assign(observations.prompts, 0);
  for (std::size_t prompt = 0; prompt < observations.prompts; ++prompt) {
    for (std::size_t r = 0; r < observations.runs.size(); ++r) {
      if (observations.runs[r].arm != arm) continue;
      totals.numerator[prompt] += observations.numerator[observations.at(prompt, r)];
      totals.denominator[prompt] += observations.denominator[observations.at(prompt, r)];
    }
  }
  return totals;
}

std::vector<double> prompt_log_ratios(const Observations& observations, int arm) {
  const PromptTotals baseline = prompt_totals(observations, 0);
  const PromptTotals other = prompt_totals(observations, arm);
  std::vector<double> ratios(observations.prompts);
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    ratios[i] =
        std::log(other.numerator[i] / other.denominator[i]) - std::log(baseline.numerator[i] / baseline.denominator[i]);
  }
  return ratios;
}

}  // namespace tare::stats

// The value every comparison returns. An effect is the natural log of a ratio, arm / baseline, of the measure's rates;
// for decode speed positive is faster. Shown in percent: percent(effect).
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stats/warning.h"

namespace tare::stats {

enum class Estimand {
  kThesePromptsTheseLaunches,  // conditional on the launches that were run: "these launches"
  kThesePromptsAnyLaunch,      // this suite of prompts, any launch: "this suite"; the verdict's
  kPromptsLikeThese,           // prompts drawn as these were, any launch: "prompts like these"
};

enum class Method {
  kPromptBootstrap,  // paired bootstrap over prompts
  kPromptDelta,      // delta method over prompts, t
  kRunRegression,    // least squares over runs, arm columns and drift polynomial, t
  kBlockEffects,     // t on effects of blocks (granularity prompt)
  kTwoWay,           // prompt and run variance together, Satterthwaite
  kBlockPairs,       // t on differences of neighbouring runs (robustness line)
  kPooledSittings,   // random effects over sittings, t
  kTwoWayBootstrap,  // prompts and runs drawn together
  kStoredBaseline,   // runs of two sittings, Welch, with the spread between sittings added
};

// Whether a larger value of the measure is better: decode speed yes, time to first token no.
enum class Direction { kHigherIsBetter, kLowerIsBetter };

// Bounds on the log scale.
struct Interval {
  double low = 0;
  double high = 0;
  double level = 0.95;

  [[nodiscard]] bool holds(double value) const { return low <= value && value <= high; }
  [[nodiscard]] double half_width() const { return (high - low) / 2; }
};

struct Estimate {
  Estimand estimand = Estimand::kThesePromptsAnyLaunch;
  Method method = Method::kRunRegression;
  std::string method_text = {};           // one line: what was done with which settings
  double log_effect = 0;                  // the point estimate
  double standard_error = 0;              // on the log scale
  std::optional<Interval> interval = {};  // absent when there is nothing to estimate a spread from
  std::optional<Interval> bca = {};       // bootstrap only: bias-corrected and accelerated
  std::optional<double> degrees_of_freedom = {};
  std::optional<double> p_value = {};  // two-sided, against no difference
  bool conclusive = false;             // enough units (degrees of freedom, blocks) for a verdict
  std::vector<Warning> warnings = {};
};

// 100 * (exp(log_effect) - 1).
[[nodiscard]] inline double percent(double log_effect) {
  return 100.0 * std::expm1(log_effect);
}
// ln(1 + percent / 100).
[[nodiscard]] inline double log_effect_of_percent(double percent) {
  return std::log1p(percent / 100.0);
}

// What to print beside an interval: "these prompts, these launches", "this suite, any launch", "prompts like these".
[[nodiscard]] std::string_view estimand_label(Estimand estimand);
// Stable snake_case names for files: "prompt_bootstrap", "run_regression", ...
[[nodiscard]] std::string_view method_name(Method method);
[[nodiscard]] std::string_view estimand_name(Estimand estimand);

}  // namespace tare::stats

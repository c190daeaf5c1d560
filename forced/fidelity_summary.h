// What a table says about scored windows: means with intervals over windows, quantiles, agreement by margin, and paired
// differences between two configurations (docs/method/fidelity.md).
//
// The unit is the window: tokens of one text are correlated, so an interval over tokens is too narrow. All windows have
// the same length, so a mean over positions is the mean of window means.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "forced/window_scores.h"
#include "stats/effect.h"

namespace tare::forced {

// A mean over positions.
struct MeanScore {
  double mean = 0;                               // infinite when a position's is
  double independent_standard_error = 0;         // as llama-perplexity prints: tokens taken for independent
  std::optional<stats::Interval> interval = {};  // bootstrap-t over windows; none below two windows, or when infinite
  // One-sided bound from above at the same level: what non-inferiority is read from.
  std::optional<double> upper_bound = {};
  std::optional<double> lower_bound = {};
};

// Positions by the reference's margin, ln p of its first token less that of its second.
struct MarginBucket {
  double from = 0;  // nats; up to the next bucket's
  std::int64_t positions = 0;
  std::int64_t agreed = 0;
};

// Edges of the buckets: near ties, and what is ever less likely to turn.
inline constexpr double kMarginEdges[] = {0, 0.01, 0.03, 0.1, 0.3, 1, 3};
// Of kl64_tail; type 7.
inline constexpr double kScoreQuantiles[] = {0, 0.001, 0.01, 0.05, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 1};
// Share that the trimmed mean leaves out at either end.
inline constexpr double kTrimmedShare = 0.05;

struct FidelitySummary {
  std::string kind;  // "all", or of the windows
  std::int64_t windows = 0;
  std::int64_t positions = 0;
  std::int64_t infinite = 0;  // positions with an infinite kl64_tail or nll
  MeanScore kl64_tail;
  MeanScore kl64;
  MeanScore top1;            // share of positions whose best token is the reference's
  MeanScore nll;             // of the next token
  MeanScore nll_difference;  // less the reference's: ln of the ratio of perplexities
  double perplexity = 0;     // exp of the mean nll
  double reference_perplexity = 0;
  double trimmed_kl64_tail = 0;   // mean without floor(5 % n) values at either end
  std::vector<double> quantiles;  // of kl64_tail, at kScoreQuantiles
  std::vector<MarginBucket> margins;
};

// Arm less baseline, position by position over the same text.
struct FidelityDifference {
  std::string kind;
  MeanScore kl64_tail;
  MeanScore kl64;
  MeanScore top1;
  MeanScore nll;
};

struct SummaryOptions {
  double level = 0.95;
  std::uint64_t seed = 1;
  std::int64_t first_position = 0;  // positions before it are left out; llama-perplexity leaves out half a window
};

// Kinds of a reference's windows in order of appearance, "all" first when there are several.
[[nodiscard]] std::vector<std::string> summary_kinds(const engine::Reference& reference);

// `kind` one of summary_kinds. Throws Error (input) when no window or position is left.
[[nodiscard]] FidelitySummary summarise(const engine::Reference& reference, const WindowScores& scores,
                                        const std::string& kind, const SummaryOptions& options = {});
[[nodiscard]] FidelityDifference summarise_difference(const engine::Reference& reference, const WindowScores& arm,
                                                      const WindowScores& baseline, const std::string& kind,
                                                      const SummaryOptions& options = {});

// As in fidelity.json (docs/protocol/fidelity.md). Infinite numbers become null.
[[nodiscard]] Json to_json(const MeanScore& score);
[[nodiscard]] Json to_json(const FidelitySummary& summary);
[[nodiscard]] Json to_json(const FidelityDifference& difference);

}  // namespace tare::forced

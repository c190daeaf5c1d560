#include "forced/fidelity_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

#include "base/error.h"
#include "stats/bootstrap_t.h"
#include "stats/quantiles.h"

namespace tare::forced {
namespace {

constexpr const char* kAllKinds = "all";

struct Selection {
  const engine::Reference& reference;
  std::vector<std::size_t> windows;
  std::size_t first = 0;
  std::size_t count = 0;  // positions a window

  [[nodiscard]] std::size_t positions() const { return windows.size() * count; }
};

Selection select(const engine::Reference& reference, const std::string& kind, const SummaryOptions& options) {
  Selection selection{reference, {}, static_cast<std::size_t>(std::max<std::int64_t>(options.first_position, 0)), 0};
  for (std::size_t window = 0; window < reference.windows.size(); ++window)
    if (kind == kAllKinds || reference.windows[window].kind == kind) selection.windows.push_back(window);
  const auto scored = static_cast<std::size_t>(reference.window_tokens - 1);
  if (selection.windows.empty() || selection.first >= scored)
    throw input_error("fidelity", fmt::format("no position of kind '{}' is left from {} on", kind, selection.first));
  selection.count = scored - selection.first;
  return selection;
}

// A value of every selected position, by window and position.
using ValueAt = std::function<double(std::size_t window, std::size_t position)>;

MeanScore mean_score(const Selection& selection, const SummaryOptions& options, const ValueAt& value_at) {
  std::vector<double> window_means;
  double sum = 0;
  double squares = 0;
  for (const std::size_t window : selection.windows) {
    double window_sum = 0;
    for (std::size_t i = 0; i < selection.count; ++i) {
      const double value = value_at(window, selection.first + i);
      window_sum += value;
      squares += value * value;
    }
    sum += window_sum;
    window_means.push_back(window_sum / static_cast<double>(selection.count));
  }
  MeanScore score;
  const auto count = static_cast<double>(selection.positions());
  score.mean = sum / count;
  if (!std::isfinite(score.mean)) return score;
  if (count > 1)
    score.independent_standard_error =
        std::sqrt(std::max(squares / count - score.mean * score.mean, 0.0) / (count - 1));
  if (window_means.size() < 2) return score;
  stats::BootstrapOptions bootstrap;
  bootstrap.seed = options.seed;
  bootstrap.level = options.level;
  score.interval = stats::bootstrap_t_mean(window_means, bootstrap).interval;
  bootstrap.level = 2 * options.level - 1;  // either of its ends is a one-sided bound at `level`
  const stats::Interval one_sided = stats::bootstrap_t_mean(window_means, bootstrap).interval;
  score.lower_bound = one_sided.low;
  score.upper_bound = one_sided.high;
  return score;
}

void add_margins(FidelitySummary& summary, const Selection& selection, const WindowScores& scores) {
  for (const double edge : kMarginEdges) summary.margins.push_back({.from = edge});
  for (const std::size_t window : selection.windows) {
    for (std::size_t i = selection.first; i < selection.first + selection.count; ++i) {
      const double margin = reference_margin(
          reference_row(selection.reference, static_cast<std::int64_t>(window), static_cast<std::int64_t>(i)));
      const auto above = std::upper_bound(std::begin(kMarginEdges), std::end(kMarginEdges), std::max(margin, 0.0));
      MarginBucket& bucket = summary.margins[static_cast<std::size_t>(above - std::begin(kMarginEdges)) - 1];
      ++bucket.positions;
      bucket.agreed += scores[window][i].agrees ? 1 : 0;
    }
  }
}

void add_order_statistics(FidelitySummary& summary, const Selection& selection, const WindowScores& scores) {
  std::vector<double> values;
  values.reserve(selection.positions());
  for (const std::size_t window : selection.windows)
    for (std::size_t i = selection.first; i < selection.first + selection.count; ++i)
      values.push_back(scores[window][i].kl64_tail);
  std::sort(values.begin(), values.end());
  const auto cut = static_cast<std::size_t>(kTrimmedShare * static_cast<double>(values.size()));
  double sum = 0;
  for (std::size_t i = cut; i < values.size() - cut; ++i) sum += values[i];
  summary.trimmed_kl64_tail = sum / static_cast<double>(values.size() - 2 * cut);
  for (const double p : kScoreQuantiles) summary.quantiles.push_back(stats::quantile_of_sorted(values, p));
}

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

}  // namespace

std::vector<std::string> summary_kinds(const engine::Reference& reference) {
  std::vector<std::string> kinds;
  for (const engine::ReferenceWindow& window : reference.windows)
    if (std::find(kinds.begin(), kinds.end(), window.kind) == kinds.end()) kinds.push_back(window.kind);
  if (kinds.size() > 1) kinds.insert(kinds.begin(), kAllKinds);
  return kinds;
}

FidelitySummary summarise(const engine::Reference& reference, const WindowScores& scores, const std::string& kind,
                          const SummaryOptions& options) {
  const Selection selection = select(reference, kind, options);
  FidelitySummary summary;
  summary.kind = kind;
  summary.windows = static_cast<std::int64_t>(selection.windows.size());
  summary.positions = static_cast<std::int64_t>(selection.positions());
  const auto reference_nll = [&](std::size_t window, std::size_t position) {
    const auto index = window * static_cast<std::size_t>(reference.window_tokens - 1) + position;
    return -static_cast<double>(reference.next_log_probability[index]);
  };
  const auto mean_of = [&](const ValueAt& value_at) { return mean_score(selection, options, value_at); };
  summary.kl64_tail = mean_of([&](std::size_t w, std::size_t i) { return scores[w][i].kl64_tail; });
  summary.kl64 = mean_of([&](std::size_t w, std::size_t i) { return scores[w][i].kl64; });
  summary.top1 = mean_of([&](std::size_t w, std::size_t i) { return scores[w][i].agrees ? 1.0 : 0.0; });
  summary.nll = mean_of([&](std::size_t w, std::size_t i) { return scores[w][i].nll; });
  summary.nll_difference =
      mean_of([&](std::size_t w, std::size_t i) { return scores[w][i].nll - reference_nll(w, i); });
  summary.perplexity = std::exp(summary.nll.mean);
  summary.reference_perplexity = std::exp(mean_of(reference_nll).mean);
  for (const std::size_t window : selection.windows)
    for (std::size_t i = selection.first; i < selection.first + selection.count; ++i)
      if (std::isinf(scores[window][i].kl64_tail) || std::isinf(scores[window][i].nll)) ++summary.infinite;
  add_order_statistics(summary, selection, scores);
  add_margins(summary, selection, scores);
  return summary;
}

FidelityDifference summarise_difference(const engine::Reference& reference, const WindowScores& arm,
                                        const WindowScores& baseline, const std::string& kind,
                                        const SummaryOptions& options) {
  const Selection selection = select(reference, kind, options);
  const auto mean_of = [&](double (*value)(const PositionScore&)) {
    return mean_score(selection, options,
                      [&](std::size_t w, std::size_t i) { return value(arm[w][i]) - value(baseline[w][i]); });
  };
  FidelityDifference difference;
  difference.kind = kind;
  difference.kl64_tail = mean_of([](const PositionScore& score) { return score.kl64_tail; });
  difference.kl64 = mean_of([](const PositionScore& score) { return score.kl64; });
  difference.top1 = mean_of([](const PositionScore& score) { return score.agrees ? 1.0 : 0.0; });
  difference.nll = mean_of([](const PositionScore& score) { return score.nll; });
  return difference;
}

Json to_json(const MeanScore& score) {
  Json json = {{"mean", number(score.mean)}, {"independent_standard_error", score.independent_standard_error}};
  if (score.interval) {
    json["interval"] = {score.interval->low, score.interval->high};
    json["lower_bound"] = *score.lower_bound;
    json["upper_bound"] = *score.upper_bound;
  }
  return json;
}

Json to_json(const FidelitySummary& summary) {
  Json quantiles = Json::object();
  for (std::size_t i = 0; i < summary.quantiles.size(); ++i)
    quantiles[fmt::format("{}", kScoreQuantiles[i])] = number(summary.quantiles[i]);
  Json margins = Json::array();
  for (const MarginBucket& bucket : summary.margins)
    margins.push_back({{"from", bucket.from}, {"positions", bucket.positions}, {"agreed", bucket.agreed}});
  return {{"kind", summary.kind},
          {"windows", summary.windows},
          {"positions", summary.positions},
          {"infinite", summary.infinite},
          {"kl64_tail", to_json(summary.kl64_tail)},
          {"kl64_tail_trimmed", number(summary.trimmed_kl64_tail)},
          {"kl64_tail_quantiles", quantiles},
          {"kl64", to_json(summary.kl64)},
          {"top1", to_json(summary.top1)},
          {"top1_by_margin", margins},
          {"nll", to_json(summary.nll)},
          {"nll_difference", to_json(summary.nll_difference)},
          {"perplexity", number(summary.perplexity)},
          {"reference_perplexity", number(summary.reference_perplexity)}};
}

Json to_json(const FidelityDifference& difference) {
  return {{"kind", difference.kind},
          {"kl64_tail", to_json(difference.kl64_tail)},
          {"kl64", to_json(difference.kl64)},
          {"top1", to_json(difference.top1)},
          {"nll", to_json(difference.nll)}};
}

}  // namespace tare::forced

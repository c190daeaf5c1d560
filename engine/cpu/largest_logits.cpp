#include "engine/cpu/largest_logits.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace tare::engine {
namespace {

constexpr std::size_t kLanes = 16;  // groups side by side, so that their maxima are vectors

bool better(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

// Logits of a group. Finding the threshold among n / length maxima takes some three steps a maximum, looking into
// `count` groups takes their lengths: least when length^2 is 3 n / count.
std::size_t group_length(std::size_t logits, std::size_t count) {
  return std::max<std::size_t>(
      4, static_cast<std::size_t>(std::sqrt(3.0 * static_cast<double>(logits) / static_cast<double>(count))));
}

// maxima[i] = max(maxima[i], row[i])
void raise(const float* row, float* maxima) {
  for (std::size_t lane = 0; lane < kLanes; ++lane) maxima[lane] = row[lane] > maxima[lane] ? row[lane] : maxima[lane];
}

}  // namespace

// Groups of logits that lie kLanes apart, in blocks of kLanes groups. The `count`-th largest of the groups' maxima is
// no larger than the `count`-th largest logit, so what is below it need not be looked at, nor groups whose maximum is.
void select_largest(std::span<const float> logits, std::int64_t count, std::vector<Candidate>& most) {
  const std::size_t wanted = std::min(static_cast<std::size_t>(count), logits.size());
  most.clear();
  if (wanted == 0) return;
  const std::size_t length = group_length(logits.size(), wanted);
  const std::size_t block = length * kLanes;
  const std::size_t blocks = logits.size() / block;
  float threshold = -std::numeric_limits<float>::infinity();
  // Kept by their thread: this runs for every row of a draft or a verify.
  thread_local std::vector<float> maxima;
  thread_local std::vector<float> ordered;
  maxima.assign(blocks * kLanes, threshold);
  for (std::size_t b = 0; b < blocks; ++b)
    for (std::size_t i = 0; i < length; ++i) raise(logits.data() + b * block + i * kLanes, maxima.data() + b * kLanes);
  if (maxima.size() >= wanted) {
    ordered = maxima;
    const auto last = ordered.begin() + static_cast<std::ptrdiff_t>(wanted - 1);
    std::nth_element(ordered.begin(), last, ordered.end(), std::greater<>());
    threshold = *last;
  }
  const auto look_at = [&](std::size_t token) {
    if (logits[token] >= threshold) most.push_back({logits[token], static_cast<std::int32_t>(token)});
  };
  for (std::size_t group = 0; group < maxima.size(); ++group) {
    if (!(maxima[group] >= threshold)) continue;
    const std::size_t first = group / kLanes * block + group % kLanes;
    for (std::size_t i = 0; i < length; ++i) look_at(first + i * kLanes);
  }
  for (std::size_t token = blocks * block; token < logits.size(); ++token) look_at(token);
  const auto end = most.begin() + static_cast<std::ptrdiff_t>(wanted);
  std::partial_sort(most.begin(), end, most.end(), better);
  most.resize(wanted);
}

}  // namespace tare::engine

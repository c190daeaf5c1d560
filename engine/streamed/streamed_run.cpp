#include "engine/streamed/streamed_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "engine/streamed/streamed_work.h"
#include "engine/streamed/work_directory.h"

namespace tare::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Writes a snapshot of all slots in a thread of its own.
class Keeper {
 public:
  Keeper(StreamedBackend& backend, WorkDirectory& work, std::int64_t windows, std::size_t window_numbers)
      : backend_(backend), work_(work), windows_(windows), rows_(window_numbers) {}
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  ~Keeper() {
    if (thread_.joinable()) thread_.join();
  }

  [[nodiscard]] bool busy() const { return busy_.load(); }
  // Of `layers_done` layers; must not be busy.
  void start(std::int64_t layers_done) {
    wait();
    backend_.snapshot();
    busy_ = true;
    thread_ = std::thread([this, layers_done] {
      try {
        for (std::int64_t window = 0; window < windows_; ++window) {
          backend_.read_snapshot(window, rows_);
          work_.write(window, rows_);
        }
        work_.complete(layers_done);
        ++kept_;
      } catch (...) {
        failure_ = std::current_exception();
      }
      busy_ = false;
    });
  }
  // Throws what went wrong while writing.
  void wait() {
    if (thread_.joinable()) thread_.join();
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  [[nodiscard]] std::int64_t kept() const { return kept_; }

 private:
  StreamedBackend& backend_;
  WorkDirectory& work_;
  std::int64_t windows_;
  std::vector<float> rows_;
  std::thread thread_;
  std::atomic<bool> busy_ = false;
  std::exception_ptr failure_;
  std::int64_t kept_ = 0;
};

class Run {
 public:
  Run(const Checkpoint& checkpoint, StreamedBackend& backend, std::span<const StreamedWindow> windows,
      const StreamedSettings& settings)
      : config_(checkpoint.config()),
        backend_(backend),
        windows_(windows),
        settings_(settings),
        shape_(check_windows(windows, config_)),
        reference_(empty_reference(checkpoint)),
        work_(settings.out.string() + ".work", {.digests = reference_.digests,
                                                .backend = settings.backend,
                                                .shape = shape_,
                                                .hidden_size = config_.hidden_size}),
        keeper_(backend, work_, shape_.windows, window_numbers()),
        rows_(window_numbers()) {
    summary_.spilled = backend.slots() < shape_.windows;
    summary_.first_layer = work_.layers_done().value_or(0);
    for (std::int64_t layer = summary_.first_layer; layer < config_.layer_count(); ++layer)
      total_flops_ += layer_flops(config_, layer, shape_.window_tokens) * static_cast<double>(shape_.windows);
    total_flops_ += head_flops(config_, shape_.window_tokens) * static_cast<double>(shape_.windows);
  }

  StreamedSummary go() {
    begin_ = Clock::now();
    begin_activations();
    for (std::int64_t layer = summary_.first_layer; layer < config_.layer_count(); ++layer) {
      backend_.load_layer(layer);
      for (std::int64_t first = 0; first < shape_.windows; first += backend_.batch_windows()) {
        const std::int64_t count = std::min(backend_.batch_windows(), shape_.windows - first);
        run_batch(layer, first, count);
        advance(fmt::format("layer {} of {}", layer + 1, config_.layer_count()),
                layer_flops(config_, layer, shape_.window_tokens) * static_cast<double>(count));
      }
      const bool stop = settings_.stop_after_layers == layer + 1;
      keep(layer + 1, stop);
      if (stop) {
        summary_.stopped = true;
        summary_.layers_kept = kept_ + keeper_.kept();
        return summary_;
      }
    }
    summary_.layer_seconds = seconds_since(begin_);
    score();  // while the last layer's activations are still on their way to the disk
    summary_.head_seconds = seconds_since(begin_) - summary_.layer_seconds;
    keeper_.wait();
    summary_.layers_kept = kept_ + keeper_.kept();
    write_reference(settings_.out, reference_);
    work_.remove();
    return summary_;
  }

 private:
  const ModelConfig& config_;
  StreamedBackend& backend_;
  std::span<const StreamedWindow> windows_;
  const StreamedSettings& settings_;
  StreamedShape shape_;
  Reference reference_;
  WorkDirectory work_;
  Keeper keeper_;
  std::vector<float> rows_;  // of one window
  StreamedSummary summary_;
  std::int64_t kept_ = 0;  // by this thread
  double total_flops_ = 0;
  Clock::time_point begin_;

  [[nodiscard]] std::size_t window_numbers() const {
    return static_cast<std::size_t>(shape_.window_tokens * config_.hidden_size);
  }
  [[nodiscard]] std::span<const std::int32_t> tokens(std::int64_t window) const {
    return windows_[static_cast<std::size_t>(window)].tokens;
  }

  [[nodiscard]] Reference empty_reference(const Checkpoint& checkpoint) const {
    std::vector<ReferenceWindow> named;
    for (const StreamedWindow& window : windows_) named.push_back(window.window);
    Reference reference = make_reference(std::move(named), shape_.window_tokens, config_.vocab_size);
    auto target = reference.tokens.begin();
    for (const StreamedWindow& window : windows_)
      target = std::copy(window.tokens.begin(), window.tokens.end(), target);
    reference.digests = {checkpoint.digest(), settings_.tokenizer_digest, settings_.texts_digest,
                         digest_tokens(reference.tokens)};
    return reference;
  }

  // Into the slots, or into the work directory.
  void begin_activations() {
    if (work_.layers_done()) {
      work_.verify();
      if (!summary_.spilled) read_windows(0, shape_.windows);
      return;
    }
    backend_.load_embedding();
    for (std::int64_t window = 0; window < shape_.windows; ++window) {
      backend_.embed(summary_.spilled ? 0 : window, tokens(window));
      if (summary_.spilled) spill(0, window);
    }
    if (summary_.spilled) work_.complete(0);
  }

  void read_windows(std::int64_t first, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      work_.read(first + i, rows_);
      backend_.put(i, rows_);
    }
  }

  void spill(std::int64_t slot, std::int64_t window) {
    backend_.get(slot, rows_);
    work_.write(window, rows_);
  }

  void run_batch(std::int64_t layer, std::int64_t first, std::int64_t count) {
    if (summary_.spilled) read_windows(first, count);
    const std::int64_t bad = backend_.run_layer(summary_.spilled ? 0 : first, count);
    if (bad >= 0)
      throw not_finite(first + bad / shape_.window_tokens, bad % shape_.window_tokens,
                       fmt::format("the activations after layer {}", layer));
    if (summary_.spilled)
      for (std::int64_t i = 0; i < count; ++i) spill(i, first + i);
  }

  [[nodiscard]] Error not_finite(std::int64_t window, std::int64_t position, const std::string& what) const {
    return input_error(fmt::format("window {} ('{}'), position {}", window,
                                   windows_[static_cast<std::size_t>(window)].window.id, position),
                       what + " are not all finite", "the checkpoint overflows FP32, or is damaged");
  }

  void keep(std::int64_t layers_done, bool must) {
    if (summary_.spilled) {
      work_.complete(layers_done);
      ++kept_;
    } else if (must || !keeper_.busy()) {
      keeper_.start(layers_done);
    }
    if (must) keeper_.wait();
  }

  void score() {
    backend_.load_head();
    const std::int64_t tokens_a_window = shape_.window_tokens;
    const auto candidates = static_cast<std::size_t>(reference_.candidates());
    for (std::int64_t window = 0; window < shape_.windows; ++window) {
      if (summary_.spilled) {
        work_.read(window, rows_);
        backend_.put(0, rows_);
      }
      const auto first = static_cast<std::size_t>(window * tokens_a_window);
      const auto count = static_cast<std::size_t>(tokens_a_window);
      WindowScores scores{
          .top_ids = std::span(reference_.top_ids).subspan(first * candidates, count * candidates),
          .top_log_probabilities =
              std::span(reference_.top_log_probabilities).subspan(first * candidates, count * candidates),
          .log_sum_exp = std::span(reference_.log_sum_exp).subspan(first, count),
          .next_log_probability = std::span(reference_.next_log_probability)
                                      .subspan(static_cast<std::size_t>(window * (tokens_a_window - 1)), count - 1)};
      backend_.score(summary_.spilled ? 0 : window, tokens(window), scores);
      if (scores.first_not_finite >= 0) throw not_finite(window, scores.first_not_finite, "the logits");
      advance(fmt::format("scores, window {} of {}", window + 1, shape_.windows), head_flops(config_, tokens_a_window));
    }
  }

  void advance(std::string what, double flops) {
    if (settings_.interrupted != nullptr && settings_.interrupted->load()) {
      keeper_.wait();
      throw Error(
          ErrorKind::kInterrupted,
          fmt::format("interrupted with {} of {} layers kept", work_.layers_done().value_or(0), config_.layer_count()),
          work_.path().string(), "the same command goes on from there");
    }
    summary_.flops += flops;
    if (!settings_.progress) return;
    const double left = seconds_since(begin_) * (total_flops_ - summary_.flops) / summary_.flops;
    settings_.progress({std::move(what), summary_.flops, total_flops_, left});
  }
};

}  // namespace

StreamedShape check_windows(std::span<const StreamedWindow> windows, const ModelConfig& config) {
  if (windows.empty()) throw input_error("windows", "there are none");
  const auto length = static_cast<std::int64_t>(windows.front().tokens.size());
  for (const StreamedWindow& window : windows) {
    const std::string where = fmt::format("window '{}'", window.window.id);
    if (static_cast<std::int64_t>(window.tokens.size()) != length || length == 0)
      throw input_error(where, fmt::format("has {} tokens, the first has {}", window.tokens.size(), length),
                        "all windows have one length, and one token at least");
    for (std::size_t i = 0; i < window.tokens.size(); ++i)
      if (window.tokens[i] < 0 || window.tokens[i] >= config.vocab_size)
        throw input_error(
            fmt::format("{}, position {}", where, i),
            fmt::format("token {} is outside of the vocabulary of {}", window.tokens[i], config.vocab_size));
  }
  if (length > config.max_positions)
    throw input_error("windows",
                      fmt::format("have {} tokens, the model has {} positions", length, config.max_positions));
  return {static_cast<std::int64_t>(windows.size()), length};
}

StreamedSummary run_streamed(const Checkpoint& checkpoint, StreamedBackend& backend,
                             std::span<const StreamedWindow> windows, const StreamedSettings& settings) {
  return Run(checkpoint, backend, windows, settings).go();
}

}  // namespace tare::engine

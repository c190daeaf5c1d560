// Compares a screened head with the head it stands for, row by row: how often its choice is another, and how often a
// bound proves that it cannot be.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/model_weights.h"
#include "engine/cpu/screened_head.h"
#include "engine/formats/float_formats.h"
#include "engine/formats/screen_bound.h"
#include "engine/formats/weight_groups.h"

namespace tare::engine::test {

// A matrix of the checkpoint as `format` represents it, row-major.
inline std::vector<float> represented(const Tensor& tensor, WeightFormat format) {
  std::vector<float> all;
  for (std::int64_t row = 0; row < tensor.shape[0]; ++row) {
    const std::vector<float> values = to_floats(tensor.rows(row, 1));
    if (format == WeightFormat::kBF16) {
      for (const float value : values) all.push_back(bfloat16_to_float(float_to_bfloat16(value)));
    } else {
      const int most = format == WeightFormat::kQ8   ? kQ8MostCode
                       : format == WeightFormat::kQ4 ? kQ4MostCode
                                                     : kQ3MostCode;
      const std::vector<float> decoded = decode_row(encode_row(values, most));
      all.insert(all.end(), decoded.begin(), decoded.end());
    }
  }
  return all;
}

struct HeadAudit {
  std::int64_t rows = 0;
  std::int64_t misses = 0;           // the head's choice was not a candidate
  std::int64_t wrong = 0;            // the choice was another than the head's; a miss, or a fault
  std::int64_t screen_alone = 0;     // the screen's own largest logit was another token: what rescoring repairs
  std::int64_t proven_by_norms = 0;  // rows that norm_bound proves
  std::int64_t proven_by_steps = 0;
  std::int64_t false_proofs = 0;  // a row that a bound proved and that is a miss: must be none
  // largest |screen - exact| / norm_bound over all rows and tokens: at most 1, or the bound is none
  double most_of_bound = 0;
};

class HeadAuditor {
 public:
  HeadAuditor(const Checkpoint& checkpoint, const EngineOptions& options)
      : config_(checkpoint.config()),
        kernels_(select_kernels("auto")),
        pool_(static_cast<int>(std::max<std::int64_t>(1, options.cpu.threads))),
        head_(load_projection(checkpoint, head_name(), config_.vocab_size, config_.hidden_size,
                              options.format_of(TensorClass::kHead, 0), pool_)),
        screened_(checkpoint, options, head_, kernels_, pool_),
        loops_(kernels_, pool_),
        input_(config_.hidden_size, options.activations.format == ActivationFormat::kQ8),
        padded_(config_.vocab_size) {
    const Tensor tensor = checkpoint.expect(head_name(), {config_.vocab_size, config_.hidden_size});
    const std::vector<float> exact = represented(tensor, head_.matrix.format());
    const std::vector<float> screen = represented(tensor, screened_.screen().format());
    const auto columns = static_cast<std::size_t>(config_.hidden_size);
    for (std::size_t begin = 0; begin < exact.size(); begin += columns) {
      errors_.push_back(
          screen_error(std::span(exact).subspan(begin, columns), std::span(screen).subspan(begin, columns)));
      double squares = 0;
      for (std::size_t i = begin; i < begin + columns; ++i)
        squares += std::max(static_cast<double>(exact[i]) * static_cast<double>(exact[i]),
                            static_cast<double>(screen[i]) * static_cast<double>(screen[i]));
      most_norm_ = std::max(most_norm_, std::sqrt(squares));
    }
  }

  [[nodiscard]] const ScreenedHead& screened() const { return screened_; }
  [[nodiscard]] const PackedMatrix& head() const { return head_.matrix; }

  // `hidden` [rows, hidden_size] after the final norm, FP32 activations. Adds to the audit.
  void add(std::span<const float> hidden) {
    const auto columns = static_cast<std::size_t>(config_.hidden_size);
    const auto vocab = static_cast<std::size_t>(config_.vocab_size);
    const std::size_t rows = hidden.size() / columns;
    input_.reserve(static_cast<std::int64_t>(rows));
    for (std::size_t row = 0; row < rows; ++row) {
      std::copy_n(hidden.data() + row * columns, columns, input_.row(static_cast<std::int64_t>(row)));
      input_.quantize(static_cast<std::int64_t>(row), kernels_.vectors);
    }
    const ActivationRows view = input_.view(static_cast<std::int64_t>(rows));
    chosen_.resize(rows);
    exact_.resize(rows * vocab);
    if (screened_.choose(view, chosen_) >= 0 || loops_.logits(head_.matrix, view, padded_, exact_.data()) >= 0)
      throw internal_error("a row of the audit is not finite");
    for (std::size_t row = 0; row < rows; ++row)
      add_row(hidden.subspan(row * columns, columns), std::span(exact_).subspan(row * vocab, vocab),
              screened_.screen_logits().subspan(row * vocab, vocab), row);
  }
  [[nodiscard]] const HeadAudit& result() const { return audit_; }
  [[nodiscard]] std::span<const std::int32_t> chosen() const { return chosen_; }
  [[nodiscard]] std::span<const float> exact() const { return exact_; }

 private:
  ModelConfig config_;
  Kernels kernels_;
  ThreadPool pool_;
  Projection head_;
  ScreenedHead screened_;
  PassLoops loops_;
  InputRows input_;
  RowBuffer padded_;
  std::vector<ScreenError> errors_;  // of the head's rows
  double most_norm_ = 0;
  std::vector<std::int32_t> chosen_;
  std::vector<float> exact_;
  HeadAudit audit_;

  [[nodiscard]] std::string head_name() const {
    return config_.tie_word_embeddings ? "embed_tokens.weight" : "lm_head.weight";
  }

  void add_row(std::span<const float> hidden, std::span<const float> exact, std::span<const float> screen,
               std::size_t row) {
    const auto count = static_cast<std::size_t>(screened_.candidates_a_row());
    const std::span<const std::int32_t> candidates = screened_.candidates().subspan(row * count, count);
    const auto largest_of = [](std::span<const float> logits) {
      return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    };
    const std::int32_t winner = largest_of(exact);
    const bool miss = std::find(candidates.begin(), candidates.end(), winner) == candidates.end();
    const ActivationNorms norms = activation_norms(hidden);
    double squares = 0;
    for (const double norm : norms.norms) squares += norm * norm;
    const double rounding = rounding_bound(config_.hidden_size, most_norm_, std::sqrt(squares));
    std::vector<bool> is_candidate(exact.size());
    double best = -std::numeric_limits<double>::infinity();
    for (const std::int32_t token : candidates) {
      is_candidate[static_cast<std::size_t>(token)] = true;
      best = std::max(best, static_cast<double>(exact[static_cast<std::size_t>(token)]));
    }
    bool by_norms = true;
    bool by_steps = true;
    for (std::size_t token = 0; token < exact.size(); ++token) {
      const double bound = norm_bound(errors_[token], norms) + rounding;
      const auto rough = static_cast<double>(screen[token]);
      audit_.most_of_bound =
          std::max(audit_.most_of_bound, std::abs(rough - static_cast<double>(exact[token])) / bound);
      if (is_candidate[token]) continue;
      by_norms = by_norms && rough + bound < best;
      by_steps = by_steps && rough + step_bound(errors_[token], norms) + rounding < best;
    }
    ++audit_.rows;
    audit_.misses += miss;
    audit_.wrong += chosen_[row] != winner;
    audit_.screen_alone += largest_of(screen) != winner;
    audit_.proven_by_norms += by_norms;
    audit_.proven_by_steps += by_steps;
    audit_.false_proofs += miss && (by_norms || by_steps);
  }
};

}  // namespace tare::engine::test

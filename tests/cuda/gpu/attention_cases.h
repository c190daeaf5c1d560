// Attention cases: represented inputs, a cache between poison, and the oracle in double precision.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/backend/rope.h"
#include "engine/backend/token_tree.h"
#include "engine/cuda/attention/attention.h"
#include "engine/cuda/attention/attention_layout.h"
#include "tests/cuda/gpu/cache_rows.h"
#include "tests/cuda/gpu/gpu_test.h"

namespace tare::engine::test {

// One model's attention with one pair of cache formats and a capacity. Positions have fixed random content: what the
// cache holds of a position below a frontier, and what the projections give at it.
class AttentionCase {
 public:
  AttentionCase(const CudaAttentionShape& shape, CacheFormat key, CacheFormat value, std::int64_t capacity);

  // The cache as a pass at `frontier` finds it: content below, NaN at and above.
  void reset_cache(int frontier);
  // Turns over the sign of one position's key of one head.
  void corrupt_key(int kv_head, int position);
  // Multiplies the scales of one position's key or value of one head, of a format with scales.
  void corrupt_scales(bool of_values, int kv_head, int position, float factor);

  // The tokens of rounds from here on are the nodes of a tree, or, without one, a chain.
  void set_tree(std::optional<TokenTree> tree) { tree_ = std::move(tree); }
  // Token t of a pass has the content of position frontier + contents[t] instead of its own; empty: its own.
  void set_contents(std::vector<std::int32_t> contents) { contents_ = std::move(contents); }

  // Multiplies all projections from here on.
  void scale_projections(float factor) { projection_scale_ = factor; }

  enum class Results { kPlanes, kRows };
  struct PassOptions {
    Results results = Results::kPlanes;
    OperandLayout layout = OperandLayout::kFP32Rows;
    bool programmatic = false;
    bool late_results = false;  // the product's kernel ends long after it let its successor start
    bool fill = false;
    std::int64_t context_bound = 0;  // of a round; 0: attention_bound's
  };
  // Runs a round (tokens <= 32), or a prefill chunk, and gives the operand's bytes. Canaries are checked.
  std::vector<std::byte> run_round(int frontier, int tokens, const PassOptions& options);
  std::vector<std::byte> run_prefill(int frontier, int tokens, const PassOptions& options);
  std::vector<float> round(int frontier, int tokens) { return floats(run_round(frontier, tokens, {})); }
  std::vector<float> prefill(int frontier, int tokens) {
    return floats(run_prefill(frontier, tokens, {.results = Results::kRows}));
  }
  static std::vector<float> floats(const std::vector<std::byte>& bytes);

  // What the cache must be after a pass at `frontier` that found reset_cache's: expects appended keys within rounding,
  // appended values bit for bit, and every other byte untouched. `appended_by_passes`: keys of positions below
  // frontier + tokens and at or above `first` come from passes.
  void expect_cache(int first, int end) const;
  // Oracle rows [token][heads * head_dim] from the cache as it is now, of which a node sees its path.
  std::vector<double> oracle(int frontier, int tokens) const;

  [[nodiscard]] std::int64_t columns() const { return std::int64_t{shape_.heads} * shape_.head_dim; }
  [[nodiscard]] const CudaAttentionShape& shape() const { return shape_; }
  [[nodiscard]] const CudaKeyValueCache& cache() const { return *cache_; }
  // What the projections give at a position: queries and gates, keys, values.
  [[nodiscard]] std::vector<float> projections(int position) const;
  [[nodiscard]] std::string name() const;

 private:
  [[nodiscard]] int rows() const { return (2 * shape_.heads + 2 * shape_.kv_heads) * shape_.head_dim; }
  [[nodiscard]] TilePlan plan() const;
  [[nodiscard]] int content_of(int frontier, int token) const {
    return frontier + (contents_.empty() ? token : contents_[static_cast<std::size_t>(token)]);
  }
  [[nodiscard]] int position_of(int frontier, int token) const {
    return frontier + (tree_ ? tree_->depths()[static_cast<std::size_t>(token)] : token);
  }
  [[nodiscard]] std::vector<std::vector<float>> planes_of(int position) const;
  [[nodiscard]] CacheRun keys_run() const { return {cache_->key_format, false, shape_.head_dim}; }
  [[nodiscard]] CacheRun values_run() const { return {cache_->value_format, true, shape_.head_dim}; }
  [[nodiscard]] std::int64_t head_bytes(const CacheRun& run) const { return slots_ * run.row_bytes(); }
  // By how much the key in a slot may be off; negative when its scale is wrong.
  [[nodiscard]] double key_error(const std::byte* run, int slot, const std::vector<double>& key, int dim) const;
  [[nodiscard]] std::vector<double> normed_and_rotated(const float* x, const std::vector<float>& gain,
                                                       int position) const;
  std::vector<std::byte> run(int tokens, const PassOptions& options, std::size_t workspace_bytes,
                             const std::function<void(const ProductResult&, std::byte*, const Operand&, const L2Fill&,
                                                      const CudaLaunch&)>& launch,
                             int frontier, int width);

  CudaAttentionShape shape_;
  std::int64_t slots_ = 0;
  float projection_scale_ = 1;
  std::optional<TokenTree> tree_;
  std::vector<std::int32_t> contents_;
  std::vector<float> q_norm_, k_norm_;
  RopeTable rope_;
  DeviceBuffer q_norm_memory_, k_norm_memory_, cosines_, sines_;
  std::unique_ptr<CudaKeyValueCache> cache_;
  std::vector<std::byte> key_content_, value_content_;  // all positions
  std::vector<std::byte> key_initial_, value_initial_;  // after reset_cache
};

// Relative L2 error of the worst token.
struct WorstToken {
  double error = 0;
  int token = 0;
  int column = 0;  // with the largest difference
};
WorstToken worst_token(const std::vector<float>& got, const std::vector<double>& wanted, std::int64_t columns);

}  // namespace tare::engine::test

// The mixing half of a full-attention layer.
#include <algorithm>
#include <cmath>

#include "engine/cpu/forward_pass.h"

namespace tare::engine {

void ForwardPass::run_attention(const AttentionWeights& weights, KvCache& cache, std::int64_t position) {
  const Product products[] = {
      {&weights.q.matrix, &query_and_gate_}, {&weights.k.matrix, &key_}, {&weights.v.matrix, &value_}};
  multiply(products, normed_);

  const auto store = [&](std::int64_t token, ThreadSpace& space) {
    store_keys_and_values(weights, cache, position, token, space);
  };
  if (tokens_ == 1) {
    store(0, spaces_.front());
  } else {
    pool_.parallel_for(static_cast<std::size_t>(tokens_), 1, [&](int thread, std::size_t begin, std::size_t end) {
      for (std::size_t token = begin; token < end; ++token)
        store(static_cast<std::int64_t>(token), spaces_[static_cast<std::size_t>(thread)]);
    });
  }

  // Head by head, so that a thread's share holds short and long contexts alike and one head's cache stays near.
  const std::int64_t items = config_.attention_heads * tokens_;
  pool_.parallel_for(static_cast<std::size_t>(items), 1, [&](int thread, std::size_t begin, std::size_t end) {
    for (auto item = static_cast<std::int64_t>(begin); item < static_cast<std::int64_t>(end); ++item)
      run_attention_head(weights, cache, position, item / tokens_, item % tokens_,
                         spaces_[static_cast<std::size_t>(thread)]);
  });
  for_tokens(tokens_, [&](std::int64_t token) { mixed_attention_.quantize(token, kernels_.vectors); });
  multiply_into_residual(weights.out.matrix, mixed_attention_);
}

void ForwardPass::store_keys_and_values(const AttentionWeights& weights, KvCache& cache, std::int64_t position,
                                        std::int64_t token, ThreadSpace& space) {
  const std::int64_t head_dim = config_.head_dim;
  float* key = space.key.data();
  for (std::int64_t head = 0; head < config_.key_value_heads; ++head) {
    std::fill_n(key, space.key.size(), 0.0F);
    std::copy_n(key_.row(token) + head * head_dim, head_dim, key);
    kernels_.vectors.rms_norm(key, weights.k_norm.data(), head_dim, config_.rms_norm_eps, key);
    rope_.rotate(position + token, key);
    cache.store(head, position + token, key, value_.row(token) + head * head_dim);
  }
}

void ForwardPass::run_attention_head(const AttentionWeights& weights, const KvCache& cache, std::int64_t position,
                                     std::int64_t head, std::int64_t token, ThreadSpace& space) {
  const std::int64_t head_dim = config_.head_dim;
  const float* query_row = query_and_gate_.row(token) + 2 * head * head_dim;
  float* query = space.query.data();
  std::fill_n(query, space.query.size(), 0.0F);
  std::copy_n(query_row, head_dim, query);
  kernels_.vectors.rms_norm(query, weights.q_norm.data(), head_dim, config_.rms_norm_eps, query);
  rope_.rotate(position + token, query);

  const std::int64_t key_value_head = head / (config_.attention_heads / config_.key_value_heads);
  const float scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
  float* output = space.output.data();
  cache.attend(kernels_.attention, key_value_head, query, position + token + 1, scale, space.scores.data(), output);
  kernels_.vectors.apply_sigmoid_gate(output, query_row + head_dim, head_dim);
  std::copy_n(output, head_dim, mixed_attention_.row(token) + head * head_dim);
}

}  // namespace tare::engine

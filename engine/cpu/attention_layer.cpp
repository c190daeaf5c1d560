// The mixing half of a full-attention layer.
#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "engine/cpu/forward_pass.h"
#include "engine/formats/hadamard.h"

namespace tare::engine {

void ForwardPass::run_attention(const AttentionWeights& weights, const LayerOps& ops, KvCache& cache,
                                std::int64_t position) {
  const Product products[] = {
      {&weights.q.matrix, &query_and_gate_}, {&weights.k.matrix, &key_}, {&weights.v.matrix, &value_}};
  multiply(products, normed_, ops.in);
  {
    const OpScope scope(collector_, ops.mixing, mixing_bytes(cache, position, tokens_));
    mix_attention(weights, cache, position);
  }
  multiply_into_residual(weights.out.matrix, mixed_attention_, ops.out);
}

void ForwardPass::mix_attention(const AttentionWeights& weights, KvCache& cache, std::int64_t position) {
  if (nodes_lie_apart()) cache.reserve_nodes(tokens_);
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

  // Query heads of one key-value head go together, so that its cache is read once for all of them, as long as every
  // thread has work. Group by group, not token by token: a share then holds short and long contexts alike.
  const std::int64_t heads_per_cache = config_.attention_heads / config_.key_value_heads;
  std::int64_t together = std::min(heads_per_cache, kMostQueries);
  const auto group_count = [&] { return (heads_per_cache + together - 1) / together * config_.key_value_heads; };
  while (together > 1 && group_count() * tokens_ < pool_.size()) --together;
  const std::int64_t groups_per_cache = group_count() / config_.key_value_heads;
  const auto items = static_cast<std::size_t>(group_count() * tokens_);
  pool_.parallel_for(items, 1, [&](int thread, std::size_t begin, std::size_t end) {
    for (auto item = static_cast<std::int64_t>(begin); item < static_cast<std::int64_t>(end); ++item) {
      const std::int64_t group = item / tokens_;
      const std::int64_t within = group % groups_per_cache * together;
      run_attention_heads(weights, cache, position, group / groups_per_cache * heads_per_cache + within,
                          std::min(together, heads_per_cache - within), item % tokens_,
                          spaces_[static_cast<std::size_t>(thread)]);
    }
  });
  for_tokens(tokens_, [&](std::int64_t token) { mixed_attention_.quantize(token, kernels_.vectors); });
}

void ForwardPass::store_keys_and_values(const AttentionWeights& weights, KvCache& cache, std::int64_t position,
                                        std::int64_t token, ThreadSpace& space) {
  const std::int64_t head_dim = config_.head_dim;
  float* key = space.key.data();
  for (std::int64_t head = 0; head < config_.key_value_heads; ++head) {
    std::fill_n(key, space.key.size(), 0.0F);
    std::copy_n(key_.row(token) + head * head_dim, head_dim, key);
    kernels_.vectors.rms_norm(key, weights.k_norm.data(), head_dim, config_.rms_norm_eps, key);
    rope_.rotate(position + depth(token), key);
    if (rotates_keys_) rotate_hadamard({key, static_cast<std::size_t>(head_dim)});
    const float* value = value_.row(token) + head * head_dim;
    if (nodes_lie_apart()) {
      cache.store_node(head, token, key, value);
    } else {
      cache.store(head, position + token, key, value);
    }
  }
}

// Query heads first_head .. first_head + head_count - 1, which share a key-value head.
void ForwardPass::run_attention_heads(const AttentionWeights& weights, const KvCache& cache, std::int64_t position,
                                      std::int64_t first_head, std::int64_t head_count, std::int64_t token,
                                      ThreadSpace& space) {
  const std::int64_t head_dim = config_.head_dim;
  const auto count = static_cast<std::size_t>(head_count);
  std::array<const float*, kMostQueries> queries{};
  std::array<float*, kMostQueries> scores{};
  std::array<float*, kMostQueries> node_scores{};
  std::array<float*, kMostQueries> outputs{};
  for (std::size_t i = 0; i < count; ++i) {
    float* query = space.queries[i].data();
    std::fill_n(query, space.queries[i].size(), 0.0F);
    std::copy_n(query_and_gate_.row(token) + 2 * (first_head + static_cast<std::int64_t>(i)) * head_dim, head_dim,
                query);
    kernels_.vectors.rms_norm(query, weights.q_norm.data(), head_dim, config_.rms_norm_eps, query);
    rope_.rotate(position + depth(token), query);
    if (rotates_keys_) rotate_hadamard({query, static_cast<std::size_t>(head_dim)});
    queries[i] = query;
    scores[i] = space.scores[i].data();
    node_scores[i] = space.node_scores[i].data();
    outputs[i] = space.outputs[i].data();
  }

  const std::int64_t key_value_head = first_head / (config_.attention_heads / config_.key_value_heads);
  const float scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
  if (nodes_lie_apart()) {
    walk_->path_to(token, space.path);
    cache.attend_path(kernels_.attention, key_value_head, std::span(queries).first(count), position, space.path, scale,
                      std::span(scores).first(count), std::span(node_scores).first(count),
                      std::span(outputs).first(count));
  } else {
    cache.attend(kernels_.attention, key_value_head, std::span(queries).first(count), position + token + 1, scale,
                 std::span(scores).first(count), std::span(outputs).first(count));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t head = first_head + static_cast<std::int64_t>(i);
    const float* gate = query_and_gate_.row(token) + (2 * head + 1) * head_dim;
    kernels_.vectors.apply_sigmoid_gate(outputs[i], gate, head_dim);
    std::copy_n(outputs[i], head_dim, mixed_attention_.row(token) + head * head_dim);
  }
}

}  // namespace tare::engine

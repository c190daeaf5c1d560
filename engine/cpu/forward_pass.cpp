#include "engine/cpu/forward_pass.h"

#include <algorithm>
#include <functional>

#include "engine/cpu/kv_layout.h"

namespace tare::engine {
namespace {

AlignedBuffer<float> padded_floats(std::int64_t size) {
  return AlignedBuffer<float>(static_cast<std::size_t>(round_up(size, kRowPadding)));
}

}  // namespace

ForwardPass::ThreadSpace::ThreadSpace(const ModelConfig& config, std::int64_t capacity)
    : gdn(GdnShape(config)),
      gdn_query(padded_floats(config.linear_key_head_dim)),
      gdn_key(padded_floats(config.linear_key_head_dim)),
      gdn_value(padded_floats(config.linear_value_head_dim)),
      gdn_output(padded_floats(config.linear_value_head_dim)),
      key(padded_floats(config.head_dim)) {
  for (AlignedBuffer<float>& query : queries) query = padded_floats(config.head_dim);
  for (AlignedBuffer<float>& output : outputs) output = padded_floats(config.head_dim);
  for (AlignedBuffer<float>& row : scores) row = padded_floats(capacity);
}

ForwardPass::ForwardPass(const ModelConfig& config, const EngineOptions& options, const ModelWeights& weights,
                         const PassOps& ops, const Kernels& kernels, ThreadPool& pool, std::int64_t capacity)
    : config_(config),
      weights_(weights),
      ops_(ops),
      kernels_(kernels),
      pool_(pool),
      loops_(kernels, pool),
      rope_(capacity, config.rotary_dim, config.rope_theta),
      rotates_keys_(options.kv.rotation == KeyRotation::kHadamard),
      x_(config.hidden_size),
      normed_(config.hidden_size, options.activations.format == ActivationFormat::kQ8),
      mixed_gdn_(config.linear_value_channels(), options.activations.format == ActivationFormat::kQ8),
      mixed_attention_(config.query_channels(), options.activations.format == ActivationFormat::kQ8),
      activated_(config.intermediate_size, options.activations.format == ActivationFormat::kQ8),
      projected_(config.conv_channels()),
      z_(config.linear_value_channels()),
      beta_and_decay_(2 * config.linear_value_heads),
      query_and_gate_(2 * config.query_channels()),
      key_(config.key_value_channels()),
      value_(config.key_value_channels()),
      gate_(config.intermediate_size),
      up_(config.intermediate_size),
      increment_(config.hidden_size),
      padded_logits_(config.vocab_size),
      final_(config.hidden_size, options.activations.format == ActivationFormat::kQ8) {
  for (int thread = 0; thread < pool.size(); ++thread) spaces_.emplace_back(config, capacity);
}

void ForwardPass::reserve(std::int64_t tokens) {
  for (RowBuffer* buffer :
       {&x_, &projected_, &z_, &beta_and_decay_, &query_and_gate_, &key_, &value_, &gate_, &up_, &increment_})
    buffer->reserve(tokens);
  for (InputRows* rows : {&normed_, &mixed_gdn_, &mixed_attention_, &activated_, &final_}) rows->reserve(tokens);
}

void ForwardPass::begin_verify(const TokenTree& tree) {
  walk_.emplace(tree);
  if (!tree.is_chain()) depths_ = tree.depths();
  for (ThreadSpace& space : spaces_) {
    space.gdn.reserve_states(GdnShape(config_), walk_->places);
    for (AlignedBuffer<float>& row : space.node_scores)
      if (nodes_lie_apart() && static_cast<std::int64_t>(row.size()) < tokens_) row = padded_floats(tokens_);
  }
}

void ForwardPass::for_tokens(std::int64_t tokens, const std::function<void(std::int64_t)>& body) {
  loops_.for_rows(tokens, body);
}

void ForwardPass::embed(std::span<const std::int32_t> tokens) {
  const OpScope scope(collector_, ops_.embed, embedding_bytes(config_, tokens_));
  loops_.embed(weights_.embedding.data(), config_.hidden_size, tokens, x_);
}

void ForwardPass::norm_into(InputRows& out, const AlignedBuffer<float>& gain, const LaunchRecord& op) {
  const OpScope scope(collector_, op);
  loops_.norm(x_, gain.data(), config_.hidden_size, config_.rms_norm_eps, tokens_, out);
}

void ForwardPass::multiply(std::span<const Product> products, const InputRows& input, const LaunchRecord& op) {
  const OpScope scope(collector_, op);
  loops_.multiply(products, input.view(tokens_));
}

void ForwardPass::multiply_into_residual(const PackedMatrix& matrix, const InputRows& input, const LaunchRecord& op) {
  const OpScope scope(collector_, op);
  loops_.multiply_into(x_, matrix, input.view(tokens_), increment_);
}

void ForwardPass::run_mlp(const LayerWeights& weights, const LayerOps& ops) {
  norm_into(normed_, weights.post_norm, ops.post_norm);
  {
    const OpScope scope(collector_, ops.gate_up);
    loops_.multiply_gated(weights.gate.matrix, weights.up.matrix, normed_.view(tokens_), gate_, up_, activated_);
  }
  multiply_into_residual(weights.down.matrix, activated_, ops.down);
}

void ForwardPass::capture(const Pass& pass, std::size_t index) const {
  if (index >= pass.hidden.size() || pass.hidden[index].empty()) return;
  for (std::int64_t token = 0; token < tokens_; ++token)
    std::copy_n(x_.row(token), config_.hidden_size, pass.hidden[index].data() + token * config_.hidden_size);
}

void ForwardPass::keep_taps(LayerTaps& taps, std::size_t layer) const {
  for (std::size_t i = 0; i < taps.layers.size(); ++i)
    if (taps.layers[i] == static_cast<std::int64_t>(layer))
      for (std::int64_t token = 0; token < tokens_; ++token)
        std::copy_n(x_.row(token), config_.hidden_size,
                    taps.rows.row(token) + static_cast<std::int64_t>(i) * config_.hidden_size);
}

void ForwardPass::run(const Pass& pass, std::vector<LayerState>& layers) {
  tokens_ = static_cast<std::int64_t>(pass.tokens.size());
  reserve(tokens_);
  walk_.reset();
  depths_ = {};
  if (pass.mode == PassMode::kVerify) begin_verify(*pass.tree);
  if (pass.taps != nullptr) pass.taps->rows.reserve(tokens_);
  if (pass.stream == nullptr) {
    embed(pass.tokens);
  } else {
    for (std::int64_t token = 0; token < tokens_; ++token)
      std::copy_n(pass.stream->row(token), config_.hidden_size, x_.row(token));
  }
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    capture(pass, layer);
    const LayerWeights& weights = weights_.layers[layer];
    const LayerOps& ops = ops_.layers[layer];
    norm_into(normed_, weights.input_norm, ops.input_norm);
    if (weights.gdn) {
      run_gdn(*weights.gdn, ops, *layers[layer].gdn, pass);
    } else {
      run_attention(*weights.attention, ops, *layers[layer].attention, pass.position);
    }
    run_mlp(weights, ops);
    if (pass.taps != nullptr) keep_taps(*pass.taps, layer);
  }
  norm_into(final_, weights_.final_norm, ops_.final_norm);
  if (layers.size() < pass.hidden.size() && !pass.hidden[layers.size()].empty())
    copy_hidden(0, tokens_, pass.hidden[layers.size()].data());
}

void ForwardPass::copy_hidden(std::int64_t begin, std::int64_t end, float* out) const {
  const ActivationRows rows = final_.view(tokens_);
  for (std::int64_t token = begin; token < end; ++token, out += config_.hidden_size)
    std::copy_n(rows.values + token * rows.stride, config_.hidden_size, out);
}

std::int64_t ForwardPass::logits(std::int64_t begin, std::int64_t end, float* out) {
  const OpScope scope(collector_, ops_.head);
  const std::int64_t fault = loops_.logits(weights_.head.matrix, final_.view(begin, end), padded_logits_, out);
  return fault < 0 ? -1 : begin + fault;
}

}  // namespace tare::engine

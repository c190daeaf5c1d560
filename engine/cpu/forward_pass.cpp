#include "engine/cpu/forward_pass.h"

#include <algorithm>
#include <atomic>
#include <functional>

#include "engine/cpu/kv_layout.h"
#include "engine/formats/float_formats.h"

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
      rope_(capacity, config.rotary_dim, config.rope_theta),
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

void ForwardPass::for_tokens(std::int64_t tokens, const std::function<void(std::int64_t)>& body) {
  if (tokens == 1) return body(0);  // not worth a hand-over
  pool_.parallel_for(static_cast<std::size_t>(tokens), 1, [&body](int, std::size_t begin, std::size_t end) {
    for (std::size_t token = begin; token < end; ++token) body(static_cast<std::int64_t>(token));
  });
}

void ForwardPass::embed(std::span<const std::int32_t> tokens) {
  const OpScope scope(collector_, ops_.embed, embedding_bytes(config_, tokens_));
  for_tokens(tokens_, [&](std::int64_t token) {
    const std::uint16_t* row =
        weights_.embedding.data() + tokens[static_cast<std::size_t>(token)] * config_.hidden_size;
    std::transform(row, row + config_.hidden_size, x_.row(token), bfloat16_to_float);
  });
}

void ForwardPass::norm_into(InputRows& out, const AlignedBuffer<float>& gain, const LaunchRecord& op) {
  const OpScope scope(collector_, op);
  for_tokens(tokens_, [&](std::int64_t token) {
    kernels_.vectors.rms_norm(x_.row(token), gain.data(), config_.hidden_size, config_.rms_norm_eps, out.row(token));
    out.quantize(token, kernels_.vectors);
  });
}

void ForwardPass::multiply(std::span<const Product> products, const InputRows& input, const LaunchRecord& op) {
  const OpScope scope(collector_, op);
  std::int64_t panels = 0;
  for (const Product& product : products) panels += product.matrix->panels();
  const ActivationRows rows = input.view(tokens_);
  pool_.parallel_for(static_cast<std::size_t>(panels), 1, [&](int, std::size_t begin, std::size_t end) {
    std::int64_t offset = 0;
    for (const Product& product : products) {
      const std::int64_t first = std::max(static_cast<std::int64_t>(begin) - offset, std::int64_t{0});
      const std::int64_t last = std::min(static_cast<std::int64_t>(end) - offset, product.matrix->panels());
      if (first < last)
        kernels_.multiply_panels(*product.matrix, first, last, rows, product.out->data(), product.out->stride());
      offset += product.matrix->panels();
    }
  });
}

void ForwardPass::multiply_into_residual(const PackedMatrix& matrix, const InputRows& input, const LaunchRecord& op) {
  const OpScope scope(collector_, op);
  const ActivationRows rows = input.view(tokens_);
  pool_.parallel_for(static_cast<std::size_t>(matrix.panels()), 1, [&](int, std::size_t begin, std::size_t end) {
    const auto first = static_cast<std::int64_t>(begin);
    const auto last = static_cast<std::int64_t>(end);
    kernels_.multiply_panels(matrix, first, last, rows, increment_.data(), increment_.stride());
    for (std::int64_t token = 0; token < tokens_; ++token)
      kernels_.vectors.add(x_.row(token) + first * kPanelRows, increment_.row(token) + first * kPanelRows,
                           (last - first) * kPanelRows);
  });
}

void ForwardPass::run_mlp(const LayerWeights& weights, const LayerOps& ops) {
  norm_into(normed_, weights.post_norm, ops.post_norm);
  {
    const OpScope scope(collector_, ops.gate_up);
    multiply_gate_and_up(weights);
  }
  multiply_into_residual(weights.down.matrix, activated_, ops.down);
}

void ForwardPass::multiply_gate_and_up(const LayerWeights& weights) {
  const ActivationRows rows = normed_.view(tokens_);
  const std::int64_t panels = weights.gate.matrix.panels();
  // Shares are whole blocks of 64 rows, so that each thread can also encode what it made.
  constexpr std::size_t kGrain = kRowPadding / kPanelRows;
  pool_.parallel_for(static_cast<std::size_t>(panels), kGrain, [&](int, std::size_t begin, std::size_t end) {
    for (auto panel = static_cast<std::int64_t>(begin); panel < static_cast<std::int64_t>(end); ++panel) {
      kernels_.multiply_panels(weights.gate.matrix, panel, panel + 1, rows, gate_.data(), gate_.stride());
      kernels_.multiply_panels(weights.up.matrix, panel, panel + 1, rows, up_.data(), up_.stride());
    }
    const std::int64_t first = static_cast<std::int64_t>(begin) * kPanelRows;
    const std::int64_t last = static_cast<std::int64_t>(end) * kPanelRows;
    for (std::int64_t token = 0; token < tokens_; ++token) {
      kernels_.vectors.silu_product(gate_.row(token) + first, up_.row(token) + first, last - first,
                                    activated_.row(token) + first);
      activated_.quantize(token, first, round_up(last, kRowPadding), kernels_.vectors);
    }
  });
}

void ForwardPass::capture(const Pass& pass, std::size_t index) const {
  if (index >= pass.hidden.size() || pass.hidden[index].empty()) return;
  for (std::int64_t token = 0; token < tokens_; ++token)
    std::copy_n(x_.row(token), config_.hidden_size, pass.hidden[index].data() + token * config_.hidden_size);
}

void ForwardPass::run(const Pass& pass, std::vector<LayerState>& layers) {
  tokens_ = static_cast<std::int64_t>(pass.tokens.size());
  reserve(tokens_);
  embed(pass.tokens);
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
  const PackedMatrix& head = weights_.head.matrix;
  const std::int64_t vocab = config_.vocab_size;
  const std::int64_t count = end - begin;
  const bool whole_panels = vocab % kPanelRows == 0;
  if (!whole_panels) padded_logits_.reserve(count);
  float* target = whole_panels ? out : padded_logits_.data();
  const std::int64_t stride = whole_panels ? vocab : padded_logits_.stride();
  const ActivationRows rows = final_.view(begin, end);

  std::atomic<std::int64_t> first_fault{count};
  pool_.parallel_for(static_cast<std::size_t>(head.panels()), 1,
                     [&](int, std::size_t share_begin, std::size_t share_end) {
                       const auto first = static_cast<std::int64_t>(share_begin);
                       const auto last = static_cast<std::int64_t>(share_end);
                       kernels_.multiply_panels(head, first, last, rows, target, stride);
                       const std::int64_t first_row = first * kPanelRows;
                       const std::int64_t row_count = std::min(last * kPanelRows, vocab) - first_row;
                       for (std::int64_t token = 0; token < count; ++token) {
                         const float* made = target + token * stride + first_row;
                         if (!kernels_.vectors.all_finite(made, row_count)) {
                           std::int64_t known = first_fault.load();
                           while (token < known && !first_fault.compare_exchange_weak(known, token)) {
                           }
                         }
                         if (!whole_panels) std::copy_n(made, row_count, out + token * vocab + first_row);
                       }
                     });
  return first_fault == count ? -1 : begin + first_fault;
}

}  // namespace tare::engine

#include "engine/cpu/mtp_drafter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json_reader.h"
#include "engine/cpu/inventory.h"

namespace tare::engine {
namespace {

constexpr std::int64_t kDefaultTokens = 3;  // acceptance falls with depth: the head was trained for one step
constexpr std::int64_t kMostPending = 128;  // rows run at once while a prompt is absorbed
constexpr std::int64_t kMostLag = 32;       // rows that may wait for the next draft: those of a verify's path

ModelConfig one_layer(ModelConfig config) {
  config.layers = {LayerKind::kFullAttention};
  return config;
}

MtpWeights load(const Checkpoint& checkpoint, const EngineOptions& options, ThreadPool& pool) {
  const std::int64_t layers = checkpoint.config().mtp_layers;
  if (layers == 0)
    throw input_error("speculate.drafter", "mtp needs a checkpoint with an MTP head, and this one has none",
                      "text-only exports drop it: use the original release, or another drafter");
  if (layers > 1)
    throw input_error("speculate.drafter",
                      fmt::format("mtp: the checkpoint's MTP head has {} layers, only one is supported", layers));
  return load_mtp_weights(checkpoint, options, pool);
}

// The ops of the one layer, told apart from the target's.
PassOps make_ops(const ModelConfig& config, const MtpWeights& weights) {
  PassOps ops;
  LayerOps layer = make_layer_ops(config, weights.body.layers.front(), "mtp.layers.0.");
  for (LaunchRecord* op : {&layer.input_norm, &layer.in, &layer.mixing, &layer.out, &layer.commit, &layer.post_norm,
                           &layer.gate_up, &layer.down})
    op->name = "draft " + op->name;
  ops.layers = {layer};
  ops.final_norm = {"draft rms_norm", "mtp.norm.weight",
                    static_cast<std::uint64_t>(config.hidden_size) * sizeof(float)};
  return ops;
}

}  // namespace

MtpDrafter::MtpDrafter(const Checkpoint& checkpoint, const EngineOptions& options, const ModelWeights& target,
                       ProposalHead head, const Kernels& kernels, ThreadPool& pool, std::int64_t capacity)
    : config_(one_layer(checkpoint.config())),
      target_(target),
      head_(std::move(head)),
      kernels_(kernels),
      loops_(kernels, pool),
      weights_(load(checkpoint, options, pool)),
      layer_ops_(make_ops(config_, weights_)),
      layers_(make_layer_states(config_, options, capacity)),
      pass_(config_, options, weights_.body, layer_ops_, kernels, pool, capacity),
      next_tokens_(static_cast<std::size_t>(kMostPending)),
      pending_hidden_(config_.hidden_size),
      embedded_(config_.hidden_size),
      joined_(2 * config_.hidden_size, options.activations.format == ActivationFormat::kQ8),
      stream_(config_.hidden_size),
      chained_(config_.hidden_size),
      padded_logits_(head_.rows()),
      logits_(static_cast<std::size_t>(head_.rows())),
      rows_(kernels, pool) {
  const std::string format = to_text(weights_.fc.matrix.format());
  ops_.embed = {"draft embed", "embed_tokens.weight"};
  ops_.input_norms = {"draft rms_norm", "mtp.pre_fc_norm",
                      2 * static_cast<std::uint64_t>(config_.hidden_size) * sizeof(float)};
  ops_.fc = {"draft product " + format, "mtp.fc.weight", weights_.fc.matrix.bytes()};
  ops_.head = head_.op();
  ops_.candidates = {"draft candidates", "logits"};
  pending_hidden_.reserve(kMostPending);
  chained_.reserve(1);
}

std::int64_t MtpDrafter::default_tokens() const {
  return kDefaultTokens;
}

void MtpDrafter::reset() {
  kept_rows_ = 0;
  pending_ = 0;
  drafted_anchor_.reset();
}

void MtpDrafter::absorb(const ForwardPass& target, std::span<const std::int32_t> tokens,
                        std::span<const std::int32_t> rows, std::int64_t position) {
  if (kept_rows_ + pending_ != position) throw internal_error("the MTP head missed absorbed tokens");
  if (!tokens.empty() && pending_ == 1 && drafted_anchor_ == tokens.front()) keep(1);
  drafted_anchor_.reset();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (pending_ > 0) next_tokens_[static_cast<std::size_t>(pending_ - 1)] = tokens[i];
    if (pending_ == kMostPending) flush();
    target.copy_hidden(rows[i], rows[i] + 1, pending_hidden_.row(pending_));
    ++pending_;
  }
  if (pending_ > kMostLag) run_all_but_last();
}

// The last one's token is not known yet.
void MtpDrafter::run_all_but_last() {
  if (pending_ <= 1) return;
  run(std::span(next_tokens_).first(static_cast<std::size_t>(pending_ - 1)), pending_hidden_, kept_rows_);
  keep(pending_ - 1);
}

void MtpDrafter::export_rows(std::int64_t first, std::int64_t last, ByteWriter& bytes) {
  run_all_but_last();
  layers_.front().attention->export_rows(std::max<std::int64_t>(first - 1, 0), std::max<std::int64_t>(last - 1, 0),
                                         bytes);
}

void MtpDrafter::import_rows(std::int64_t first, std::int64_t last, ByteReader& bytes) {
  layers_.front().attention->import_rows(std::max<std::int64_t>(first - 1, 0), std::max<std::int64_t>(last - 1, 0),
                                         bytes);
}

void MtpDrafter::export_end(ByteWriter& bytes) {
  run_all_but_last();
  bytes.put(pending_hidden_.row(0), static_cast<std::size_t>(config_.hidden_size) * sizeof(float));
}

void MtpDrafter::import_end(std::int64_t frontier, ByteReader& bytes) {
  reset();
  kept_rows_ = frontier - 1;
  pending_ = 1;
  bytes.get(pending_hidden_.row(0), static_cast<std::size_t>(config_.hidden_size) * sizeof(float));
}

// Of rows that all have their tokens.
void MtpDrafter::flush() {
  run(std::span(next_tokens_).first(static_cast<std::size_t>(pending_)), pending_hidden_, kept_rows_);
  keep(pending_);
}

void MtpDrafter::keep(std::int64_t count) {
  for (std::int64_t row = count; row < pending_; ++row)
    std::copy_n(pending_hidden_.row(row), config_.hidden_size, pending_hidden_.row(row - count));
  kept_rows_ += count;
  pending_ -= count;
}

void MtpDrafter::run(std::span<const std::int32_t> tokens, const RowBuffer& hidden, std::int64_t position) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  const std::int64_t size = config_.hidden_size;
  for (RowBuffer* buffer : {&embedded_, &stream_}) buffer->reserve(count);
  joined_.reserve(count);
  {
    const OpScope scope(collector_, ops_.embed, embedding_bytes(config_, count));
    loops_.embed(target_.embedding.data(), size, tokens, embedded_);
  }
  {
    const OpScope scope(collector_, ops_.input_norms);
    loops_.for_rows(count, [&](std::int64_t row) {
      // The embedding's half first: a norm writes whole vectors, and the second half repairs where it begins.
      float* joined = joined_.row(row);
      kernels_.vectors.rms_norm(embedded_.row(row), weights_.embedding_norm.data(), size, config_.rms_norm_eps, joined);
      kernels_.vectors.rms_norm(hidden.row(row), weights_.hidden_norm.data(), size, config_.rms_norm_eps,
                                joined + size);
      joined_.quantize(row, kernels_.vectors);
    });
  }
  {
    const OpScope scope(collector_, ops_.fc);
    const Product product = {&weights_.fc.matrix, &stream_};
    loops_.multiply(std::span(&product, 1), joined_.view(count));
  }
  Pass pass;
  pass.tokens = tokens;
  pass.position = position;
  pass.stream = &stream_;
  pass_.run(pass, layers_);
}

DraftOutput MtpDrafter::draft(const DraftRequest& request, std::int64_t frontier) {
  if (pending_ < 1 || kept_rows_ + pending_ != frontier) throw internal_error("the MTP head missed absorbed tokens");
  rows_.begin(request.tokens, std::min(request.candidates, head_.rows()));
  next_tokens_[static_cast<std::size_t>(pending_ - 1)] = request.anchor;
  run(std::span(next_tokens_).first(static_cast<std::size_t>(pending_)), pending_hidden_, kept_rows_);
  const std::int64_t last = pending_ - 1;
  keep(last);  // their tokens are committed; the anchor's is not
  drafted_anchor_ = request.anchor;
  fill_row(0, last, request, frontier);
  pass_.copy_hidden(last, last + 1, chained_.row(0));
  for (std::int64_t row = 1; row < request.tokens; ++row) {
    const std::int32_t token = rows_.best(row - 1);
    run(std::span(&token, 1), chained_, frontier - 1 + row);
    fill_row(row, 0, request, frontier);
    pass_.copy_hidden(0, 1, chained_.row(0));
  }
  return rows_.output();
}

void MtpDrafter::fill_row(std::int64_t row, std::int64_t pass_row, const DraftRequest& request, std::int64_t frontier) {
  {
    const OpScope scope(collector_, ops_.head);
    const std::int64_t fault =
        loops_.logits(head_.matrix(), pass_.final_rows(pass_row, pass_row + 1), padded_logits_, logits_.data());
    if (fault >= 0) throw draft_not_finite(frontier + 1 + row);
  }
  const OpScope scope(collector_, ops_.candidates);
  rows_.fill(row, logits_.span(), head_.rows(), request.temperature, head_.ids());
}

void MtpDrafter::set_collector(Collector* collector) {
  collector_ = collector;
  pass_.set_collector(collector);
}

void MtpDrafter::account(InventoryAccount& account, std::int64_t context, std::int64_t width,
                         std::int64_t tokens) const {
  const auto passes = static_cast<std::uint64_t>(tokens);
  const auto stream = [&](const std::string& name, const std::string& format, std::uint64_t bytes,
                          std::uint64_t elements) {
    account.add({name, format, AccessPattern::kStream, bytes, passes * bytes, elements});
  };
  const auto vector = [&](const std::string& name, std::int64_t elements) {
    const auto count = static_cast<std::uint64_t>(elements);
    stream(name, "fp32", count * sizeof(float), count);
  };
  const auto projection = [&](const Projection& weights) {
    const PackedMatrix& matrix = weights.matrix;
    stream(weights.names.front(), stored_format(matrix), matrix.bytes(),
           element_count(matrix.rows(), matrix.columns()));
  };
  for (const char* name : {"mtp.pre_fc_norm_embedding.weight", "mtp.pre_fc_norm_hidden.weight"})
    vector(name, config_.hidden_size);
  projection(weights_.fc);
  const std::string prefix = "mtp.layers.0.";
  const LayerWeights& layer = weights_.body.layers.front();
  vector(prefix + "input_layernorm.weight", config_.hidden_size);
  vector(prefix + "post_attention_layernorm.weight", config_.hidden_size);
  vector(prefix + "self_attn.q_norm.weight", config_.head_dim);
  vector(prefix + "self_attn.k_norm.weight", config_.head_dim);
  for (const Projection* weights : {&layer.attention->q, &layer.attention->k, &layer.attention->v,
                                    &layer.attention->out, &layer.gate, &layer.up, &layer.down})
    projection(*weights);
  vector("mtp.norm.weight", config_.hidden_size);

  // The first pass runs the rows of the last commit, the others one row each.
  const std::int64_t rows = tokens > 0 ? width + tokens - 1 : 0;
  const KvCache& cache = *layers_.front().attention;
  std::uint64_t cache_bytes = tokens > 0 ? mixing_bytes(cache, context - width, width) : 0;
  for (std::int64_t row = 1; row < tokens; ++row) cache_bytes += mixing_bytes(cache, context - 1 + row, 1);
  account.add({prefix + "kv cache", cache.format(), AccessPattern::kCache, cache.resident_bytes(), cache_bytes,
               element_count(2 * (context + std::max(tokens - 1, std::int64_t{0})), config_.key_value_channels())});
  // The target's own, read once more.
  account.add({"embed_tokens.weight (draft)", "bf16", AccessPattern::kGather, 0, embedding_bytes(config_, rows), 0});
  head_.account(account, passes);
}

std::uint64_t MtpDrafter::cache_bytes(const EngineOptions::KeyValue& formats, std::int64_t capacity) const {
  return kv_cache_bytes(config_, formats, capacity);
}

Json MtpDrafter::description() const {
  return {{"kind", "mtp"}, {"weights", to_text(weights_.fc.matrix.format())}, {"head", head_.description()}};
}

}  // namespace tare::engine

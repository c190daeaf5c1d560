#include "engine/cuda/drafter/block_drafter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "engine/backend/rope.h"
#include "engine/backend/sequence_checks.h"
#include "engine/cuda/attention/attention_layout.h"
#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/device/take_control.h"
#include "engine/cuda/drafter/drafter_sizes.h"
#include "engine/cuda/elementwise.h"

namespace tare::engine {
namespace {

constexpr std::array<int, 4> kFeatureWidths = {0, 8, 16, 32};
// Operands of FP16 panels are numbers times 2^exponent. Features are the residual stream as it is, whose few large
// channels reach thousands and more: 2^-4 leaves room up to a million. The others as in cuda_forward.cpp.
constexpr std::array<int, kDrafterOperandKinds> kExponents = {-4, 4, 4, 2, 0};
std::size_t position_of_width(int width) {
  return width == 8 ? 0 : width == 16 ? 1 : 2;
}

std::string part_name(std::size_t layer, const char* part) {
  return fmt::format("drafter.layers.{}.{}", layer, part);
}

}  // namespace

void CudaBlockDrafter::check(const BlockDrafterConfig& config, const EngineOptions& options) {
  check_drafter_shape(drafter_shape(config));
  check_head_shape(config.vocab_size, config.hidden_size);
  if (config.intermediate_size % 2 != 0) {
    throw input_error(
        "speculate.drafter",
        fmt::format("an intermediate size of {} is odd; backend cuda needs an even one", config.intermediate_size));
  }
  for (std::int64_t layer = 0; layer < config.layer_count(); ++layer) {
    // Keys and values of the context are one product for all layers.
    if (options.format_of(TensorClass::kDrafter, layer) != options.format_of(TensorClass::kDrafter, 0)) {
      throw input_error("weights.overrides", "backend cuda takes one format for all layers of a drafter");
    }
  }
  if (options.speculate.candidates > kMostCandidates) {
    throw input_error("speculate.candidates", fmt::format("backend cuda drafts at most {} candidates a row, not {}",
                                                          kMostCandidates, options.speculate.candidates));
  }
  if (options.speculate.draft_tokens > kMostDraftTokens) {
    throw input_error("speculate.draft_tokens", fmt::format("backend cuda drafts at most {} tokens ahead, not {}",
                                                            kMostDraftTokens, options.speculate.draft_tokens));
  }
}

std::vector<MemoryPart> CudaBlockDrafter::plan(const BlockDrafterConfig& config, const EngineOptions& options,
                                               std::int64_t capacity, const CudaDevice& device,
                                               const ProposalPlan& proposals) {
  const DrafterSizes sizes = drafter_sizes(config, options, capacity, device, proposals.rows(config.vocab_size));
  return {{"drafter", drafter_weight_bytes(config, options) + proposals.bytes()},
          {"drafter's staging", std::max(drafter_staging_bytes(config, options), proposals.staging_bytes())},
          {"drafter's key-value cache", 2 * sizes.cache},
          {"drafter's work space", sizes.work()}};
}

CudaBlockDrafter::CudaBlockDrafter(const BlockDrafterCheckpoint& checkpoint, const EngineOptions& options,
                                   std::int64_t capacity, const CudaDevice& device, const DrafterTarget& target,
                                   cudaStream_t stream)
    : config_(checkpoint.config()),
      options_(options),
      capacity_(capacity),
      device_(device),
      target_(target),
      stream_(stream),
      shape_(drafter_shape(config_)),
      settings_(drafter_product_settings(options, device, options.cuda.blocks_per_sm)),
      out_settings_(drafter_product_settings(options, device, options.cuda.out_blocks_per_sm)),
      gate_up_(config_.intermediate_size, config_.hidden_size, options, device) {
  check(config_, options);
  weights_ = load_drafter_weights(checkpoint, options);
  const DrafterSizes sizes = drafter_sizes(config_, options, capacity, device, target.head->rows());
  round_taps_ = DeviceBuffer(sizes.round_taps, "taps of a round");
  prefill_taps_ = DeviceBuffer(sizes.prefill_taps, "taps of a prefill chunk");
  keys_ = DeviceBuffer(sizes.cache, "drafter's key cache");
  values_ = DeviceBuffer(sizes.cache, "drafter's value cache");
  control_ = DeviceBuffer(sizeof(DraftControl), "draft control");
  x_ = DeviceBuffer(sizes.x, "drafter's residual stream");
  context_x_ = DeviceBuffer(sizes.x, "drafter's context");
  normed_ = DeviceBuffer(sizes.x, "drafter's hidden states");
  results_ = DeviceBuffer(sizes.results, "drafter's products");
  workspace_ = DeviceBuffer(sizes.queries + sizes.sums + sizes.ends, "drafter's attention");
  chunk_largest_ = DeviceBuffer(sizes.chunk_largest, "largest logits");
  stretch_ends_ = DeviceBuffer(sizes.stretch_ends, "sums of exponentials");
  row_operand_ = DeviceBuffer(sizes.row_operand, "drafter's activations");
  for (const auto& kind : sizes.panels)
    for (const std::size_t bytes : kind) {
      DeviceBuffer& panels = panels_.emplace_back(bytes, "drafter's activations");
      if (bytes > 0) fill_device(panels.data(), bytes, 0);
    }
  const RopeTable rope(capacity, config_.head_dim, config_.rope_theta);
  cosines_ = DeviceBuffer(rope.cosines().size() * sizeof(float), "drafter's rotary table");
  sines_ = DeviceBuffer(rope.sines().size() * sizeof(float), "drafter's rotary table");
  copy_to_device(cosines_, rope.cosines());
  copy_to_device(sines_, rope.sines());
}

TapBuffers CudaBlockDrafter::taps() const {
  return {config_.taps, config_.hidden_size, round_taps_.data(), prefill_taps_.data()};
}

DraftCache CudaBlockDrafter::cache() const {
  return {keys_.data(), values_.data(), drafter_cache_format(options_), capacity_};
}

std::int64_t CudaBlockDrafter::layer_bytes_a_position() const {
  return 2 * config_.key_value_channels() * element_bytes(drafter_cache_format(options_));
}

Operand CudaBlockDrafter::operand(DrafterOperand kind, int tokens, const WeightMatrix& reader) const {
  const auto index = static_cast<std::size_t>(kind);
  Operand result;
  result.columns = reader.columns;
  if (exact()) {
    result.layout = OperandLayout::kFP32Rows;
    result.width = tokens;
    result.data = row_operand_.data();
    return result;
  }
  const bool bf16 = reader.format == WeightFormat::kBF16;
  result.layout = bf16 ? OperandLayout::kBF16Panels : OperandLayout::kFP16Panels;
  result.width = operand_width(tokens);
  result.exponent = bf16 ? 0 : kExponents[index];
  result.data = panels_[index * kDrafterWidths.size() + position_of_width(result.width)].data();
  return result;
}

ProductResult CudaBlockDrafter::multiply(const CudaProjection& projection, const Operand& operand,
                                         const ProductSettings& settings, const CudaLaunch& launch) const {
  CudaLaunch here = launch;
  here.part = (&projection == &target_.head->projection() ? "" : "drafter.") + projection.names.front();
  here.bytes = projection.bytes();
  auto* results = results_.as<float>();
  if (exact()) return launch_reference_product(projection.matrix, operand, {}, results, here);
  return launch_product(projection.matrix, operand, {}, results, settings, here);
}

void CudaBlockDrafter::norm(int tokens, const ProductResult& increment, const DeviceBuffer& x, const DeviceBuffer& gain,
                            const Operand& out, float* normed, const char* part, const CudaLaunch& launch) const {
  CudaLaunch here = launch;
  here.part = std::string("drafter.") + part;
  launch_residual_norm({.increment = increment,
                        .tokens = tokens,
                        .hidden = static_cast<int>(config_.hidden_size),
                        .eps = config_.eps,
                        .x = x.as<float>(),
                        .gain = gain.as<float>(),
                        .out = out,
                        .normed = normed},
                       here);
}

void CudaBlockDrafter::launch_context(const Pass& pass, const Operand& features) const {
  const ProductResult projected = multiply(weights_.fc, features, settings_, pass.launch);
  const Operand context = operand(DrafterOperand::kContext, pass.features, weights_.context.matrix);
  norm(pass.features, projected, context_x_, weights_.hidden_norm, context, nullptr, "hidden_norm.weight", pass.launch);
  const ProductResult key_values = multiply(weights_.context, context, settings_, pass.launch);
  CudaLaunch launch = pass.launch;
  launch.part = "drafter.context";
  launch.bytes = static_cast<std::uint64_t>(pass.features * config_.layer_count() * layer_bytes_a_position());
  launch_draft_heads({.shape = shape_,
                      .result = key_values,
                      .tokens = pass.features,
                      .k_norms = weights_.k_norms.as<float>(),
                      .rope = rope(),
                      .control = control(),
                      .cache = cache()},
                     launch);
}

ProductResult CudaBlockDrafter::launch_attention(const Pass& pass, std::size_t layer, const Operand& input) const {
  const CudaDrafterLayerWeights& weights = weights_.layers[layer];
  // Small, like the projection back: fewer thread blocks leave fewer planes to the kernel behind.
  const ProductResult qkv = multiply(weights.qkv, input, out_settings_, pass.launch);
  const DraftCache cached = cache();
  const bool tensor_cores = draft_uses_tensor_cores(shape_, cached.format);
  const DraftLayerMask& mask = config_.layers[layer];
  const DraftHeadsArguments heads{
      .shape = shape_,
      .result = qkv,
      .tokens = pass.block,
      .layer = static_cast<int>(layer),
      .query_form = tensor_cores ? DraftQueries::kBF16Rows : DraftQueries::kFP32Rows,
      .query_factor = std::numbers::log2e_v<float> / std::sqrt(static_cast<float>(shape_.head_dim)),
      .q_norm = weights.q_norm.as<float>(),
      .k_norms = weights_.k_norms.as<float>(),
      .rope = rope(),
      .control = control(),
      .cache = cached,
      .queries = workspace_.data()};
  const Operand mixed = operand(DrafterOperand::kMixed, pass.block, weights.out.matrix);
  CudaLaunch launch = pass.launch;
  launch.part = part_name(layer, "self_attn");
  // Those that a row may see; a window's first one begins anywhere in a tile.
  std::int64_t positions = pass.context_bound;
  const auto layer_bytes = static_cast<std::uint64_t>(layer_bytes_a_position());
  CudaLaunch reading = launch;
  if (mask.window > 0 && mask.window + pass.block + DraftSpan::kTile < positions) {
    positions = mask.window + pass.block + DraftSpan::kTile;
    reading.bytes = static_cast<std::uint64_t>(mask.window) * layer_bytes;
  } else {
    reading.bytes_a_position = layer_bytes;
  }
  if (takes_draft_mixer(shape_, cached.format, pass.block, positions)) {
    launch_draft_mixer(heads, mask, mixed, reading);
    return multiply(weights.out, mixed, out_settings_, pass.launch);
  }
  launch_draft_heads(heads, launch);
  const int most_parts = most_draft_parts(shape_, pass.block, tensor_cores);
  const auto query_bytes = static_cast<std::size_t>(kMostRoundTokens * config_.query_channels()) * sizeof(float);
  const std::int64_t rows = static_cast<std::int64_t>(most_parts) * pass.block * config_.heads;
  std::byte* sums = workspace_.data() + query_bytes;
  const DraftAttentionArguments arguments{
      .shape = shape_,
      .queries = workspace_.data(),
      .cache = cached,
      .layer = static_cast<int>(layer),
      .mask = mask,
      .block = pass.block,
      .most_parts = most_parts,
      .control = control(),
      .parts = {reinterpret_cast<float*>(sums),
                reinterpret_cast<float2*>(sums + static_cast<std::size_t>(rows * config_.head_dim) * sizeof(float))}};
  const std::int64_t tiles = (positions + DraftSpan::kTile - 1) / DraftSpan::kTile;
  launch_draft_attention(arguments, static_cast<int>(std::min<std::int64_t>(tiles, most_parts)), reading);
  launch_draft_merge(arguments, mixed, launch);
  return multiply(weights.out, mixed, out_settings_, pass.launch);
}

void CudaBlockDrafter::launch_block(const Pass& pass) const {
  ProductResult increment;
  for (std::size_t layer = 0; layer < weights_.layers.size(); ++layer) {
    const CudaDrafterLayerWeights& weights = weights_.layers[layer];
    const Operand input = operand(DrafterOperand::kNormed, pass.block, weights.qkv.matrix);
    norm(pass.block, increment, x_, weights.input_norm, input, nullptr,
         fmt::format("layers.{}.input_layernorm.weight", layer).c_str(), pass.launch);
    increment = launch_attention(pass, layer, input);
    const Operand normed = operand(DrafterOperand::kNormed, pass.block, weights.gate_up.matrix);
    norm(pass.block, increment, x_, weights.post_norm, normed, nullptr,
         fmt::format("layers.{}.post_attention_layernorm.weight", layer).c_str(), pass.launch);
    const Operand activated = operand(DrafterOperand::kActivated, pass.block, weights.down.matrix);
    CudaLaunch launch = pass.launch;
    if (gate_up_.takes(normed)) {
      launch.part = "drafter." + weights.gate_up.names.front();
      launch.bytes = weights.gate_up.bytes();
      gate_up_.launch(weights.gate_up.matrix, normed, activated, results_.as<float>(), settings_, launch);
    } else {
      const ProductResult gate_up = multiply(weights.gate_up, normed, settings_, pass.launch);
      launch.part = part_name(layer, "mlp");
      launch_mlp_activation(gate_up, pass.block, static_cast<int>(config_.intermediate_size), activated, launch);
    }
    increment = multiply(weights.down, activated, settings_, pass.launch);
  }
  const CudaProjection& proposals = target_.head->projection();
  const Operand input = operand(DrafterOperand::kNormed, pass.block, proposals.matrix);
  norm(pass.block, increment, x_, weights_.final_norm, input, normed_.as<float>(), "norm.weight", pass.launch);
  const ProductResult head = multiply(proposals, input, settings_, pass.launch);
  CudaLaunch launch = pass.launch;
  launch.part = "drafter.candidates";
  const DraftChunks chunks{chunk_largest_.as<std::uint32_t>(), stretch_ends_.as<float2>()};
  const DraftRows rows{.first = 1, .count = pass.block - 1, .out = 1};
  launch_draft_chunks(head, pass.block, rows, control(), chunks, launch);
  launch_draft_candidates(head, rows, control(), chunks, {}, outcome_.get(), launch);
}

void CudaBlockDrafter::launch_pass(const Pass& pass) const {
  CudaLaunch launch = pass.launch;
  launch.part = "drafter.embed_tokens.weight";
  BeginDraftArguments begin{.control = control(),
                            .embedding = target_.embedding,
                            .hidden = static_cast<int>(config_.hidden_size),
                            .block = pass.block,
                            .x = x_.as<float>(),
                            .taps = round_taps_.as<float>(),
                            .features = {},
                            .context_x = context_x_.as<float>()};
  if (pass.features > 0) begin.features = operand(DrafterOperand::kFeatures, pass.features, weights_.fc.matrix);
  launch_take_control(host_control_.get(), control(), sizeof(DraftControl) / sizeof(std::int32_t), launch);
  launch_begin_draft(begin, launch);
  if (pass.features > 0) launch_context(pass, begin.features);
  if (pass.block == 0) return;
  if (on_block_) on_block_(x_.as<float>());
  launch_block(pass);
}

void CudaBlockDrafter::absorb(std::span<const std::int32_t> rows, std::span<const std::int32_t>, std::int64_t first) {
  if (!pending_.empty()) throw internal_error("taps of a round that were not projected");
  if (rows.size() > kMostRoundTokens) throw internal_error("more taps than a round has rows");
  pending_.assign(rows.begin(), rows.end());
  first_pending_ = first;
}

// What is pending, to the control.
void CudaBlockDrafter::put_pending() {
  if (settling_) check_cuda(cudaStreamSynchronize(stream_), "the GPU's work");  // it may still read the control
  settling_ = false;
  host_control_->features = static_cast<std::int32_t>(pending_.size());
  host_control_->first_feature = static_cast<std::int32_t>(first_pending_);
  std::copy(pending_.begin(), pending_.end(), host_control_->rows);
}

void CudaBlockDrafter::settle() {
  if (pending_.empty()) return;
  put_pending();
  host_control_->frontier = static_cast<std::int32_t>(first_pending_) + host_control_->features;
  launch_pass({.features = operand_width(static_cast<int>(pending_.size())),
               .launch = {.stream = stream_, .programmatic = options_.cuda.programmatic}});
  settling_ = true;
  pending_.clear();
}

void CudaBlockDrafter::absorb_prefill(std::span<const std::int32_t> tokens_of_chunk, const std::int32_t*,
                                      std::int64_t first) {
  const auto count = static_cast<std::int64_t>(tokens_of_chunk.size());
  if (exact()) throw internal_error("prefill chunks are for bf16 activations");
  const CudaLaunch launch{.stream = stream_};
  const std::int64_t columns = weights_.fc.matrix.columns;
  for (std::int64_t begin = 0; begin < count; begin += kDrafterPrefillSlice) {
    const auto tokens = static_cast<int>(std::min<std::int64_t>(kDrafterPrefillSlice, count - begin));
    const Operand features{.layout = OperandLayout::kBF16Rows,
                           .width = tokens,
                           .columns = columns,
                           .data = prefill_taps_.data() + begin * columns * 2};
    const ProductResult projected =
        target_.products->multiply(weights_.fc.matrix, features, tokens, results_.as<float>(), launch);
    if (projected.planes || projected.factor != 1) throw internal_error("prefill products are plain rows");
    const Operand context{.layout = OperandLayout::kBF16Rows,
                          .width = tokens,
                          .columns = config_.hidden_size,
                          .data = row_operand_.data()};
    norm(tokens, {}, results_, weights_.hidden_norm, context, nullptr, "hidden_norm.weight", launch);
    const ProductResult key_values =
        target_.products->multiply(weights_.context.matrix, context, tokens, results_.as<float>(), launch);
    launch_draft_heads({.shape = shape_,
                        .result = key_values,
                        .tokens = tokens,
                        .k_norms = weights_.k_norms.as<float>(),
                        .rope = rope(),
                        .first = static_cast<int>(first + begin),
                        .cache = cache()},
                       launch);
  }
}

DraftOutput CudaBlockDrafter::draft(const DraftRequest& request, std::int64_t frontier) {
  if (frontier < 1) throw internal_error("a draft before any token was absorbed");
  if (request.tokens < 1 || request.candidates < 1) throw internal_error("a draft of no tokens or candidates");
  if (request.tokens > kMostDraftTokens || request.candidates > kMostCandidates) {
    throw input_error("speculate", fmt::format("backend cuda drafts at most {} tokens ahead and {} candidates a row, "
                                               "not {} and {}",
                                               kMostDraftTokens, kMostCandidates, request.tokens, request.candidates));
  }
  if (request.anchor < 0 || request.anchor >= config_.vocab_size) {
    throw input_error("anchor",
                      fmt::format("token {} is outside the vocabulary of {}", request.anchor, config_.vocab_size));
  }
  if (request.temperature <= 0) throw internal_error("a draft's temperature must be above 0");
  const std::int64_t rows = std::min(request.tokens, capacity_ - frontier - 1);
  if (rows < 1) return {};
  const auto block = static_cast<int>(rows) + 1;
  const std::int64_t count = std::min(request.candidates, target_.head->rows());

  put_pending();
  DraftControl& control = *host_control_.get();
  control.frontier = static_cast<std::int32_t>(frontier);
  control.candidates = static_cast<std::int32_t>(count);
  control.inverse_temperature = static_cast<float>(1 / request.temperature);
  std::fill(control.tokens, control.tokens + block, config_.mask_token);
  control.tokens[0] = request.anchor;
  const int features = pending_.empty() ? 0 : operand_width(static_cast<int>(pending_.size()));
  run(features, block, attention_bound(frontier + block - 1, capacity_));
  check_cuda(cudaStreamSynchronize(stream_), "the GPU's work");
  pending_.clear();

  const auto candidates = static_cast<std::size_t>(count);
  tokens_.clear();
  log_probabilities_.clear();
  for (int row = 1; row < block; ++row) {
    if (outcome_->fault[row] != 0) throw not_finite(frontier + row);
    for (std::size_t i = 0; i < candidates; ++i) tokens_.push_back(target_.head->token_of(outcome_->tokens[row][i]));
    log_probabilities_.insert(log_probabilities_.end(), outcome_->log_probabilities[row],
                              outcome_->log_probabilities[row] + candidates);
  }
  return {rows, count, tokens_, log_probabilities_};
}

void CudaBlockDrafter::run(int features, int block, std::int64_t context_bound) {
  const GraphKey key{features, block, context_bound};
  if (options_.cuda.graph && !on_block_) {
    if (!graphs_.contains(key)) capture_all(block);
    graphs_.at(key).launch(stream_);
    launched_ = records_.at(key);
    return;
  }
  launched_.clear();
  launch_pass({.features = features,
               .block = block,
               .context_bound = context_bound,
               .launch = {.stream = stream_, .programmatic = options_.cuda.programmatic, .records = &launched_}});
}

// Of all feature widths and context bounds at once: a capture takes milliseconds, and none may fall into a timed draft
// later on.
void CudaBlockDrafter::capture_all(int block) {
  for (const int features : kFeatureWidths) {
    for (std::int64_t bound = attention_bound(0, capacity_);; bound = attention_bound(bound, capacity_)) {
      std::vector<LaunchRecord> records;
      RoundGraph graph(
          stream_,
          [&] {
            launch_pass(
                {.features = features,
                 .block = block,
                 .context_bound = bound,
                 .launch = {.stream = stream_, .programmatic = options_.cuda.programmatic, .records = &records}});
          },
          cut_);
      const GraphKey key{features, block, bound};
      graphs_.insert_or_assign(key, std::move(graph));
      records_[key] = std::move(records);
      if (bound >= capacity_) break;
    }
  }
}

void CudaBlockDrafter::account(InventoryAccount& account, std::int64_t context, std::int64_t width,
                               std::int64_t tokens) const {
  const auto projection = [&](const CudaProjection& weights) {
    account.stream("drafter." + join(weights.names, " + drafter."), stored_format(weights.matrix), weights.bytes(),
                   element_count(weights.matrix.rows, weights.matrix.columns));
  };
  const auto vector = [&](const std::string& name, const DeviceBuffer& values) {
    account.vector("drafter." + name, values.bytes() / sizeof(float));
  };
  const std::int64_t block = tokens + 1;
  projection(weights_.fc);
  vector("hidden_norm.weight", weights_.hidden_norm);
  projection(weights_.context);
  vector("self_attn.k_norm.weight of all layers", weights_.k_norms);
  for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
    const CudaDrafterLayerWeights& layer = weights_.layers[i];
    const std::string prefix = fmt::format("layers.{}.", i);
    vector(prefix + "input_layernorm.weight", layer.input_norm);
    vector(prefix + "post_attention_layernorm.weight", layer.post_norm);
    projection(layer.qkv);
    vector(prefix + "self_attn.q_norm.weight", layer.q_norm);
    projection(layer.out);
    // What any row sees is read once; the block's rows and those absorbed are written.
    const DraftLayerMask& mask = config_.layers[i];
    const DraftSpan span{.frontier = static_cast<int>(context),
                         .block = static_cast<int>(block),
                         .window = static_cast<int>(mask.window),
                         .causal = mask.causal};
    const std::int64_t read = context + block - span.first_seen(0);
    account.add({"drafter." + prefix + "kv cache", to_text(drafter_cache_format(options_)), AccessPattern::kCache,
                 (keys_.bytes() + values_.bytes()) / weights_.layers.size(),
                 static_cast<std::uint64_t>((read + block + width) * layer_bytes_a_position()),
                 element_count(2 * (context + block), config_.key_value_channels())});
    projection(layer.gate_up);
    projection(layer.down);
  }
  vector("norm.weight", weights_.final_norm);
  // The target's own, read once more.
  account.add({"embed_tokens.weight (draft)", "bf16", AccessPattern::kGather, 0,
               element_count(block, config_.hidden_size) * sizeof(std::uint16_t), 0});
  target_.head->account(account, 1);
}

Json CudaBlockDrafter::description() const {
  return {{"kind", "block"},
          {"name", options_.speculate.drafter},
          {"layers", config_.layer_count()},
          {"block_size", config_.block_size},
          {"taps", config_.taps},
          {"weights", stored_format(weights_.fc.matrix)},
          {"head", target_.head->description()}};
}

void CudaBlockDrafter::cut_graphs(RoundCut cut) {
  if (cut_ == cut) return;
  check_cuda(cudaStreamSynchronize(stream_), "the GPU's work");
  cut_ = cut;
  graphs_.clear();
}

}  // namespace tare::engine

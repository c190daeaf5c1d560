#include "engine/cuda/cuda_forward.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "engine/backend/rope.h"
#include "engine/cuda/device/cuda_check.h"
#include "engine/cuda/model_shapes.h"

namespace tare::engine {
namespace {

constexpr std::array<int, 3> kWidths = {8, 16, 32};
constexpr int kOperandKinds = 3;
// Operands of FP16 panels are numbers times 2^exponent. Normed: at most sqrt(columns) times the gain (72 for 5,120), so
// 2^4 leaves room for gains of 57 and keeps numbers down to 2^-21 exact. Mixed: a head's norm bounds GDN's outputs by
// sqrt(128) gain silu(z), attention's are averages of values. Activated: a product of two rows' sums, of no bound.
constexpr std::array<int, kOperandKinds> kExponents = {4, 2, 0};
// Prefill widens a matrix a part at a time into this much BF16: 34,816 x 5,120 as a whole.
constexpr std::size_t kPrefillScratchBytes = std::size_t{384} << 20;
constexpr std::int64_t kMegabyte = 1'000'000;

std::size_t position_of_width(int width) {
  return width == 8 ? 0 : width == 16 ? 1 : 2;
}

ProductSettings product_settings(const EngineOptions& options, const CudaDevice& device) {
  return {.blocks = device.multiprocessors * static_cast<int>(options.cuda.blocks_per_sm),
          .trigger_pairs = static_cast<int>(options.cuda.trigger)};
}

ProductSettings out_settings(const EngineOptions& options, const CudaDevice& device) {
  return {.blocks = device.multiprocessors * static_cast<int>(options.cuda.out_blocks_per_sm),
          .trigger_pairs = static_cast<int>(options.cuda.trigger),
          .alone = options.cuda.out_blocks_per_sm == 1};
}

// Shapes of every product of a round, without weights.
std::vector<WeightMatrix> product_shapes(const ModelConfig& config, const EngineOptions& options) {
  const auto shape = [&](TensorClass tensors, std::int64_t layer, std::int64_t rows, std::int64_t columns) {
    return WeightMatrix{.format = options.format_of(tensors, layer), .rows = rows, .columns = columns};
  };
  const std::int64_t hidden = config.hidden_size;
  std::vector<WeightMatrix> shapes;
  for (std::int64_t layer = 0; layer < config.layer_count(); ++layer) {
    if (config.layers[static_cast<std::size_t>(layer)] == LayerKind::kLinearAttention) {
      shapes.push_back(
          shape(TensorClass::kGdn, layer, config.conv_channels() + config.linear_value_channels(), hidden));
      shapes.push_back(shape(TensorClass::kGdn, layer, hidden, config.linear_value_channels()));
    } else {
      shapes.push_back(
          shape(TensorClass::kAttention, layer, 2 * config.query_channels() + 2 * config.key_value_channels(), hidden));
      shapes.push_back(shape(TensorClass::kAttention, layer, hidden, config.query_channels()));
    }
    shapes.push_back(shape(TensorClass::kMlp, layer, 2 * config.intermediate_size, hidden));
    shapes.push_back(shape(TensorClass::kMlp, layer, hidden, config.intermediate_size));
  }
  shapes.push_back(shape(TensorClass::kHead, config.layer_count(), config.vocab_size, hidden));
  if (options.head.screen != HeadScreen::kNone)
    shapes.push_back({.format = format_of(options.head.screen), .rows = config.vocab_size, .columns = hidden});
  return shapes;
}

// Columns of the three kinds of operand.
std::array<std::int64_t, kOperandKinds> operand_columns(const ModelConfig& config) {
  return {config.hidden_size, std::max(config.linear_value_channels(), config.query_channels()),
          config.intermediate_size};
}

// Bytes of every buffer, in the order of the members.
struct Sizes {
  std::size_t x = 0, normed = 0, logits = 0, results = 0, gate_results = 0, workspace = 0, row_operand = 0;
  std::size_t panels[kOperandKinds][3] = {};
  std::size_t scratch = 0, rope = 0, gate_up = 0;

  [[nodiscard]] std::uint64_t total() const {
    std::uint64_t sum =
        x + normed + logits + results + gate_results + workspace + row_operand + scratch + rope + gate_up;
    for (const auto& kind : panels)
      for (const std::size_t bytes : kind) sum += bytes;
    return sum;
  }
};

Sizes sizes_of(const ModelConfig& config, const EngineOptions& options, std::int64_t capacity,
               const CudaDevice& device) {
  const bool exact = options.activations.format == ActivationFormat::kFP32;
  const ProductSettings settings = product_settings(options, device);
  const std::int64_t rows = exact ? kMostRoundTokens : std::max<std::int64_t>(options.prefill.chunk, kMostRoundTokens);
  const auto columns = operand_columns(config);
  std::int64_t result_floats = kMostRoundTokens * config.vocab_size;  // exact logits
  for (const WeightMatrix& shape : product_shapes(config, options)) {
    const bool head = shape.rows == config.vocab_size;
    const std::int64_t plain = (head ? kMostRoundTokens : rows) * shape.rows;
    result_floats = std::max(result_floats, plain);
    if (exact) continue;
    // With side rows the cut is another, and may make one plane more.
    for (const int side_rows : {0, static_cast<int>(2 * config.linear_value_heads)}) {
      // Of either settings: which product is an output projection the shapes do not say.
      for (const ProductSettings& cut : {settings, out_settings(options, device)}) {
        const std::int64_t planes = product_plane_floats(shape, cut, kMostRoundTokens, side_rows);
        result_floats = std::max(result_floats, planes);
      }
    }
  }
  result_floats = std::max(result_floats,
                           GateUpProduct::plane_floats(config.intermediate_size, config.hidden_size, options, device));
  const CudaAttentionShape attention = attention_shape_of(config);
  const auto bytes = [](std::int64_t elements, std::int64_t size) { return static_cast<std::size_t>(elements * size); };
  Sizes sizes;
  sizes.x = bytes(rows * config.hidden_size, 4);
  sizes.normed = bytes(kMostRoundTokens * config.hidden_size, 4);
  sizes.logits = bytes(kMostRoundTokens * config.vocab_size, 4);
  sizes.results = bytes(result_floats, 4);
  sizes.gate_results = bytes(rows * 2 * config.linear_value_heads, 4);
  const std::int64_t slots = key_value_slots(capacity);
  const std::int64_t bound = attention_bound(slots - 1, slots);
  for (std::int64_t at = attention_bound(0, slots);; at = attention_bound(at, slots)) {
    sizes.workspace = std::max(sizes.workspace, attention_workspace_bytes(attention, at, kMostRoundTokens));
    if (at >= bound) break;
  }
  if (!exact) sizes.workspace = std::max(sizes.workspace, attention_prefill_workspace_bytes(attention, rows));
  sizes.row_operand = bytes(rows * std::max({columns[0], columns[1], columns[2]}), exact ? 4 : 2);
  for (std::size_t kind = 0; kind < kOperandKinds && !exact; ++kind)
    for (std::size_t i = 0; i < kWidths.size(); ++i)
      sizes.panels[kind][i] =
          static_cast<std::size_t>(operand_bytes(OperandLayout::kFP16Panels, columns[kind], kWidths[i]));
  sizes.scratch = exact ? 0 : kPrefillScratchBytes;
  sizes.rope = bytes(capacity * config.rotary_dim, 4);
  sizes.gate_up = GateUpProduct::work_bytes(config.intermediate_size, config.hidden_size, options, device);
  return sizes;
}

}  // namespace

std::vector<MemoryPart> CudaForward::plan(const ModelConfig& config, const EngineOptions& options,
                                          std::int64_t capacity, const CudaDevice& device) {
  const auto count = [&](LayerKind kind) {
    return static_cast<std::uint64_t>(std::count(config.layers.begin(), config.layers.end(), kind));
  };
  const CudaGdnBytes gdn = gdn_cache_bytes(gdn_shape_of(config), options.state.recurrent, options.state.convolution,
                                           options.rollback == Rollback::kSnapshot);
  const std::size_t attention =
      key_value_cache_bytes(attention_shape_of(config), options.kv.key, options.kv.value, key_value_slots(capacity));
  return {
      {"key-value cache", count(LayerKind::kFullAttention) * attention},
      {"recurrent state", count(LayerKind::kLinearAttention) * (gdn.state + gdn.columns + gdn.records + gdn.snapshots)},
      {"work space", sizes_of(config, options, capacity, device).total() +
                         (options.head.screen == HeadScreen::kNone ? 0 : CudaScreenedHead::work_bytes())}};
}

CudaForward::CudaForward(const ModelConfig& config, const EngineOptions& options, std::int64_t capacity,
                         const CudaDevice& device, const CudaModelWeights& weights, cudaStream_t stream)
    : config_(config),
      options_(options),
      weights_(weights),
      device_(device),
      settings_(product_settings(options, device)),
      behind_norm_settings_(with_late_stages(settings_, options.cuda.late_stages)),
      out_settings_(out_settings(options, device)),
      gate_up_(config.intermediate_size, config.hidden_size, options, device) {
  const Sizes sizes = sizes_of(config, options, capacity, device);
  for (const LayerKind kind : config.layers) {
    Layer& layer = layers_.emplace_back();
    if (kind == LayerKind::kLinearAttention) {
      layer.gdn.emplace(gdn_shape_of(config), options.state.recurrent, options.state.convolution,
                        options.rollback == Rollback::kSnapshot);
      layer.gdn->reset(stream);
    } else {
      layer.attention.emplace(attention_shape_of(config), options.kv.key, options.kv.value, key_value_slots(capacity),
                              options.kv.rotation);
    }
  }
  std::vector<const CudaKeyValueCache*> caches;
  for (const Layer& layer : layers_)
    if (layer.attention) caches.push_back(&*layer.attention);
  move_.emplace(caches);
  if (weights.screen) screened_.emplace(weights, options);
  control_ = DeviceBuffer(sizeof(RoundControl), "round control");
  keys_ = DeviceBuffer(sizeof(RoundKeys), "round keys");
  x_ = DeviceBuffer(sizes.x, "residual stream");
  normed_ = DeviceBuffer(sizes.normed, "hidden states");
  logits_ = DeviceBuffer(sizes.logits, "logits");
  results_ = DeviceBuffer(sizes.results, "products");
  gate_results_ = DeviceBuffer(sizes.gate_results, "gates");
  workspace_ = DeviceBuffer(sizes.workspace, "attention work space");
  row_operand_ = DeviceBuffer(sizes.row_operand, "prefill activations");
  for (const auto& kind : sizes.panels)
    for (const std::size_t bytes : kind) {
      DeviceBuffer& panels = panels_.emplace_back(bytes, "activations");
      if (bytes > 0) fill_device(panels.data(), bytes, 0);
    }
  if (!exact()) {
    prefill_tokens_ = DeviceBuffer(static_cast<std::size_t>(options.prefill.chunk) * sizeof(std::int32_t), "tokens");
    products_ = std::make_unique<PrefillProducts>(sizes.scratch);
  }
  const RopeTable rope(capacity, config.rotary_dim, config.rope_theta);
  cosines_ = DeviceBuffer(rope.cosines().size() * sizeof(float), "rotary table");
  sines_ = DeviceBuffer(rope.sines().size() * sizeof(float), "rotary table");
  copy_to_device(cosines_, rope.cosines());
  copy_to_device(sines_, rope.sines());
}

void CudaForward::reset() {
  for (Layer& layer : layers_)
    if (layer.gdn) layer.gdn->reset(nullptr);
  // Key-value caches need no reset: nothing at or past the frontier is ever read.
}

Operand CudaForward::operand(const Pass& pass, OperandKind kind, const WeightMatrix& reader) const {
  const auto index = static_cast<std::size_t>(kind);
  Operand result;
  result.columns = reader.columns;
  if (exact() || pass.prefill) {
    result.layout = exact() ? OperandLayout::kFP32Rows : OperandLayout::kBF16Rows;
    result.width = pass.tokens;
    result.data = row_operand_.data();
    return result;
  }
  const bool bf16 = reader.format == WeightFormat::kBF16;
  result.layout = bf16 ? OperandLayout::kBF16Panels : OperandLayout::kFP16Panels;
  result.width = operand_width(pass.tokens);
  result.exponent = bf16 ? 0 : kExponents[index];
  result.data = panels_[index * kWidths.size() + position_of_width(result.width)].data();
  return result;
}

ProductResult CudaForward::multiply(const Pass& pass, const CudaProjection& projection, const Operand& operand,
                                    const SideRows& side, const ProductSettings& settings) const {
  CudaLaunch launch = pass.launch;
  launch.part = projection.names.front();
  launch.bytes = projection.bytes();
  auto* results = results_.as<float>();
  if (exact()) return launch_reference_product(projection.matrix, operand, side, results, launch);
  if (pass.prefill) {
    if (side.rows > 0)
      products_->multiply(side.weights, side.rows, operand.columns, operand, pass.tokens, side.out, launch);
    return products_->multiply(projection.matrix, operand, pass.tokens, results, launch);
  }
  return launch_product(projection.matrix, operand, side, results, settings, launch);
}

void CudaForward::norm(const Pass& pass, const ProductResult& increment, const DeviceBuffer& gain, const Operand& out,
                       float* normed, std::int64_t after_layer) const {
  launch_residual_norm({.increment = increment,
                        .tokens = pass.tokens,
                        .hidden = static_cast<int>(config_.hidden_size),
                        .eps = config_.rms_norm_eps,
                        .x = x_.as<float>(),
                        .gain = gain.as<float>(),
                        .out = out,
                        .normed = normed,
                        .tap = taps_.rows_of(after_layer, pass.prefill)},
                       pass.launch);
}

void CudaForward::activate(const Pass& pass, const CudaLayerWeights& weights, const Operand& normed,
                           const Operand& out) const {
  if (gate_up_.takes(normed)) {
    CudaLaunch launch = pass.launch;
    launch.part = weights.gate_up.names.front();
    launch.bytes = weights.gate_up.bytes();
    gate_up_.launch(weights.gate_up.matrix, normed, out, results_.as<float>(), behind_norm_settings_, launch);
    return;
  }
  const ProductResult gate_up = multiply(pass, weights.gate_up, normed, {}, behind_norm_settings_);
  launch_mlp_activation(gate_up, pass.tokens, static_cast<int>(config_.intermediate_size), out, pass.launch);
}

L2Fill CudaForward::fill_of(const CudaProjection& projection) const {
  const auto most = static_cast<std::int64_t>(options_.cuda.l2_fill_mb * static_cast<double>(kMegabyte));
  return {.data = projection.matrix.tiles,
          .bytes = std::min(most, static_cast<std::int64_t>(projection.bytes())),
          .blocks = static_cast<int>(options_.cuda.l2_fill_blocks)};
}

ProductResult CudaForward::run_gdn(const Pass& pass, std::int64_t layer, const Operand& input) const {
  const CudaGdnLayerWeights& weights = *weights_.layers[static_cast<std::size_t>(layer)].gdn;
  const CudaGdnCache& cache = *layers_[static_cast<std::size_t>(layer)].gdn;
  const auto gate_rows = static_cast<int>(2 * config_.linear_value_heads);
  const SideRows side{
      .weights = weights.gates.as<std::uint16_t>(), .rows = gate_rows, .out = gate_results_.as<float>()};
  const ProductResult qkvz = multiply(pass, weights.qkvz, input, side, behind_norm_settings_);
  const ProductResult gates{.data = side.out, .rows = gate_rows};
  const Operand mixed = operand(pass, OperandKind::kMixed, weights.out.matrix);
  CudaLaunch launch = pass.launch;
  launch.part = fmt::format("layers.{}.linear_attn", layer);
  launch.bytes = 2 * cache.state_bytes();
  if (!pass.prefill && cache.keeps_snapshots)
    launch.bytes += static_cast<std::uint64_t>(pass.tokens) * (cache.snapshot_bytes() / kMostTreeNodes);
  // Of a verify; prefill has the form of gdn.form.
  const bool chunk = options_.gdn.form == GdnForm::kChunked || options_.rollback == Rollback::kTreeChunk;
  if (pass.prefill) {
    launch_gdn_prefill(options_.gdn.form, weights.view(), cache, qkvz, gates, pass.tokens, control(), mixed, launch);
  } else {
    launch_gdn_round(chunk ? GdnForm::kChunked : GdnForm::kRecurrent, weights.view(), cache, qkvz, gates, pass.tokens,
                     pass.tree, control(), mixed, fill_of(weights.out), launch);
  }
  return multiply(pass, weights.out, mixed, {}, out_settings_);
}

ProductResult CudaForward::run_attention(const Pass& pass, std::int64_t layer, const Operand& input) const {
  const CudaAttentionLayerWeights& weights = *weights_.layers[static_cast<std::size_t>(layer)].attention;
  const CudaKeyValueCache& cache = *layers_[static_cast<std::size_t>(layer)].attention;
  const CudaRopeTable rope{cosines_.as<float>(), sines_.as<float>()};
  const ProductResult qkv = multiply(pass, weights.qkv, input, {}, behind_norm_settings_);
  const Operand mixed = operand(pass, OperandKind::kMixed, weights.out.matrix);
  CudaLaunch launch = pass.launch;
  launch.part = fmt::format("layers.{}.self_attn", layer);
  if (pass.prefill) {
    launch_attention_prefill(weights.view(), rope, cache, qkv, pass.tokens, pass.frontier, workspace_.data(), mixed,
                             launch);
  } else {
    launch_attention_round(weights.view(), rope, cache, qkv, pass.tokens, pass.context_bound, control(),
                           workspace_.data(), mixed, fill_of(weights.out), launch);
  }
  return multiply(pass, weights.out, mixed, {}, out_settings_);
}

ProductResult CudaForward::run_layers(const Pass& pass, const LayerCallback& on_layer) const {
  ProductResult increment;
  for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    const CudaLayerWeights& weights = weights_.layers[i];
    Pass here = pass;
    here.launch.part = fmt::format("layers.{}.input_layernorm.weight", layer);
    const WeightMatrix& first = weights.gdn ? weights.gdn->qkvz.matrix : weights.attention->qkv.matrix;
    const Operand input = operand(pass, OperandKind::kNormed, first);
    norm(here, increment, weights.input_norm, input, nullptr, layer - 1);
    if (on_layer) on_layer(layer, x_.as<float>());
    increment = weights.gdn ? run_gdn(pass, layer, input) : run_attention(pass, layer, input);
    const Operand normed = operand(pass, OperandKind::kNormed, weights.gate_up.matrix);
    here.launch.part = fmt::format("layers.{}.post_attention_layernorm.weight", layer);
    norm(here, increment, weights.post_norm, normed, nullptr, -1);
    const Operand activated = operand(pass, OperandKind::kActivated, weights.down.matrix);
    here.launch.part = fmt::format("layers.{}.mlp", layer);
    activate(here, weights, normed, activated);
    increment = multiply(pass, weights.down, activated, {}, settings_);
  }
  return increment;
}

void CudaForward::launch_round(const CudaRound& round, const RoundControl* host, RoundOutcome* outcome,
                               CudaLaunch launch) {
  launch.part = "embed_tokens.weight";
  launch_begin_round(host, control(), keys(), weights_.embedding.as<std::uint16_t>(),
                     static_cast<int>(config_.hidden_size), round.tokens, x_.as<float>(), launch);
  if (round.tree) launch_move(launch);
  Pass pass{.tokens = round.tokens, .tree = round.tree, .context_bound = round.context_bound, .launch = launch};
  const ProductResult increment = run_layers(pass, round.on_layer);
  pass.launch.part = "norm.weight";
  const bool screens = screened_ && !round.whole_head;
  const CudaProjection& head = screens ? *weights_.screen : weights_.head;
  const Operand input = operand(pass, OperandKind::kNormed, head.matrix);
  norm(pass, increment, weights_.final_norm, input, normed_.as<float>(), config_.layer_count() - 1);
  const ProductResult result = multiply(pass, head, input, {}, settings_);
  pass.launch.part = "logits";
  if (screens) {
    screened_->launch(result, normed_.as<float>(), round.tokens, keys(), pass.launch);
  } else {
    launch_logits(result, round.tokens, logits_.as<float>(), keys(), pass.launch);
  }
  if (options_.handicap.place == HandicapPlace::kKernel && options_.handicap.ns > 0)
    launch_spin(options_.handicap.ns, keys(), pass.launch);
  launch_end_round(keys(), round.tokens, outcome, pass.launch);
}

void CudaForward::launch_move(const CudaLaunch& launch) const {
  CudaLaunch moving = launch;
  moving.programmatic = false;
  moving.part = "key-value caches";
  move_->launch(control(), moving);
}

void CudaForward::launch_prefill(const std::int32_t* tokens, int count, std::int64_t frontier,
                                 const LayerCallback& on_layer, CudaLaunch launch) {
  if (exact()) throw internal_error("prefill chunks are for bf16 activations");
  launch.programmatic = false;
  launch_embed(tokens, count, weights_.embedding.as<std::uint16_t>(), static_cast<int>(config_.hidden_size),
               x_.as<float>(), launch);
  const Pass pass{.tokens = count, .prefill = true, .frontier = frontier, .launch = launch};
  const ProductResult increment = run_layers(pass, on_layer);
  // Adds the last increment to all rows of x; launch_prefill_logits norms those that it is asked for.
  norm(pass, increment, weights_.final_norm, operand(pass, OperandKind::kNormed, weights_.head.matrix), prefill_hidden_,
       config_.layer_count() - 1);
}

void CudaForward::launch_prefill_logits(int first, int count, CudaLaunch launch) {
  launch.programmatic = false;
  Pass pass{.tokens = count, .launch = launch};
  const Operand input = operand(pass, OperandKind::kNormed, weights_.head.matrix);
  launch_residual_norm({.increment = {},
                        .tokens = count,
                        .hidden = static_cast<int>(config_.hidden_size),
                        .eps = config_.rms_norm_eps,
                        .x = x_.as<float>() + static_cast<std::int64_t>(first) * config_.hidden_size,
                        .gain = weights_.final_norm.as<float>(),
                        .out = input,
                        .normed = normed_.as<float>()},
                       launch);
  launch_empty_keys(keys(), launch);
  launch_logits(multiply(pass, weights_.head, input, {}, settings_), count, logits_.as<float>(), keys(), launch);
}

}  // namespace tare::engine

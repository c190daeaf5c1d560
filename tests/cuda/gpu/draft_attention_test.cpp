// Heads, attention and merge of a draft against the formulas in double precision.
#include <algorithm>
#include <numbers>

#include "engine/backend/options.h"
#include "engine/backend/rope.h"
#include "engine/cuda/attention/attention_layout.h"
#include "engine/cuda/drafter/drafter_kernels.h"
#include "engine/formats/float_formats.h"
#include "tests/cuda/gpu/operand_reading.h"
#include "tests/cuda/gpu/sanitized.h"

namespace tare::engine::test {
namespace {

using DraftAttention = GpuTest;
using DraftMixer = HopperTest;

constexpr int kCapacity = 3200;
constexpr int kLayers = 2;
constexpr double kTheta = 1e7;
// Of the product before a mixer: the 27B's, whose rows' sums lie in up to seven planes.
constexpr int kHidden = 5120;
constexpr int kProductBlocks = 132;

constexpr DrafterShape k27b{.heads = 32, .kv_heads = 8, .head_dim = 128, .layers = kLayers, .eps = 1e-6F};
constexpr DrafterShape kNarrow{.heads = 4, .kv_heads = 1, .head_dim = 128, .layers = kLayers, .eps = 1e-6F};
constexpr DrafterShape kHead64{.heads = 6, .kv_heads = 2, .head_dim = 64, .layers = kLayers, .eps = 1e-6F};
constexpr DrafterShape kSmall{.heads = 4, .kv_heads = 2, .head_dim = 24, .layers = kLayers, .eps = 1e-6F};

double bfloat16(double value) {
  return static_cast<double>(bfloat16_to_float(float_to_bfloat16(static_cast<float>(value))));
}

enum class Launches { kThree, kMixer };

// A block of one layer over a context of random keys and values; everything past the frontier is poison.
class AttentionCase {
 public:
  AttentionCase(const DrafterShape& shape, CacheFormat format, Launches launches = Launches::kThree)
      : shape_(shape),
        format_(format),
        launches_(launches),
        rope_(kCapacity, shape.head_dim, kTheta),
        keys_(cache_bytes()),
        values_(cache_bytes()),
        cosines_(on_device(std::vector<float>(rope_.cosines().begin(), rope_.cosines().end()))),
        sines_(on_device(std::vector<float>(rope_.sines().begin(), rope_.sines().end()))) {
    Philox random(11);
    for (int i = 0; i < shape.head_dim; ++i) q_norm_.push_back(static_cast<float>(0.5 + 3 * random.uniform()));
    for (int i = 0; i < kLayers * shape.head_dim; ++i) k_norms_.push_back(static_cast<float>(0.5 + random.uniform()));
  }

  struct Errors {
    double worst = 0;  // relative, of a row
    int row = -1;
    double cache = 0;  // largest difference of a new key or value
    int spoiled = 0;   // numbers of the cache that should not have changed and did
  };
  // `oracle_mask` differs from `mask` in a control only.
  Errors run(int frontier, int block, const DraftLayerMask& mask, const DraftLayerMask& oracle_mask, int layer = 1) {
    frontier_ = frontier;
    block_ = block;
    layer_ = layer;
    fill_cache();
    const int rows = (shape_.heads + 2 * shape_.kv_heads) * shape_.head_dim;
    std::vector<float> qkv(static_cast<std::size_t>(block * rows));
    Philox random(static_cast<std::uint64_t>(1000 * frontier + block));
    for (float& value : qkv) value = static_cast<float>(random.normal());
    const DeviceBuffer q_norm = on_device(q_norm_);
    const DeviceBuffer k_norms = on_device(k_norms_);
    DraftControl control;
    control.frontier = frontier;
    const DeviceBuffer device_control = on_device(std::vector<DraftControl>{control});
    const bool tensor_cores = draft_uses_tensor_cores(shape_, format_);
    const int most_parts = most_draft_parts(shape_, block, tensor_cores);
    const int channels = shape_.heads * shape_.head_dim;
    const PoisonedBuffer queries(static_cast<std::size_t>(block * channels) * (tensor_cores ? 2 : 4));
    const PoisonedBuffer sums(static_cast<std::size_t>(most_parts * block * channels) * 4);
    const PoisonedBuffer ends(static_cast<std::size_t>(most_parts * block * shape_.heads) * 8);
    const PoisonedBuffer out(static_cast<std::size_t>(block * channels) * 4);
    const double factor = std::numbers::log2e / std::sqrt(static_cast<double>(shape_.head_dim));
    const bool mixer = launches_ == Launches::kMixer;
    const TilePlan plan = cut_tiles(rows, kHidden, kProductBlocks);
    const DeviceBuffer device_qkv = on_device(mixer ? planes_of(qkv, rows, plan) : qkv);
    const DraftHeadsArguments heads{.shape = shape_,
                                    .result = {.data = device_qkv.as<float>(),
                                               .rows = rows,
                                               .width = operand_width(block),
                                               .planes = mixer,
                                               .factor = 0.5F,
                                               .plan = plan},
                                    .tokens = block,
                                    .layer = layer,
                                    .query_form = tensor_cores ? DraftQueries::kBF16Rows : DraftQueries::kFP32Rows,
                                    .query_factor = static_cast<float>(factor),
                                    .q_norm = q_norm.as<float>(),
                                    .k_norms = k_norms.as<float>(),
                                    .rope = {cosines_.as<float>(), sines_.as<float>()},
                                    .control = device_control.as<DraftControl>(),
                                    .cache = cache(),
                                    .queries = queries.data()};
    const Operand operand{
        .layout = OperandLayout::kFP32Rows, .width = block, .columns = channels, .exponent = 0, .data = out.data()};
    const DraftAttentionArguments arguments{.shape = shape_,
                                            .queries = queries.data(),
                                            .cache = cache(),
                                            .layer = layer,
                                            .mask = mask,
                                            .block = block,
                                            .most_parts = most_parts,
                                            .control = device_control.as<DraftControl>(),
                                            .parts = {sums.as<float>(), ends.as<float2>()}};
    if (mixer) {
      launch_draft_mixer(heads, mask, operand, {});
    } else {
      launch_draft_heads(heads, {});
      launch_draft_attention(arguments, std::min(most_parts, kCapacity / DraftSpan::kTile), {});
      launch_draft_merge(arguments, operand, {});
    }
    synchronize();
    for (const PoisonedBuffer* buffer :
         std::initializer_list<const PoisonedBuffer*>{&queries, &sums, &ends, &out, &keys_, &values_})
      EXPECT_TRUE(buffer->canaries_intact());
    Errors errors;
    compare_cache(qkv, errors);
    compare(qkv, out.read<float>(), oracle_mask, factor, errors);
    return errors;
  }
  [[nodiscard]] DraftCache cache() const { return {keys_.data(), values_.data(), format_, kCapacity}; }

 private:
  DrafterShape shape_;
  CacheFormat format_;
  Launches launches_;
  RopeTable rope_;
  PoisonedBuffer keys_, values_;
  DeviceBuffer cosines_, sines_;
  std::vector<float> q_norm_, k_norms_;
  std::vector<double> key_content_, value_content_;  // what was put there
  int frontier_ = 0, block_ = 0, layer_ = 0;

  [[nodiscard]] std::size_t cache_bytes() const {
    return static_cast<std::size_t>(kLayers * shape_.kv_heads * kCapacity * shape_.head_dim * element_bytes(format_));
  }
  [[nodiscard]] std::size_t place(int layer, int head, int slot, int dim) const {
    return static_cast<std::size_t>(((layer * shape_.kv_heads + head) * kCapacity + slot) * shape_.head_dim + dim);
  }
  void fill_cache() {
    const std::size_t count = cache_bytes() / static_cast<std::size_t>(element_bytes(format_));
    const Philox random(5);
    const auto fill = [&](const PoisonedBuffer& buffer, std::vector<double>& content, std::uint64_t offset) {
      content.assign(count, std::nan(""));
      std::vector<std::byte> bytes(cache_bytes(), std::byte{0xFF});
      for (int head = 0; head < kLayers * shape_.kv_heads; ++head) {
        for (int slot = 0; slot < frontier_; ++slot) {
          for (int dim = 0; dim < shape_.head_dim; ++dim) {
            const std::size_t at = place(0, head, slot, dim);
            const auto value = static_cast<float>(3.4641016 * (random.uniform_at(offset + at) - 0.5));
            content[at] =
                format_ == CacheFormat::kBF16 ? bfloat16(static_cast<double>(value)) : static_cast<double>(value);
            put(bytes, at, value);
          }
        }
      }
      copy_to_device(buffer.data(), bytes);
    };
    fill(keys_, key_content_, 0);
    fill(values_, value_content_, std::uint64_t{1} << 40);
  }
  void put(std::vector<std::byte>& bytes, std::size_t at, float value) const {
    const std::uint16_t narrow = float_to_bfloat16(value);
    if (format_ == CacheFormat::kBF16) {
      std::memcpy(bytes.data() + 2 * at, &narrow, 2);
    } else {
      std::memcpy(bytes.data() + 4 * at, &value, 4);
    }
  }
  [[nodiscard]] std::vector<double> read(const PoisonedBuffer& buffer) const {
    std::vector<double> values;
    if (format_ == CacheFormat::kBF16) {
      for (const std::uint16_t bits : buffer.read<std::uint16_t>())
        values.push_back(static_cast<double>(bfloat16_to_float(bits)));
    } else {
      for (const float value : buffer.read<float>()) values.push_back(static_cast<double>(value));
    }
    return values;
  }

  // As a product leaves them, halves of what is left in each plane; tokens past the block, and planes past the last of
  // a row block, are NaN.
  [[nodiscard]] std::vector<float> planes_of(const std::vector<float>& qkv, int rows, const TilePlan& plan) const {
    const int width = operand_width(block_);
    const auto stride = static_cast<std::size_t>(plane_floats(plan, width));
    std::vector<float> planes(stride * static_cast<std::size_t>(plan.most_planes()), std::nanf(""));
    for (int row = 0; row < rows; ++row) {
      for (int token = 0; token < block_; ++token) {
        float left = qkv[static_cast<std::size_t>(token * rows + row)];
        const int count = plan.planes(row / kUnitRows);
        for (int plane = 0; plane < count; ++plane) {
          const float here = plane + 1 < count ? left / 2 : left;
          left -= here;
          planes[static_cast<std::size_t>(plane) * stride + static_cast<std::size_t>(plane_place(width, row, token))] =
              here;
        }
      }
    }
    return planes;
  }

  // Row of a head of a token's qkv, normed and rotated where asked for.
  [[nodiscard]] std::vector<double> head_row(const std::vector<float>& qkv, int token, int unit,
                                             const float* gain) const {
    const int dims = shape_.head_dim;
    const int units = shape_.heads + 2 * shape_.kv_heads;
    std::vector<double> row;
    double squares = 0;
    for (int dim = 0; dim < dims; ++dim) {
      row.push_back(0.5 * static_cast<double>(qkv[static_cast<std::size_t>((token * units + unit) * dims + dim)]));
      squares += row.back() * row.back();
    }
    if (gain == nullptr) return row;
    const double norm = 1 / std::sqrt(squares / dims + static_cast<double>(shape_.eps));
    for (int dim = 0; dim < dims; ++dim) row[static_cast<std::size_t>(dim)] *= norm * static_cast<double>(gain[dim]);
    std::vector<double> turned = row;
    for (int i = 0; i < dims / 2; ++i) {
      const auto angle = static_cast<std::size_t>((frontier_ + token) * (dims / 2) + i);
      const auto cosine = static_cast<double>(rope_.cosines()[angle]);
      const auto sine = static_cast<double>(rope_.sines()[angle]);
      const auto low = static_cast<std::size_t>(i);
      const auto high = static_cast<std::size_t>(i + dims / 2);
      turned[low] = row[low] * cosine - row[high] * sine;
      turned[high] = row[high] * cosine + row[low] * sine;
    }
    return turned;
  }

  // Puts what the device holds of the block into the contents, and says how far it is from the formula.
  void compare_cache(const std::vector<float>& qkv, Errors& errors) {
    const auto look = [&](const PoisonedBuffer& buffer, std::vector<double>& content, bool keys) {
      const std::vector<double> got = read(buffer);
      for (int head = 0; head < shape_.kv_heads; ++head) {
        for (int token = 0; token < block_; ++token) {
          const std::vector<double> want = head_row(qkv, token, shape_.heads + (keys ? 0 : shape_.kv_heads) + head,
                                                    keys ? k_norms_.data() + layer_ * shape_.head_dim : nullptr);
          for (int dim = 0; dim < shape_.head_dim; ++dim) {
            const std::size_t at = place(layer_, head, frontier_ + token, dim);
            content[at] = got[at];
            const double difference = std::fabs(got[at] - want[static_cast<std::size_t>(dim)]);
            if (!(difference <= errors.cache)) errors.cache = difference;
          }
        }
      }
      for (std::size_t i = 0; i < got.size(); ++i) {
        const bool same = std::isnan(content[i]) ? std::isnan(got[i]) : content[i] == got[i];
        if (!same) ++errors.spoiled;
      }
    };
    look(keys_, key_content_, true);
    look(values_, value_content_, false);
  }

  void compare(const std::vector<float>& qkv, const std::vector<float>& out, const DraftLayerMask& mask, double factor,
               Errors& errors) const {
    const int dims = shape_.head_dim;
    for (int token = 0; token < block_; ++token) {
      std::vector<double> want;
      for (int head = 0; head < shape_.heads; ++head) {
        std::vector<double> query = head_row(qkv, token, head, q_norm_.data());
        for (double& value : query) {
          value *= factor;
          if (draft_uses_tensor_cores(shape_, format_)) value = bfloat16(value);
        }
        const std::vector<double> mixed = mix(query, head / shape_.heads_a_kv_head(), frontier_ + token, mask);
        want.insert(want.end(), mixed.begin(), mixed.end());
      }
      const auto begin = out.begin() + token * shape_.heads * dims;
      const std::vector<double> got(begin, begin + shape_.heads * dims);
      const double error = relative_error(got, want);
      if (!(error <= errors.worst)) {
        errors.worst = error;
        errors.row = token;
      }
    }
  }
  [[nodiscard]] std::vector<double> mix(const std::vector<double>& query, int kv_head, int position,
                                        const DraftLayerMask& mask) const {
    std::vector<double> scores;
    double most = -1e300;
    for (int key = 0; key < frontier_ + block_; ++key) {
      double score = 0;
      for (int dim = 0; dim < shape_.head_dim; ++dim)
        score += query[static_cast<std::size_t>(dim)] * key_content_[place(layer_, kv_head, key, dim)];
      const bool seen =
          (!mask.causal || key <= position) && (mask.window == 0 || std::abs(position - key) < mask.window);
      scores.push_back(seen ? score : -1e300);
      most = std::max(most, scores.back());
    }
    std::vector<double> mixed(static_cast<std::size_t>(shape_.head_dim), 0);
    double total = 0;
    for (int key = 0; key < frontier_ + block_; ++key) {
      if (scores[static_cast<std::size_t>(key)] <= -1e300) continue;
      const double weight = std::exp2(scores[static_cast<std::size_t>(key)] - most);
      total += weight;
      for (int dim = 0; dim < shape_.head_dim; ++dim)
        mixed[static_cast<std::size_t>(dim)] += weight * value_content_[place(layer_, kv_head, key, dim)];
    }
    for (double& value : mixed) value /= total;
    return mixed;
  }
};

constexpr DraftLayerMask kMasks[] = {{0, false}, {0, true}, {100, true}, {100, false}, {7, false}, {2048, true}};

void expect_all(const DrafterShape& shape, CacheFormat format, const std::vector<int>& frontiers,
                const std::vector<int>& blocks, Launches launches = Launches::kThree) {
  AttentionCase a_case(shape, format, launches);
  const bool tensor_cores = draft_uses_tensor_cores(shape, format);
  for (const int frontier : frontiers) {
    for (const int block : blocks) {
      for (const DraftLayerMask& mask : kMasks) {
        const auto errors = a_case.run(frontier, block, mask, mask);
        const std::string name = std::to_string(shape.head_dim) + " dims, " + to_text(format) + ", " +
                                 std::to_string(block) + " rows at " + std::to_string(frontier) + ", window " +
                                 std::to_string(mask.window) + (mask.causal ? ", causal" : "");
        EXPECT_LT(errors.worst, tensor_cores ? 6e-3 : 1e-5) << name << ", worst row " << errors.row;
        EXPECT_LT(errors.cache, format == CacheFormat::kBF16 ? 0.04 : 1e-5) << name;
        EXPECT_EQ(errors.spoiled, 0) << name;
      }
    }
  }
}

TEST_F(DraftAttention, NarrowModelsEqualTheOracle) {
  expect_all(kNarrow, CacheFormat::kBF16, some("frontiers", {1, 37, 63, 64, 500, 65}, 6, 1), {2, 16});
  expect_all(kNarrow, CacheFormat::kBF16, {100}, {17, 32});
  expect_all(kHead64, CacheFormat::kBF16, some("frontiers of 64", {1, 130}, 2, 1), {3, 16, 32});
}

TEST_F(DraftAttention, PlainArithmeticEqualsTheOracle) {
  expect_all(kSmall, CacheFormat::kFP32, some("frontiers", {1, 200, 37}, 3, 1), {2, 8, 17});
  expect_all(kSmall, CacheFormat::kBF16, {70}, {8});
  expect_all(kNarrow, CacheFormat::kFP32, {70}, {5});
}

// More tiles than parts: a part has several.
TEST_F(DraftAttention, LongContexts) {
  AttentionCase a_case(k27b, CacheFormat::kBF16);
  for (const DraftLayerMask& mask : {DraftLayerMask{0, false}, DraftLayerMask{2048, true}}) {
    const auto errors = a_case.run(3000, 3, mask, mask);
    EXPECT_LT(errors.worst, 6e-3) << "window " << mask.window << ", worst row " << errors.row;
    EXPECT_EQ(errors.spoiled, 0);
  }
  const auto wide = a_case.run(1024, 16, {0, false}, {0, false});
  EXPECT_LT(wide.worst, 6e-3) << "worst row " << wide.row;
}

TEST_F(DraftAttention, AMaskOffByOneIsCaught) {
  AttentionCase a_case(kNarrow, CacheFormat::kBF16);
  EXPECT_GT(a_case.run(150, 8, {20, false}, {21, false}).worst, 6e-3);
  EXPECT_GT(a_case.run(150, 8, {0, false}, {0, true}).worst, 6e-3);
}

// Frontiers before, at and behind ends of units, and where thread blocks go over their positions a second time.
TEST_F(DraftMixer, EqualsTheOracle) {
  expect_all(kNarrow, CacheFormat::kBF16, some("frontiers", {1, 15, 500, 16, 1393}, 5, 2), {1, 8, 9, 16},
             Launches::kMixer);
  AttentionCase a_case(k27b, CacheFormat::kBF16, Launches::kMixer);
  for (const int frontier : some("frontiers of the 27B's", {2288, 1392, 1024}, 1)) {
    const auto errors = a_case.run(frontier, 16, {0, false}, {0, false});
    EXPECT_LT(errors.worst, 6e-3) << frontier << ", worst row " << errors.row;
    EXPECT_EQ(errors.spoiled, 0) << frontier;
  }
}

TEST_F(DraftMixer, AMaskOffByOneIsCaught) {
  AttentionCase a_case(kNarrow, CacheFormat::kBF16, Launches::kMixer);
  EXPECT_GT(a_case.run(150, 8, {20, false}, {21, false}).worst, 6e-3);
  EXPECT_GT(a_case.run(150, 8, {0, false}, {0, true}).worst, 6e-3);
}

}  // namespace
}  // namespace tare::engine::test

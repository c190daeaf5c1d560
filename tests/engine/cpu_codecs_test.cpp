// Caches and states of every format against the scalar definitions: what is kept is what formats/ encodes, and what is
// computed from it has the bits of FP32 memory that holds the decoded numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "base/error.h"
#include "engine/cpu/gdn_cache.h"
#include "engine/cpu/kv_cache.h"
#include "engine/cpu/state_store.h"
#include "engine/formats/cache_blocks.h"
#include "engine/formats/float_formats.h"
#include "engine/formats/hadamard.h"
#include "tests/engine/cpu_fixture.h"

namespace tare::engine::test {
namespace {

constexpr CacheFormat kCacheFormats[] = {CacheFormat::kFP32, CacheFormat::kBF16, CacheFormat::kFP8, CacheFormat::kInt8,
                                         CacheFormat::kNVFP4};
constexpr StateFormat kStateFormats[] = {StateFormat::kFP32, StateFormat::kBF16, StateFormat::kFP16,
                                         StateFormat::kInt8};

std::vector<float> normals(std::int64_t count, unsigned seed, float sigma = 1.0F) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, sigma);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

// A row after its format, by definition.
std::vector<float> decoded(CacheFormat format, std::vector<float> row) {
  switch (format) {
    case CacheFormat::kFP32:
      break;
    case CacheFormat::kBF16:
      for (float& value : row) value = round_to_bfloat16(value);
      break;
    case CacheFormat::kFP8:
      for (float& value : row) value = e4m3_to_float(float_to_e4m3(value));
      break;
    case CacheFormat::kInt8:
      round_to_int8_blocks(row);
      break;
    case CacheFormat::kNVFP4:
      round_to_nvfp4_blocks(row);
      break;
  }
  return row;
}

ModelConfig cache_config(std::int64_t heads, std::int64_t head_dim) {
  ModelConfig config;
  config.key_value_heads = heads;
  config.head_dim = head_dim;
  return config;
}

struct Attention {
  Attention(std::int64_t queries, std::int64_t head_dim, std::int64_t positions) {
    for (std::int64_t i = 0; i < queries; ++i) {
      query.push_back(normals(head_dim, static_cast<unsigned>(500 + i)));
      query.back().resize(static_cast<std::size_t>(round_up(head_dim, 64)));
      scores.emplace_back(static_cast<std::size_t>(round_up(positions, 16) + 32));
      node_scores.emplace_back(static_cast<std::size_t>(round_up(positions, 16) + 32));
      out.emplace_back(static_cast<std::size_t>(round_up(head_dim, 16)));
      query_rows.push_back(query.back().data());
    }
    for (std::size_t i = 0; i < query.size(); ++i) {
      score_rows.push_back(scores[i].data());
      node_rows.push_back(node_scores[i].data());
      out_rows.push_back(out[i].data());
    }
  }
  std::vector<std::vector<float>> query, scores, node_scores, out;
  std::vector<const float*> query_rows;
  std::vector<float*> score_rows, node_rows, out_rows;
};

class CpuCodecs : public testing::TestWithParam<std::string> {
 protected:
  const Kernels kernels_ = select_kernels(GetParam());
};
INSTANTIATE_TEST_SUITE_P(InstructionSets, CpuCodecs, testing::ValuesIn(available_instruction_sets()),
                         [](const auto& info) { return info.param; });

// Positions, the nodes of a tree beside them, and a committed path: at length 1 and across blocks, for heads whose last
// block is short (24, 80), one (64) and four (256) blocks long.
TEST_P(CpuCodecs, ACacheGivesTheBitsOfAnFP32CacheOfDecodedNumbers) {
  constexpr std::int64_t kHeads = 2;
  constexpr std::int64_t kPositions = 37;
  for (const std::int64_t head_dim : {24, 64, 80, 256}) {
    for (const CacheFormat key : kCacheFormats) {
      for (const CacheFormat value : kCacheFormats) {
        if (key != value && head_dim != 80) continue;
        const ModelConfig config = cache_config(kHeads, head_dim);
        KvCache coded(config, {key, value}, kPositions);
        KvCache plain(config, {CacheFormat::kFP32, CacheFormat::kFP32}, kPositions);
        coded.reserve_nodes(5);
        plain.reserve_nodes(5);
        unsigned seed = 1;
        for (std::int64_t head = 0; head < kHeads; ++head) {
          const auto make = [&](auto store_coded, auto store_plain) {
            const std::vector<float> k = normals(head_dim, seed++, 2.0F);
            const std::vector<float> v = normals(head_dim, seed++);
            store_coded(k.data(), v.data());
            store_plain(decoded(key, k).data(), decoded(value, v).data());
          };
          for (std::int64_t position = 0; position < kPositions - 3; ++position)
            make([&](const float* k, const float* v) { coded.store(head, position, k, v); },
                 [&](const float* k, const float* v) { plain.store(head, position, k, v); });
          for (std::int64_t node = 0; node < 5; ++node)
            make([&](const float* k, const float* v) { coded.store_node(head, node, k, v); },
                 [&](const float* k, const float* v) { plain.store_node(head, node, k, v); });
        }
        const std::vector<std::int32_t> path = {0, 2, 4};
        const auto compare = [&](auto attend, const std::string& what) {
          for (std::int64_t head = 0; head < kHeads; ++head) {
            for (std::int64_t queries = 1; queries <= kMostQueries; ++queries) {
              Attention of_coded(queries, head_dim, kPositions);
              Attention of_plain(queries, head_dim, kPositions);
              attend(coded, head, of_coded);
              attend(plain, head, of_plain);
              for (std::size_t q = 0; q < of_plain.out.size(); ++q)
                ASSERT_TRUE(same_bits(of_coded.out[q], of_plain.out[q]))
                    << what << ", " << coded.format() << ", " << head_dim << " channels";
              ASSERT_GT(std::fabs(of_plain.out[0][0]), 0);
            }
          }
        };
        for (const std::int64_t count : {std::int64_t{1}, std::int64_t{17}, kPositions - 3})
          compare(
              [&](const KvCache& cache, std::int64_t head, Attention& attention) {
                cache.attend(kernels_.attention, head, attention.query_rows, count, 0.125F, attention.score_rows,
                             attention.out_rows);
              },
              "positions");
        compare(
            [&](const KvCache& cache, std::int64_t head, Attention& attention) {
              cache.attend_path(kernels_.attention, head, attention.query_rows, kPositions - 3, path, 0.125F,
                                attention.score_rows, attention.node_rows, attention.out_rows);
            },
            "a path");
        coded.keep_path(path, kPositions - 3);
        plain.keep_path(path, kPositions - 3);
        compare(
            [&](const KvCache& cache, std::int64_t head, Attention& attention) {
              cache.attend(kernels_.attention, head, attention.query_rows, kPositions, 0.125F, attention.score_rows,
                           attention.out_rows);
            },
            "a committed path");
        // The control: numbers that were not decoded give other bits.
        if (key == CacheFormat::kFP32) continue;
        plain.store(0, 3, normals(head_dim, 7, 2.0F).data(), normals(head_dim, 8).data());
        coded.store(0, 3, normals(head_dim, 7, 2.0F).data(), normals(head_dim, 8).data());
        Attention of_coded(1, head_dim, kPositions);
        Attention of_plain(1, head_dim, kPositions);
        for (auto* both : {&coded, &plain}) {
          Attention& attention = both == &coded ? of_coded : of_plain;
          both->attend(kernels_.attention, 0, attention.query_rows, kPositions, 0.125F, attention.score_rows,
                       attention.out_rows);
        }
        EXPECT_FALSE(same_bits(of_coded.out[0], of_plain.out[0]));
      }
    }
  }
}

TEST_P(CpuCodecs, AFaultInAKeyOrAValueReachesTheOutput) {
  for (const CacheFormat format : kCacheFormats) {
    for (const bool in_key : {true, false}) {
      for (const float fault : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        // FP8 holds infinity at 448 by definition; FP32 and BF16 keep it, and a score of minus infinity has no weight.
        const bool blocks = format == CacheFormat::kInt8 || format == CacheFormat::kNVFP4;
        if (!blocks && !std::isnan(fault)) continue;
        KvCache cache(cache_config(1, 64), {format, format}, 20);
        for (std::int64_t position = 0; position < 5; ++position) {
          std::vector<float> key = normals(64, 1);
          std::vector<float> value = normals(64, 2);
          if (position == 3) (in_key ? key : value)[17] = fault;
          cache.store(0, position, key.data(), value.data());
        }
        Attention attention(1, 64, 20);
        cache.attend(kernels_.attention, 0, attention.query_rows, 5, 0.125F, attention.score_rows, attention.out_rows);
        bool seen = false;
        for (const float value : attention.out[0]) seen = seen || !std::isfinite(value);
        EXPECT_TRUE(seen) << cache.format() << (in_key ? " key " : " value ") << fault;
      }
    }
  }
}

// docs/method/codecs.md prints these.
TEST(KvCacheBytes, AreThoseOfTheFormats) {
  ModelConfig config = cache_config(4, 256);  // the 27B shape, 16 layers
  const auto a_token = [&](CacheFormat format) { return 16 * kv_cache_bytes(config, {format, format}, 16) / 16; };
  EXPECT_EQ(a_token(CacheFormat::kFP32), 131072U);
  EXPECT_EQ(a_token(CacheFormat::kBF16), 65536U);
  EXPECT_EQ(a_token(CacheFormat::kFP8), 32768U);
  EXPECT_EQ(a_token(CacheFormat::kInt8), 33792U);
  EXPECT_EQ(a_token(CacheFormat::kNVFP4), 18432U);
  for (const CacheFormat format : kCacheFormats) {
    const KvCache cache(config, {format, CacheFormat::kInt8}, 40);
    EXPECT_EQ(cache.resident_bytes(), kv_cache_bytes(config, {format, CacheFormat::kInt8}, 40));
    EXPECT_EQ(cache.bytes(48), cache.resident_bytes());
  }
}

TEST(StateStore, RoundingIsByDefinitionAndStoringWhatIsRoundedLosesNothing) {
  constexpr std::int64_t kRows = 12;
  for (const std::int64_t stride : {32, 128}) {
    for (const StateFormat format : kStateFormats) {
      std::vector<float> state = normals(kRows * stride, 3, 0.01F);
      state[5] = 1e-7F;  // an FP16 subnormal
      state[6] = 0;
      std::vector<float> expected = state;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (format == StateFormat::kBF16) expected[i] = round_to_bfloat16(expected[i]);
        if (format == StateFormat::kFP16) expected[i] = float16_to_float(float_to_float16(expected[i]));
      }
      for (std::int64_t row = 0; format == StateFormat::kInt8 && row < kRows; ++row)
        round_to_int8_blocks(
            std::span(expected).subspan(static_cast<std::size_t>(row * stride), static_cast<std::size_t>(stride)));
      EXPECT_EQ(expected != state, format != StateFormat::kFP32);
      round_state(format, state, stride);
      EXPECT_TRUE(same_bits(state, expected)) << to_text(format);
      StateStore store(format, 3, kRows, stride);
      store.store(1, state);
      std::vector<float> loaded(state.size(), 7.0F);
      store.load(1, loaded);
      EXPECT_TRUE(same_bits(loaded, state)) << to_text(format);
      store.load(2, loaded);
      EXPECT_THAT(loaded, testing::Each(0.0F));  // its neighbour was not touched
      EXPECT_EQ(store.bytes(), static_cast<std::uint64_t>(3 * state_bytes_of(format, kRows, stride)));
      EXPECT_EQ(store.in_place(0) != nullptr, format == StateFormat::kFP32);
    }
  }
}

// The vectorised FP16 of states against formats/: every half, every midpoint and its neighbours, faults.
TEST(StateStore, Float16IsTheDefinitionEverywhere) {
  std::vector<float> values = {1e30F,  -65519.99F, 65520.0F, -0.0F, std::numeric_limits<float>::infinity(),
                               1e-40F, 0x1p-25F};
  for (std::uint32_t bits = 0; bits < 0x7C00U; ++bits) {
    const float below = float16_to_float(static_cast<std::uint16_t>(bits));
    const float above = float16_to_float(static_cast<std::uint16_t>(bits + 1));
    values.push_back(below);
    if (!std::isfinite(above)) continue;
    const float middle = (below + above) / 2;
    for (const float value : {middle, std::nextafter(middle, 0.0F), -std::nextafter(middle, 1e9F)})
      values.push_back(value);
  }
  values.resize(static_cast<std::size_t>(round_up(static_cast<std::int64_t>(values.size()), 16)));
  std::vector<float> expected = values;
  for (float& value : expected) value = float16_to_float(float_to_float16(value));
  round_state(StateFormat::kFP16, values, 16);
  EXPECT_TRUE(same_bits(values, expected));
  std::vector<float> faults(16, std::nanf(""));
  round_state(StateFormat::kFP16, faults, 16);
  EXPECT_TRUE(std::isnan(faults[3]));
}

double difference_to_exact(const Checkpoint& checkpoint, const EngineOptions& options,
                           std::span<const std::int32_t> tokens, const std::vector<float>& exact) {
  const auto backend = make_cpu_backend(checkpoint, options);
  const Captured captured = capture_prefill(*backend, tokens);
  double squares = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double difference = static_cast<double>(captured.logits[i]) - static_cast<double>(exact[i]);
    squares += difference * difference;
  }
  return std::sqrt(squares / static_cast<double>(exact.size()));
}

EngineOptions with(const EngineOptions& base, const std::string& assignment) {
  EngineOptions options = base;
  apply_option(options, assignment);
  return options;
}

// Every codec engages from the first token on, and finer ones are nearer.
TEST(CpuCodecsOfAModel, EveryCodecChangesTheLogitsAndFinerOnesChangeThemLess) {
  const auto checkpoint = open_checkpoint(fixture("hybrid-headdim256").string());
  const Golden golden(fixture("hybrid-headdim256") / "golden-97.safetensors");
  const std::span<const std::int32_t> tokens = std::span(golden.tokens).first(48);
  const EngineOptions exact = exact_options();
  const std::vector<float> logits = capture_prefill(*make_cpu_backend(*checkpoint, exact), tokens).logits;
  const auto difference = [&](const std::string& path, const std::string& word) {
    return difference_to_exact(*checkpoint, with(exact, path + "=" + word), tokens, logits);
  };
  const auto expect_rising = [&](const std::string& path, const std::vector<std::string>& words) {
    double last = 0;
    for (const std::string& word : words) {
      const double now = difference(path, word);
      EXPECT_GT(now, last) << path << "=" << word;
      last = now;
    }
  };
  expect_rising("kv.key", {"bf16", "int8", "fp8", "nvfp4"});
  expect_rising("kv.value", {"bf16", "int8", "fp8", "nvfp4"});
  expect_rising("state.recurrent", {"fp16", "bf16", "int8"});
  expect_rising("weights.format", {"q8", "q5", "q4", "q3"});
  EXPECT_GT(difference("weights.format", "nvfp4"), difference("weights.format", "fp8"));
  const double rotated = difference("kv.rotation", "hadamard");
  EXPECT_GT(rotated, 0);
  EXPECT_LT(rotated, difference("kv.key", "bf16") / 10);  // scores are the same but for rounding
}

TEST(CpuCodecsOfAModel, ARotationOfHeadsThatHaveNoneIsRefused) {
  const auto checkpoint = open_checkpoint(fixture("hybrid-small").string());
  try {
    (void)make_cpu_backend(*checkpoint, with(exact_options(), "kv.rotation=hadamard"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.parts().where, "kv.rotation");
    EXPECT_THAT(error.what(), testing::HasSubstr("24 channels"));
  }
}

TEST(CpuCodecsOfAModel, TheInventoryNamesCodecsAndCountsTheirBytes) {
  const auto checkpoint = open_checkpoint(fixture("hybrid-headdim256").string());
  EngineOptions options = exact_options();
  apply_option(options, "kv.key=nvfp4");
  apply_option(options, "kv.value=int8");
  apply_option(options, "kv.rotation=hadamard");
  apply_option(options, "state.recurrent=int8");
  apply_option(options, "weights.format=q5");
  apply_option(options, "weights.scales=e4m3");
  const auto backend = make_cpu_backend(*checkpoint, options);
  const ModelConfig& config = backend->config();
  bool cache = false;
  bool state = false;
  bool weights = false;
  for (const InventoryEntry& entry : backend->inventory(64, 1).entries) {
    if (entry.tensor.ends_with("kv cache")) {
      cache = true;
      EXPECT_EQ(entry.format, "nvfp4 keys, int8 values, rotated");
      EXPECT_EQ(entry.resident_bytes, static_cast<std::uint64_t>(512 * config.key_value_heads * (144 + 264)));
    }
    if (entry.tensor.ends_with("recurrent state")) {
      state = true;
      EXPECT_EQ(entry.format, "int8");
      const auto shape = GdnShape(config);
      const RollbackCost cost = rollback_cost(shape, Rollback::kRing, 1, StateFormat::kInt8);
      EXPECT_EQ(entry.resident_bytes, static_cast<std::uint64_t>(shape.heads * 128 * (128 + 4)) + cost.held);
      EXPECT_EQ(entry.bytes_per_round, cost.moved);
      EXPECT_LT(cost.moved, rollback_cost(shape, Rollback::kRing, 1).moved / 3);
    }
    if (entry.tensor.ends_with("mlp.down_proj.weight")) {
      weights = true;
      EXPECT_EQ(entry.format, "q5, e4m3 scales");
      EXPECT_EQ(
          entry.resident_bytes,
          PackedMatrix({WeightFormat::kQ5, ScaleFormat::kE4M3}, config.hidden_size, config.intermediate_size).bytes());
      // Five bits and an eighth a weight, and four bytes a row.
      EXPECT_EQ(entry.resident_bytes, static_cast<std::uint64_t>(config.hidden_size) *
                                          (static_cast<std::uint64_t>(config.intermediate_size) * 41 / 64 + 4));
    }
  }
  EXPECT_TRUE(cache && state && weights);
}

}  // namespace
}  // namespace tare::engine::test

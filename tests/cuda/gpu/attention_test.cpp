// Attention on the GPU against a double-precision oracle on the represented cache.
#include <algorithm>

#include "base/error.h"
#include "engine/cuda/product/operand.h"
#include "engine/formats/float_formats.h"
#include "tests/cuda/gpu/attention_cases.h"
#include "tests/cuda/gpu/sanitized.h"

namespace tare::engine::test {
namespace {

using Attention = GpuTest;
using AttentionHopper = HopperTest;

constexpr CudaAttentionShape k27b{.heads = 24, .kv_heads = 4, .head_dim = 256, .rotary_dim = 64, .eps = 1e-6F};
constexpr CudaAttentionShape kNarrow27b{.heads = 6, .kv_heads = 1, .head_dim = 256, .rotary_dim = 64, .eps = 1e-6F};
constexpr CudaAttentionShape k08b{.heads = 8, .kv_heads = 2, .head_dim = 256, .rotary_dim = 64, .eps = 1e-6F};
constexpr CudaAttentionShape kEmbedded{.heads = 2, .kv_heads = 1, .head_dim = 256, .rotary_dim = 64, .eps = 1e-6F};
constexpr CudaAttentionShape kSmall{.heads = 4, .kv_heads = 2, .head_dim = 24, .rotary_dim = 6, .eps = 1e-6F};
constexpr CudaAttentionShape kHead64{.heads = 4, .kv_heads = 2, .head_dim = 64, .rotary_dim = 16, .eps = 1e-6F};
constexpr CudaAttentionShape kHead128{.heads = 8, .kv_heads = 2, .head_dim = 128, .rotary_dim = 128, .eps = 1e-6F};

constexpr int kTokenCounts[] = {1, 2, 7, 8, 16, 17, 32};
constexpr CacheFormat kFormats[] = {CacheFormat::kFP32, CacheFormat::kBF16, CacheFormat::kFP8, CacheFormat::kInt8,
                                    CacheFormat::kNVFP4};
constexpr CacheFormat kScaledFormats[] = {CacheFormat::kInt8, CacheFormat::kNVFP4};

constexpr std::int64_t kLongBound = 5000;

// Of the worst token's row: FP32 arithmetic, or FP16 queries and weights, which keep 11 bits.
double tolerance(const AttentionCase& a_case) {
  const CudaKeyValueCache& cache = a_case.cache();
  const bool tiles =
      a_case.shape().head_dim == kTensorHeadDim && has_tiles_kernel(cache.key_format, cache.value_format);
  return tiles ? 2e-3 : 1e-5;
}

void expect_round(AttentionCase& a_case, int frontier, int tokens) {
  a_case.reset_cache(frontier);
  const std::vector<float> got = a_case.round(frontier, tokens);
  a_case.expect_cache(frontier, frontier + tokens);
  const WorstToken worst = worst_token(got, a_case.oracle(frontier, tokens), a_case.columns());
  EXPECT_LT(worst.error, tolerance(a_case)) << a_case.name() << ": " << tokens << " tokens at " << frontier
                                            << ", worst token " << worst.token << ", column " << worst.column;
}
void expect_prefill(AttentionCase& a_case, int frontier, int tokens) {
  a_case.reset_cache(frontier);
  const std::vector<float> got = a_case.prefill(frontier, tokens);
  a_case.expect_cache(frontier, frontier + tokens);
  const WorstToken worst = worst_token(got, a_case.oracle(frontier, tokens), a_case.columns());
  EXPECT_LT(worst.error, tolerance(a_case)) << a_case.name() << ": prefill of " << tokens << " tokens at " << frontier
                                            << ", worst token " << worst.token << ", column " << worst.column;
}

TEST_F(Attention, RoundsOfEveryWidthEqualTheOracle) {
  for (const CacheFormat format : kFormats) {
    AttentionCase a_case(kNarrow27b, format, format, 400);
    for (const int tokens : kTokenCounts) {
      for (const int frontier : some("frontiers", {1, 63, 64, 127, 128, 300, 0, 129}, 2, 1))
        expect_round(a_case, frontier, tokens);
    }
  }
}

TEST_F(Attention, KeysAndValuesMayHaveDifferentFormats) {
  for (const CacheFormat key : kFormats) {
    for (const CacheFormat value : kFormats) {
      if (key == value) continue;
      AttentionCase a_case(kNarrow27b, key, value, 200);
      for (const int tokens : some("token counts", {4, 8, 1, 16}, 2, 1)) expect_round(a_case, 100, tokens);
      expect_prefill(a_case, 60, amount("tokens of a prefill", 70, 70, 20));
    }
  }
}

// 27B: at most 33 parts, 16 where they are short: of 64 positions below 1024, of 128 below 4224, of 192 above.
TEST_F(Attention, LongContextsAndPartBorders) {
  for (const CacheFormat format : kFormats) {
    AttentionCase a_case(k27b, format, format, 4400);
    for (const int frontier : some("frontiers", {1000, 1023, 1024, 2047, 2048, 4097, 4224, 4223}, 1)) {
      for (const int tokens : some("token counts", {16, 1}, 2, 1)) expect_round(a_case, frontier, tokens);
    }
    // Tokens on both sides of a change of part length, in one group of blocks and in two, or of a bound.
    expect_round(a_case, 1020, 16);
    expect_round(a_case, 1016, 16);
    expect_round(a_case, 2040, 16);
    expect_round(a_case, 4218, 16);
    if (amount("rounds of 32 tokens", 1, 1, 0) == 0) continue;
    expect_round(a_case, 1010, 32);
    expect_round(a_case, 4200, 32);
  }
}

TEST_F(Attention, OtherModelsShapes) {
  for (const CudaAttentionShape& shape : {k08b, kEmbedded, kSmall, kHead64, kHead128}) {
    for (const CacheFormat format : kFormats) {
      AttentionCase a_case(shape, format, format, 500);
      for (const int tokens : some("token counts", {7, 32, 1, 16}, 2, 1)) expect_round(a_case, 190, tokens);
      expect_round(a_case, 0, 1);
      const int first = amount("tokens of the first prefill", 129, 129, 66);
      expect_prefill(a_case, 0, first);
      expect_prefill(a_case, first, amount("tokens of the second prefill", 40, 40, 10));
    }
  }
}

TEST_F(Attention, PrefillOfAnyLengthEqualsTheOracle) {
  for (const CacheFormat format : kFormats) {
    AttentionCase narrow(kNarrow27b, format, format, 400);
    for (const int tokens : some("lengths", {1, 2, 15, 16, 17, 63, 64, 128, 300, 65}, 1))
      expect_prefill(narrow, 0, tokens);
    for (const int frontier : some("frontiers", {1, 63, 64, 65, 100}, 1)) expect_prefill(narrow, frontier, 77);
    AttentionCase whole(k27b, format, format, 4300);
    expect_prefill(whole, amount("tokens before the prefill", 4097, 4097, 1000), amount("tokens late", 100, 100, 20));
    expect_prefill(whole, 0, amount("tokens of a long prefill", 700, 700, 150));
  }
}

TEST_F(Attention, PrefillInPiecesHasTheBitsOfTheWhole) {
  for (const CacheFormat format : kFormats) {
    AttentionCase a_case(k27b, format, format, 400);
    const int tokens = amount("tokens", 300, 300, 140);
    a_case.reset_cache(0);
    const std::vector<float> whole = a_case.prefill(0, tokens);
    a_case.reset_cache(0);
    std::vector<float> pieces = a_case.prefill(0, 101);
    const std::vector<float> second = a_case.prefill(101, tokens - 101);
    pieces.insert(pieces.end(), second.begin(), second.end());
    EXPECT_TRUE(pieces == whole) << a_case.name();
    a_case.expect_cache(0, tokens);
  }
}

// A token's bits do not depend on how many tokens are in its pass, nor on where the pass begins.
TEST_F(Attention, WidthsAgreeBitForBit) {
  struct Model {
    CudaAttentionShape shape;
    int frontier;
  };
  // Both 1,010 and 4,215 lie before a change of part length.
  std::vector<Model> models = {{kNarrow27b, 90}, {k27b, 1010}, {kSmall, 50}};
  if (amount("contexts at the 27B's shape", 2, 2, 1) > 1) models.push_back({k27b, 4215});
  for (const Model& model : models) {
    std::vector<std::pair<CacheFormat, CacheFormat>> pairs = {{CacheFormat::kInt8, CacheFormat::kNVFP4},
                                                              {CacheFormat::kBF16, CacheFormat::kInt8}};
    for (const CacheFormat format : kFormats) pairs.emplace_back(format, format);
    for (const auto& [key, value] : pairs) {
      AttentionCase a_case(model.shape, key, value, model.frontier + 32);
      a_case.reset_cache(model.frontier);
      const std::vector<float> wide = a_case.round(model.frontier, 32);
      for (const int width : some("widths", {1, 2, 8, 5, 16}, 2, 1)) {
        a_case.reset_cache(model.frontier);
        int differences = 0;
        for (int token = 0; token < 32; token += width) {
          const int count = std::min(width, 32 - token);
          const std::vector<float> narrow = a_case.round(model.frontier + token, count);
          for (std::size_t i = 0; i < narrow.size(); ++i) {
            const auto at = static_cast<std::size_t>(token) * static_cast<std::size_t>(a_case.columns()) + i;
            if (std::memcmp(&narrow[i], &wide[at], sizeof(float)) == 0) continue;
            if (++differences == 1) {
              ADD_FAILURE() << a_case.name() << ": width " << width << " differs first at token "
                            << at / static_cast<std::size_t>(a_case.columns()) << ", column "
                            << at % static_cast<std::size_t>(a_case.columns()) << ": " << narrow[i] << " and "
                            << wide[at];
            }
          }
        }
        EXPECT_EQ(differences, 0);
      }
    }
  }
}

TEST_F(Attention, LastSlotOfTheCapacityIsUsable) {
  for (const CacheFormat format : kFormats) {
    for (const std::int64_t capacity : {130, 192}) {
      AttentionCase a_case(kNarrow27b, format, format, capacity);
      expect_round(a_case, static_cast<int>(capacity) - 16, 16);
      expect_round(a_case, static_cast<int>(capacity) - 1, 1);
      expect_prefill(a_case, static_cast<int>(capacity) - 50, 50);
    }
  }
}

// Appended values beyond what E4M3 holds become its largest number, not infinite and not NaN.
TEST_F(Attention, FP8ValuesSaturate) {
  constexpr float kLargestE4M3 = 448;
  constexpr int kFrontier = 100;
  constexpr int kTokens = 3;
  for (const auto results : {AttentionCase::Results::kPlanes, AttentionCase::Results::kRows}) {
    AttentionCase a_case(k27b, CacheFormat::kFP8, CacheFormat::kFP8, 256);
    a_case.scale_projections(0x1p12F);
    const std::vector<float> rows = a_case.projections(kFrontier);
    const auto values = std::span(rows).last(static_cast<std::size_t>(k27b.kv_heads * k27b.head_dim));
    ASSERT_GT(*std::max_element(values.begin(), values.end()), kLargestE4M3);
    a_case.reset_cache(kFrontier);
    std::ignore = a_case.run_round(kFrontier, kTokens, {.results = results});
    a_case.expect_cache(kFrontier, kFrontier + kTokens);
  }
}

// The control: one key with the wrong sign in a context of 1,000 must show.
TEST_F(Attention, OneCorruptedKeyIsSeen) {
  TARE_SKIP_WHERE_RACECHECKED("LongContextsAndPartBorders");
  for (const CacheFormat format : kFormats) {
    AttentionCase a_case(k27b, format, format, 1100);
    a_case.reset_cache(1000);
    std::ignore = a_case.round(1000, 1);  // appends position 1000
    const std::vector<double> wanted = a_case.oracle(1000, 1);
    double most = 0;
    for (const int position : {0, 63, 64, 517, 999}) {
      a_case.reset_cache(1000);
      a_case.corrupt_key(2, position);
      const double error = worst_token(a_case.round(1000, 1), wanted, a_case.columns()).error;
      most = std::max(most, error);
      EXPECT_GT(error, tolerance(a_case) / 100) << a_case.name() << ": position " << position;
    }
    EXPECT_GT(most, tolerance(a_case)) << a_case.name();
  }
}

// And one row whose scales are four times what they are, of keys or of values.
TEST_F(Attention, OneWrongScaleIsSeen) {
  constexpr int kFrontier = 100;
  for (const CacheFormat format : kScaledFormats) {
    AttentionCase a_case(k27b, format, format, 200);
    a_case.reset_cache(kFrontier);
    std::ignore = a_case.round(kFrontier, 1);
    const std::vector<double> wanted = a_case.oracle(kFrontier, 1);
    for (const bool of_values : {false, true}) {
      double most = 0;
      for (const int position : {0, 63, 64, 99}) {
        a_case.reset_cache(kFrontier);
        a_case.corrupt_scales(of_values, 2, position, 4);
        most = std::max(most, worst_token(a_case.round(kFrontier, 1), wanted, a_case.columns()).error);
      }
      EXPECT_GT(most, 2 * tolerance(a_case)) << a_case.name() << (of_values ? ", values: " : ", keys: ") << most;
    }
  }
}

// What was not finite when it was stored has the scale NaN: it reaches every query that sees it, and no other head.
TEST_F(Attention, AScaleThatIsNoNumberReachesTheRows) {
  constexpr int kFrontier = 200;
  constexpr int kTokens = 3;
  for (const CudaAttentionShape& shape : {k27b, kHead64}) {
    for (const CacheFormat format : kScaledFormats) {
      AttentionCase a_case(shape, format, format, 300);
      for (const bool of_values : {false, true}) {
        for (const bool prefill : {false, true}) {
          a_case.reset_cache(kFrontier);
          a_case.corrupt_scales(of_values, 1, 77, std::nanf(""));
          const std::vector<float> got =
              prefill ? a_case.prefill(kFrontier, kTokens) : a_case.round(kFrontier, kTokens);
          const std::int64_t a_kv_head = a_case.columns() / shape.kv_heads;
          for (std::size_t i = 0; i < got.size(); ++i) {
            const bool of_head = static_cast<std::int64_t>(i) % a_case.columns() / a_kv_head == 1;
            ASSERT_EQ(std::isnan(got[i]), of_head) << a_case.name() << ", column " << i;
          }
        }
      }
    }
  }
}

TEST_F(Attention, ResultsMayBePlainRowsAndPassesMayFillL2) {
  for (const CacheFormat format : kFormats) {
    AttentionCase a_case(k27b, format, format, 300);
    a_case.reset_cache(200);
    const std::vector<std::byte> wanted = a_case.run_round(200, 5, {});
    // Planes are added before the factor, rows after it: powers of two, the same bits.
    for (const AttentionCase::PassOptions& options :
         {AttentionCase::PassOptions{.results = AttentionCase::Results::kRows},
          AttentionCase::PassOptions{.fill = true}, AttentionCase::PassOptions{.programmatic = true}}) {
      a_case.reset_cache(200);
      EXPECT_TRUE(a_case.run_round(200, 5, options) == wanted) << a_case.name();
    }
  }
}

// Launched programmatically after a kernel that writes its results long after it let the next one start.
TEST_F(AttentionHopper, WaitsForTheProductBeforeIt) {
  for (const CacheFormat format : kFormats) {
    AttentionCase a_case(k27b, format, format, 1400);
    for (const int tokens : {1, 16}) {
      a_case.reset_cache(1300);
      const std::vector<std::byte> wanted = a_case.run_round(1300, tokens, {});
      a_case.reset_cache(1300);
      EXPECT_TRUE(a_case.run_round(1300, tokens, {.programmatic = true, .late_results = true}) == wanted)
          << a_case.name() << ", " << tokens << " tokens";
      a_case.expect_cache(1300, 1300 + tokens);
    }
  }
}

TEST_F(Attention, OperandsOfEveryLayoutHoldTheSameNumbers) {
  AttentionCase a_case(k27b, CacheFormat::kFP8, CacheFormat::kFP8, 300);
  for (const int tokens : {1, 8, 11, 32}) {
    a_case.reset_cache(200);
    const std::vector<float> wanted = a_case.round(200, tokens);
    const auto wanted_at = [&](int token, std::int64_t column) {
      const float value = wanted[static_cast<std::size_t>(token * a_case.columns() + column)];
      return round_to_bfloat16(value);
    };
    a_case.reset_cache(200);
    const auto panels = a_case.run_round(200, tokens, {.layout = OperandLayout::kBF16Panels});
    const int width = operand_width(tokens);
    int wrong = 0;
    for (int token = 0; token < width; ++token) {
      for (std::int64_t column = 0; column < a_case.columns(); ++column) {
        std::uint16_t bits = 0;
        const auto at = static_cast<std::size_t>(column / 64 * operand_block_bytes(width) +
                                                 2 * operand_panel_place(width, token, static_cast<int>(column % 64)));
        std::memcpy(&bits, panels.data() + at, sizeof bits);
        const float aim = token < tokens ? wanted_at(token, column) : 0.0F;
        if (bfloat16_to_float(bits) != aim && ++wrong == 1) {
          ADD_FAILURE() << "width " << width << ", token " << token << ", column " << column << ": "
                        << bfloat16_to_float(bits) << ", wanted " << aim;
        }
      }
    }
    EXPECT_EQ(wrong, 0);
  }
  a_case.reset_cache(0);
  const std::vector<float> wanted = a_case.prefill(0, 100);
  a_case.reset_cache(0);
  const auto rows =
      a_case.run_prefill(0, 100, {.results = AttentionCase::Results::kRows, .layout = OperandLayout::kBF16Rows});
  int wrong = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, rows.data() + 2 * i, sizeof bits);
    if (bits != float_to_bfloat16(wanted[i])) ++wrong;
  }
  EXPECT_EQ(wrong, 0);
}

TEST_F(Attention, RefusesShapesByName) {
  const auto refuse = [](CudaAttentionShape shape, const char* what) {
    try {
      check_attention_shape(shape);
      ADD_FAILURE() << what << " was not refused";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  };
  CudaAttentionShape shape = k27b;
  shape.head_dim = 264;
  refuse(shape, "head dimension of 264");
  shape = k27b;
  shape.heads = 23;
  refuse(shape, "query heads of 23");
  shape = k27b;
  shape.rotary_dim = 63;
  refuse(shape, "rotary dimension of 63");
}

}  // namespace
}  // namespace tare::engine::test

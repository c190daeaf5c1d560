// Every kernel of every instruction set against the scalar definitions, on awkward shapes, with poisoned outputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/error.h"
#include "engine/backend/options.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/kv_layout.h"
#include "engine/cpu/row_buffer.h"
#include "engine/formats/float_formats.h"
#include "engine/formats/reference_dot.h"

namespace tare::engine {
namespace {

constexpr float kPoison = -12345.0F;

std::vector<float> normals(std::int64_t count, unsigned seed, float sigma = 1.0F) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, sigma);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

std::string name_of(WeightCodec codec) {
  return to_text(codec.format) + " " + to_text(codec.scales);
}

class CpuKernels : public testing::TestWithParam<std::string> {
 protected:
  const Kernels kernels_ = select_kernels(GetParam());
};

INSTANTIATE_TEST_SUITE_P(InstructionSets, CpuKernels, testing::ValuesIn(available_instruction_sets()),
                         [](const auto& info) { return info.param; });

struct MatrixCase {
  WeightCodec codec;
  std::int64_t rows;
  std::int64_t columns;
  bool quantized_activations;
};

// Rows have scales of two tensors, as when q, k and v are stacked: 1 to 64.
float tensor_scale_of_row(const MatrixCase& shape, std::int64_t row) {
  const float own = tensor_scale_of(shape.codec.format, 0.25F);
  return row % 3 == 0 ? own * 64 : own;
}

// A row's weights as represented, and its product with q8 activations where codes meet as integers.
struct RepresentedRow {
  RepresentedRow(WeightCodec codec, float tensor_scale, std::span<const float> values) : weights(values.size()) {
    for (std::size_t begin = 0; begin < values.size(); begin += 64) {
      const std::span<const float> group = values.subspan(begin, std::min<std::size_t>(64, values.size() - begin));
      groups.push_back(encode_weights(codec, tensor_scale, group));
      decode_weights(codec, tensor_scale, groups.back(), std::span(weights).subspan(begin, group.size()));
    }
  }
  std::vector<EncodedGroup> groups;
  std::vector<float> weights;
};

// A packed matrix with its rows' definitions and activations of up to `tokens` rows.
struct MatrixProblem {
  MatrixProblem(const MatrixCase& shape_in, std::int64_t tokens, const VectorKernels& kernels)
      : shape(shape_in),
        matrix(shape.codec, shape.rows, shape.columns),
        input(shape.columns, shape.quantized_activations) {
    for (std::int64_t row = 0; row < shape.rows && has_tensor_scale(shape.codec); ++row)
      matrix.set_tensor_scale(row, 1, tensor_scale_of_row(shape, row));
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      weights.push_back(normals(shape.columns, static_cast<unsigned>(row + 1), 0.05F));
      matrix.pack_rows(row, weights.back());
    }
    input.reserve(tokens);
    for (std::int64_t token = 0; token < tokens; ++token) {
      activations.push_back(normals(shape.columns, static_cast<unsigned>(1000 + token)));
      std::copy(activations.back().begin(), activations.back().end(), input.row(token));
      input.quantize(token, kernels);
    }
  }

  // The exact product on the represented numbers, and the sum of the products' magnitudes, which bounds the rounding.
  std::pair<double, double> expected(std::int64_t row, std::int64_t token, bool codes) const {
    const std::vector<float>& x = activations[static_cast<std::size_t>(token)];
    std::vector<float> w = weights[static_cast<std::size_t>(row)];
    double exact = 0;
    if (matrix.format() == WeightFormat::kBF16) {
      std::vector<std::uint16_t> halves;
      for (float& value : w) {
        halves.push_back(float_to_bfloat16(value));
        value = bfloat16_to_float(halves.back());
      }
      exact = reference_dot(halves, x);
    } else {
      const RepresentedRow represented(shape.codec, tensor_scale_of_row(shape, row), w);
      w = represented.weights;
      const EncodedActivations encoded = encode_activations(x);
      for (std::size_t i = 0; i < w.size(); ++i)
        exact += static_cast<double>(w[i]) *
                 (codes ? static_cast<double>(encoded.scales[i / 64]) * encoded.codes[i] : static_cast<double>(x[i]));
    }
    double magnitude = 0;
    for (std::size_t i = 0; i < w.size(); ++i) magnitude += std::fabs(static_cast<double>(w[i] * x[i]));
    return {exact, magnitude};
  }

  MatrixCase shape;
  PackedMatrix matrix;
  InputRows input;
  std::vector<std::vector<float>> weights;
  std::vector<std::vector<float>> activations;
};

bool field_is_integer(WeightFormat format) {
  return format != WeightFormat::kBF16 && field_bias_of(format) != 0;
}

std::vector<MatrixCase> matrix_cases() {
  std::vector<MatrixCase> cases;
  for (const auto& [rows, columns] : {std::pair{1, 1}, {31, 48}, {33, 64}, {64, 80}, {97, 200}, {32, 1024}})
    for (const WeightFormat format : {WeightFormat::kBF16, WeightFormat::kQ8, WeightFormat::kQ5, WeightFormat::kQ4,
                                      WeightFormat::kQ3, WeightFormat::kFP8, WeightFormat::kNVFP4})
      for (const ScaleFormat scales : {ScaleFormat::kFP16, ScaleFormat::kE4M3}) {
        const WeightCodec codec{format, scales};
        if (normalized(codec) != codec) continue;
        cases.push_back({codec, rows, columns, false});
        const bool integers = field_is_integer(format);
        if (integers) cases.push_back({codec, rows, columns, true});
      }
  return cases;
}

TEST_P(CpuKernels, ProductsEqualTheirDefinitionAndStayInsideTheOutput) {
  // 4096 partial roundings would give sqrt(n) * 2^-24 of the magnitudes; 16 sums in a row bound it far below.
  constexpr double kRounding = 0x1p-20;
  for (const MatrixCase& shape : matrix_cases()) {
    constexpr std::int64_t kTokens = 7;
    const MatrixProblem problem(shape, kTokens, kernels_.vectors);
    const std::int64_t padded = problem.matrix.panels() * kPanelRows;
    const std::int64_t stride = padded + 3;
    std::vector<float> out(static_cast<std::size_t>(kTokens * stride), kPoison);
    kernels_.multiply_panels(problem.matrix, 0, problem.matrix.panels(), problem.input.view(kTokens), out.data(),
                             stride);
    for (std::int64_t token = 0; token < kTokens; ++token) {
      for (std::int64_t row = 0; row < stride; ++row) {
        const float value = out[static_cast<std::size_t>(token * stride + row)];
        if (row >= padded) {
          ASSERT_EQ(value, kPoison);
        } else if (row >= shape.rows) {
          ASSERT_EQ(value, 0.0F);
        } else {
          const auto [exact, magnitude] = problem.expected(row, token, shape.quantized_activations);
          ASSERT_NEAR(value, exact, kRounding * magnitude)
              << name_of(shape.codec) << " " << shape.rows << "x" << shape.columns << " row " << row;
        }
      }
    }
  }
}

TEST_P(CpuKernels, ProductsHaveTheSameBitsForEveryNumberOfTokensAndEverySplitOfPanels) {
  for (const MatrixCase& shape : matrix_cases()) {
    constexpr std::int64_t kTokens = 16;
    const MatrixProblem problem(shape, kTokens, kernels_.vectors);
    const std::int64_t panels = problem.matrix.panels();
    const std::int64_t stride = panels * kPanelRows;
    std::vector<float> alone(static_cast<std::size_t>(kTokens * stride), kPoison);
    for (std::int64_t token = 0; token < kTokens; ++token)
      for (std::int64_t panel = 0; panel < panels; ++panel)
        kernels_.multiply_panels(problem.matrix, panel, panel + 1, problem.input.view(token, token + 1),
                                 alone.data() + token * stride, stride);
    for (std::int64_t tokens = 2; tokens <= kTokens; ++tokens) {
      std::vector<float> together(static_cast<std::size_t>(tokens * stride), kPoison);
      kernels_.multiply_panels(problem.matrix, 0, panels, problem.input.view(tokens), together.data(), stride);
      ASSERT_EQ(std::memcmp(together.data(), alone.data(), together.size() * sizeof(float)), 0)
          << name_of(shape.codec) << " " << shape.rows << "x" << shape.columns << " T=" << tokens;
    }
  }
}

TEST_P(CpuKernels, ExtremeCodesDoNotSaturate) {
  // All products at their largest: 64 * 127 * 127 a group, and biased bytes at 255.
  for (const WeightFormat format : {WeightFormat::kQ8, WeightFormat::kQ5, WeightFormat::kQ4}) {
    PackedMatrix matrix(format, kPanelRows, 64);
    for (std::int64_t row = 0; row < kPanelRows; ++row)
      matrix.pack_rows(row, std::vector<float>(64, row % 2 == 0 ? 7.0F : -7.0F));
    InputRows input(64, true);
    input.reserve(1);
    for (const float sign : {1.0F, -1.0F}) {
      std::fill_n(input.row(0), 64, sign * 127.0F);
      input.quantize(0, kernels_.vectors);
      std::vector<float> out(kPanelRows);
      kernels_.multiply_panels(matrix, 0, 1, input.view(1), out.data(), kPanelRows);
      const float code = format == WeightFormat::kQ8 ? 127.0F : format == WeightFormat::kQ5 ? 15.0F : 7.0F;
      const double scale = float16_to_float(float_to_float16(7.0F / code));
      for (std::int64_t row = 0; row < kPanelRows; ++row)
        ASSERT_NEAR(out[static_cast<std::size_t>(row)],
                    (row % 2 == 0 ? 1 : -1) * sign * 64 * 127 * static_cast<double>(code) * scale, 0.02);
    }
  }
}

// Every field of every format in every place of a group, one at a time: what the kernels decode is the definition.
TEST_P(CpuKernels, EveryCodeIsDecodedInEveryPlace) {
  InputRows input(64, false);
  input.reserve(64);
  for (std::int64_t place = 0; place < 64; ++place) input.row(place)[place] = 1;
  for (const WeightFormat format :
       {WeightFormat::kQ8, WeightFormat::kQ5, WeightFormat::kQ4, WeightFormat::kFP8, WeightFormat::kNVFP4}) {
    const WeightCodec codec{format, ScaleFormat::kE4M3};
    PackedMatrix matrix(codec, kPanelRows, 64);
    const int fields = 1 << code_bits_of(format);
    for (int first = 0; first < fields; first += static_cast<int>(kPanelRows)) {
      std::vector<std::uint8_t> of_row;
      for (std::int64_t row = 0; row < kPanelRows; ++row) {
        const auto field = static_cast<std::uint8_t>((first + row) % fields);
        of_row.push_back(format == WeightFormat::kFP8 && (field & 0x7FU) == kE4M3NaN ? 0 : field);
        EncodedGroup group;
        group.fields.fill(of_row.back());
        for (std::size_t i = 0; i < group.scales.size(); ++i)
          group.scales[i] = static_cast<std::uint16_t>(0x30 + 8 * i);
        matrix.put_group(row, 0, group);
      }
      std::vector<float> out(64 * kPanelRows);
      kernels_.multiply_panels(matrix, 0, 1, input.view(64), out.data(), kPanelRows);
      for (std::size_t place = 0; place < 64; ++place)
        for (std::size_t row = 0; row < static_cast<std::size_t>(kPanelRows); ++row) {
          const std::size_t block = place * scales_a_group(format) / 64;
          ASSERT_EQ(out[place * static_cast<std::size_t>(kPanelRows) + row],
                    decode_weight(codec, 1, static_cast<std::uint16_t>(0x30 + 8 * block), of_row[row]))
              << to_text(format) << " place " << place << " field " << int{of_row[row]};
        }
    }
  }
}

// All 256 bytes a scale can be, as kernels read them.
TEST_P(CpuKernels, EveryScaleByteIsReadByItsDefinition) {
  InputRows input(64, false);
  input.reserve(1);
  std::fill_n(input.row(0), 64, 1.0F);
  for (const WeightFormat format : {WeightFormat::kQ4, WeightFormat::kNVFP4}) {
    PackedMatrix matrix({format, ScaleFormat::kE4M3}, 256, 64);
    for (std::int64_t row = 0; row < 256; ++row) {
      EncodedGroup group;
      group.fields.fill(static_cast<std::uint8_t>(format == WeightFormat::kQ4 ? kQ4Bias + 1 : 2));  // ones
      group.scales.fill(static_cast<std::uint16_t>(row));
      matrix.put_group(row, 0, group);
    }
    std::vector<float> out(256);
    kernels_.multiply_panels(matrix, 0, matrix.panels(), input.view(1), out.data(), 256);
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const float scale = e4m3_to_float(static_cast<std::uint8_t>(byte));
      if (std::isnan(scale)) {
        EXPECT_TRUE(std::isnan(out[byte])) << byte;
      } else {
        EXPECT_EQ(out[byte], 64 * scale) << byte;
      }
    }
  }
}

TEST_P(CpuKernels, SubnormalScalesAreNotLost) {
  PackedMatrix matrix(WeightFormat::kQ8, kPanelRows, 64);
  for (std::int64_t row = 0; row < kPanelRows; ++row) matrix.pack_rows(row, std::vector<float>(64, 127 * 0x1p-20F));
  InputRows input(64, false);
  input.reserve(1);
  std::fill_n(input.row(0), 64, 1.0F);
  std::vector<float> out(kPanelRows);
  kernels_.multiply_panels(matrix, 0, 1, input.view(1), out.data(), kPanelRows);
  EXPECT_THAT(out, testing::Each(64 * 127 * 0x1p-20F));
}

TEST_P(CpuKernels, QuantizedRowsEqualTheScalarDefinitionBitForBit) {
  std::vector<float> x = normals(64 * 6, 5, 2.0F);
  std::fill_n(x.begin() + 64, 64, 0.0F);
  std::fill_n(x.begin() + 128, 64, 1e-38F);
  x[200] = std::numeric_limits<float>::infinity();
  x[260] = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t i = 320; i < 384; ++i) x[i] = static_cast<float>(i % 7) + 0.5F;  // ties
  const EncodedActivations expected = encode_activations(x);
  std::vector<std::int8_t> codes(x.size(), 77);
  std::vector<float> scales(6, kPoison);
  std::vector<std::int32_t> sums(6, -1);
  kernels_.vectors.quantize_row(x.data(), static_cast<std::int64_t>(x.size()), codes.data(), scales.data(),
                                sums.data());
  EXPECT_EQ(codes, expected.codes);
  for (std::size_t block = 0; block < 6; ++block) {
    if (std::isnan(expected.scales[block])) {
      EXPECT_TRUE(std::isnan(scales[block]));
    } else {
      EXPECT_EQ(scales[block], expected.scales[block]);
    }
    int sum = 0;
    for (std::size_t i = 0; i < 64; ++i) sum += codes[block * 64 + i];
    EXPECT_EQ(sums[block], sum);
  }
}

TEST_P(CpuKernels, BF16ConversionsEqualTheScalarDefinition) {
  std::vector<float> x = normals(64 * 64, 6);
  for (std::uint32_t i = 0; i < x.size(); ++i)  // midpoints and their neighbours, subnormals, infinities, NaN
    if (i % 2 == 0) x[i] = std::bit_cast<float>(i * 0x0010'0001U + (i % 3 == 0 ? 0x8000U : 0x7FFFU));
  const auto size = static_cast<std::int64_t>(x.size());
  std::vector<std::uint16_t> narrow(x.size());
  std::vector<float> wide(x.size());
  std::vector<float> rounded(x.size());
  kernels_.vectors.narrow_to_bf16(x.data(), size, narrow.data());
  kernels_.vectors.widen_bf16(narrow.data(), size, wide.data());
  kernels_.vectors.round_to_bf16(x.data(), size, rounded.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(narrow[i], float_to_bfloat16(x[i])) << x[i];
    ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), std::uint32_t{narrow[i]} << 16);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(rounded[i]), std::uint32_t{narrow[i]} << 16);
  }
}

TEST_P(CpuKernels, GatesAreAccurateOverTheWholeRange) {
  std::vector<float> x;
  for (float value = -120.0F; value <= 120.0F; value += 0.0371F) x.push_back(value);
  for (const float value : {-3e38F, -1e4F, -0.0F, 1e-30F, 1e4F, 3e38F}) x.push_back(value);
  x.resize(static_cast<std::size_t>(round_up(static_cast<std::int64_t>(x.size()), kRowPadding)));
  const auto size = static_cast<std::int64_t>(x.size());
  const std::vector<float> ones(x.size(), 1.0F);
  std::vector<float> silu(x.size());
  std::vector<float> sigmoid = ones;
  kernels_.vectors.silu_product(x.data(), ones.data(), size, silu.data());
  kernels_.vectors.apply_sigmoid_gate(sigmoid.data(), x.data(), size);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = 1.0 / (1.0 + std::exp(-static_cast<double>(x[i])));
    // exp of 1-2 ulp, one addition, one division: 4 ulp; below the least normal number the error is absolute.
    ASSERT_NEAR(sigmoid[i], exact, 4 * 0x1p-24 * exact + 0x1p-126) << x[i];
    ASSERT_NEAR(silu[i], exact * static_cast<double>(x[i]),
                4 * 0x1p-24 * std::fabs(exact * static_cast<double>(x[i])) + 0x1p-120)
        << x[i];
  }
}

TEST_P(CpuKernels, NaNPassesThroughEveryExponential) {
  std::vector<float> x(64, std::nanf(""));
  const std::vector<float> ones(64, 1.0F);
  std::vector<float> out(64);
  kernels_.vectors.silu_product(x.data(), ones.data(), 64, out.data());
  EXPECT_TRUE(std::isnan(out[0]));
  out = ones;
  kernels_.vectors.apply_sigmoid_gate(out.data(), x.data(), 64);
  EXPECT_TRUE(std::isnan(out[63]));
  std::vector<float> scores(64, 0.5F);
  scores[3] = std::nanf("");
  EXPECT_TRUE(std::isnan(kernels_.attention.exponentiate(scores.data(), 20)));
}

TEST_P(CpuKernels, NormsEqualDoublePrecision) {
  for (const std::int64_t size : {1, 20, 48, 64, 128, 200}) {
    const auto padded = static_cast<std::size_t>(round_up(size, kRowPadding));
    std::vector<float> x = normals(size, 7);
    std::vector<float> gain = normals(size, 8);
    const std::vector<float> gate = normals(static_cast<std::int64_t>(padded), 9);
    x.resize(padded);
    gain.resize(padded);
    double squares = 0;
    for (const float value : x) squares += static_cast<double>(value) * static_cast<double>(value);
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(size) + 1e-6);
    std::vector<float> plain(padded, kPoison);
    std::vector<float> gated(padded + 1, kPoison);
    kernels_.vectors.rms_norm(x.data(), gain.data(), size, 1e-6F, plain.data());
    kernels_.vectors.gated_rms_norm(x.data(), gain.data(), gate.data(), size, 1e-6F, gated.data());
    for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) {
      const double expected = static_cast<double>(x[i]) * factor * static_cast<double>(gain[i]);
      const double silu = static_cast<double>(gate[i]) / (1.0 + std::exp(-static_cast<double>(gate[i])));
      ASSERT_NEAR(plain[i], expected, 1e-6 * std::fabs(expected));
      ASSERT_NEAR(gated[i], expected * silu, 2e-6 * std::fabs(expected * silu));
    }
    EXPECT_EQ(gated[static_cast<std::size_t>(size)], kPoison) << "wrote past the head";
  }
}

TEST_P(CpuKernels, AnyNonFiniteElementIsSeen) {
  for (const std::int64_t size : {1, 15, 16, 17, 100}) {
    std::vector<float> x(static_cast<std::size_t>(size), 3e38F);
    EXPECT_TRUE(kernels_.vectors.all_finite(x.data(), size));
    for (std::size_t i = 0; i < x.size(); ++i) {
      for (const float bad : {HUGE_VALF, -HUGE_VALF, std::nanf("")}) {
        x[i] = bad;
        EXPECT_FALSE(kernels_.vectors.all_finite(x.data(), size));
      }
      x[i] = 0;
    }
  }
}

CacheRows fp32_rows(const std::vector<float>& values) {
  return {CacheFormat::kFP32, reinterpret_cast<const std::byte*>(values.data()), nullptr};
}

TEST_P(CpuKernels, AttentionEqualsDoublePrecisionForEveryLength) {
  for (const std::int64_t head_dim : {24, 256}) {
    const std::int64_t key_channels = round_up(head_dim, kKeyChannelPadding);
    const std::int64_t value_channels = round_up(head_dim, kValueChannelPadding);
    constexpr std::int64_t kMostPositions = 48;
    const std::vector<float> query = normals(key_channels, 11);
    // Past the positions that count lies poison that must not be used.
    for (const std::int64_t count : {1, 2, 15, 16, 17, 33, 48}) {
      std::vector<float> keys(static_cast<std::size_t>(kMostPositions * key_channels), std::nanf(""));
      std::vector<float> values(static_cast<std::size_t>(kMostPositions * value_channels), std::nanf(""));
      const std::vector<float> made = normals(count * head_dim, 12, 2.0F);
      const std::vector<float> made_values = normals(count * head_dim, 13);
      std::vector<double> weights;
      double sum = 0;
      for (std::int64_t j = 0; j < count; ++j) {
        double score = 0;
        for (std::int64_t i = 0; i < head_dim; ++i) {
          const float key = made[static_cast<std::size_t>(j * head_dim + i)];
          keys[static_cast<std::size_t>((j / kKeyBlock * key_channels + i) * kKeyBlock + j % kKeyBlock)] = key;
          values[static_cast<std::size_t>(j * value_channels + i)] =
              made_values[static_cast<std::size_t>(j * head_dim + i)];
          score += static_cast<double>(key) * static_cast<double>(query[static_cast<std::size_t>(i)]);
        }
        for (std::int64_t i = head_dim; i < value_channels; ++i)
          values[static_cast<std::size_t>(j * value_channels + i)] = 0;
        weights.push_back(std::exp(score * 0.0625));
        sum += weights.back();
      }
      std::vector<float> scores(kMostPositions, kPoison);
      std::vector<float> out(static_cast<std::size_t>(value_channels), kPoison);
      const float* queries[] = {query.data(), query.data(), query.data(), query.data()};
      float* score_rows[] = {scores.data(), nullptr, nullptr, nullptr};
      float* outputs[] = {out.data(), nullptr, nullptr, nullptr};
      kernels_.attention.scores(queries, 1, fp32_rows(keys), head_dim, count, 0.0625F, score_rows);
      const float factor = 1.0F / kernels_.attention.exponentiate(scores.data(), count);
      kernels_.attention.weighted_values(score_rows, 1, fp32_rows(values), head_dim, count, {}, &factor, outputs);
      // Two to four queries together get the bits of one alone, and the others' bits do not matter.
      for (std::int64_t together = 2; together <= kMostQueries; ++together) {
        std::vector<std::vector<float>> rows(4, std::vector<float>(kMostPositions, kPoison));
        std::vector<std::vector<float>> results(4, std::vector<float>(out.size(), kPoison));
        const std::vector<float> other = normals(key_channels, 14);
        std::vector<float> factors(4, factor);
        for (std::size_t q = 0; q < 4; ++q) {
          queries[q] = static_cast<std::int64_t>(q) == together - 1 ? query.data() : other.data();
          score_rows[q] = rows[q].data();
          outputs[q] = results[q].data();
        }
        kernels_.attention.scores(queries, together, fp32_rows(keys), head_dim, count, 0.0625F, score_rows);
        for (std::size_t q = 0; q < static_cast<std::size_t>(together); ++q)
          kernels_.attention.exponentiate(rows[q].data(), count);
        kernels_.attention.weighted_values(score_rows, together, fp32_rows(values), head_dim, count, {}, factors.data(),
                                           outputs);
        EXPECT_EQ(results[static_cast<std::size_t>(together - 1)], out);
      }
      for (std::int64_t i = 0; i < head_dim; ++i) {
        double expected = 0;
        for (std::int64_t j = 0; j < count; ++j)
          expected += weights[static_cast<std::size_t>(j)] / sum *
                      static_cast<double>(made_values[static_cast<std::size_t>(j * head_dim + i)]);
        ASSERT_NEAR(out[static_cast<std::size_t>(i)], expected, 2e-5) << "count " << count << " channel " << i;
      }
    }
  }
}

// Rows of a tail are added as if they lay behind the others, whatever the parity of what comes before.
TEST_P(CpuKernels, ValuesOfATailHaveTheBitsOfRowsThatLieThere) {
  constexpr std::int64_t kTailRows = 7;
  const std::vector<std::int32_t> rows = {5, 0, 6, 2, 1};
  for (const std::int64_t head_dim : {24, 256}) {
    const std::int64_t stride = round_up(head_dim, kValueChannelPadding);
    const std::vector<float> tail = normals(kTailRows * stride, 21);
    for (const std::int64_t count : {0, 1, 2, 15, 16}) {
      for (std::int64_t taken = 0; taken <= static_cast<std::int64_t>(rows.size()); ++taken) {
        if (count + taken == 0) continue;
        std::vector<float> values = normals(count * stride, 22);
        std::vector<float> joined = values;
        for (std::int64_t i = 0; i < taken; ++i)
          joined.insert(joined.end(), tail.begin() + rows[static_cast<std::size_t>(i)] * stride,
                        tail.begin() + (rows[static_cast<std::size_t>(i)] + 1) * stride);
        values.push_back(kPoison);  // so that there is something to point at
        const std::vector<float> weights = normals(count + taken, 23);
        const float* weight_rows[] = {weights.data(), weights.data(), weights.data(), weights.data()};
        const std::vector<float> factors = {0.5F, 0.25F, 2.0F, 1.5F};
        for (std::int64_t together = 1; together <= kMostQueries; ++together) {
          std::vector<float> expected(static_cast<std::size_t>(together * stride), kPoison);
          std::vector<float> actual = expected;
          float* expected_rows[kMostQueries] = {};
          float* actual_rows[kMostQueries] = {};
          for (std::int64_t q = 0; q < together; ++q) {
            expected_rows[q] = expected.data() + q * stride;
            actual_rows[q] = actual.data() + q * stride;
          }
          kernels_.attention.weighted_values(weight_rows, together, fp32_rows(joined), head_dim, count + taken, {},
                                             factors.data(), expected_rows);
          kernels_.attention.weighted_values(weight_rows, together, fp32_rows(values), head_dim, count,
                                             {fp32_rows(tail), rows.data(), taken}, factors.data(), actual_rows);
          ASSERT_EQ(actual, expected) << count << " and " << taken;
        }
      }
    }
  }
}

TEST(InstructionSets, AutoIsTheBestAndUnknownOnesAreRefusedWithTheList) {
  EXPECT_EQ(select_kernels("auto").instruction_set, available_instruction_sets().front());
  try {
    static_cast<void>(select_kernels("AVX9"));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_THAT(error.parts().hint, testing::HasSubstr(available_instruction_sets().back()));
  }
}

TEST(PackedMatrix, CountsItsPaddingAndRefusesRowsOfTwoPanels) {
  const PackedMatrix matrix(WeightFormat::kQ4, 33, 65);
  EXPECT_EQ(matrix.bytes(), 2U * 2U * (64U + 32U * 32U));
  PackedMatrix target(WeightFormat::kQ4, 64, 8);
  EXPECT_THROW(target.pack_rows(31, std::vector<float>(16)), Error);
}

}  // namespace
}  // namespace tare::engine

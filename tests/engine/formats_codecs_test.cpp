// The scalar definitions of caches' and states' blocks, of weights as fields, and of the Hadamard rotation: every code
// and every scale of the small formats, against arithmetic in double elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/formats/cache_blocks.h"
#include "engine/formats/float_formats.h"
#include "engine/formats/hadamard.h"
#include "engine/formats/weight_codes.h"

namespace tare::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<float> normals(std::size_t count, unsigned seed, float sigma = 1.0F) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, sigma);
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

// E4M3 and E2M1 by their definitions, in double.
double e4m3_value(std::uint32_t bits) {
  const double sign = (bits & 0x80U) != 0 ? -1.0 : 1.0;
  const int exponent = static_cast<int>(bits >> 3 & 0xFU);
  const double mantissa = static_cast<double>(bits & 0x7U) / 8.0;
  if ((bits & 0x7FU) == 0x7FU) return std::nan("");
  return exponent == 0 ? sign * std::ldexp(mantissa, -6) : sign * std::ldexp(1.0 + mantissa, exponent - 7);
}
double e2m1_value(std::uint32_t bits) {
  const double sign = (bits & 0x8U) != 0 ? -1.0 : 1.0;
  const int exponent = static_cast<int>(bits >> 1 & 0x3U);
  const double mantissa = static_cast<double>(bits & 0x1U) / 2.0;
  return exponent == 0 ? sign * mantissa : sign * std::ldexp(1.0 + mantissa, exponent - 1);
}

TEST(E2M1, EveryCodeHasTheValueOfItsDefinitionAndSurvivesARoundTrip) {
  for (std::uint32_t code = 0; code < 16; ++code) {
    const float value = e2m1_to_float(static_cast<std::uint8_t>(code));
    EXPECT_EQ(static_cast<double>(value), e2m1_value(code)) << code;
    EXPECT_EQ(std::signbit(value), code >= 8) << code;
    EXPECT_EQ(float_to_e2m1(value), code);
  }
}

TEST(E2M1, RoundsToNearestEvenAndHoldsItsLargest) {
  for (std::uint32_t code = 0; code < 7; ++code) {
    const auto middle = static_cast<float>((e2m1_value(code) + e2m1_value(code + 1)) / 2);
    for (const std::uint32_t sign : {0U, 8U}) {
      const float factor = sign == 0 ? 1.0F : -1.0F;
      EXPECT_EQ(float_to_e2m1(factor * middle), sign | (code % 2 == 0 ? code : code + 1)) << code;
      EXPECT_EQ(float_to_e2m1(factor * std::nextafter(middle, 0.0F)), sign | code) << code;
      EXPECT_EQ(float_to_e2m1(factor * std::nextafter(middle, 9.0F)), sign | (code + 1)) << code;
    }
  }
  for (const float value : {6.0F, 6.1F, 100.0F, kInfinity}) {
    EXPECT_EQ(float_to_e2m1(value), 7) << value;
    EXPECT_EQ(float_to_e2m1(-value), 15) << value;
  }
  EXPECT_EQ(float_to_e2m1(kNaN), 7);
  EXPECT_EQ(float_to_e2m1(-0.0F), 8);
}

// All scales that the encoder can give times all codes: decoded exactly, and encoded to themselves again.
TEST(Int8Blocks, EveryScaleAndCodeSurvivesARoundTrip) {
  std::array<float, 64> values{};
  std::array<std::int8_t, 64> codes{};
  std::int64_t scales = 0;
  // From 2^-100 / 127 to the largest whose 127-fold is finite.
  for (std::uint32_t bits = float_to_bfloat16(0x1.04p-107F); bits < 0x7F80U; ++bits) {
    const auto scale = static_cast<std::uint16_t>(bits);
    if (!std::isfinite(int8_value(scale, 127))) break;
    ++scales;
    for (int first = -127; first <= 127; first += 63) {
      for (int i = 0; i < 63; ++i)
        values[static_cast<std::size_t>(i)] = int8_value(scale, static_cast<std::int8_t>(std::min(first + i, 127)));
      values[63] = int8_value(scale, -127);
      ASSERT_EQ(encode_int8_block(values, codes), scale);
      for (int i = 0; i < 63; ++i) {
        ASSERT_EQ(codes[static_cast<std::size_t>(i)], std::min(first + i, 127)) << bits;
        ASSERT_EQ(static_cast<double>(values[static_cast<std::size_t>(i)]),
                  static_cast<double>(bfloat16_to_float(scale)) * std::min(first + i, 127));
      }
    }
  }
  EXPECT_GT(scales, 28'000);
}

TEST(Int8Blocks, RoundsToTheNearestAndTiesToEven) {
  std::array<std::int8_t, 4> codes{};
  EXPECT_EQ(encode_int8_block(std::array{127.0F, 2.5F, 3.5F, -0.5F}, codes), float_to_bfloat16(1.0F));
  EXPECT_THAT(codes, testing::ElementsAre(127, 2, 4, 0));
  for (unsigned seed = 0; seed < 50; ++seed) {
    const std::vector<float> values = normals(64, seed, 3.0F);
    std::vector<std::int8_t> of_row(64);
    const double scale = static_cast<double>(bfloat16_to_float(encode_int8_block(values, of_row)));
    int most = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      most = std::max(most, std::abs(of_row[i]));
      const double error = std::fabs(static_cast<double>(values[i]) / scale - of_row[i]);
      EXPECT_LE(error, std::abs(of_row[i]) == 127 ? 0.75 : 0.5 + 1e-4);  // 127 * 2^-9 where the scale was rounded down
    }
    EXPECT_EQ(most, 127);  // what makes a second round trip exact
  }
}

TEST(Int8Blocks, ARowRoundedTwiceIsTheRowRoundedOnce) {
  for (const float sigma : {1e-25F, 1e-3F, 1.0F, 1e30F}) {
    std::vector<float> row = normals(200, 7, sigma);  // ends in a short block
    const std::vector<float> before = row;
    round_to_int8_blocks(row);
    EXPECT_NE(row, before);
    const std::vector<float> once = row;
    round_to_int8_blocks(row);
    EXPECT_EQ(row, once);
  }
}

TEST(Int8Blocks, ZerosAndTinyBlocksAreZerosAndFaultsStayVisible) {
  std::array<std::int8_t, 2> codes = {9, 9};
  EXPECT_EQ(encode_int8_block(std::array{0.0F, -0.0F}, codes), 0);
  EXPECT_THAT(codes, testing::Each(0));
  EXPECT_EQ(encode_int8_block(std::array{0x1p-101F, 0.0F}, codes), 0);
  EXPECT_NE(encode_int8_block(std::array{0x1p-100F, 0.0F}, codes), 0);
  EXPECT_EQ(encode_int8_block(std::array{3e38F, -3e38F}, codes), float_to_bfloat16(3e38F / 127));
  for (const float fault : {kInfinity, -kInfinity, kNaN, -kNaN}) {
    const std::uint16_t scale = encode_int8_block(std::array{1.0F, fault}, codes);
    EXPECT_TRUE(std::isnan(int8_value(scale, codes[0]))) << fault;
    EXPECT_TRUE(std::isnan(int8_value(scale, codes[1]))) << fault;
  }
  std::vector<std::int8_t> too_many(65);
  EXPECT_THROW(encode_int8_block(std::vector<float>(65), too_many), Error);
}

// The 256 scale bytes against their table (others shifted them to BF16 without a new bias, and were wrong by a power of
// two, or zero).
TEST(NVFP4Blocks, EveryScaleByteAndCodeDecodesByDefinition) {
  int not_a_number = 0;
  for (std::uint32_t scale = 0; scale < 256; ++scale) {
    for (std::uint32_t code = 0; code < 16; ++code) {
      const float value = nvfp4_value(static_cast<std::uint8_t>(scale), static_cast<std::uint8_t>(code));
      const double expected = e4m3_value(scale) * e2m1_value(code);
      if (std::isnan(expected)) {
        ++not_a_number;
        EXPECT_TRUE(std::isnan(value));
      } else {
        EXPECT_EQ(static_cast<double>(value), expected) << scale << ' ' << code;
      }
    }
  }
  EXPECT_EQ(not_a_number, 2 * 16);
}

TEST(NVFP4Blocks, EveryScaleAndCodeSurvivesARoundTrip) {
  std::array<std::uint8_t, 16> codes{};
  for (std::uint32_t scale = 1; scale <= kE4M3LargestBits; ++scale) {
    std::array<float, 16> values{};
    for (std::uint32_t code = 0; code < 16; ++code)
      values[code] = nvfp4_value(static_cast<std::uint8_t>(scale), static_cast<std::uint8_t>(code));
    ASSERT_EQ(encode_nvfp4_block(values, codes), scale);
    for (std::uint32_t code = 0; code < 16; ++code) ASSERT_EQ(codes[code], code);
  }
}

TEST(NVFP4Blocks, HoldsWhatIsTooLargeKeepsWhatIsSmallAndShowsFaults) {
  std::array<std::uint8_t, 3> codes = {9, 9, 9};
  EXPECT_EQ(encode_nvfp4_block(std::array{0.0F, -0.0F, 0.0F}, codes), 0);
  EXPECT_THAT(codes, testing::Each(0));
  // Beyond 448 * 6: held there. (An encoder that takes 240 for E4M3's largest would give 0x77.)
  EXPECT_EQ(encode_nvfp4_block(std::array{1e6F, -2688.0F, 448.0F}, codes), kE4M3LargestBits);
  EXPECT_THAT(codes, testing::ElementsAre(7, 15, 2));
  // A scale below half of 2^-9 would round to zero: the least subnormal is used.
  EXPECT_EQ(encode_nvfp4_block(std::array{0x1p-9F, -0x1p-10F, 0x1p-12F}, codes), 0x01);
  EXPECT_THAT(codes, testing::ElementsAre(2, 9, 0));
  for (const float fault : {kInfinity, -kInfinity, kNaN}) {
    const std::uint8_t scale = encode_nvfp4_block(std::array{1.0F, 2.0F, fault}, codes);
    for (const std::uint8_t code : codes) EXPECT_TRUE(std::isnan(nvfp4_value(scale, code))) << fault;
  }
  std::vector<float> row = normals(40, 3);
  const std::vector<float> before = row;
  round_to_nvfp4_blocks(row);
  for (std::size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(row[i], before[i], 0.8F) << i;  // steps are up to absmax / 3
  EXPECT_NE(row, before);
}

constexpr WeightFormat kQuantised[] = {WeightFormat::kQ8, WeightFormat::kQ5,  WeightFormat::kQ4,
                                       WeightFormat::kQ3, WeightFormat::kFP8, WeightFormat::kNVFP4};
constexpr ScaleFormat kScales[] = {ScaleFormat::kFP16, ScaleFormat::kE4M3};

double field_value(WeightFormat format, std::uint32_t field) {
  if (format == WeightFormat::kFP8) return e4m3_value(field);
  if (format == WeightFormat::kNVFP4) return e2m1_value(field);
  return static_cast<double>(field) - std::ldexp(1.0, code_bits_of(format) - 1);
}

// With FP16 scales the codes are those of weight_groups.h; a field is that code with its bias.
TEST(WeightCodes, FieldsAreTheCodesOfWeightGroups) {
  const std::vector<float> values = normals(50, 1, 0.02F);
  std::vector<std::int8_t> codes(50);
  for (const auto& [format, most] : {std::pair{WeightFormat::kQ8, kQ8MostCode},
                                     {WeightFormat::kQ5, kQ5MostCode},
                                     {WeightFormat::kQ4, kQ4MostCode},
                                     {WeightFormat::kQ3, kQ3MostCode}}) {
    const EncodedGroup group = encode_weights({format}, 0, values);
    EXPECT_EQ(group.scales[0], encode_group(values, most, codes));
    std::vector<float> decoded(50);
    decode_weights({format}, 0, group, decoded);
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(group.fields[i] - field_bias_of(format), codes[i]);
      EXPECT_EQ(decoded[i], float16_to_float(group.scales[0]) * static_cast<float>(codes[i]));
    }
    for (std::size_t i = 50; i < 64; ++i) EXPECT_EQ(group.fields[i], field_bias_of(format));  // code 0
  }
  std::vector<std::uint8_t> bytes(50);
  const EncodedGroup fp8 = encode_weights({WeightFormat::kFP8}, 0, values);
  EXPECT_EQ(fp8.scales[0], encode_fp8_group(values, bytes));
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), fp8.fields.begin()));
}

// Every scale byte (but NaN and the negative ones, which no encoder gives) and every code of every format under a
// tensor's scale: decoded by definition with one rounding, and encoded to themselves.
TEST(WeightCodes, EveryScaleByteUnderATensorScaleSurvives) {
  for (const WeightFormat format : kQuantised) {
    const WeightCodec codec{format, ScaleFormat::kE4M3};
    const auto most_field =
        static_cast<std::uint32_t>(format == WeightFormat::kFP8     ? kE4M3LargestBits
                                   : format == WeightFormat::kNVFP4 ? 7
                                                                    : (1 << code_bits_of(format)) - 1);
    for (const float tensor_scale : {1.0F, 0x1p-20F, 3.1e-5F}) {
      for (std::uint32_t scale = 1; scale <= kE4M3LargestBits; ++scale) {
        std::vector<float> values;
        std::vector<std::uint32_t> wanted;
        for (std::uint32_t field = format == WeightFormat::kNVFP4 || format == WeightFormat::kFP8 ? 0 : 1;
             field <= most_field && values.size() < 64; ++field) {
          if (format == WeightFormat::kNVFP4 && values.size() % 16 == 15) break;
          wanted.push_back(most_field - static_cast<std::uint32_t>(values.size()));
          values.push_back(decode_weight(codec, tensor_scale, static_cast<std::uint16_t>(scale),
                                         static_cast<std::uint8_t>(wanted.back())));
          const double exact =
              static_cast<double>(tensor_scale) * e4m3_value(scale) * field_value(format, wanted.back());
          ASSERT_EQ(values.back(), static_cast<float>(exact));
        }
        const EncodedGroup group = encode_weights(codec, tensor_scale, values);
        ASSERT_EQ(group.scales[0], scale) << static_cast<int>(format) << ' ' << tensor_scale;
        for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(group.fields[i], wanted[i]);
      }
    }
  }
}

TEST(WeightCodes, TheTensorScalePutsTheLargestGroupAt448) {
  for (const WeightFormat format : kQuantised) {
    const WeightCodec codec{format, ScaleFormat::kE4M3};
    std::vector<float> values = normals(64, 11, 0.02F);
    values[20] = -0.7F;
    const float tensor_scale = tensor_scale_of(format, 0.7F);
    const EncodedGroup group = encode_weights(codec, tensor_scale, values);
    EXPECT_EQ(*std::max_element(group.scales.begin(), group.scales.end()), kE4M3LargestBits);
    std::vector<float> decoded(64);
    decode_weights(codec, tensor_scale, group, decoded);
    EXPECT_NEAR(decoded[20], -0.7F, 1e-6F);
    // NVFP4's other blocks have scales of their own; that of 64 is shared.
    if (format == WeightFormat::kNVFP4) {
      EXPECT_LT(group.scales[0], kE4M3LargestBits);
    } else {
      EXPECT_EQ(group.scales[1], 0);
    }
  }
}

TEST(WeightCodes, CodesAreNearestUnderTheRoundedScale) {
  for (const WeightFormat format : kQuantised) {
    const std::vector<float> values = normals(64, 5, 0.02F);
    const WeightCodec codec = normalized({format, ScaleFormat::kE4M3});
    const float tensor_scale = tensor_scale_of(format, 0.09F);
    const EncodedGroup group = encode_weights(codec, tensor_scale, values);
    const std::size_t block = 64 / scales_a_group(format);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double scale = static_cast<double>(tensor_scale) * e4m3_value(group.scales[i / block]);
      const double wanted = static_cast<double>(values[i]) / scale;
      double nearest = HUGE_VAL;
      for (std::uint32_t field = 0; field < (1U << code_bits_of(format)); ++field) {
        if (field_bias_of(format) != 0 && field == 0) continue;  // the code the encoder does not use
        const double distance = std::fabs(wanted - field_value(format, field));
        if (distance < nearest) nearest = distance;  // false for NaN
      }
      EXPECT_LE(std::fabs(wanted - field_value(format, group.fields[i])), nearest + std::fabs(wanted) * 0x1p-21);
    }
  }
}

TEST(WeightCodes, ZerosTinyGroupsAndFaults) {
  for (const WeightFormat format : kQuantised) {
    for (const ScaleFormat scales : kScales) {
      const WeightCodec codec = normalized({format, scales});
      const EncodedGroup zeros = encode_weights(codec, 1.0F, std::vector<float>(64, -0.0F));
      EXPECT_THAT(zeros.scales, testing::Each(0));
      EXPECT_THAT(zeros.fields, testing::Each(field_bias_of(format)));
      EXPECT_THROW((void)encode_weights(codec, 1.0F, std::array{1.0F, kNaN}), Error);
      EXPECT_THROW((void)encode_weights(codec, 1.0F, std::array{1.0F, kInfinity}), Error);
      EXPECT_EQ(has_tensor_scale(codec), codec.scales == ScaleFormat::kE4M3);
    }
    // A group far below the tensor's largest keeps the least scale instead of vanishing.
    EXPECT_EQ(encode_weights({format, ScaleFormat::kE4M3}, 1.0F, std::array{1e-9F}).scales[0], 0x01);
    EXPECT_EQ(tensor_scale_of(format, 0), 1.0F);
    EXPECT_EQ(tensor_scale_of(format, 1e-38F), kLeastTensorScale);
    EXPECT_THROW((void)tensor_scale_of(format, kNaN), Error);
  }
  EXPECT_THROW((void)code_bits_of(WeightFormat::kBF16), Error);
}

TEST(WeightCodes, FieldsOfEveryWidthSurvivePacking) {
  for (const int bits : {3, 4, 5, 8}) {
    for (const std::size_t count : {1UL, 7UL, 64UL, 80UL}) {
      std::vector<std::uint8_t> fields(count);
      for (std::size_t i = 0; i < count; ++i) fields[i] = static_cast<std::uint8_t>((i * 37 + 5) % (1U << bits));
      std::vector<std::uint8_t> bytes(static_cast<std::size_t>(packed_bytes(static_cast<std::int64_t>(count), bits)));
      pack_fields(fields, bits, bytes);
      for (std::size_t i = 0; i < count; ++i)  // bit j of field i is bit i * bits + j of the stream
        for (std::size_t j = 0; j < static_cast<std::size_t>(bits); ++j) {
          const std::size_t bit = i * static_cast<std::size_t>(bits) + j;
          ASSERT_EQ(bytes[bit / 8] >> (bit % 8) & 1, fields[i] >> j & 1);
        }
      std::vector<std::uint8_t> back(count);
      unpack_fields(bytes, bits, back);
      EXPECT_EQ(back, fields);
    }
  }
}

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

TEST(Hadamard, IsTheMatrixOfItsDefinition) {
  for (const std::size_t size : {1UL, 2UL, 8UL, 256UL}) {
    for (std::size_t column = 0; column<size; column += size> 8 ? 37 : 1) {
      std::vector<float> x(size);
      x[column] = 1;
      rotate_hadamard(x);
      for (std::size_t row = 0; row < size; ++row) {
        const double sign = std::popcount(row & column) % 2 == 0 ? 1.0 : -1.0;
        ASSERT_NEAR(x[row], sign / std::sqrt(static_cast<double>(size)), 1e-7) << size;
      }
    }
  }
}

TEST(Hadamard, KeepsScoresAndIsItsOwnInverse) {
  for (const std::size_t size : {2UL, 64UL, 128UL, 256UL}) {
    std::vector<float> q = normals(size, 1, 2.0F);
    std::vector<float> k = normals(size, 2);
    k[size / 2] = 40;  // an outlier channel
    const std::vector<float> q_before = q;
    const std::vector<float> k_before = k;
    rotate_hadamard(q);
    EXPECT_GT(std::fabs(dot(q, k) - dot(q_before, k_before)), 1e-3);  // the control: queries alone are not enough
    rotate_hadamard(k);
    EXPECT_NEAR(dot(q, k), dot(q_before, k_before), 2e-5 * std::sqrt(dot(q, q) * dot(k, k)));
    if (size >= 64) {
      EXPECT_LT(*std::max_element(k.begin(), k.end()), 10);  // spread over all channels
    }
    rotate_hadamard(k);
    for (std::size_t i = 0; i < size; ++i) EXPECT_NEAR(k[i], k_before[i], 40 * 4e-7);
  }
}

TEST(Hadamard, OtherSizesAreRefused) {
  std::vector<float> x(24);
  EXPECT_FALSE(has_hadamard(24));
  EXPECT_TRUE(has_hadamard(256));
  EXPECT_THROW(rotate_hadamard(x), Error);
}

}  // namespace
}  // namespace tare::engine

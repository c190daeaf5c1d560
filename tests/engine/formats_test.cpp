// The scalar definitions of engine/formats: exhaustive where a format is small, against arithmetic in double elsewhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "engine/formats/activation_blocks.h"
#include "engine/formats/float_formats.h"
#include "engine/formats/reference_dot.h"
#include "engine/formats/weight_groups.h"

namespace tare::engine {
namespace {

constexpr std::uint32_t kAllHalves = 0x1'0000U;

std::vector<float> normals(std::size_t count, unsigned seed, float sigma = 1.0F) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, sigma);
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

// FP16 by its definition, in double.
double float16_value(std::uint32_t bits) {
  const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
  const int exponent = static_cast<int>(bits >> 10 & 0x1FU);
  const double mantissa = static_cast<double>(bits & 0x3FFU) / 1024.0;
  if (exponent == 0x1F) return mantissa == 0 ? sign * HUGE_VAL : std::nan("");
  return exponent == 0 ? sign * std::ldexp(mantissa, -14) : sign * std::ldexp(1.0 + mantissa, exponent - 15);
}

TEST(FloatFormats, EveryFloat16HasTheValueOfItsDefinitionAndSurvivesARoundTrip) {
  for (std::uint32_t bits = 0; bits < kAllHalves; ++bits) {
    const float value = float16_to_float(static_cast<std::uint16_t>(bits));
    const double expected = float16_value(bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_TRUE(std::isnan(float16_to_float(float_to_float16(value))));
    } else {
      ASSERT_EQ(static_cast<double>(value), expected) << bits;
      ASSERT_EQ(float_to_float16(value), bits);
    }
  }
}

TEST(FloatFormats, Float16RoundsToNearestEvenEverywhere) {
  // Around every midpoint of two neighbours: the midpoint goes to the even one, a hair to either side to the nearer.
  for (std::uint32_t bits = 0; bits < 0x7BFFU; ++bits) {
    const float below = float16_to_float(static_cast<std::uint16_t>(bits));
    const float above = float16_to_float(static_cast<std::uint16_t>(bits + 1));
    const float middle = (below + above) / 2;  // exact in FP32
    ASSERT_EQ(float_to_float16(middle), bits % 2 == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(float_to_float16(std::nextafter(middle, 0.0F)), bits) << bits;
    ASSERT_EQ(float_to_float16(std::nextafter(middle, 1e9F)), bits + 1) << bits;
  }
  EXPECT_EQ(float_to_float16(65519.99F), 0x7BFFU);
  EXPECT_EQ(float_to_float16(65520.0F), kFloat16Infinity);
  EXPECT_EQ(float_to_float16(-std::numeric_limits<float>::infinity()), 0xFC00U);
}

TEST(FloatFormats, EveryBfloat16SurvivesARoundTripAndMidpointsGoToEven) {
  for (std::uint32_t bits = 0; bits < kAllHalves; ++bits) {
    const float value = bfloat16_to_float(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(round_to_bfloat16(value)));
      continue;
    }
    ASSERT_EQ(float_to_bfloat16(value), bits);
    if (std::isinf(value)) continue;
    const std::uint32_t middle = bits << 16 | 0x8000U;
    ASSERT_EQ(float_to_bfloat16(std::bit_cast<float>(middle)), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(float_to_bfloat16(std::bit_cast<float>(middle - 1)), bits);
    ASSERT_EQ(float_to_bfloat16(std::bit_cast<float>(middle + 1)), bits + 1);
  }
}

// E4M3 by its definition, in double.
double e4m3_value(std::uint32_t bits) {
  const double sign = (bits & 0x80U) != 0 ? -1.0 : 1.0;
  const int exponent = static_cast<int>(bits >> 3 & 0xFU);
  const double mantissa = static_cast<double>(bits & 0x7U) / 8.0;
  if ((bits & 0x7FU) == 0x7FU) return std::nan("");
  return exponent == 0 ? sign * std::ldexp(mantissa, -6) : sign * std::ldexp(1.0 + mantissa, exponent - 7);
}

TEST(FloatFormats, EveryE4M3ByteHasTheValueOfItsDefinitionAndSurvivesARoundTrip) {
  int not_a_number = 0;
  for (std::uint32_t bits = 0; bits < 256; ++bits) {
    const float value = e4m3_to_float(static_cast<std::uint8_t>(bits));
    const double expected = e4m3_value(bits);
    if (std::isnan(expected)) {
      ++not_a_number;
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_EQ(float_to_e4m3(value), kE4M3NaN) << bits;
    } else {
      EXPECT_EQ(static_cast<double>(value), expected) << bits;
      EXPECT_EQ(std::signbit(value), bits >= 0x80U) << bits;
      EXPECT_EQ(float_to_e4m3(value), bits);
    }
  }
  EXPECT_EQ(not_a_number, 2);  // 0x7F and 0xFF; no infinities
  EXPECT_EQ(e4m3_to_float(kE4M3LargestBits), kE4M3Largest);
  EXPECT_EQ(e4m3_to_float(0x01), 0x1p-9F);
}

TEST(FloatFormats, E4M3RoundsToNearestEvenEverywhere) {
  for (std::uint32_t bits = 0; bits < kE4M3LargestBits; ++bits) {
    const float below = e4m3_to_float(static_cast<std::uint8_t>(bits));
    const float above = e4m3_to_float(static_cast<std::uint8_t>(bits + 1));
    const float middle = (below + above) / 2;  // exact in FP32
    for (const std::uint32_t sign : {0x00U, 0x80U}) {
      const float factor = sign == 0 ? 1.0F : -1.0F;
      ASSERT_EQ(float_to_e4m3(factor * middle), sign | (bits % 2 == 0 ? bits : bits + 1)) << bits;
      ASSERT_EQ(float_to_e4m3(factor * std::nextafter(middle, 0.0F)), sign | bits) << bits;
      ASSERT_EQ(float_to_e4m3(factor * std::nextafter(middle, 1e9F)), sign | (bits + 1)) << bits;
    }
  }
}

TEST(FloatFormats, E4M3SaturatesAndKeepsNaN) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float value : {448.5F, 463.0F, 464.0F, 480.0F, 1e30F, kInfinity}) {
    EXPECT_EQ(float_to_e4m3(value), 0x7EU) << value;
    EXPECT_EQ(float_to_e4m3(-value), 0xFEU) << value;
  }
  for (const std::uint32_t nan : {0x7FC0'0000U, 0xFFC0'0000U, 0x7F80'0001U, 0xFFFF'FFFFU})
    EXPECT_EQ(float_to_e4m3(std::bit_cast<float>(nan)), kE4M3NaN) << nan;
  EXPECT_EQ(float_to_e4m3(-0.0F), 0x80U);
  EXPECT_EQ(float_to_e4m3(-std::numeric_limits<float>::denorm_min()), 0x80U);
  EXPECT_EQ(float_to_e4m3(0x1p-10F), 0x00U);  // half of the least subnormal: a tie, to zero
}

TEST(FloatFormats, NearestIntegerEqualsNearbyint) {
  for (float value = -130.0F; value < 130.0F; value += 0.03125F)
    EXPECT_EQ(nearest_integer(value), std::nearbyint(value));
  for (const float value : normals(10'000, 1, 1000.0F)) EXPECT_EQ(nearest_integer(value), std::nearbyint(value));
}

TEST(WeightGroups, ScaleIsRoundedFirstAndCodesAreTheNearest) {
  for (const int most_code : {kQ8MostCode, kQ4MostCode, kQ3MostCode}) {
    for (unsigned seed = 0; seed < 50; ++seed) {
      const std::vector<float> values = normals(64, seed, 0.02F);
      std::vector<std::int8_t> codes(64);
      const float scale = float16_to_float(encode_group(values, most_code, codes));
      float absmax = 0;
      for (const float value : values) absmax = std::max(absmax, std::fabs(value));
      EXPECT_EQ(scale, float16_to_float(float_to_float16(absmax / static_cast<float>(most_code))));
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_LE(std::abs(codes[i]), most_code);
        // Nearest to within the rounding of the FP32 product, or clamped.
        const double error = std::fabs(static_cast<double>(values[i]) / static_cast<double>(scale) - codes[i]);
        EXPECT_LE(error, std::abs(codes[i]) == most_code ? 1.0 : 0.5 + 1e-4);
      }
    }
  }
}

TEST(WeightGroups, TiesGoToTheEvenCode) {
  std::vector<std::int8_t> codes(4);
  const std::vector<float> values = {7.0F, 2.5F, 3.5F, -0.5F};  // scale exactly 1
  EXPECT_EQ(encode_group(values, kQ4MostCode, codes), float_to_float16(1.0F));
  EXPECT_THAT(codes, testing::ElementsAre(7, 2, 4, 0));
}

TEST(WeightGroups, AZeroGroupHasScaleZeroAndZeroCodes) {
  std::vector<std::int8_t> codes(64, 99);
  EXPECT_EQ(encode_group(std::vector<float>(64, -0.0F), kQ8MostCode, codes), 0);
  EXPECT_THAT(codes, testing::Each(0));
  std::vector<std::uint8_t> bytes(64, 99);
  EXPECT_EQ(encode_fp8_group(std::vector<float>(64, -0.0F), bytes), 0);
  EXPECT_THAT(bytes, testing::Each(0));
}

TEST(WeightGroups, Fp8CodesAreTheNearestE4M3Numbers) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const std::vector<float> values = normals(64, seed, 0.02F);
    std::vector<std::uint8_t> codes(64);
    const std::uint16_t bits = encode_fp8_group(values, codes);
    float absmax = 0;
    for (const float value : values) absmax = std::max(absmax, std::fabs(value));
    EXPECT_EQ(bits, float_to_float16(absmax / kE4M3Largest));
    const double scale = static_cast<double>(float16_to_float(bits));
    for (std::size_t i = 0; i < values.size(); ++i) {
      // No other E4M3 number is nearer, to within the rounding of the FP32 product.
      const double wanted = static_cast<double>(values[i]) / scale;
      double nearest = HUGE_VAL;
      for (std::uint32_t code = 0; code < 256; ++code) {
        const double distance = std::fabs(wanted - e4m3_value(code));
        if (distance < nearest) nearest = distance;
      }
      EXPECT_LE(std::fabs(wanted - e4m3_value(codes[i])), nearest + std::fabs(wanted) * 0x1p-22) << wanted;
    }
  }
}

TEST(WeightGroups, Fp8HoldsTheLargestCodeWhenTheScaleWasRoundedDown) {
  // (1 + 2^-11) 2^-9 is half-way between two FP16 numbers and rounds down to the even one, 2^-9.
  const float absmax = kE4M3Largest * 0x1.002p-9F;
  std::vector<std::uint8_t> codes(3);
  EXPECT_EQ(encode_fp8_group(std::vector<float>{absmax, -absmax, 0x1p-9F}, codes), float_to_float16(0x1p-9F));
  EXPECT_THAT(codes, testing::ElementsAre(0x7E, 0xFE, 0x38));
}

TEST(WeightGroups, Fp8ScalesHaveAFloorAndACeiling) {
  std::vector<std::uint8_t> codes(2);
  // absmax / 448 is far below half of 2^-24: the floor is used, and codes are E4M3 numbers of their own.
  EXPECT_EQ(encode_fp8_group(std::vector<float>{3 * 0x1p-24F, -0x1p-33F}, codes), kFloat16LeastSubnormal);
  EXPECT_THAT(codes, testing::ElementsAre(float_to_e4m3(3.0F), 0x81));
  EXPECT_EQ(encode_fp8_group(std::vector<float>{65504.0F * 448, 0}, codes), 0x7BFF);
  EXPECT_THROW(encode_fp8_group(std::vector<float>{65520.0F * 448, 0}, codes), Error);
}

TEST(WeightGroups, Fp8RowsEndInAShortGroupAndDecodeToScaleTimesCode) {
  const std::vector<float> values = normals(80, 5);
  const EncodedFP8Row row = encode_fp8_row(values);
  ASSERT_EQ(row.scales.size(), 2U);
  std::vector<std::uint8_t> tail(16);
  EXPECT_EQ(row.scales[1], encode_fp8_group(std::span(values).subspan(64), tail));
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), row.codes.begin() + 64));
  const std::vector<float> decoded = decode_row(row);
  const std::vector<float> x = normals(80, 6);
  double dot = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double exact = float16_value(row.scales[i / 64]) * e4m3_value(row.codes[i]);
    EXPECT_EQ(static_cast<double>(decoded[i]), exact);
    EXPECT_NEAR(decoded[i], values[i], std::fabs(values[i]) / 16 + 0x1p-10F * float16_to_float(row.scales[i / 64]));
    dot += exact * static_cast<double>(x[i]);
  }
  EXPECT_DOUBLE_EQ(reference_dot(row, x), dot);
  EXPECT_NE(dot, 0.0);
}

TEST(WeightGroups, TinyGroupsKeepASubnormalScaleInsteadOfVanishing) {
  std::vector<std::int8_t> codes(2);
  // absmax / 127 = 2^-20: a subnormal FP16.
  EXPECT_EQ(encode_group(std::vector<float>{127 * 0x1p-20F, -0x1p-20F}, kQ8MostCode, codes), 0x0010U);
  EXPECT_THAT(codes, testing::ElementsAre(127, -1));
  // Far below the least subnormal: the floor 2^-24 is used, and the value rounds to a code of its own.
  EXPECT_EQ(encode_group(std::vector<float>{3 * 0x1p-24F, -0x1p-24F}, kQ8MostCode, codes), kFloat16LeastSubnormal);
  EXPECT_THAT(codes, testing::ElementsAre(3, -1));
}

TEST(WeightGroups, AScaleBeyondFloat16IsAnError) {
  std::vector<std::int8_t> codes(1);
  EXPECT_NO_THROW(encode_group(std::vector<float>{65504.0F * 7}, kQ4MostCode, codes));
  EXPECT_THROW(encode_group(std::vector<float>{65520.0F * 7}, kQ4MostCode, codes), Error);
}

TEST(WeightGroups, TheLastGroupIsShort) {
  const std::vector<float> values = normals(80, 3);
  const EncodedRow row = encode_row(values, kQ8MostCode);
  ASSERT_EQ(row.scales.size(), 2U);
  std::vector<std::int8_t> tail(16);
  EXPECT_EQ(row.scales[1], encode_group(std::span(values).subspan(64), kQ8MostCode, tail));
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), row.codes.begin() + 64));
}

TEST(WeightGroups, DecodedRowsAreNearTheirValues) {
  const std::vector<float> values = normals(200, 4);
  for (const int most_code : {kQ8MostCode, kQ4MostCode, kQ3MostCode}) {
    const EncodedRow row = encode_row(values, most_code);
    const std::vector<float> decoded = decode_row(row);
    bool any = false;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float step = float16_to_float(row.scales[i / 64]);
      EXPECT_LE(std::fabs(decoded[i] - values[i]), 0.51F * step);
      any = any || decoded[i] != 0.0F;
    }
    EXPECT_TRUE(any);  // zeros against zeros would prove nothing
  }
}

TEST(WeightGroups, EveryQ8CodeSurvivesPacking) {
  for (int code = -128; code < 128; ++code) {
    const std::array<std::int8_t, 4> codes = {static_cast<std::int8_t>(code), static_cast<std::int8_t>(-1 - code), 0,
                                              127};
    EXPECT_EQ(unpack_q8_word(pack_q8_word(codes)), codes);
    EXPECT_EQ(pack_q8_word(codes) & 0xFFU, static_cast<std::uint32_t>(code + 128));
  }
}

TEST(WeightGroups, EveryQ4CodeSurvivesPackingInEveryPlace) {
  for (std::size_t place = 0; place < 8; ++place) {
    for (int code = -8; code < 8; ++code) {
      std::array<std::int8_t, 8> codes = {1, -2, 3, -4, 5, -6, 7, -8};
      codes[place] = static_cast<std::int8_t>(code);
      const std::uint32_t word = pack_q4_word(codes);
      EXPECT_EQ(unpack_q4_word(word), codes);
      const std::size_t nibble = place < 4 ? 2 * place : 2 * (place - 4) + 1;
      EXPECT_EQ(word >> (4 * nibble) & 0xFU, static_cast<std::uint32_t>(code + 8));
    }
  }
}

TEST(ActivationBlocks, CodesAreNearestAndTheLargestIs127) {
  const std::vector<float> values = normals(64, 9, 3.0F);
  std::vector<std::int8_t> codes(64);
  const float scale = encode_activation_block(values, codes);
  int most = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    most = std::max(most, std::abs(codes[i]));
    EXPECT_LE(std::fabs(static_cast<double>(values[i]) / static_cast<double>(scale) - codes[i]), 0.5 + 1e-4);
  }
  EXPECT_EQ(most, 127);
}

TEST(ActivationBlocks, NothingOverflowsAtEitherEnd) {
  std::vector<std::int8_t> codes(2);
  EXPECT_EQ(encode_activation_block(std::vector<float>{1e-38F, 0.0F}, codes), 0.0F);
  EXPECT_THAT(codes, testing::ElementsAre(0, 0));
  EXPECT_EQ(encode_activation_block(std::vector<float>{3e38F, -3e38F}, codes), 3e38F / 127);
  EXPECT_THAT(codes, testing::ElementsAre(127, -127));
  EXPECT_TRUE(std::isnan(encode_activation_block(std::vector<float>{1.0F, HUGE_VALF}, codes)));
  EXPECT_TRUE(std::isnan(encode_activation_block(std::vector<float>{std::nanf(""), 1.0F}, codes)));
}

TEST(ActivationBlocks, AnOutlierLeavesOtherBlocksAlone) {
  std::vector<float> values(128, 0.01F);
  values[3] = 1e4F;
  const EncodedActivations encoded = encode_activations(values);
  EXPECT_EQ(encoded.codes[64], 127);
  EXPECT_EQ(encoded.codes[4], 0);
}

TEST(ReferenceDot, AgreesWithTheDecodedProducts) {
  const std::vector<float> weights = normals(80, 1);
  const std::vector<float> x = normals(80, 2);
  const EncodedRow row = encode_row(weights, kQ4MostCode);
  const std::vector<float> decoded = decode_row(row);
  const EncodedActivations encoded = encode_activations(x);
  double by_values = 0;
  double by_codes = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    by_values += static_cast<double>(decoded[i]) * static_cast<double>(x[i]);
    by_codes += static_cast<double>(decoded[i]) * static_cast<double>(encoded.scales[i / 64]) * encoded.codes[i];
  }
  EXPECT_DOUBLE_EQ(reference_dot(row, x), by_values);
  EXPECT_NEAR(reference_dot(row, encoded), by_codes, 1e-12);
  EXPECT_NE(by_values, 0.0);
  const std::vector<std::uint16_t> halves = {float_to_bfloat16(1.5F), float_to_bfloat16(-2.0F)};
  EXPECT_EQ(reference_dot(halves, std::vector<float>{2.0F, 0.25F}), 2.5);
}

}  // namespace
}  // namespace tare::engine

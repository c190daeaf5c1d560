// Widening to float: exact, and nothing that is not finite gets through.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/engine/model_files.h"

namespace tare::engine {
namespace {

// binary16 by its definition, in double.
double float16_value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1F;
  const double fraction = (bits & 0x3FF) / 1024.0;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(ToFloats, EveryFiniteFloat16IsExact) {
  std::vector<std::uint16_t> all;
  for (std::uint32_t bits = 0; bits < 65536; ++bits)
    if (((bits >> 10) & 0x1F) != 0x1F) all.push_back(static_cast<std::uint16_t>(bits));
  const auto count = static_cast<std::int64_t>(all.size());
  const std::vector<float> floats = to_floats(make_tensor("x", Dtype::kF16, {count}, raw_bytes(all)));
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(static_cast<double>(floats[i]), float16_value(all[i])) << all[i];
    EXPECT_EQ(std::signbit(floats[i]), (all[i] & 0x8000) != 0) << all[i];
  }
}

TEST(ToFloats, EveryFiniteBfloat16IsTheUpperHalfOfItsFloat) {
  std::vector<std::uint16_t> all;
  for (std::uint32_t bits = 0; bits < 65536; ++bits)
    if (((bits >> 7) & 0xFF) != 0xFF) all.push_back(static_cast<std::uint16_t>(bits));
  const auto count = static_cast<std::int64_t>(all.size());
  const std::vector<float> floats = to_floats(make_tensor("x", Dtype::kBF16, {count}, raw_bytes(all)));
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(floats[i]), std::uint32_t{all[i]} << 16);
}

TEST(ToFloats, Float32AndFloat64KeepTheirValues) {
  const std::vector<float> singles = {0.0F, -0.0F, 1e-45F, 3.4e38F, -1.5F};
  EXPECT_EQ(to_floats(make_tensor("x", Dtype::kF32, {5}, raw_bytes(singles))), singles);
  const std::vector<double> doubles = {0.1, -2.0, 1e-60};
  EXPECT_EQ(to_floats(make_tensor("x", Dtype::kF64, {3}, raw_bytes(doubles))), (std::vector<float>{0.1F, -2.0F, 0.0F}));
}

TEST(ToFloats, NanAndInfinityAreRefusedWithTensorAndElement) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const auto refused = [](const Tensor& tensor, const std::string& what) {
    expect_refused([&] { static_cast<void>(to_floats(tensor)); }, "tensor 'layers.1.weight'", what);
  };
  const std::string name = "layers.1.weight";
  refused(make_tensor(name, Dtype::kF32, {2, 2}, raw_bytes<float>({1, 2, nan, nan})), "element 2 is NaN");
  refused(make_tensor(name, Dtype::kF32, {2, 2}, raw_bytes<float>({1, -infinity, 3, 4})), "element 1 is -inf");
  refused(make_tensor(name, Dtype::kBF16, {2}, raw_bytes<std::uint16_t>({0x3F80, 0x7FC0})), "element 1 is NaN");
  refused(make_tensor(name, Dtype::kF16, {2}, raw_bytes<std::uint16_t>({0x7C00, 0})), "element 0 is inf");
  refused(make_tensor(name, Dtype::kF64, {2}, raw_bytes<double>({0, 1e300})), "element 1 is inf");
}

TEST(ToFloats, IntegersAndEightBitFloatsAreRefused) {
  expect_refused([] { static_cast<void>(to_floats(make_tensor("w", Dtype::kI32, {1}, "1234"))); }, "tensor 'w'",
                 "holds I32");
  expect_refused([] { static_cast<void>(to_floats(make_tensor("w", Dtype::kF8E4M3, {1}, "1"))); }, "tensor 'w'",
                 "holds F8_E4M3");
}

}  // namespace
}  // namespace tare::engine

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"
#include "engine/checkpoint/checkpoint.h"

namespace tare::engine {
namespace {

struct DtypeFacts {
  Dtype dtype;
  std::string_view name;
  std::size_t bits;
};

// Names and sizes of the safetensors format, version 0.7.
constexpr std::array<DtypeFacts, 22> kDtypes = {{
    {Dtype::kF64, "F64", 64},
    {Dtype::kF32, "F32", 32},
    {Dtype::kF16, "F16", 16},
    {Dtype::kBF16, "BF16", 16},
    {Dtype::kI64, "I64", 64},
    {Dtype::kI32, "I32", 32},
    {Dtype::kI16, "I16", 16},
    {Dtype::kI8, "I8", 8},
    {Dtype::kU64, "U64", 64},
    {Dtype::kU32, "U32", 32},
    {Dtype::kU16, "U16", 16},
    {Dtype::kU8, "U8", 8},
    {Dtype::kBool, "BOOL", 8},
    {Dtype::kF8E4M3, "F8_E4M3", 8},
    {Dtype::kF8E5M2, "F8_E5M2", 8},
    {Dtype::kF8E8M0, "F8_E8M0", 8},
    {Dtype::kF8E4M3Fnuz, "F8_E4M3FNUZ", 8},
    {Dtype::kF8E5M2Fnuz, "F8_E5M2FNUZ", 8},
    {Dtype::kC64, "C64", 64},
    {Dtype::kF6E2M3, "F6_E2M3", 6},
    {Dtype::kF6E3M2, "F6_E3M2", 6},
    {Dtype::kF4, "F4", 4},
}};

const DtypeFacts& facts(Dtype dtype) {
  for (const DtypeFacts& known : kDtypes)
    if (known.dtype == dtype) return known;
  throw internal_error("a Dtype that is not in the table");
}

template <typename Stored>
Stored load(const std::byte* bytes, std::size_t index) {
  Stored value;
  std::memcpy(&value, bytes + index * sizeof(Stored), sizeof(Stored));
  return value;
}

float widen_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// IEEE binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits. Every value is a float exactly.
float widen_float16(std::uint16_t bits) {
  constexpr std::uint32_t kFractionBits = 10;
  constexpr std::uint32_t kExponentMask = 0x1F;
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (static_cast<std::uint32_t>(bits) >> kFractionBits) & kExponentMask;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {  // zero and subnormals: fraction * 2^-24
    const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  if (exponent == kExponentMask) return std::bit_cast<float>(sign | 0x7F800000U | (fraction << 13));
  return std::bit_cast<float>(sign | ((exponent + 127 - 15) << 23) | (fraction << 13));
}

template <typename Stored, typename Widen>
std::vector<float> widen_all(const Tensor& tensor, std::size_t count, Widen widen) {
  std::vector<float> values(count);
  bool all_finite = true;
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = widen(load<Stored>(tensor.bytes.data(), i));
    // |x| < inf is false for NaN too; no early exit, so that the loop stays straight.
    all_finite &= std::fabs(values[i]) < std::numeric_limits<float>::infinity();
  }
  if (all_finite) return values;
  for (std::size_t i = 0; i < count; ++i) {
    if (std::isfinite(values[i])) continue;
    throw input_error(fmt::format("tensor '{}'", tensor.name),
                      fmt::format("element {} is {}", tensor.first_element + static_cast<std::int64_t>(i),
                                  std::isnan(values[i]) ? "NaN" : shortest(values[i])),
                      "the checkpoint is damaged, or a value is too large for FP32");
  }
  throw internal_error("a value that is both finite and not");
}

}  // namespace

std::size_t dtype_bits(Dtype dtype) {
  return facts(dtype).bits;
}

std::size_t dtype_bytes(Dtype dtype) {
  const std::size_t bits = facts(dtype).bits;
  if (bits % 8 != 0) throw internal_error("dtype_bytes of the packed type " + dtype_name(dtype));
  return bits / 8;
}

std::string dtype_name(Dtype dtype) {
  return std::string(facts(dtype).name);
}

std::optional<Dtype> dtype_from_name(std::string_view name) {
  for (const DtypeFacts& known : kDtypes)
    if (known.name == name) return known.dtype;
  return std::nullopt;
}

std::int64_t Tensor::element_count() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

Tensor Tensor::rows(std::int64_t begin, std::int64_t count) const {
  if (shape.size() != 2 || begin < 0 || count < 0 || begin + count > shape[0])
    throw internal_error(fmt::format("tensor '{}' has no rows {} to {}", name, begin, begin + count));
  Tensor slice = *this;
  const std::size_t row_bytes = static_cast<std::size_t>(shape[1]) * dtype_bytes(dtype);
  slice.shape = {count, shape[1]};
  slice.bytes = bytes.subspan(static_cast<std::size_t>(begin) * row_bytes, static_cast<std::size_t>(count) * row_bytes);
  slice.first_element = first_element + begin * shape[1];
  return slice;
}

std::vector<float> to_floats(const Tensor& tensor) {
  const auto count = static_cast<std::size_t>(tensor.element_count());
  const std::string where = fmt::format("tensor '{}'", tensor.name);
  const bool floating = tensor.dtype == Dtype::kF32 || tensor.dtype == Dtype::kBF16 || tensor.dtype == Dtype::kF16 ||
                        tensor.dtype == Dtype::kF64;
  if (!floating)
    throw input_error(where, fmt::format("holds {}, weights must be F32, BF16, F16 or F64", dtype_name(tensor.dtype)),
                      "quantised checkpoints of other programs are not read");
  if (tensor.bytes.size() != count * dtype_bytes(tensor.dtype)) throw internal_error(where + " has a wrong size");
  switch (tensor.dtype) {
    case Dtype::kF32:
      return widen_all<float>(tensor, count, [](float value) { return value; });
    case Dtype::kBF16:
      return widen_all<std::uint16_t>(tensor, count, widen_bfloat16);
    case Dtype::kF16:
      return widen_all<std::uint16_t>(tensor, count, widen_float16);
    default:
      return widen_all<double>(tensor, count, [](double value) { return static_cast<float>(value); });
  }
}

}  // namespace tare::engine

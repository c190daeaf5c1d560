#include "engine/formats/weight_codes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "engine/formats/absmax.h"
#include "engine/formats/float_formats.h"

namespace tare::engine {
namespace {

// The largest code the encoder uses.
float most_code_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ8:
      return kQ8MostCode;
    case WeightFormat::kQ5:
      return kQ5MostCode;
    case WeightFormat::kQ4:
      return kQ4MostCode;
    case WeightFormat::kQ3:
      return kQ3MostCode;
    case WeightFormat::kFP8:
      return kE4M3Largest;
    case WeightFormat::kNVFP4:
      return kE2M1Largest;
    case WeightFormat::kBF16:
      break;
  }
  throw internal_error("bf16 weights have no codes");
}

float value_of_field(WeightFormat format, std::uint8_t field) {
  if (format == WeightFormat::kFP8) return e4m3_to_float(field);
  if (format == WeightFormat::kNVFP4) return e2m1_to_float(field);
  return static_cast<float>(static_cast<int>(field) - field_bias_of(format));
}

// Step 3: codes of a group or block whose scale, the tensor's included, is not 0.
void encode_scaled(WeightFormat format, float scale, std::span<const float> values, std::span<std::uint8_t> fields) {
  const float reciprocal = 1.0F / scale;
  if (format == WeightFormat::kFP8) {
    for (std::size_t i = 0; i < values.size(); ++i) fields[i] = float_to_e4m3(values[i] * reciprocal);
  } else if (format == WeightFormat::kNVFP4) {
    for (std::size_t i = 0; i < values.size(); ++i) fields[i] = float_to_e2m1(values[i] * reciprocal);
  } else {
    const float most = most_code_of(format);
    const int bias = field_bias_of(format);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float code = nearest_integer(values[i] * reciprocal);
      const float held = code > most ? most : (code < -most ? -most : code);
      fields[i] = static_cast<std::uint8_t>(static_cast<int>(held) + bias);
    }
  }
}

void encode_under_tensor_scale(WeightFormat format, float tensor_scale, std::span<const float> values,
                               EncodedGroup& group) {
  const auto block = static_cast<std::size_t>(kGroupSize) / scales_a_group(format);
  for (std::size_t begin = 0; begin < values.size(); begin += block) {
    const std::span<const float> part = values.subspan(begin, std::min(block, values.size() - begin));
    const float absmax = absmax_of(part);
    if (!std::isfinite(absmax)) throw input_error("", "a weight is not finite");
    if (absmax == 0) continue;  // scale 0, codes 0
    const std::uint8_t scale =
        std::max(float_to_e4m3(absmax / most_code_of(format) / tensor_scale), kE4M3LeastSubnormal);
    group.scales[begin / block] = scale;
    encode_scaled(format, tensor_scale * e4m3_to_float(scale), part,
                  std::span(group.fields).subspan(begin, part.size()));
  }
}

}  // namespace

WeightCodec normalized(WeightCodec codec) {
  if (codec.format == WeightFormat::kBF16) codec.scales = ScaleFormat::kFP16;
  if (codec.format == WeightFormat::kNVFP4) codec.scales = ScaleFormat::kE4M3;
  return codec;
}

int code_bits_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ8:
    case WeightFormat::kFP8:
      return 8;
    case WeightFormat::kQ5:
      return 5;
    case WeightFormat::kQ4:
    case WeightFormat::kNVFP4:
      return 4;
    case WeightFormat::kQ3:
      return 3;
    case WeightFormat::kBF16:
      break;
  }
  throw internal_error("bf16 weights have no codes");
}

int field_bias_of(WeightFormat format) {
  if (format == WeightFormat::kFP8 || format == WeightFormat::kNVFP4) return 0;
  return 1 << (code_bits_of(format) - 1);
}

std::size_t scales_a_group(WeightFormat format) {
  return format == WeightFormat::kNVFP4 ? kMostScalesAGroup : 1;
}

std::size_t scale_bytes(WeightCodec codec) {
  return has_tensor_scale(codec) ? 1 : 2;
}

float tensor_scale_of(WeightFormat format, float absmax) {
  if (!std::isfinite(absmax)) throw input_error("", "a weight is not finite");
  if (absmax == 0) return 1;
  return std::max(absmax / most_code_of(format) / kE4M3Largest, kLeastTensorScale);
}

EncodedGroup encode_weights(WeightCodec codec, float tensor_scale, std::span<const float> values) {
  const auto size = static_cast<std::size_t>(kGroupSize);
  if (values.empty() || values.size() > size) throw internal_error("a group has 1 to 64 weights");
  EncodedGroup group;
  const int bias = field_bias_of(codec.format);
  group.fields.fill(static_cast<std::uint8_t>(bias));
  if (has_tensor_scale(codec)) {
    encode_under_tensor_scale(codec.format, tensor_scale, values, group);
  } else if (codec.format == WeightFormat::kFP8) {
    group.scales[0] = encode_fp8_group(values, std::span(group.fields).first(values.size()));
  } else {
    std::array<std::int8_t, kGroupSize> codes{};
    const int most = static_cast<int>(most_code_of(codec.format));
    group.scales[0] = encode_group(values, most, std::span(codes).first(values.size()));
    for (std::size_t i = 0; i < size; ++i) group.fields[i] = static_cast<std::uint8_t>(codes[i] + bias);
  }
  return group;
}

float decode_weight(WeightCodec codec, float tensor_scale, std::uint16_t scale, std::uint8_t field) {
  const float code = value_of_field(codec.format, field);
  if (!has_tensor_scale(codec)) return float16_to_float(scale) * code;
  return tensor_scale * (e4m3_to_float(static_cast<std::uint8_t>(scale)) * code);
}

void decode_weights(WeightCodec codec, float tensor_scale, const EncodedGroup& group, std::span<float> values) {
  const auto block = static_cast<std::size_t>(kGroupSize) / scales_a_group(codec.format);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = decode_weight(codec, tensor_scale, group.scales[i / block], group.fields[i]);
}

void pack_fields(std::span<const std::uint8_t> fields, int bits, std::span<std::uint8_t> bytes) {
  if (static_cast<std::int64_t>(bytes.size()) != packed_bytes(static_cast<std::int64_t>(fields.size()), bits))
    throw internal_error("pack_fields: as many bytes as the fields fill");
  std::uint32_t waiting = 0;  // bits that do not fill a byte yet, lowest first
  int count = 0;
  std::size_t at = 0;
  for (const std::uint8_t field : fields) {
    waiting |= static_cast<std::uint32_t>(field) << count;
    for (count += bits; count >= 8; count -= 8, waiting >>= 8) bytes[at++] = static_cast<std::uint8_t>(waiting & 0xFFU);
  }
  if (count > 0) bytes[at] = static_cast<std::uint8_t>(waiting & 0xFFU);
}

void unpack_fields(std::span<const std::uint8_t> bytes, int bits, std::span<std::uint8_t> fields) {
  if (static_cast<std::int64_t>(bytes.size()) != packed_bytes(static_cast<std::int64_t>(fields.size()), bits))
    throw internal_error("unpack_fields: as many bytes as the fields fill");
  std::uint32_t waiting = 0;
  int count = 0;
  std::size_t at = 0;
  for (std::uint8_t& field : fields) {
    while (count < bits) {
      waiting |= static_cast<std::uint32_t>(bytes[at++]) << count;
      count += 8;
    }
    field = static_cast<std::uint8_t>(waiting & ((1U << bits) - 1U));
    waiting >>= bits;
    count -= bits;
  }
}

}  // namespace tare::engine

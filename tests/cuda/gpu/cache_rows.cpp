#include "tests/cuda/gpu/cache_rows.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/formats/float_formats.h"

namespace tare::engine::test {

std::int64_t CacheRun::code_place(std::int64_t slot, int dim) const {
  if (has_scales(format)) {
    return of_values ? value_code_place(format, head_dim, slot, dim) : key_code_place(format, head_dim, slot, dim);
  }
  return of_values ? value_place(format, head_dim, slot, dim) : key_place(format, head_dim, slot, dim);
}

std::int64_t CacheRun::scale_place(std::int64_t slot, int block) const {
  return of_values ? value_scale_place(format, head_dim, slot, block) : key_scale_place(format, head_dim, slot, block);
}

int CacheRun::code_shift(int dim) const {
  return of_values ? value_code_shift(format, head_dim, dim) : key_code_shift(format, dim);
}

std::vector<std::int64_t> CacheRun::places(std::int64_t slot) const {
  std::vector<std::int64_t> all;
  for (int dim = 0; dim < head_dim; ++dim)
    for (int byte = 0; byte < element_bytes(format); ++byte) all.push_back(code_place(slot, dim) + byte);
  for (int block = 0; block < row_scales(format, head_dim); ++block)
    for (int byte = 0; byte < scale_bytes(format); ++byte) all.push_back(scale_place(slot, block) + byte);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

void CacheRun::encode(std::byte* run, std::int64_t slot, std::span<const float> row) const {
  const auto put = [&](int dim, auto bits) { std::memcpy(run + code_place(slot, dim), &bits, sizeof(bits)); };
  if (!has_scales(format)) {
    for (int dim = 0; dim < head_dim; ++dim) {
      const float value = row[static_cast<std::size_t>(dim)];
      if (format == CacheFormat::kFP8) {
        put(dim, float_to_e4m3(value));
      } else if (format == CacheFormat::kBF16) {
        put(dim, float_to_bfloat16(value));
      } else {
        put(dim, value);
      }
    }
    return;
  }
  for (int block = 0; block < row_scales(format, head_dim); ++block) {
    const int first = block * scale_block(format);
    const auto count = static_cast<std::size_t>(std::min(scale_block(format), head_dim - first));
    const std::span<const float> values = row.subspan(static_cast<std::size_t>(first), count);
    std::array<std::uint8_t, kInt8Block> codes{};
    if (format == CacheFormat::kInt8) {
      const std::span<std::int8_t> as_signed(reinterpret_cast<std::int8_t*>(codes.data()), count);
      const std::uint16_t scale = encode_int8_block(values, as_signed);
      std::memcpy(run + scale_place(slot, block), &scale, sizeof(scale));
    } else {
      const std::uint8_t scale = encode_nvfp4_block(values, std::span(codes).first(count));
      run[scale_place(slot, block)] = std::byte{scale};
    }
    for (std::size_t i = 0; i < count; ++i) {
      const int dim = first + static_cast<int>(i);
      std::byte& byte = run[code_place(slot, dim)];
      const int shift = code_shift(dim);
      const unsigned mask = format == CacheFormat::kNVFP4 ? 0xFU : 0xFFU;
      byte = static_cast<std::byte>((static_cast<unsigned>(byte) & ~(mask << shift)) |
                                    (static_cast<unsigned>(codes[i]) & mask) << shift);
    }
  }
}

float CacheRun::scale(const std::byte* run, std::int64_t slot, int block) const {
  const std::byte* place = run + scale_place(slot, block);
  if (format == CacheFormat::kNVFP4) return e4m3_to_float(static_cast<std::uint8_t>(*place));
  std::uint16_t bits = 0;
  std::memcpy(&bits, place, sizeof(bits));
  return bfloat16_to_float(bits);
}

void CacheRun::set_scale(std::byte* run, std::int64_t slot, int block, float value) const {
  std::byte* place = run + scale_place(slot, block);
  if (format == CacheFormat::kNVFP4) {
    *place = std::byte{float_to_e4m3(value)};
    return;
  }
  const std::uint16_t bits = float_to_bfloat16(value);
  std::memcpy(place, &bits, sizeof(bits));
}

float CacheRun::decode(const std::byte* run, std::int64_t slot, int dim) const {
  const std::byte* place = run + code_place(slot, dim);
  switch (format) {
    case CacheFormat::kFP8:
      return e4m3_to_float(static_cast<std::uint8_t>(*place));
    case CacheFormat::kBF16: {
      std::uint16_t bits = 0;
      std::memcpy(&bits, place, sizeof(bits));
      return bfloat16_to_float(bits);
    }
    case CacheFormat::kFP32: {
      float number = 0;
      std::memcpy(&number, place, sizeof(number));
      return number;
    }
    case CacheFormat::kInt8:
      return scale(run, slot, dim / scale_block(format)) *
             static_cast<float>(static_cast<std::int8_t>(static_cast<std::uint8_t>(*place)));
    case CacheFormat::kNVFP4:
      break;
  }
  const auto code = static_cast<std::uint8_t>(static_cast<unsigned>(*place) >> code_shift(dim) & 0xFU);
  return scale(run, slot, dim / scale_block(format)) * e2m1_to_float(code);
}

}  // namespace tare::engine::test

// Numbers to measure with, made on the device: zeros would draw less power and run faster.
#pragma once

#include <cstdint>

#include "engine/backend/option_words.h"
#include "engine/cuda/device/device_buffer.h"

namespace tare::micro {

// Random words, of which only the bits `keep` stay and the bits `set` are set.
struct RandomBits {
  std::uint32_t keep;
  std::uint32_t set;
};
// Finite in every use: E4M3 below 2, the others in [0.5, 2).
constexpr RandomBits kRandomE4M3{0xBFBFBFBFU, 0};
constexpr RandomBits kRandomBF16{0x80FF80FFU, 0x3F003F00U};
constexpr RandomBits kRandomFP16{0x80FF80FFU, 0x3C003C00U};
constexpr RandomBits kRandomFP32{0x80FFFFFFU, 0x3F000000U};
constexpr RandomBits kRandomPositiveFP32{0x00FFFFFFU, 0x3F000000U};

void fill_random(std::byte* data, std::size_t bytes, RandomBits bits);
// Of a key or value cache.
[[nodiscard]] RandomBits random_bits_of(engine::CacheFormat format);
[[nodiscard]] engine::DeviceBuffer random_floats(std::int64_t count, RandomBits bits = kRandomFP32);

}  // namespace tare::micro

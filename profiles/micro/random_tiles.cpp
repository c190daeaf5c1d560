#include "profiles/micro/random_tiles.h"

#include <cstring>
#include <vector>

#include "base/philox.h"
#include "engine/cuda/product/tiles.h"

namespace tare::micro {

engine::DeviceBuffer random_tiles(engine::WeightCodec codec, std::int64_t rows, std::int64_t columns, int copies) {
  std::vector<std::byte> tiles(static_cast<std::size_t>(engine::tile_bytes(codec, rows, columns)));
  const Philox random(1);
  for (std::size_t place = 0; place < tiles.size(); place += sizeof(std::uint64_t)) {
    const std::uint64_t bits = random.bits_at(place);
    std::memcpy(tiles.data() + place, &bits, sizeof bits);
  }
  const bool scaled = engine::has_scales(codec.format);
  const bool byte_scales = engine::has_tensor_scale(codec);
  // Exponent of 2^-7 in FP16, BF16; of 1 in two E4M3 numbers. Free: mantissa; mantissa and sign.
  const std::uint16_t fixed = byte_scales ? 0x3838 : scaled ? 0x2000 : 0x3C00;
  const std::uint16_t free = byte_scales ? 0x0707 : scaled ? 0x03FF : 0x807F;
  const auto unit = static_cast<std::size_t>(engine::unit_bytes(codec));
  const std::size_t first_fixed = scaled ? static_cast<std::size_t>(engine::unit_code_bytes(codec.format)) : 0;
  const auto units = static_cast<std::size_t>(engine::unit_run_bytes(codec, rows, columns));
  for (std::size_t first = 0; first < units; first += unit) {
    for (std::size_t place = first_fixed; place < unit; place += sizeof(std::uint16_t)) {
      std::uint16_t number = 0;
      std::memcpy(&number, tiles.data() + first + place, sizeof number);
      number = static_cast<std::uint16_t>(fixed | (number & free));
      std::memcpy(tiles.data() + first + place, &number, sizeof number);
    }
  }
  constexpr float kTensorScale = 0x1p-7F;
  for (std::size_t place = units; place < tiles.size(); place += sizeof kTensorScale)
    std::memcpy(tiles.data() + place, &kTensorScale, sizeof kTensorScale);
  engine::DeviceBuffer buffer(tiles.size() * static_cast<std::size_t>(copies), "weights");
  for (int copy = 0; copy < copies; ++copy) {
    engine::copy_to_device(buffer.data() + static_cast<std::size_t>(copy) * tiles.size(), tiles);
  }
  return buffer;
}

}  // namespace tare::micro

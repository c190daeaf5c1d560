#include "profiles/micro/random_tiles.h"

#include <cstring>
#include <vector>

#include "base/philox.h"
#include "engine/cuda/product/tiles.h"

namespace tare::micro {

engine::DeviceBuffer random_tiles(engine::WeightFormat format, std::int64_t rows, std::int64_t columns, int copies) {
  std::vector<std::byte> tiles(static_cast<std::size_t>(engine::tile_bytes(format, rows, columns)));
  const Philox random(1);
  for (std::size_t place = 0; place < tiles.size(); place += sizeof(std::uint64_t)) {
    const std::uint64_t bits = random.bits_at(place);
    std::memcpy(tiles.data() + place, &bits, sizeof bits);
  }
  const bool scaled = engine::has_scales(format);
  const std::uint16_t fixed = scaled ? 0x2000 : 0x3C00;  // exponent of 2^-7 in FP16, BF16
  const std::uint16_t free = scaled ? 0x03FF : 0x807F;   // mantissa; mantissa and sign
  const auto unit = static_cast<std::size_t>(engine::unit_bytes(format));
  const std::size_t first_fixed = scaled ? static_cast<std::size_t>(engine::unit_code_bytes(format)) : 0;
  for (std::size_t first = 0; first < tiles.size(); first += unit) {
    for (std::size_t place = first_fixed; place < unit; place += sizeof(std::uint16_t)) {
      std::uint16_t number = 0;
      std::memcpy(&number, tiles.data() + first + place, sizeof number);
      number = static_cast<std::uint16_t>(fixed | (number & free));
      std::memcpy(tiles.data() + first + place, &number, sizeof number);
    }
  }
  engine::DeviceBuffer buffer(tiles.size() * static_cast<std::size_t>(copies), "weights");
  for (int copy = 0; copy < copies; ++copy) {
    engine::copy_to_device(buffer.data() + static_cast<std::size_t>(copy) * tiles.size(), tiles);
  }
  return buffer;
}

}  // namespace tare::micro

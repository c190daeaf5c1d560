#include "base/philox.h"

#include <cmath>
#include <numbers>

namespace tare {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53;  // constants of the paper, table 2
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

__extension__ using Uint128 = unsigned __int128;

std::array<std::uint32_t, 4> block(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                     static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                    {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

std::uint64_t Philox::bits_at(std::uint64_t index) const {
  const auto words = block(seed_, stream_, index);
  return (std::uint64_t{words[1]} << 32) | words[0];
}

double Philox::uniform_at(std::uint64_t index) const {
  return static_cast<double>(bits_at(index) >> 11) * 0x1p-53;
}

double Philox::normal_at(std::uint64_t index) const {
  const auto words = block(seed_, stream_, index);
  const std::uint64_t first = (std::uint64_t{words[1]} << 32) | words[0];
  const std::uint64_t second = (std::uint64_t{words[3]} << 32) | words[2];
  const double radius_uniform = (static_cast<double>(first >> 11) + 1.0) * 0x1p-53;  // in (0, 1]: the log is finite
  const double angle_uniform = static_cast<double>(second >> 11) * 0x1p-53;
  return std::sqrt(-2.0 * std::log(radius_uniform)) * std::cos(2.0 * std::numbers::pi * angle_uniform);
}

std::uint64_t Philox::below(std::uint64_t bound) {
  return static_cast<std::uint64_t>((Uint128{bits_at(next_++)} * bound) >> 64);
}

}  // namespace tare

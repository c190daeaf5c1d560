// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). A number is a pure function of (key, counter), so results do not depend on threads or order.
#pragma once

#include <array>
#include <cstdint>

namespace tare {

// One Philox4x32-10 block: four 32-bit words from a 128-bit counter and a 64-bit key.
[[nodiscard]] std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                      std::array<std::uint32_t, 2> key);

// A stream of numbers named by (seed, stream); the i-th number can also be asked for directly.
class Philox {
 public:
  explicit Philox(std::uint64_t seed, std::uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  // 64 random bits at `index` of the stream, 0 <= index < 2^64.
  [[nodiscard]] std::uint64_t bits_at(std::uint64_t index) const;
  // Uniform in [0, 1), 53 bits.
  [[nodiscard]] double uniform_at(std::uint64_t index) const;
  // Standard normal by Box-Muller from the two halves of the block at `index`.
  [[nodiscard]] double normal_at(std::uint64_t index) const;

  [[nodiscard]] double uniform() { return uniform_at(next_++); }
  [[nodiscard]] double normal() { return normal_at(next_++); }
  // Uniform integer in [0, bound), bound > 0, without modulo bias beyond 2^-64 * bound (Lemire's multiply).
  [[nodiscard]] std::uint64_t below(std::uint64_t bound);

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t next_ = 0;
};

}  // namespace tare

// Random q4 matrices and activations, and their product in double precision on the represented numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tare::micro {

// x [tokens][columns] as BF16 bits: normal numbers, each token with its own magnitude, an outlier every 611 columns.
[[nodiscard]] std::vector<std::uint16_t> random_activations(int tokens, std::int64_t columns, std::uint64_t seed);

struct Q4TestProduct {
  std::vector<std::byte> packed;  // by pack_q4_row_block
  std::vector<double> y;          // [tokens][rows]
};

// Codes -8..7, all of them; scales positive FP16 about 2^-8, some zero, some subnormal. Uses all threads of the
// machine.
[[nodiscard]] Q4TestProduct random_product(std::int64_t rows, std::int64_t columns, std::uint64_t seed, int tokens,
                                           const std::vector<std::uint16_t>& x);

}  // namespace tare::micro

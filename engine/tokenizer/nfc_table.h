// The part of the Unicode Character Database that NFC needs; each table is sorted by its first column.
#pragma once

#include <cstdint>
#include <span>

namespace tare::engine {

struct CanonicalPair {  // `composed` decomposes into the two others
  char32_t composed, first, second;
};
struct CanonicalSingleton {  // `composed` is another spelling of `only`; never composed again
  char32_t composed, only;
};
struct CombiningRange {  // canonical combining class of first..last; 0 for everything not listed
  char32_t first, last;
  std::uint8_t combining_class;
};

[[nodiscard]] std::span<const CanonicalPair> canonical_pairs();
[[nodiscard]] std::span<const CanonicalSingleton> canonical_singletons();
// Pairs that decompose but are not composed.
[[nodiscard]] std::span<const char32_t> composition_exclusions();
[[nodiscard]] std::span<const CombiningRange> combining_ranges();

}  // namespace tare::engine

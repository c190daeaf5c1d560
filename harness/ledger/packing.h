// How lists of numbers lie in blobs. Rounds: unsigned LEB128 (seven bits a byte, low bits first, high bit set on all
// but the last), because round times need three bytes and token counts one. Token ids: int32, little-endian.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tare::harness {

// Throws Error (internal) for a negative value.
[[nodiscard]] std::string pack_counts(std::span<const std::int64_t> values);
// Throws Error (input) when the bytes end inside a number or a number does not fit 63 bits.
[[nodiscard]] std::vector<std::int64_t> unpack_counts(std::string_view bytes);

[[nodiscard]] std::string pack_tokens(std::span<const std::int32_t> tokens);
// Throws Error (input) when the size is no multiple of four.
[[nodiscard]] std::vector<std::int32_t> unpack_tokens(std::string_view bytes);

}  // namespace tare::harness

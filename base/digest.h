// Digests that name content in records: XXH3-128 (fast, not cryptographic: it finds mistakes, not attackers).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace tare {

// 32 hexadecimal digits of XXH3-128 of the bytes.
[[nodiscard]] std::string digest(std::span<const std::byte> bytes);
[[nodiscard]] std::string digest(std::string_view text);
// Digest of token ids as little-endian int32.
[[nodiscard]] std::string digest_tokens(std::span<const std::int32_t> tokens);
// Digest of a file's bytes, read in pieces. Throws Error (input) when it cannot be read.
[[nodiscard]] std::string digest_file(const std::filesystem::path& path);

// 64 bits of XXH3 of the text, for keys of random streams.
[[nodiscard]] std::uint64_t hash64(std::string_view text);

}  // namespace tare

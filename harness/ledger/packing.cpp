#include "harness/ledger/packing.h"

#include "base/error.h"

namespace tare::harness {
namespace {

constexpr int kBitsPerByte = 7;
constexpr int kHighestShift = 56;  // the ninth byte: 63 bits in all
constexpr std::uint64_t kLowBits = 0x7f;
constexpr std::uint8_t kMore = 0x80;
constexpr std::size_t kBytesPerToken = 4;

}  // namespace

std::string pack_counts(std::span<const std::int64_t> values) {
  std::string bytes;
  bytes.reserve(values.size() * 3);
  for (const std::int64_t value : values) {
    if (value < 0) throw internal_error("a negative count cannot be packed");
    auto rest = static_cast<std::uint64_t>(value);
    while (rest > kLowBits) {
      bytes.push_back(static_cast<char>((rest & kLowBits) | kMore));
      rest >>= kBitsPerByte;
    }
    bytes.push_back(static_cast<char>(rest));
  }
  return bytes;
}

std::vector<std::int64_t> unpack_counts(std::string_view bytes) {
  std::vector<std::int64_t> values;
  std::uint64_t value = 0;
  int shift = 0;
  for (const char byte : bytes) {
    if (shift > kHighestShift) throw input_error("", "a packed number is longer than 63 bits");
    const auto bits = static_cast<std::uint8_t>(byte);
    value |= (bits & kLowBits) << shift;
    shift += kBitsPerByte;
    if ((bits & kMore) != 0) continue;
    values.push_back(static_cast<std::int64_t>(value));
    value = 0;
    shift = 0;
  }
  if (shift != 0) throw input_error("", "packed numbers end inside a number");
  return values;
}

std::string pack_tokens(std::span<const std::int32_t> tokens) {
  std::string bytes;
  bytes.reserve(tokens.size() * kBytesPerToken);
  for (const std::int32_t token : tokens) {
    const auto bits = static_cast<std::uint32_t>(token);
    for (std::size_t byte = 0; byte < kBytesPerToken; ++byte)
      bytes.push_back(static_cast<char>((bits >> (8 * byte)) & 0xff));
  }
  return bytes;
}

std::vector<std::int32_t> unpack_tokens(std::string_view bytes) {
  if (bytes.size() % kBytesPerToken != 0) throw input_error("", "token ids end inside an id");
  std::vector<std::int32_t> tokens;
  tokens.reserve(bytes.size() / kBytesPerToken);
  for (std::size_t i = 0; i < bytes.size(); i += kBytesPerToken) {
    std::uint32_t bits = 0;
    for (std::size_t byte = 0; byte < kBytesPerToken; ++byte)
      bits |= std::uint32_t{static_cast<std::uint8_t>(bytes[i + byte])} << (8 * byte);
    tokens.push_back(static_cast<std::int32_t>(bits));
  }
  return tokens;
}

}  // namespace tare::harness

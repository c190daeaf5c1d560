#include "base/digest.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <fstream>
#include <memory>
#include <vector>

#include "base/error.h"

namespace tare {
namespace {

std::string hex(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

std::string digest(std::span<const std::byte> bytes) {
  return hex(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string digest(std::string_view text) {
  return hex(XXH3_128bits(text.data(), text.size()));
}

std::string digest_tokens(std::span<const std::int32_t> tokens) {
  return digest(std::as_bytes(tokens));
}

std::string digest_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw input_error(path.string(), "cannot be opened for reading");
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_128bits_reset(state.get());
  std::vector<char> buffer(std::size_t{1} << 20);
  while (file) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    XXH3_128bits_update(state.get(), buffer.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) throw input_error(path.string(), "cannot be read to its end");
  return hex(XXH3_128bits_digest(state.get()));
}

std::uint64_t hash64(std::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace tare

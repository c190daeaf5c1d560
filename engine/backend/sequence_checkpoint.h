// What a sequence leaves behind, in the two kinds that a prefix cache keeps: rows, each of which belongs to a position
// and to every longer sequence that begins alike (keys and values, a drafter's likewise), and a checkpoint, which
// belongs to the whole sequence and is of no use for another length. Rows without the checkpoint of their end continue
// nothing: a recurrent state cannot be cut back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/error.h"

namespace tare::engine {

struct SequenceCheckpoint {
  std::int64_t tokens = 0;        // of the sequence
  std::vector<float> recurrent;   // of the GDN layers in order, [linear_value_heads, dk, dv] each
  std::vector<std::byte> beside;  // in the backend's own layout: convolution columns, what a drafter holds of the end
};

// Bytes one after the other.
class ByteWriter {
 public:
  explicit ByteWriter(std::vector<std::byte>& bytes) : bytes_(bytes) {}
  // Room for `count` more, to be filled.
  [[nodiscard]] std::byte* grow(std::size_t count) {
    bytes_.resize(bytes_.size() + count);
    return bytes_.data() + bytes_.size() - count;
  }
  void put(const void* data, std::size_t count) {
    if (count > 0) std::memcpy(grow(count), data, count);
  }

 private:
  std::vector<std::byte>& bytes_;
};

// The same read back. Throws Error (internal) when they end early.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  [[nodiscard]] const std::byte* take(std::size_t count) {
    if (count > bytes_.size()) throw internal_error("a stored sequence is shorter than what it should hold");
    const std::byte* data = bytes_.data();
    bytes_ = bytes_.subspan(count);
    return data;
  }
  void get(void* data, std::size_t count) {
    if (count > 0) std::memcpy(data, take(count), count);
  }
  void expect_end() const {
    if (!bytes_.empty()) throw internal_error("a stored sequence is longer than what it should hold");
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace tare::engine

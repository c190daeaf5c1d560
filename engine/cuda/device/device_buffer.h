// Device memory that frees itself.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <utility>

namespace tare::engine {

// `bytes` of device memory, 256-byte aligned; 0 bytes: none. Not initialised. Throws Error (environment) naming `what`
// and the bytes when there is no room.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(std::size_t bytes, const char* what);
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer();

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_); }
  template <class Element>
  [[nodiscard]] Element* as() const {
    return static_cast<Element*>(memory_);
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

// Copies between host and device, and filling with one byte: when they return, the bytes are there for any stream. They
// do not wait for work on non-blocking streams, copy_to_host neither. Throw Error (environment).
template <class Element>
void copy_to_device(const DeviceBuffer& target, std::span<const Element> source);
void copy_to_device(std::byte* target, std::span<const std::byte> source);
void copy_to_host(std::span<std::byte> target, const std::byte* source);
void fill_device(std::byte* target, std::size_t bytes, int value);

template <class Element>
void copy_to_device(const DeviceBuffer& target, std::span<const Element> source) {
  copy_to_device(target.data(), std::as_bytes(source));
}

}  // namespace tare::engine

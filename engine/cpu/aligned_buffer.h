// Memory of our own for weights, caches and activations: aligned to cache lines, zeroed, and in huge pages when it is
// large (a decode step streams gigabytes, and 4 KiB pages would cost a page walk every 64 lines).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

namespace tare::engine {

constexpr std::size_t kCacheLineBytes = 64;

// Zeroed memory of at least `bytes`, aligned to a cache line. Throws Error (environment) when there is none.
struct FreeMemory {
  void operator()(void* memory) const;
};
[[nodiscard]] std::unique_ptr<void, FreeMemory> allocate_zeroed(std::size_t bytes);

template <class Element>
class AlignedBuffer {
  static_assert(std::is_trivially_copyable_v<Element>);

 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t size) : memory_(allocate_zeroed(size * sizeof(Element))), size_(size) {}

  [[nodiscard]] Element* data() { return static_cast<Element*>(memory_.get()); }
  [[nodiscard]] const Element* data() const { return static_cast<const Element*>(memory_.get()); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t bytes() const { return size_ * sizeof(Element); }
  [[nodiscard]] std::span<Element> span() { return {data(), size_}; }
  [[nodiscard]] std::span<const Element> span() const { return {data(), size_}; }

 private:
  std::unique_ptr<void, FreeMemory> memory_;
  std::size_t size_ = 0;
};

[[nodiscard]] constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace tare::engine

#include "engine/cpu/aligned_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/text.h"

namespace tare::engine {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

}  // namespace

void FreeMemory::operator()(void* memory) const {
  std::free(memory);
}

std::unique_ptr<void, FreeMemory> allocate_zeroed(std::size_t bytes) {
  const std::size_t alignment = bytes >= kHugePageBytes ? kHugePageBytes : kCacheLineBytes;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr)
    throw Error(ErrorKind::kEnvironment, fmt::format("cannot allocate {}", human_bytes(bytes)), "",
                "choose a smaller context or a smaller weight format");
  // Only advice: without huge pages everything works, a little slower.
  if (alignment == kHugePageBytes) static_cast<void>(madvise(memory, rounded, MADV_HUGEPAGE));
  std::memset(memory, 0, rounded);
  return std::unique_ptr<void, FreeMemory>(memory);
}

}  // namespace tare::engine

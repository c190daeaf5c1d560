// Memory of the host that the GPU reads and writes.
#pragma once

#include <cuda_runtime_api.h>

#include "engine/cuda/device/cuda_check.h"

namespace tare::engine {

template <class Value>
class MappedHost {
 public:
  MappedHost() {
    check_cuda(cudaHostAlloc(reinterpret_cast<void**>(&value_), sizeof(Value), cudaHostAllocMapped), "cudaHostAlloc");
    *value_ = Value{};
  }
  MappedHost(const MappedHost&) = delete;
  MappedHost& operator=(const MappedHost&) = delete;
  ~MappedHost() { (void)cudaFreeHost(value_); }
  Value* operator->() const { return value_; }
  [[nodiscard]] Value* get() const { return value_; }

 private:
  Value* value_ = nullptr;
};

}  // namespace tare::engine

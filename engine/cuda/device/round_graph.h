// A captured round, replayed as one launch.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <utility>
#include <vector>

#include "engine/cuda/device/launch.h"

namespace tare::engine {

class RoundGraph {
 public:
  // Captures what `launches` puts into `stream`. Throws Error (environment).
  RoundGraph(cudaStream_t stream, const std::function<void()>& launches);
  RoundGraph(RoundGraph&& other) noexcept : executable_(std::exchange(other.executable_, nullptr)) {}
  RoundGraph& operator=(RoundGraph&& other) noexcept {
    std::swap(executable_, other.executable_);
    return *this;
  }
  RoundGraph(const RoundGraph&) = delete;
  RoundGraph& operator=(const RoundGraph&) = delete;
  ~RoundGraph();

  void launch(cudaStream_t stream) const;

 private:
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace tare::engine

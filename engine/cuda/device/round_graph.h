// A captured round, replayed as one launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include "engine/cuda/device/launch.h"

namespace tare::engine {

// What a round is cut into.
enum class RoundCut {
  kWhole,    // one graph
  kGrowing,  // graphs of growing_parts(), launched one after the other; no kernel starts before the part before has
             // ended
};

// Kernels of each part. While a driver records every kernel, a launch costs the host a microsecond or more for each of
// them before the first one starts (CUPTI 13.0 on an H200: 0.5 to 0.8 ms a round of 549). With parts that grow it pays
// for the next part while this one runs: kernels of a round last longer than a microsecond on the average.
[[nodiscard]] std::vector<std::size_t> growing_parts(std::size_t kernels);

class RoundGraph {
 public:
  // Captures what `launches` puts into `stream`. Throws Error (environment); Error (internal) when it is to be cut and
  // is no single chain of launches.
  RoundGraph(cudaStream_t stream, const std::function<void()>& launches, RoundCut cut = RoundCut::kWhole);

  void launch(cudaStream_t stream) const;
  [[nodiscard]] std::size_t parts() const { return executables_.size(); }

 private:
  struct Destroy {
    void operator()(cudaGraphExec_t executable) const { (void)cudaGraphExecDestroy(executable); }
  };
  using Executable = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy>;
  std::vector<Executable> executables_;  // in the order of their launches

  void add(cudaGraph_t graph);
};

}  // namespace tare::engine

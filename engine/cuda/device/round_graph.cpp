#include "engine/cuda/device/round_graph.h"

#include "engine/cuda/device/cuda_check.h"

namespace tare::engine {

RoundGraph::RoundGraph(cudaStream_t stream, const std::function<void()>& launches) {
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    launches();
  } catch (...) {
    (void)cudaStreamEndCapture(stream, &graph);  // the stream must leave capture whatever happened
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    throw;
  }
  check_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  const cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
  (void)cudaGraphDestroy(graph);
  check_cuda(status, "cudaGraphInstantiate");
}

RoundGraph::~RoundGraph() {
  if (executable_ != nullptr) (void)cudaGraphExecDestroy(executable_);
}

void RoundGraph::launch(cudaStream_t stream) const {
  check_cuda(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch");
}

}  // namespace tare::engine

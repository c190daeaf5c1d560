#include "engine/cuda/device/round_graph.h"

#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "engine/cuda/device/cuda_check.h"

namespace tare::engine {
namespace {

// The first part is what the host pays for before anything runs. A part of four times the kernels of the one before is
// paid for in time when a kernel runs four times as long as recording it takes the host.
constexpr std::size_t kFirstPart = 16;
constexpr std::size_t kGrowth = 4;

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const { (void)cudaGraphDestroy(graph); }
};
using OwnedGraph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, DestroyGraph>;

OwnedGraph capture(cudaStream_t stream, const std::function<void()>& launches) {
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
  return OwnedGraph(graph);
}

// The nodes of a graph that is one chain, first to last.
std::vector<cudaGraphNode_t> chain_of(cudaGraph_t graph) {
  std::size_t count = 0;
  check_cuda(cudaGraphGetNodes(graph, nullptr, &count), "cudaGraphGetNodes");
  const auto one = [](std::size_t found) {
    if (found != 1) throw internal_error("a round that is to be cut is no chain of launches");
  };
  std::vector<cudaGraphNode_t> nodes(1);
  std::size_t found = 0;
  check_cuda(cudaGraphGetRootNodes(graph, nullptr, &found), "cudaGraphGetRootNodes");
  one(found);
  check_cuda(cudaGraphGetRootNodes(graph, nodes.data(), &found), "cudaGraphGetRootNodes");
  while (nodes.size() < count) {
    // Programmatic edges are handed out with their data alone.
    cudaGraphNode_t next = nullptr;
    cudaGraphEdgeData edge{};
    check_cuda(cudaGraphNodeGetDependentNodes(nodes.back(), nullptr, nullptr, &found),
               "cudaGraphNodeGetDependentNodes");
    one(found);
    check_cuda(cudaGraphNodeGetDependentNodes(nodes.back(), &next, &edge, &found), "cudaGraphNodeGetDependentNodes");
    nodes.push_back(next);
  }
  return nodes;
}

// Nodes [begin, end) of the chain as a graph of their own, the edges between them as they were.
OwnedGraph part_of(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& chain, std::size_t begin, std::size_t end) {
  cudaGraph_t clone = nullptr;
  check_cuda(cudaGraphClone(&clone, graph), "cudaGraphClone");
  OwnedGraph part(clone);
  for (std::size_t i = 0; i < chain.size(); ++i) {
    if (i >= begin && i < end) continue;
    cudaGraphNode_t node = nullptr;
    check_cuda(cudaGraphNodeFindInClone(&node, chain[i], clone), "cudaGraphNodeFindInClone");
    check_cuda(cudaGraphDestroyNode(node), "cudaGraphDestroyNode");
  }
  return part;
}

}  // namespace

std::vector<std::size_t> growing_parts(std::size_t kernels) {
  std::vector<std::size_t> parts;
  for (std::size_t size = kFirstPart; kernels > 0; size *= kGrowth) {
    parts.push_back(std::min(size, kernels));
    kernels -= parts.back();
  }
  return parts;
}

RoundGraph::RoundGraph(cudaStream_t stream, const std::function<void()>& launches, RoundCut cut) {
  const OwnedGraph graph = capture(stream, launches);
  if (cut == RoundCut::kWhole) {
    add(graph.get());
    return;
  }
  const std::vector<cudaGraphNode_t> chain = chain_of(graph.get());
  std::size_t begin = 0;
  for (const std::size_t size : growing_parts(chain.size())) {
    add(part_of(graph.get(), chain, begin, begin + size).get());
    begin += size;
  }
}

void RoundGraph::add(cudaGraph_t graph) {
  cudaGraphExec_t executable = nullptr;
  check_cuda(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  executables_.emplace_back(executable);
}

void RoundGraph::launch(cudaStream_t stream) const {
  for (const Executable& executable : executables_)
    check_cuda(cudaGraphLaunch(executable.get(), stream), "cudaGraphLaunch");
}

}  // namespace tare::engine

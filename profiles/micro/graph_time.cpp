#include "profiles/micro/graph_time.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "engine/cuda/device/cuda_check.h"

namespace tare::micro {

using engine::check_cuda;

GraphTime time_graph(cudaStream_t stream, const std::function<void()>& enqueue, int warm_up, int replays) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "begin capture");
  enqueue();
  check_cuda(cudaStreamEndCapture(stream, &graph), "end capture");
  check_cuda(cudaGraphInstantiate(&executable, graph, 0), "instantiate graph");
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check_cuda(cudaEventCreate(&begin), "create event");
  check_cuda(cudaEventCreate(&end), "create event");
  std::vector<double> times_us;
  for (int replay = -warm_up; replay < replays; ++replay) {
    check_cuda(cudaEventRecord(begin, stream), "record event");
    check_cuda(cudaGraphLaunch(executable, stream), "launch graph");
    check_cuda(cudaEventRecord(end, stream), "record event");
    check_cuda(cudaEventSynchronize(end), "wait for graph");
    float milliseconds = 0.0F;
    check_cuda(cudaEventElapsedTime(&milliseconds, begin, end), "read events");
    if (replay >= 0) times_us.push_back(1e3 * static_cast<double>(milliseconds));
  }
  check_cuda(cudaEventDestroy(begin), "destroy event");
  check_cuda(cudaEventDestroy(end), "destroy event");
  check_cuda(cudaGraphExecDestroy(executable), "destroy graph");
  check_cuda(cudaGraphDestroy(graph), "destroy graph");
  std::sort(times_us.begin(), times_us.end());
  return {.median_us = times_us[times_us.size() / 2], .least_us = times_us.front(), .most_us = times_us.back()};
}

void append_record(const std::string& path, const std::string& json_object) {
  std::printf("%s\n", json_object.c_str());
  std::fflush(stdout);
  if (std::FILE* file = std::fopen(path.c_str(), "a")) {
    std::fprintf(file, "%s\n", json_object.c_str());
    std::fclose(file);
  }
}

}  // namespace tare::micro

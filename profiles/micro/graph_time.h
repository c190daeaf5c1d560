// Time of a sequence of launches as one CUDA graph, and records of results as JSON lines.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>

namespace tare::micro {

struct GraphTime {
  double median_us = 0.0;
  double least_us = 0.0;
  double most_us = 0.0;
};

// Captures what `enqueue` puts into `stream` as a graph and replays it: `warm_up` times untimed, then `replays` times,
// each between two events. Throws tare::Error when a call fails or a kernel faults.
[[nodiscard]] GraphTime time_graph(cudaStream_t stream, const std::function<void()>& enqueue, int warm_up = 3,
                                   int replays = 15);

// Appends one line to the file, closed again at once so that nothing is lost if the next probe dies. `json_object` is
// printed to standard output as well.
void append_record(const std::string& path, const std::string& json_object);

}  // namespace tare::micro

// Records of kernels, copies and fills from CUPTI's activity interface, through CUDA graphs too.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "profiles/timeline/kernel_records.h"

namespace tare::profiles {

// Where libcupti is looked for, in this order: the loader's own places (LD_LIBRARY_PATH, ld.so.conf), the toolkit this
// program was built with, the usual places of a toolkit.
[[nodiscard]] std::vector<std::filesystem::path> cupti_places();

// Opens libcupti at run time; one collector a process, for CUPTI allows one subscriber and calls back without an
// argument of ours. Once started it stays on until the process ends (switching kinds off mid-process is not safe in
// every CUPTI 13.0), so time first, then collect. Throws Error (environment): a program built without CUDA or without
// CUPTI's headers, no libcupti (the places are named), one older than the headers, another profiler in this process.
[[nodiscard]] std::unique_ptr<KernelCollector> make_cupti_collector();

}  // namespace tare::profiles

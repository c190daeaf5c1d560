// The JSON values of ours by name alone: for headers that pass them on. Who makes or reads one includes json_reader.h,
// which costs a second of compiling (several in a CUDA source).
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace tare {

// Keys keep the order in which they were written.
using Json = nlohmann::ordered_json;
// Keys sorted: for large machine-written files (a vocabulary of 250,000 names), where Json's lookup would be too slow.
using SortedJson = nlohmann::json;

}  // namespace tare

// The roofline of a decode round: what each class of tensors could do at most, given its operations a byte, and what a
// profile says it does.
//
//   intensity = operations / bytes,  attainable = min(read rate x intensity, compute rate where one is known)
// Operations of a round of T tokens with n positions in the caches, multiplications and additions counted apart:
//   weights           2 a weight and token
//   key-value cache   4 a query head, head dimension, token and position it sees (scores, weighted values)
//   recurrent state   7 an element of the state and token (read by key and by query: 4; decay and update: 3), and 2 a
//                     tap, channel and token of the convolution
// Bytes are those of the inventory. Norms, the embedding and activations are left out: they are no part of the floor
// worth naming. So are drafters: what they compute a round depends on the drafts, not on the tokens verified.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "engine/backend/backend.h"

namespace tare::profiles {

enum class RooflineClass { kAttention, kGdn, kMlp, kHead, kKeyValueCache, kRecurrentState };
[[nodiscard]] std::string to_text(RooflineClass kind);  // "attention", ..., "key-value cache"

struct RooflineRow {
  RooflineClass kind = RooflineClass::kMlp;
  std::uint64_t bytes = 0;  // a round
  double operations = 0;
  double intensity = 0;              // operations a byte
  double attainable = 0;             // operations a second
  double floor_s = 0;                // operations / attainable
  std::optional<double> measured_s;  // of a profile's rows
  std::optional<double> share;       // floor_s / measured_s
};

struct Roofline {
  std::int64_t context = 0;
  std::int64_t width = 1;
  double read_bytes_per_s = 0;
  std::optional<double> compute_per_s;  // operations a second
  std::vector<RooflineRow> rows;        // most bytes first
  double profiled_s = 0;                // of a round, by all rows of the profile; 0 without one
  double other_s = 0;                   // by its rows of no class
};

[[nodiscard]] Roofline make_roofline(const engine::WeightInventory& inventory, const engine::ModelConfig& config,
                                     std::int64_t context, std::int64_t width, double read_bytes_per_s,
                                     std::optional<double> compute_per_s);

// Adds the times of `profile`, what `tare profile --json` printed. Throws Error (input): another width, other options
// than `options` (the differing one named), no rows.
void add_profile(Roofline& roofline, const Json& profile, const Json& options, const std::string& where);

// The class that a row of a profile works on; absent: norms, copies, whatever has no place in the table.
[[nodiscard]] std::optional<RooflineClass> class_of_row(const std::string& launch, const std::string& part);

}  // namespace tare::profiles

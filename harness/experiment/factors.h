// Experiment matrices: factors with levels, and the design that makes arms of them.
//
// A level is a patch of engine options, like an arm's own. An arm of a matrix is one level of every factor; the first
// level of each is the baseline's. Designs (docs/protocol/experiment.md):
//   one_at_a_time  the baseline, and every other level alone beside the baseline's other levels
//   full           every combination, the last factor's levels changing fastest
//   listed         the combinations that are written down, the first being the baseline
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/json_reader.h"

namespace tare::harness {

struct FactorLevel {
  std::string name;               // [A-Za-z0-9._-]+, unique within the factor
  Json options = Json::object();  // laid over the common options
};

struct Factor {
  std::string name;                 // [A-Za-z0-9._-]+
  std::vector<FactorLevel> levels;  // two or more; the first is the baseline's
};

enum class DesignKind { kNone, kOneAtATime, kFull, kListed };

// One level a factor, as indices.
using LevelIndices = std::vector<std::size_t>;

struct Matrix {
  DesignKind design = DesignKind::kNone;  // kNone: arms are written one by one, without factors
  std::vector<Factor> factors;
  std::vector<Json> exclude;       // {"factor": "level", ...}, as written: every combination that has all of these
  std::vector<Json> combinations;  // of a listed design, as written; a factor that is not named has its first level
};

// Throws Error (input) with the key: names, levels that are there once, designs that are known, factors that set the
// same option. Options are not looked into.
[[nodiscard]] std::vector<Factor> read_factors(const JsonReader& reader);
[[nodiscard]] Matrix read_design(JsonReader reader, std::vector<Factor> factors);

// The combinations of the design in the order of the arms, the baseline first. Throws Error (input): an exclusion that
// takes the baseline away or matches nothing, a combination twice, a level that no arm has, fewer than two arms left or
// more than `most_arms`.
[[nodiscard]] std::vector<LevelIndices> combinations_of(const Matrix& matrix, std::size_t most_arms);

// "q4_int8" in full and listed designs; "weights_q4" for one at a time, and "baseline".
[[nodiscard]] std::string arm_name_of(const Matrix& matrix, const LevelIndices& levels);
// {"weights": "q4", "kv": "int8"}, and back: every factor named once. `where` names the object in errors.
[[nodiscard]] Json levels_json(const Matrix& matrix, const LevelIndices& levels);
[[nodiscard]] LevelIndices read_levels(const Matrix& matrix, const Json& levels, const std::string& where);

[[nodiscard]] Json factors_json(const Matrix& matrix);
[[nodiscard]] Json design_json(const Matrix& matrix);
[[nodiscard]] std::string to_text(DesignKind design);  // "one_at_a_time", ...

// What names of arms, factors and levels are made of.
[[nodiscard]] bool is_plain_name(const std::string& name);

}  // namespace tare::harness

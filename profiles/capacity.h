// How many tokens the memory has room for beside everything else, by the format of keys and values.
//
// The sizes are those the backend allocates by (Backend::memory_plan), asked for other formats and lengths; nothing is
// computed twice. Before they are believed they are held against what the backend holds now: tensor by tensor where its
// inventory knows them, in total where the device says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/backend/backend.h"

namespace tare::profiles {

struct CapacityPart {
  std::string name;
  std::uint64_t planned = 0;
  std::optional<std::uint64_t> held;  // by the sizes of its buffers; absent: not known part by part
};

struct CapacityRow {
  engine::EngineOptions::KeyValue formats;
  bool now = false;                 // those of the backend
  std::uint64_t bytes_a_token = 0;  // of keys and values
  std::int64_t tokens = 0;          // that fit, a multiple of kCapacityStep; may exceed what the model knows
  std::uint64_t cache_bytes = 0;    // with so many
};

struct Capacity {
  std::uint64_t memory_bytes = 0;
  std::string memory;                        // whose: "GPU, free before the model was loaded"
  std::int64_t context = 0;                  // that the backend was made for
  std::vector<CapacityPart> parts;           // with that context and the present formats
  std::uint64_t left_bytes = 0;              // for keys and values: memory less all other parts; 0: less than nothing
  std::uint64_t beside_planned = 0;          // planned parts that no buffer answers for one by one: work space, graphs
  std::optional<std::uint64_t> beside_held;  // what the device says is used beside the others
  std::vector<CapacityRow> rows;             // by bytes a token, most first
  std::int64_t model_tokens = 0;             // positions that the model was made for

  [[nodiscard]] std::uint64_t planned_bytes() const;
};

inline constexpr std::int64_t kCapacityStep = 64;

// `memory_bytes`: what may be used in all; 0: what was free on the device before the backend was made, which a backend
// in the host's memory does not know. Throws Error (input): no memory named and none known; Error (invalid): a plan and
// what is held differ.
[[nodiscard]] Capacity measure_capacity(const engine::Backend& backend, std::uint64_t memory_bytes,
                                        const std::string& memory);

// "bf16", "fp8 keys, bf16 values".
[[nodiscard]] std::string to_text(const engine::EngineOptions::KeyValue& formats);

}  // namespace tare::profiles

// What `tare ceiling` says beside the floor itself: phases, roofline, capacity; as text, JSON and a figure.
#pragma once

#include <filesystem>

#include "base/json_reader.h"
#include "profiles/capacity.h"
#include "profiles/floor_phases.h"
#include "profiles/roofline.h"

namespace tare::harness {

void print_phases(const std::vector<profiles::FloorPhase>& phases, const profiles::PrefillFloor& prefill);
[[nodiscard]] Json phases_json(const std::vector<profiles::FloorPhase>& phases);
[[nodiscard]] Json prefill_json(const profiles::PrefillFloor& prefill);

void print_roofline(const profiles::Roofline& roofline);
[[nodiscard]] Json roofline_json(const profiles::Roofline& roofline);
void write_roofline_figure(const profiles::Roofline& roofline, const std::filesystem::path& file);

void print_capacity(const profiles::Capacity& capacity);
[[nodiscard]] Json capacity_json(const profiles::Capacity& capacity);

}  // namespace tare::harness

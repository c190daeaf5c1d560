// Names of tensors and parts, the same for all layers.
#pragma once

#include <string>

namespace tare::profiles {

// Every "layers.3." as "layers.*.".
[[nodiscard]] std::string without_layer_number(const std::string& name);

}  // namespace tare::profiles

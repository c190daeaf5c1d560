// Unicode normalisation form C (Unicode Standard Annex 15): canonical decomposition, canonical order, composition.
#pragma once

#include <string>
#include <string_view>

namespace tare::engine {

// `text` must be valid UTF-8.
[[nodiscard]] std::string normalize_nfc(std::string_view text);

}  // namespace tare::engine

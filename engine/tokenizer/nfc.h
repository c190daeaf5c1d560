// Unicode normalisation form C (Unicode Standard Annex 15): canonical decomposition, canonical order, composition; of
// Unicode 14. The `tokenizers` library (0.23) has the table of Unicode 9 and leaves the 98 combining marks added since
// where they stand, so texts with two marks on one letter, one of them that new and out of order, can differ.
#pragma once

#include <string>
#include <string_view>

namespace tare::engine {

// `text` must be valid UTF-8.
[[nodiscard]] std::string normalize_nfc(std::string_view text);

}  // namespace tare::engine

#include "profiles/layer_names.h"

#include <string_view>

namespace tare::profiles {

std::string without_layer_number(const std::string& name) {
  constexpr std::string_view kHead = "layers.";
  std::string result = name;
  for (std::size_t at = result.find(kHead); at != std::string::npos; at = result.find(kHead, at + 1)) {
    const std::size_t begin = at + kHead.size();
    const std::size_t end = result.find_first_not_of("0123456789", begin);
    if (end != std::string::npos && end > begin && result[end] == '.') result.replace(begin, end - begin, "*");
  }
  return result;
}

}  // namespace tare::profiles

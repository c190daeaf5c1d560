// A format policy with E4M3 scales of groups in place of FP16 ones.
#pragma once

#include "engine/formats/weight_format.h"

namespace tare::engine {

template <class Format>
struct WithE4M3Scales : Format {
  static constexpr ScaleFormat kScales = ScaleFormat::kE4M3;
};

}  // namespace tare::engine

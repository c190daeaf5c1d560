// The encoder's conversions (engine/cuda/weights/encode_group.cuh), one number a thread, for encode_test.cpp.
#pragma once

#include <cstdint>

namespace tare::engine::test {

// Device memory: e4m3[i] and e2m1[i] of values[i], scales[i] of a group whose absmax / most_code is |values[i]|.
void launch_conversions(const float* values, std::int64_t count, std::uint8_t* e4m3, std::uint8_t* e2m1,
                        std::uint16_t* scales);

}  // namespace tare::engine::test

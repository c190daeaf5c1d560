#include "engine/cpu/state_store.h"

#include <algorithm>

namespace tare::engine {

StateStore::StateStore(StateFormat format, std::int64_t heads, std::int64_t rows, std::int64_t stride)
    : format_(format),
      stride_(stride),
      head_bytes_(state_bytes_of(format, rows, stride)),
      data_(static_cast<std::size_t>(heads * head_bytes_)) {}

float* StateStore::in_place(std::int64_t head) {
  return format_ == StateFormat::kFP32 ? reinterpret_cast<float*>(data_.data() + head * head_bytes_) : nullptr;
}

const float* StateStore::in_place(std::int64_t head) const {
  return format_ == StateFormat::kFP32 ? reinterpret_cast<const float*>(data_.data() + head * head_bytes_) : nullptr;
}

void StateStore::clear() {
  std::fill_n(data_.data(), data_.size(), std::byte{0});  // zeros in every format
}

void StateStore::load(std::int64_t head, std::span<float> state) const {
  decode_state(format_, {data_.data() + head * head_bytes_, static_cast<std::size_t>(head_bytes_)}, stride_, state);
}

void StateStore::store(std::int64_t head, std::span<const float> state) {
  encode_state(format_, state, stride_, {data_.data() + head * head_bytes_, static_cast<std::size_t>(head_bytes_)});
}

}  // namespace tare::engine

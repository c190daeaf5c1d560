#include "engine/cpu/kv_cache.h"

#include <array>

#include "engine/cpu/kv_layout.h"
#include "engine/formats/float_formats.h"

namespace tare::engine {
namespace {

void store_element(float* place, float value) {
  *place = value;
}
void store_element(std::uint16_t* place, float value) {
  *place = float_to_bfloat16(value);
}

}  // namespace

KvCache::KvCache(const ModelConfig& config, const EngineOptions::KeyValue& formats, std::int64_t capacity)
    : formats_(formats),
      heads_(config.key_value_heads),
      head_dim_(config.head_dim),
      key_channels_(round_up(config.head_dim, kKeyChannelPadding)),
      value_channels_(round_up(config.head_dim, kValueChannelPadding)),
      capacity_(round_up(capacity, kKeyBlock)),
      keys_(allocate(formats.key, heads_ * capacity_ * key_channels_)),
      values_(allocate(formats.value, heads_ * capacity_ * value_channels_)) {}

KvCache::Storage KvCache::allocate(CacheFormat format, std::int64_t elements) {
  if (format == CacheFormat::kFP32) return AlignedBuffer<float>(static_cast<std::size_t>(elements));
  return AlignedBuffer<std::uint16_t>(static_cast<std::size_t>(elements));
}

void KvCache::store(std::int64_t head, std::int64_t position, const float* key, const float* value) {
  const std::int64_t block = (head * capacity_ + position / kKeyBlock * kKeyBlock) * key_channels_;
  std::visit(
      [&](auto& keys) {
        auto* place = keys.data() + block + position % kKeyBlock;
        for (std::int64_t i = 0; i < head_dim_; ++i) store_element(place + i * kKeyBlock, key[i]);
      },
      keys_);
  std::visit(
      [&](auto& values) {
        auto* place = values.data() + (head * capacity_ + position) * value_channels_;
        for (std::int64_t i = 0; i < head_dim_; ++i) store_element(place + i, value[i]);
      },
      values_);
}

void KvCache::attend_range(const AttentionKernels& kernels, std::int64_t head, std::span<const float* const> queries,
                           std::int64_t begin, std::int64_t end, float scale, std::span<float* const> scores,
                           std::span<float* const> out) const {
  const auto query_count = static_cast<std::int64_t>(queries.size());
  const std::int64_t skipped = begin % kKeyBlock;  // keys come in whole blocks: scores before `begin` are left aside
  const std::int64_t first_key = (head * capacity_ + begin - skipped) * key_channels_;
  if (const auto* keys = std::get_if<AlignedBuffer<float>>(&keys_)) {
    kernels.scores_fp32(queries.data(), query_count, keys->data() + first_key, head_dim_, end - begin + skipped, scale,
                        scores.data());
  } else {
    kernels.scores_bf16(queries.data(), query_count, std::get<AlignedBuffer<std::uint16_t>>(keys_).data() + first_key,
                        head_dim_, end - begin + skipped, scale, scores.data());
  }
  std::array<float, kMostQueries> factors{};
  std::array<float*, kMostQueries> weights{};
  for (std::size_t i = 0; i < queries.size(); ++i) {
    weights[i] = scores[i] + skipped;
    factors[i] = 1.0F / kernels.exponentiate(weights[i], end - begin);
  }
  const std::int64_t first_value = (head * capacity_ + begin) * value_channels_;
  if (const auto* values = std::get_if<AlignedBuffer<float>>(&values_)) {
    kernels.weighted_values_fp32(weights.data(), query_count, values->data() + first_value, head_dim_, end - begin,
                                 factors.data(), out.data());
  } else {
    kernels.weighted_values_bf16(weights.data(), query_count,
                                 std::get<AlignedBuffer<std::uint16_t>>(values_).data() + first_value, head_dim_,
                                 end - begin, factors.data(), out.data());
  }
}

std::uint64_t KvCache::bytes(std::int64_t positions) const {
  const auto element_bytes = [](const Storage& storage) {
    return std::visit([](const auto& buffer) { return static_cast<std::int64_t>(sizeof(*buffer.data())); }, storage);
  };
  return static_cast<std::uint64_t>(positions * heads_ *
                                    (key_channels_ * element_bytes(keys_) + value_channels_ * element_bytes(values_)));
}

std::uint64_t KvCache::resident_bytes() const {
  return bytes(capacity_);
}

std::string KvCache::format() const {
  const std::string key = to_text(formats_.key);
  const std::string value = to_text(formats_.value);
  return key == value ? key : key + " keys, " + value + " values";
}

}  // namespace tare::engine

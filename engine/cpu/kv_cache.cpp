#include "engine/cpu/kv_cache.h"

#include <algorithm>
#include <array>
#include <type_traits>

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

std::uint64_t kv_cache_bytes(const ModelConfig& config, const EngineOptions::KeyValue& formats,
                             std::int64_t positions) {
  const auto element_bytes = [](CacheFormat format) {
    return static_cast<std::int64_t>(format == CacheFormat::kFP32 ? sizeof(float) : sizeof(std::uint16_t));
  };
  const std::int64_t a_position = round_up(config.head_dim, kKeyChannelPadding) * element_bytes(formats.key) +
                                  round_up(config.head_dim, kValueChannelPadding) * element_bytes(formats.value);
  return static_cast<std::uint64_t>(round_up(positions, kKeyBlock) * config.key_value_heads * a_position);
}

KvCache::KvCache(const ModelConfig& config, const EngineOptions::KeyValue& formats, std::int64_t capacity)
    : formats_(formats),
      heads_(config.key_value_heads),
      head_dim_(config.head_dim),
      key_channels_(round_up(config.head_dim, kKeyChannelPadding)),
      value_channels_(round_up(config.head_dim, kValueChannelPadding)),
      past_(allocate_rows(capacity)),
      nodes_(allocate_rows(0)) {}

KvCache::Storage KvCache::allocate(CacheFormat format, std::int64_t elements) {
  if (format == CacheFormat::kFP32) return AlignedBuffer<float>(static_cast<std::size_t>(elements));
  return AlignedBuffer<std::uint16_t>(static_cast<std::size_t>(elements));
}

KvCache::Rows KvCache::allocate_rows(std::int64_t count) const {
  const std::int64_t capacity = round_up(count, kKeyBlock);
  return {capacity, allocate(formats_.key, heads_ * capacity * key_channels_),
          allocate(formats_.value, heads_ * capacity * value_channels_)};
}

// Of a key's first channel; the next one lies kKeyBlock elements further.
std::int64_t KvCache::key_place(const Rows& rows, std::int64_t head, std::int64_t row) const {
  return (head * rows.capacity + row / kKeyBlock * kKeyBlock) * key_channels_ + row % kKeyBlock;
}

std::int64_t KvCache::value_place(const Rows& rows, std::int64_t head, std::int64_t row) const {
  return (head * rows.capacity + row) * value_channels_;
}

void KvCache::store_row(Rows& rows, std::int64_t head, std::int64_t row, const float* key, const float* value) const {
  std::visit(
      [&](auto& keys) {
        auto* place = keys.data() + key_place(rows, head, row);
        for (std::int64_t i = 0; i < head_dim_; ++i) store_element(place + i * kKeyBlock, key[i]);
      },
      rows.keys);
  std::visit(
      [&](auto& values) {
        auto* place = values.data() + value_place(rows, head, row);
        for (std::int64_t i = 0; i < head_dim_; ++i) store_element(place + i, value[i]);
      },
      rows.values);
}

void KvCache::store(std::int64_t head, std::int64_t position, const float* key, const float* value) {
  store_row(past_, head, position, key, value);
}

void KvCache::reserve_nodes(std::int64_t count) {
  if (count > nodes_.capacity) nodes_ = allocate_rows(count);
}

void KvCache::store_node(std::int64_t head, std::int64_t node, const float* key, const float* value) {
  store_row(nodes_, head, node, key, value);
}

void KvCache::keep_path(std::span<const std::int32_t> path, std::int64_t position) {
  for (std::int64_t head = 0; head < heads_; ++head)
    for (std::size_t i = 0; i < path.size(); ++i) {
      const std::int64_t kept = position + static_cast<std::int64_t>(i);
      std::visit(
          [&](auto& keys) {
            const auto* from =
                std::get<std::decay_t<decltype(keys)>>(nodes_.keys).data() + key_place(nodes_, head, path[i]);
            auto* to = keys.data() + key_place(past_, head, kept);
            for (std::int64_t c = 0; c < head_dim_; ++c) to[c * kKeyBlock] = from[c * kKeyBlock];
          },
          past_.keys);
      std::visit(
          [&](auto& values) {
            const auto& nodes = std::get<std::decay_t<decltype(values)>>(nodes_.values);
            std::copy_n(nodes.data() + value_place(nodes_, head, path[i]), head_dim_,
                        values.data() + value_place(past_, head, kept));
          },
          past_.values);
    }
}

void KvCache::score(const AttentionKernels& kernels, const Rows& rows, std::int64_t head,
                    std::span<const float* const> queries, std::int64_t first, std::int64_t count, float scale,
                    float* const* scores) const {
  const auto query_count = static_cast<std::int64_t>(queries.size());
  const std::int64_t place = key_place(rows, head, first);
  if (const auto* keys = std::get_if<AlignedBuffer<float>>(&rows.keys)) {
    kernels.scores_fp32(queries.data(), query_count, keys->data() + place, head_dim_, count, scale, scores);
  } else {
    kernels.scores_bf16(queries.data(), query_count, std::get<AlignedBuffer<std::uint16_t>>(rows.keys).data() + place,
                        head_dim_, count, scale, scores);
  }
}

void KvCache::weigh(const AttentionKernels& kernels, std::int64_t head, std::span<const float* const> weights,
                    std::int64_t first, std::int64_t count, std::span<const std::int32_t> path, const float* factors,
                    float* const* out) const {
  const auto query_count = static_cast<std::int64_t>(weights.size());
  const auto tail_count = static_cast<std::int64_t>(path.size());
  const std::int64_t place = value_place(past_, head, first);
  const std::int64_t node_place = value_place(nodes_, head, 0);
  if (const auto* values = std::get_if<AlignedBuffer<float>>(&past_.values)) {
    const auto& nodes = std::get<AlignedBuffer<float>>(nodes_.values);
    kernels.weighted_values_fp32(weights.data(), query_count, values->data() + place, head_dim_, count,
                                 {nodes.data() + node_place, path.data(), tail_count}, factors, out);
  } else {
    const auto& narrow = std::get<AlignedBuffer<std::uint16_t>>(past_.values);
    const auto& nodes = std::get<AlignedBuffer<std::uint16_t>>(nodes_.values);
    kernels.weighted_values_bf16(weights.data(), query_count, narrow.data() + place, head_dim_, count,
                                 {nodes.data() + node_place, path.data(), tail_count}, factors, out);
  }
}

void KvCache::attend_range(const AttentionKernels& kernels, std::int64_t head, std::span<const float* const> queries,
                           std::int64_t begin, std::int64_t end, float scale, std::span<float* const> scores,
                           std::span<float* const> out) const {
  const std::int64_t skipped = begin % kKeyBlock;  // keys come in whole blocks: scores before `begin` are left aside
  score(kernels, past_, head, queries, begin - skipped, end - begin + skipped, scale, scores.data());
  std::array<float, kMostQueries> factors{};
  std::array<const float*, kMostQueries> weights{};
  for (std::size_t i = 0; i < queries.size(); ++i) {
    factors[i] = 1.0F / kernels.exponentiate(scores[i] + skipped, end - begin);
    weights[i] = scores[i] + skipped;
  }
  weigh(kernels, head, std::span(weights).first(queries.size()), begin, end - begin, {}, factors.data(), out.data());
}

void KvCache::attend_path(const AttentionKernels& kernels, std::int64_t head, std::span<const float* const> queries,
                          std::int64_t count, std::span<const std::int32_t> path, float scale,
                          std::span<float* const> scores, std::span<float* const> node_scores,
                          std::span<float* const> out) const {
  score(kernels, past_, head, queries, 0, count, scale, scores.data());
  score(kernels, nodes_, head, queries, 0, path.back() + 1, scale, node_scores.data());
  std::array<float, kMostQueries> factors{};
  std::array<const float*, kMostQueries> weights{};
  for (std::size_t i = 0; i < queries.size(); ++i) {
    for (std::size_t n = 0; n < path.size(); ++n)
      scores[i][count + static_cast<std::int64_t>(n)] = node_scores[i][path[n]];
    factors[i] = 1.0F / kernels.exponentiate(scores[i], count + static_cast<std::int64_t>(path.size()));
    weights[i] = scores[i];
  }
  weigh(kernels, head, std::span(weights).first(queries.size()), 0, count, path, factors.data(), out.data());
}

std::uint64_t KvCache::bytes(std::int64_t positions) const {
  const auto element_bytes = [](const Storage& storage) {
    return std::visit([](const auto& buffer) { return static_cast<std::int64_t>(sizeof(*buffer.data())); }, storage);
  };
  return static_cast<std::uint64_t>(
      positions * heads_ * (key_channels_ * element_bytes(past_.keys) + value_channels_ * element_bytes(past_.values)));
}

std::uint64_t KvCache::resident_bytes() const {
  const auto bytes_of = [](const Storage& storage) {
    return std::visit([](const auto& buffer) { return static_cast<std::uint64_t>(buffer.bytes()); }, storage);
  };
  return bytes_of(past_.keys) + bytes_of(past_.values);
}

std::string KvCache::format() const {
  const std::string key = to_text(formats_.key);
  const std::string value = to_text(formats_.value);
  return key == value ? key : key + " keys, " + value + " values";
}

}  // namespace tare::engine

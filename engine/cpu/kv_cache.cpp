#include "engine/cpu/kv_cache.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/formats/cache_blocks.h"
#include "engine/formats/float_formats.h"

namespace tare::engine {
namespace {

// Where the cells of a row begin, and how many bytes lie from one to the next.
struct RowPlace {
  std::byte* codes;
  std::int64_t code_step;
  std::byte* scales;
  std::int64_t scale_step;
};

RowPlace key_place(AlignedBuffer<std::byte>& codes, AlignedBuffer<std::byte>& scales, const RowCells& cells,
                   std::int64_t row) {
  const std::int64_t block = row / kKeyBlock * kKeyBlock;
  const std::int64_t within = row % kKeyBlock;
  return {codes.data() + block * cells.codes_size() + within * cells.code_bytes, kKeyBlock * cells.code_bytes,
          scales.data() + block * cells.scales_size() + within * cells.scale_bytes, kKeyBlock * cells.scale_bytes};
}

RowPlace value_place(AlignedBuffer<std::byte>& codes, AlignedBuffer<std::byte>& scales, const RowCells& cells,
                     std::int64_t row) {
  return {codes.data() + row * cells.codes_size(), cells.code_bytes, scales.data() + row * cells.scales_size(),
          cells.scale_bytes};
}

template <class Cell>
void put(std::byte* cells, std::int64_t step, std::int64_t index, Cell cell) {
  std::memcpy(cells + index * step, &cell, sizeof(cell));
}

// The cell and the half of it (0 low, 1 high) in which an E2M1 code of a channel lies.
struct NibblePlace {
  std::int64_t cell;
  int half;
};
NibblePlace nibble_place(bool is_key, std::int64_t channel) {
  if (is_key) return {channel / 2, static_cast<int>(channel % 2)};
  const std::int64_t within = channel % kNVFP4Block;
  constexpr std::int64_t kHalf = kNVFP4Block / 2;
  return {channel / kNVFP4Block * kHalf + within % kHalf, static_cast<int>(within / kHalf)};
}

// Calls encode(first element, its block) for the blocks of a row.
template <std::int64_t kBlock, class Encode>
void for_blocks(std::span<const float> row, Encode encode) {
  for (std::size_t begin = 0; begin < row.size(); begin += kBlock)
    encode(static_cast<std::int64_t>(begin),
           row.subspan(begin, std::min(row.size() - begin, static_cast<std::size_t>(kBlock))));
}

void store_int8(const RowPlace& place, std::span<const float> row) {
  std::array<std::int8_t, kInt8Block> codes{};
  for_blocks<kInt8Block>(row, [&](std::int64_t first, std::span<const float> block) {
    put(place.scales, place.scale_step, first / kInt8Block,
        encode_int8_block(block, std::span(codes).first(block.size())));
    for (std::size_t i = 0; i < block.size(); ++i)
      put(place.codes, place.code_step, first + static_cast<std::int64_t>(i), codes[i]);
  });
}

void store_nvfp4(const RowPlace& place, bool is_key, std::span<const float> row) {
  std::array<std::uint8_t, kNVFP4Block> codes{};
  for_blocks<kNVFP4Block>(row, [&](std::int64_t first, std::span<const float> block) {
    put(place.scales, place.scale_step, first / kNVFP4Block,
        encode_nvfp4_block(block, std::span(codes).first(block.size())));
    for (std::size_t i = 0; i < block.size(); ++i) {
      const NibblePlace at = nibble_place(is_key, first + static_cast<std::int64_t>(i));
      auto* byte = reinterpret_cast<std::uint8_t*>(place.codes + at.cell * place.code_step);
      const unsigned kept = *byte & (at.half == 0 ? 0xF0U : 0x0FU);
      *byte = static_cast<std::uint8_t>(kept | static_cast<unsigned>(codes[i]) << (4 * at.half));
    }
  });
}

void store_as(CacheFormat format, const RowPlace& place, bool is_key, std::span<const float> row) {
  const auto size = static_cast<std::int64_t>(row.size());
  const auto each = [&](auto encode) {
    for (std::int64_t i = 0; i < size; ++i)
      put(place.codes, place.code_step, i, encode(row[static_cast<std::size_t>(i)]));
  };
  switch (format) {
    case CacheFormat::kFP32:
      return each([](float value) { return value; });
    case CacheFormat::kBF16:
      return each(float_to_bfloat16);
    case CacheFormat::kFP8:
      return each(float_to_e4m3);
    case CacheFormat::kInt8:
      return store_int8(place, row);
    case CacheFormat::kNVFP4:
      return store_nvfp4(place, is_key, row);
  }
}

void copy_row(const RowCells& cells, const RowPlace& from, const RowPlace& to) {
  for (std::int64_t i = 0; i < cells.codes; ++i)
    std::memcpy(to.codes + i * to.code_step, from.codes + i * from.code_step,
                static_cast<std::size_t>(cells.code_bytes));
  for (std::int64_t i = 0; i < cells.scales; ++i)
    std::memcpy(to.scales + i * to.scale_step, from.scales + i * from.scale_step,
                static_cast<std::size_t>(cells.scale_bytes));
}

}  // namespace

std::uint64_t kv_cache_bytes(const ModelConfig& config, const EngineOptions::KeyValue& formats,
                             std::int64_t positions) {
  const std::int64_t a_position =
      key_cells(formats.key, config.head_dim).bytes() + value_cells(formats.value, config.head_dim).bytes();
  return static_cast<std::uint64_t>(round_up(positions, kKeyBlock) * config.key_value_heads * a_position);
}

KvCache::KvCache(const ModelConfig& config, const EngineOptions::KeyValue& formats, std::int64_t capacity)
    : formats_(formats),
      heads_(config.key_value_heads),
      head_dim_(config.head_dim),
      key_(key_cells(formats.key, config.head_dim)),
      value_(value_cells(formats.value, config.head_dim)),
      past_(allocate_rows(capacity)),
      nodes_(allocate_rows(0)) {}

KvCache::Rows KvCache::allocate_rows(std::int64_t count) const {
  const std::int64_t capacity = round_up(count, kKeyBlock);
  const auto bytes = [&](std::int64_t a_row) { return Bytes(static_cast<std::size_t>(heads_ * capacity * a_row)); };
  return {capacity, bytes(key_.codes_size()), bytes(key_.scales_size()), bytes(value_.codes_size()),
          bytes(value_.scales_size())};
}

CacheRows KvCache::keys(const Rows& rows, std::int64_t head, std::int64_t row) const {
  const std::int64_t first = head * rows.capacity + row / kKeyBlock * kKeyBlock;
  return {formats_.key, rows.keys.data() + first * key_.codes_size(),
          rows.key_scales.data() + first * key_.scales_size()};
}

CacheRows KvCache::values(const Rows& rows, std::int64_t head, std::int64_t row) const {
  const std::int64_t first = head * rows.capacity + row;
  return {formats_.value, rows.values.data() + first * value_.codes_size(),
          rows.value_scales.data() + first * value_.scales_size()};
}

void KvCache::store_row(Rows& rows, std::int64_t head, std::int64_t row, const float* key, const float* value) const {
  const auto size = static_cast<std::size_t>(head_dim_);
  const std::int64_t at = head * rows.capacity + row;  // a head's rows are whole key blocks
  store_as(formats_.key, key_place(rows.keys, rows.key_scales, key_, at), true, {key, size});
  store_as(formats_.value, value_place(rows.values, rows.value_scales, value_, at), false, {value, size});
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
      const std::int64_t from = head * nodes_.capacity + path[i];
      const std::int64_t to = head * past_.capacity + position + static_cast<std::int64_t>(i);
      copy_row(key_, key_place(nodes_.keys, nodes_.key_scales, key_, from),
               key_place(past_.keys, past_.key_scales, key_, to));
      copy_row(value_, value_place(nodes_.values, nodes_.value_scales, value_, from),
               value_place(past_.values, past_.value_scales, value_, to));
    }
}

void KvCache::export_rows(std::int64_t first, std::int64_t last, ByteWriter& bytes) const {
  Rows& past = const_cast<Rows&>(past_);  // places are of rows that may be written; these are only read
  for (std::int64_t head = 0; head < heads_; ++head)
    for (std::int64_t row = head * past.capacity + first; row < head * past.capacity + last; ++row) {
      const auto append = [&](const RowCells& cells, const RowPlace& from) {
        std::byte* codes = bytes.grow(static_cast<std::size_t>(cells.bytes()));
        copy_row(cells, from, {codes, cells.code_bytes, codes + cells.codes_size(), cells.scale_bytes});
      };
      append(key_, key_place(past.keys, past.key_scales, key_, row));
      append(value_, value_place(past.values, past.value_scales, value_, row));
    }
}

void KvCache::import_rows(std::int64_t first, std::int64_t last, ByteReader& bytes) {
  for (std::int64_t head = 0; head < heads_; ++head)
    for (std::int64_t row = head * past_.capacity + first; row < head * past_.capacity + last; ++row) {
      const auto read = [&](const RowCells& cells, const RowPlace& to) {
        // copy_row reads from where it could write as well.
        auto* codes = const_cast<std::byte*>(bytes.take(static_cast<std::size_t>(cells.bytes())));
        copy_row(cells, {codes, cells.code_bytes, codes + cells.codes_size(), cells.scale_bytes}, to);
      };
      read(key_, key_place(past_.keys, past_.key_scales, key_, row));
      read(value_, value_place(past_.values, past_.value_scales, value_, row));
    }
}

void KvCache::score(const AttentionKernels& kernels, const Rows& rows, std::int64_t head,
                    std::span<const float* const> queries, std::int64_t first, std::int64_t count, float scale,
                    float* const* scores) const {
  kernels.scores(queries.data(), static_cast<std::int64_t>(queries.size()), keys(rows, head, first), head_dim_, count,
                 scale, scores);
}

void KvCache::weigh(const AttentionKernels& kernels, std::int64_t head, std::span<const float* const> weights,
                    std::int64_t first, std::int64_t count, std::span<const std::int32_t> path, const float* factors,
                    float* const* out) const {
  kernels.weighted_values(weights.data(), static_cast<std::int64_t>(weights.size()), values(past_, head, first),
                          head_dim_, count,
                          {values(nodes_, head, 0), path.data(), static_cast<std::int64_t>(path.size())}, factors, out);
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
  return static_cast<std::uint64_t>(positions * heads_ * (key_.bytes() + value_.bytes()));
}

std::uint64_t KvCache::resident_bytes() const {
  return past_.keys.bytes() + past_.key_scales.bytes() + past_.values.bytes() + past_.value_scales.bytes();
}

std::string KvCache::format() const {
  const std::string key = to_text(formats_.key);
  const std::string value = to_text(formats_.value);
  const std::string formats = key == value ? key : key + " keys, " + value + " values";
  return formats_.rotation == KeyRotation::kNone ? formats : formats + ", rotated";
}

}  // namespace tare::engine

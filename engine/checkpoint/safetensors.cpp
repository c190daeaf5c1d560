#include "engine/checkpoint/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/json_reader.h"

namespace tare::engine {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // the limit of the format's own reader
constexpr std::size_t kAlignment = 8;
constexpr const char* kMetadataKey = "__metadata__";
constexpr const char* kDamagedHint = "the file is damaged or incomplete; copy or download it again";

std::string tensor_place(const std::filesystem::path& path, const std::string& name) {
  return fmt::format("{}: tensor '{}'", path.string(), name);
}

// A non-negative integer of the header; JSON floats, negative and other values are refused.
std::uint64_t unsigned_of(const SortedJson& value, const std::string& where, const std::string& field) {
  if (!value.is_number_unsigned())
    throw input_error(where, fmt::format("{} must be a non-negative integer, is {}", field, brief_json(value)),
                      kDamagedHint);
  return value.get<std::uint64_t>();
}

// bits of the data; absent when the product does not fit 63 bits.
std::optional<std::uint64_t> bits_of(const std::vector<std::int64_t>& shape, Dtype dtype) {
  std::uint64_t bits = dtype_bits(dtype);
  for (const std::int64_t extent : shape)
    if (extent == 0) return 0;
  for (const std::int64_t extent : shape) {
    if (bits >
        static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / static_cast<std::uint64_t>(extent))
      return std::nullopt;
    bits *= static_cast<std::uint64_t>(extent);
  }
  return bits;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path), file_(std::make_shared<const MappedFile>(path)) {
  const std::span<const std::byte> bytes = file_->bytes();
  if (bytes.empty()) throw input_error(path_.string(), "is empty, not a safetensors file", kDamagedHint);
  if (bytes.size() < kLengthBytes)
    throw input_error(path_.string(), fmt::format("has {} bytes, too few for a safetensors file", bytes.size()),
                      kDamagedHint);
  for (std::size_t i = 0; i < kLengthBytes; ++i) header_length_ |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  if (header_length_ > kMostHeaderBytes)
    throw input_error(path_.string(),
                      fmt::format("claims a header of {} bytes, more than the format's limit of {}", header_length_,
                                  kMostHeaderBytes),
                      "this is not a safetensors file, or it is damaged");
  if (header_length_ > bytes.size() - kLengthBytes)
    throw input_error(path_.string(),
                      fmt::format("claims a header of {} bytes, but the file has {}", header_length_, bytes.size()),
                      kDamagedHint);
  read_header();
  check_coverage();
}

std::span<const std::byte> SafetensorsFile::header_bytes() const {
  return file_->bytes().subspan(kLengthBytes, header_length_);
}

std::span<const std::byte> SafetensorsFile::data_bytes() const {
  return file_->bytes().subspan(kLengthBytes + header_length_);
}

void SafetensorsFile::read_header() {
  const std::string place = path_.string() + ": header";
  const SortedJson header = parse_sorted_json(text_of(header_bytes()), place);
  if (!header.is_object()) throw input_error(place, fmt::format("must be an object, is {}", header.type_name()));
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadataKey) {
      if (!value.is_object()) throw input_error(place, "__metadata__ must be an object of texts");
      for (const auto& [key, text] : value.items()) {
        if (!text.is_string()) throw input_error(place, fmt::format("__metadata__.{} must be a text", key));
        metadata_.emplace(key, text.get<std::string>());
      }
      continue;
    }
    const std::string where = tensor_place(path_, name);
    if (!value.is_object()) throw input_error(where, "must be an object in the header", kDamagedHint);
    for (const char* field : {"dtype", "shape", "data_offsets"})
      if (!value.contains(field)) throw input_error(where, fmt::format("has no {}", field), kDamagedHint);
    Entry entry{};
    const SortedJson& dtype = value["dtype"];
    const std::optional<Dtype> known =
        dtype.is_string() ? dtype_from_name(dtype.get_ref<const std::string&>()) : std::nullopt;
    if (!known) throw input_error(where, fmt::format("unknown dtype {}", brief_json(dtype)));
    entry.dtype = *known;
    const SortedJson& shape = value["shape"];
    if (!shape.is_array()) throw input_error(where, "shape must be an array", kDamagedHint);
    for (const SortedJson& extent : shape) {
      const std::uint64_t size = unsigned_of(extent, where, "shape");
      if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        throw input_error(where, fmt::format("shape overflows: extent {}", size), kDamagedHint);
      entry.shape.push_back(static_cast<std::int64_t>(size));
    }
    const SortedJson& offsets = value["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2)
      throw input_error(where, "data_offsets must be two integers", kDamagedHint);
    entry.begin = unsigned_of(offsets[0], where, "data_offsets");
    entry.end = unsigned_of(offsets[1], where, "data_offsets");
    const std::uint64_t data_size = data_bytes().size();
    if (entry.begin > entry.end)
      throw input_error(where, fmt::format("data_offsets [{}, {}] run backwards", entry.begin, entry.end),
                        kDamagedHint);
    if (entry.end > data_size)
      throw input_error(where,
                        fmt::format("data_offsets [{}, {}] end beyond the file's {} bytes of data", entry.begin,
                                    entry.end, data_size),
                        "the file is truncated; copy or download it again");
    const std::optional<std::uint64_t> bits = bits_of(entry.shape, entry.dtype);
    if (!bits)
      throw input_error(where, fmt::format("shape overflows: [{}]", fmt::join(entry.shape, ", ")), kDamagedHint);
    if (*bits % 8 != 0 || *bits / 8 != entry.end - entry.begin)
      throw input_error(where,
                        fmt::format("has {} bytes, but {} [{}] needs {} bits", entry.end - entry.begin,
                                    dtype_name(entry.dtype), fmt::join(entry.shape, ", "), *bits),
                        kDamagedHint);
    entries_.emplace(name, std::move(entry));
  }
}

void SafetensorsFile::check_coverage() const {
  std::uint64_t covered = 0;
  std::string previous;
  for (const std::string& name : names()) {
    const Entry& entry = entries_.at(name);
    if (entry.begin < covered)
      throw input_error(tensor_place(path_, name), fmt::format("overlaps tensor '{}'", previous), kDamagedHint);
    if (entry.begin > covered)
      throw input_error(tensor_place(path_, name),
                        fmt::format("leaves a gap of {} bytes before it", entry.begin - covered), kDamagedHint);
    covered = entry.end;
    previous = name;
  }
  if (covered != data_bytes().size())
    throw input_error(path_.string(), fmt::format("has {} bytes after the last tensor", data_bytes().size() - covered),
                      kDamagedHint);
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> ordered;
  for (const auto& [name, entry] : entries_) ordered.push_back(name);
  std::stable_sort(ordered.begin(), ordered.end(), [&](const std::string& a, const std::string& b) {
    const Entry& left = entries_.at(a);
    const Entry& right = entries_.at(b);
    return std::pair(left.begin, left.end) < std::pair(right.begin, right.end);
  });
  return ordered;
}

Tensor SafetensorsFile::tensor(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw input_error(path_.string(), fmt::format("has no tensor '{}'", name));
  const Entry& entry = found->second;
  return {name, entry.dtype, entry.shape, data_bytes().subspan(entry.begin, entry.end - entry.begin), file_};
}

void write_safetensors(const std::filesystem::path& path, std::span<const Tensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<const Tensor*> ordered;
  for (const Tensor& tensor : tensors) ordered.push_back(&tensor);
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const Tensor* a, const Tensor* b) { return dtype_bits(a->dtype) > dtype_bits(b->dtype); });
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  std::set<std::string> written;
  std::uint64_t offset = 0;
  for (const Tensor* tensor : ordered) {
    const std::optional<std::uint64_t> bits = bits_of(tensor->shape, tensor->dtype);
    if (!bits || *bits % 8 != 0 || *bits / 8 != tensor->bytes.size())
      throw internal_error(fmt::format("tensor '{}' has bytes that do not match its shape", tensor->name));
    if (tensor->name == kMetadataKey || !written.insert(tensor->name).second)
      throw internal_error(fmt::format("tensor '{}' cannot be written twice", tensor->name));
    header[tensor->name] = {{"dtype", dtype_name(tensor->dtype)},
                            {"shape", tensor->shape},
                            {"data_offsets", {offset, offset + tensor->bytes.size()}}};
    offset += tensor->bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  std::string length(kLengthBytes, '\0');
  for (std::size_t i = 0; i < kLengthBytes; ++i) length[i] = static_cast<char>((text.size() >> (8 * i)) & 0xFF);
  std::vector<std::string_view> pieces = {length, text};
  for (const Tensor* tensor : ordered) pieces.push_back(text_of(tensor->bytes));
  write_file_atomically(path, pieces);
}

}  // namespace tare::engine

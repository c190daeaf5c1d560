#include "engine/streamed/reference_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/json_reader.h"
#include "engine/checkpoint/safetensors.h"

namespace tare::engine {
namespace {

constexpr const char* kFormat = "tare-reference";
// A log-probability is a difference of two numbers of the size of the logits, rounded to FP32.
constexpr float kMostLogProbability = 1e-3F;

std::size_t size_of(std::int64_t a, std::int64_t b, std::int64_t c = 1) {
  return static_cast<std::size_t>(a * b * c);
}

template <class Element>
Tensor tensor_of(std::string name, Dtype dtype, std::vector<std::int64_t> shape, const std::vector<Element>& values) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.bytes = std::as_bytes(std::span(values));
  return tensor;
}

template <class Element>
std::vector<Element> read_tensor(const SafetensorsFile& file, const std::string& name, Dtype dtype,
                                 const std::vector<std::int64_t>& shape) {
  const Tensor tensor = file.tensor(name);
  const std::string where = fmt::format("{}: tensor '{}'", file.path().string(), name);
  if (tensor.dtype != dtype)
    throw input_error(where, fmt::format("must be {}, is {}", dtype_name(dtype), dtype_name(tensor.dtype)));
  if (tensor.shape != shape) {
    const auto text = [](const std::vector<std::int64_t>& extents) { return Json(extents).dump(); };
    throw input_error(where, fmt::format("has shape {}, must be {}", text(tensor.shape), text(shape)));
  }
  std::vector<Element> values(static_cast<std::size_t>(tensor.element_count()));
  if (!values.empty()) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

// Metadata of a safetensors file are texts.
class Metadata {
 public:
  explicit Metadata(const SafetensorsFile& file) : values_(file.metadata()), where_(file.path().string()) {}

  [[nodiscard]] std::string text(const std::string& key) const {
    const auto found = values_.find(key);
    if (found == values_.end())
      throw input_error(where_, fmt::format("its metadata have no '{}'", key), "write it again with tare reference");
    return found->second;
  }
  [[nodiscard]] std::int64_t integer(const std::string& key) const {
    const Json value = parse_json(text(key), place(key));
    if (!value.is_number_integer()) throw input_error(place(key), "must be an integer, is '" + text(key) + "'");
    return value.get<std::int64_t>();
  }
  [[nodiscard]] std::string place(const std::string& key) const {
    return fmt::format("{}: metadata '{}'", where_, key);
  }

 private:
  const std::map<std::string, std::string>& values_;
  std::string where_;
};

std::vector<ReferenceWindow> read_windows_of(const Metadata& metadata) {
  const std::string where = metadata.place("windows");
  const Json json = parse_json(metadata.text("windows"), where);
  if (!json.is_array()) throw input_error(where, "must be a JSON array");
  std::vector<ReferenceWindow> windows;
  for (const Json& element : json) {
    JsonReader reader(element, fmt::format("{}[{}]", where, windows.size()));
    windows.push_back({reader.text("id"), reader.text("kind")});
    reader.refuse_unknown_keys();
  }
  return windows;
}

// Where a check failed, for errors.
struct Place {
  const Reference& reference;
  const std::string& file;

  [[nodiscard]] Error error(std::int64_t window, std::int64_t position, const std::string& what) const {
    const ReferenceWindow& named = reference.windows[static_cast<std::size_t>(window)];
    return input_error(fmt::format("{}: window {} ('{}'), position {}", file, window, named.id, position), what);
  }
};

void check_finite(const Place& place, const char* name, const std::vector<float>& values, std::int64_t positions,
                  std::int64_t numbers) {
  const auto bad = std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  if (bad == values.end()) return;
  const std::int64_t position = (bad - values.begin()) / numbers;
  throw place.error(position / positions, position % positions, fmt::format("{} is {}", name, *bad));
}

void check_candidates(const Place& place, std::int64_t window, std::int64_t position) {
  const Reference& reference = place.reference;
  const std::span<const std::int32_t> ids = reference.ids_at(window, position);
  const std::span<const float> values = reference.log_probabilities_at(window, position);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= reference.vocab_size)
      throw place.error(window, position,
                        fmt::format("candidate {} is id {}, the vocabulary has {}", i, ids[i], reference.vocab_size));
    if (i == 0) continue;
    if (values[i] > values[i - 1])
      throw place.error(window, position,
                        fmt::format("candidates {} and {} are out of order: ids {} and {}, log-probabilities {} and {}",
                                    i - 1, i, ids[i - 1], ids[i], values[i - 1], values[i]));
  }
  if (!values.empty() && values[0] > kMostLogProbability)
    throw place.error(window, position, fmt::format("a log-probability is {}", values[0]));
  std::vector<std::int32_t> sorted(ids.begin(), ids.end());
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) throw place.error(window, position, fmt::format("id {} is a candidate twice", *twice));
}

void check_sizes(const Reference& reference, const std::string& where) {
  const std::int64_t windows = reference.window_count();
  const std::int64_t tokens = reference.window_tokens;
  const std::int64_t candidates = reference.candidates();
  const auto check = [&](const char* name, std::size_t found, std::size_t wanted) {
    if (found != wanted) throw input_error(where, fmt::format("{} holds {} numbers, needs {}", name, found, wanted));
  };
  if (windows < 1 || tokens < 1 || reference.vocab_size < 1)
    throw input_error(where, fmt::format("is a reference of {} windows of {} tokens of a vocabulary of {}", windows,
                                         tokens, reference.vocab_size));
  check("tokens", reference.tokens.size(), size_of(windows, tokens));
  check("top_ids", reference.top_ids.size(), size_of(windows, tokens, candidates));
  check("top_log_probabilities", reference.top_log_probabilities.size(), size_of(windows, tokens, candidates));
  check("log_sum_exp", reference.log_sum_exp.size(), size_of(windows, tokens));
  check("next_log_probability", reference.next_log_probability.size(), size_of(windows, tokens - 1));
}

}  // namespace

std::span<const std::int32_t> Reference::ids_at(std::int64_t window, std::int64_t position) const {
  const std::size_t begin = size_of(window * window_tokens + position, candidates());
  return std::span(top_ids).subspan(begin, static_cast<std::size_t>(candidates()));
}

std::span<const float> Reference::log_probabilities_at(std::int64_t window, std::int64_t position) const {
  const std::size_t begin = size_of(window * window_tokens + position, candidates());
  return std::span(top_log_probabilities).subspan(begin, static_cast<std::size_t>(candidates()));
}

Reference make_reference(std::vector<ReferenceWindow> windows, std::int64_t window_tokens, std::int64_t vocab_size) {
  if (windows.empty() || window_tokens < 1) throw input_error("windows", "there are none, or they have no tokens");
  Reference reference;
  reference.windows = std::move(windows);
  reference.window_tokens = window_tokens;
  reference.vocab_size = vocab_size;
  const std::int64_t count = reference.window_count();
  reference.tokens.resize(size_of(count, window_tokens));
  reference.top_ids.resize(size_of(count, window_tokens, reference.candidates()));
  reference.top_log_probabilities.resize(reference.top_ids.size());
  reference.log_sum_exp.resize(reference.tokens.size());
  reference.next_log_probability.resize(size_of(count, window_tokens - 1));
  return reference;
}

void check_reference(const Reference& reference, const std::string& where) {
  check_sizes(reference, where);
  const Place place{reference, where};
  const std::int64_t tokens = reference.window_tokens;
  check_finite(place, "log_sum_exp", reference.log_sum_exp, tokens, 1);
  check_finite(place, "a candidate's log-probability", reference.top_log_probabilities, tokens, reference.candidates());
  if (tokens > 1)
    check_finite(place, "the next token's log-probability", reference.next_log_probability, tokens - 1, 1);
  for (std::int64_t window = 0; window < reference.window_count(); ++window)
    for (std::int64_t position = 0; position < tokens; ++position) {
      const std::int32_t token = reference.tokens[size_of(window * tokens + position, 1)];
      if (token < 0 || token >= reference.vocab_size)
        throw place.error(window, position,
                          fmt::format("token {} is outside of the vocabulary of {}", token, reference.vocab_size));
      check_candidates(place, window, position);
    }
  for (std::size_t i = 0; i < reference.next_log_probability.size(); ++i)
    if (reference.next_log_probability[i] > kMostLogProbability) {
      const auto at = static_cast<std::int64_t>(i);
      throw place.error(at / (tokens - 1), at % (tokens - 1),
                        fmt::format("the next token's log-probability is {}", reference.next_log_probability[i]));
    }
  if (digest_tokens(reference.tokens) != reference.digests.tokens)
    throw input_error(where, "its tokens are not those that its digest names", "write it again with tare reference");
}

void write_reference(const std::filesystem::path& path, const Reference& reference) {
  check_reference(reference, path.string());
  const std::int64_t windows = reference.window_count();
  const std::int64_t tokens = reference.window_tokens;
  const std::int64_t candidates = reference.candidates();
  Json named = Json::array();
  for (const ReferenceWindow& window : reference.windows) named.push_back({{"id", window.id}, {"kind", window.kind}});
  const std::vector<Tensor> tensors = {
      tensor_of("tokens", Dtype::kI32, {windows, tokens}, reference.tokens),
      tensor_of("top_ids", Dtype::kI32, {windows, tokens, candidates}, reference.top_ids),
      tensor_of("top_log_probabilities", Dtype::kF32, {windows, tokens, candidates}, reference.top_log_probabilities),
      tensor_of("log_sum_exp", Dtype::kF32, {windows, tokens}, reference.log_sum_exp),
      tensor_of("next_log_probability", Dtype::kF32, {windows, tokens - 1}, reference.next_log_probability)};
  write_safetensors(path, tensors,
                    {{"format", kFormat},
                     {"version", std::to_string(kReferenceVersion)},
                     {"checkpoint", reference.digests.checkpoint},
                     {"tokenizer", reference.digests.tokenizer},
                     {"texts", reference.digests.texts},
                     {"tokens", reference.digests.tokens},
                     {"compute", reference.compute},
                     {"vocab_size", std::to_string(reference.vocab_size)},
                     {"windows", named.dump()}});
}

Reference read_reference(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  const Metadata metadata(file);
  if (const std::string format = metadata.text("format"); format != kFormat)
    throw input_error(path.string(), fmt::format("is of format '{}', not '{}'", format, kFormat));
  if (const std::int64_t version = metadata.integer("version"); version != kReferenceVersion)
    throw input_error(path.string(), fmt::format("has version {}, this program reads {}", version, kReferenceVersion),
                      "write it again with tare reference");
  const std::vector<std::int64_t> shape = file.tensor("tokens").shape;
  const std::vector<ReferenceWindow> windows = read_windows_of(metadata);
  if (shape.size() != 2 || shape[0] != static_cast<std::int64_t>(windows.size()) || shape[1] < 1 || windows.empty())
    throw input_error(path.string() + ": tensor 'tokens'",
                      fmt::format("has shape {}, the metadata name {} windows", Json(shape).dump(), windows.size()));
  const std::int64_t vocab_size = metadata.integer("vocab_size");
  if (vocab_size < 1) throw input_error(metadata.place("vocab_size"), "must be positive");
  Reference reference;
  reference.digests = {metadata.text("checkpoint"), metadata.text("tokenizer"), metadata.text("texts"),
                       metadata.text("tokens")};
  reference.compute = metadata.text("compute");
  reference.windows = windows;
  reference.window_tokens = shape[1];
  reference.vocab_size = vocab_size;
  const std::vector<std::int64_t> top = {shape[0], shape[1], reference.candidates()};
  reference.tokens = read_tensor<std::int32_t>(file, "tokens", Dtype::kI32, shape);
  reference.top_ids = read_tensor<std::int32_t>(file, "top_ids", Dtype::kI32, top);
  reference.top_log_probabilities = read_tensor<float>(file, "top_log_probabilities", Dtype::kF32, top);
  reference.log_sum_exp = read_tensor<float>(file, "log_sum_exp", Dtype::kF32, shape);
  reference.next_log_probability =
      read_tensor<float>(file, "next_log_probability", Dtype::kF32, {shape[0], shape[1] - 1});
  check_reference(reference, path.string());
  return reference;
}

}  // namespace tare::engine

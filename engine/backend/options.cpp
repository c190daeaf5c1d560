#include "engine/backend/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>

#include "base/json_reader.h"
#include "base/text.h"
#include "engine/backend/option_description.h"

namespace tare::engine {
namespace {

template <class Enum>
struct Word {
  const char* text;
  Enum value;
};

constexpr std::array<Word<BackendKind>, 2> kBackendKinds = {{{"cpu", BackendKind::kCpu}, {"cuda", BackendKind::kCuda}}};
constexpr const auto& kWeightFormats = kWeightFormatNames;
constexpr const auto& kScaleFormats = kScaleFormatNames;
constexpr std::array<Word<ActivationFormat>, 4> kActivationFormats = {{{"auto", ActivationFormat::kAuto},
                                                                       {"fp32", ActivationFormat::kFP32},
                                                                       {"bf16", ActivationFormat::kBF16},
                                                                       {"q8", ActivationFormat::kQ8}}};
constexpr std::array<Word<CacheFormat>, 5> kCacheFormats = {{{"fp32", CacheFormat::kFP32},
                                                             {"bf16", CacheFormat::kBF16},
                                                             {"fp8", CacheFormat::kFP8},
                                                             {"int8", CacheFormat::kInt8},
                                                             {"nvfp4", CacheFormat::kNVFP4}}};
constexpr std::array<Word<KeyRotation>, 2> kKeyRotations = {
    {{"none", KeyRotation::kNone}, {"hadamard", KeyRotation::kHadamard}}};
constexpr std::array<Word<CacheFormat>, 2> kColumnFormats = {
    {{"fp32", CacheFormat::kFP32}, {"bf16", CacheFormat::kBF16}}};
constexpr const auto& kStateFormats = kStateFormatNames;
constexpr std::array<Word<GdnForm>, 2> kGdnForms = {
    {{"recurrent", GdnForm::kRecurrent}, {"chunked", GdnForm::kChunked}}};
constexpr std::array<Word<Rollback>, 3> kRollbacks = {
    {{"ring", Rollback::kRing}, {"snapshot", Rollback::kSnapshot}, {"tree_chunk", Rollback::kTreeChunk}}};
constexpr std::array<Word<HandicapPlace>, 3> kHandicapPlaces = {
    {{"none", HandicapPlace::kNone}, {"host", HandicapPlace::kHost}, {"kernel", HandicapPlace::kKernel}}};
constexpr std::array<Word<PerturbPlace>, 2> kPerturbPlaces = {
    {{"none", PerturbPlace::kNone}, {"logits", PerturbPlace::kLogits}}};
constexpr std::array<Word<HeadScreen>, 3> kHeadScreens = {
    {{"none", HeadScreen::kNone}, {"q4", HeadScreen::kQ4}, {"q3", HeadScreen::kQ3}}};
constexpr std::array<Word<TreeGrowth>, 2> kTreeGrowths = {
    {{"best_first", TreeGrowth::kBestFirst}, {"chain_first", TreeGrowth::kChainFirst}}};
constexpr std::array<Word<TensorClass>, 6> kTensorClasses = {{{"attention", TensorClass::kAttention},
                                                              {"gdn", TensorClass::kGdn},
                                                              {"mlp", TensorClass::kMlp},
                                                              {"head", TensorClass::kHead},
                                                              {"mtp", TensorClass::kMtp},
                                                              {"drafter", TensorClass::kDrafter}}};

constexpr std::int64_t kMostTokens = std::int64_t{1} << 24;  // far beyond any context we can hold
constexpr std::int64_t kMostNodes = std::int64_t{1} << 20;   // a budget beyond what any drafter fills
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;   // beyond any memory
constexpr std::int64_t kMostThreads = 1024;                  // beyond any machine; stops a mistyped number
constexpr std::int64_t kMostCandidates = 1024;               // beyond it a screen saves nothing
constexpr std::int64_t kMostSpinNs = 10'000'000'000;         // ten seconds a round

template <class Table>
std::vector<std::string> texts_of(const Table& table) {
  std::vector<std::string> texts;
  for (const auto& word : table) texts.emplace_back(word.text);
  return texts;
}

template <class Table, class Enum>
std::string text_of(const Table& table, Enum value) {
  for (const auto& word : table)
    if (word.value == value) return word.text;
  throw internal_error("an option's value has no name");
}

template <class Table>
auto value_of(const Table& table, const std::string& text) {
  for (const auto& word : table)
    if (text == word.text) return word.value;
  throw internal_error("an option's name has no value");
}

// One option: how it is called, read and printed. `path` is "group.key", or "key" at the top.
struct Field {
  std::string path;
  std::string type;
  std::vector<std::string> words;
  std::string meaning;
  std::function<void(EngineOptions&, JsonReader&, const std::string& key)> read;
  std::function<Json(const EngineOptions&)> print;
};

template <class Table, class Access>
Field word_field(std::string path, const Table& table, Access access, std::string meaning) {
  return {std::move(path),
          "word",
          texts_of(table),
          std::move(meaning),
          [&table, access](EngineOptions& options, JsonReader& reader, const std::string& key) {
            access(options) = value_of(table, reader.word(key, texts_of(table)));
          },
          [&table, access](const EngineOptions& options) {
            return Json(text_of(table, access(const_cast<EngineOptions&>(options))));
          }};
}

template <class Access>
Field integer_field(std::string path, std::int64_t least, std::int64_t most, Access access, std::string meaning) {
  return {std::move(path),
          "integer",
          {},
          std::move(meaning),
          [=](EngineOptions& options, JsonReader& reader, const std::string& key) {
            access(options) = reader.integer(key, least, most);
          },
          [=](const EngineOptions& options) { return Json(access(const_cast<EngineOptions&>(options))); }};
}

template <class Access>
Field flag_field(std::string path, Access access, std::string meaning) {
  return {std::move(path),
          "flag",
          {},
          std::move(meaning),
          [=](EngineOptions& options, JsonReader& reader, const std::string& key) {
            access(options) = reader.boolean(key);
          },
          [=](const EngineOptions& options) { return Json(access(const_cast<EngineOptions&>(options))); }};
}

std::vector<WeightOverride> read_overrides(JsonReader& reader, const std::string& key) {
  std::vector<WeightOverride> overrides;
  for (const Json& element : reader.array(key)) {
    JsonReader entry(element, fmt::format("{}[{}]", reader.place(key), overrides.size()));
    WeightOverride result;
    result.tensors = value_of(kTensorClasses, entry.word("tensors", texts_of(kTensorClasses)));
    result.format = value_of(kWeightFormats, entry.word("format", texts_of(kWeightFormats)));
    result.last_layer = kMostTokens;
    if (entry.has("layers")) {
      const Json& layers = entry.array("layers");
      const bool integers = layers.size() == 2 && layers[0].is_number_integer() && layers[1].is_number_integer();
      const bool pair = integers && layers[0].get<std::int64_t>() >= 0 &&
                        layers[0].get<std::int64_t>() <= layers[1].get<std::int64_t>();
      if (!pair) throw entry.error("layers", "must be [first, last] with 0 <= first <= last");
      result.first_layer = layers[0].get<std::int64_t>();
      result.last_layer = layers[1].get<std::int64_t>();
    }
    entry.refuse_unknown_keys();
    overrides.push_back(result);
  }
  return overrides;
}

Json print_overrides(const std::vector<WeightOverride>& overrides) {
  Json result = Json::array();
  for (const WeightOverride& entry : overrides) {
    Json printed = {{"tensors", text_of(kTensorClasses, entry.tensors)},
                    {"format", text_of(kWeightFormats, entry.format)}};
    if (entry.last_layer != kMostTokens) printed["layers"] = {entry.first_layer, entry.last_layer};
    result.push_back(std::move(printed));
  }
  return result;
}

std::vector<Field> make_fields() {
  std::vector<Field> fields;
  fields.push_back(word_field(
      "backend", kBackendKinds, [](EngineOptions & o) -> auto& { return o.backend; },
      "cpu, or cuda (an NVIDIA GPU; programs built with the CUDA toolkit)"));
  fields.push_back(word_field(
      "weights.format", kWeightFormats, [](EngineOptions & o) -> auto& { return o.weights.format; },
      "format of every projection and of the head: bf16 as the checkpoint has it, else quantised at load in groups of "
      "64 along K (nvfp4: blocks of 16)"));
  fields.push_back(word_field(
      "weights.scales", kScaleFormats, [](EngineOptions & o) -> auto& { return o.weights.scales; },
      "scales of the groups of 64: fp16, or e4m3 under an FP32 scale of the tensor; nvfp4 has the latter always"));
  fields.push_back(
      {"weights.overrides",
       "list",
       {},
       "other formats for tensor classes and layer ranges: {tensors: attention|gdn|mlp|head|mtp|drafter, format, "
       "layers: [first, last]}; later entries win",
       [](EngineOptions& o, JsonReader& reader, const std::string& key) {
         o.weights.overrides = read_overrides(reader, key);
       },
       [](const EngineOptions& o) { return print_overrides(o.weights.overrides); }});
  fields.push_back(word_field(
      "activations.format", kActivationFormats, [](EngineOptions & o) -> auto& { return o.activations.format; },
      "input of projections: auto (cpu: fp32, cuda: bf16), fp32 (on cuda slow and exact), bf16 (cuda), or q8: INT8 in "
      "blocks of 64 with an FP32 scale, for quantised projections (cpu)"));
  fields.push_back(word_field(
      "kv.key", kCacheFormats, [](EngineOptions & o) -> auto& { return o.kv.key; },
      "key cache; fp8 is E4M3 without scales, int8 blocks of 64 channels with a BF16 scale, nvfp4 blocks of 16 with an "
      "E4M3 scale"));
  fields.push_back(word_field(
      "kv.value", kCacheFormats, [](EngineOptions & o) -> auto& { return o.kv.value; },
      "value cache, in the same formats"));
  fields.push_back(word_field(
      "kv.rotation", kKeyRotations, [](EngineOptions & o) -> auto& { return o.kv.rotation; },
      "hadamard: keys and queries are rotated before keys are stored, so that outliers spread; scores stay the same"));
  fields.push_back(word_field(
      "state.convolution", kColumnFormats, [](EngineOptions & o) -> auto& { return o.state.convolution; },
      "convolution columns"));
  fields.push_back(word_field(
      "state.recurrent", kStateFormats, [](EngineOptions & o) -> auto& { return o.state.recurrent; },
      "recurrent state as stored: on cpu rounded after every token (chunked: every block), on cuda after every pass; "
      "int8: blocks of 64 with a BF16 scale"));
  fields.push_back(word_field(
      "gdn.form", kGdnForms, [](EngineOptions & o) -> auto& { return o.gdn.form; },
      "token recurrence, or the chunk form (blocks of 64 positions; cuda: up to 16 tokens of a pass)"));
  fields.push_back(word_field(
      "rollback", kRollbacks, [](EngineOptions & o) -> auto& { return o.rollback; },
      "how a path of a verified tree is committed: ring (its inputs are re-applied), snapshot (every node's state is "
      "kept), tree_chunk (the nodes are one chunk with an ancestor mask). cuda: a verify has the chunk form with "
      "tree_chunk or gdn.form chunked, in which ring is the same; snapshot needs gdn.form recurrent"));
  fields.push_back(
      {"speculate.drafter",
       "text",
       {},
       "none, mtp (the checkpoint's own head; cpu), the directory of a block drafter (or its name in the model's), or "
       "synthetic: a block drafter of "
       "random weights for a synthetic model",
       [](EngineOptions& o, JsonReader& reader, const std::string& key) { o.speculate.drafter = reader.text(key); },
       [](const EngineOptions& o) { return Json(o.speculate.drafter); }});
  fields.push_back(integer_field(
      "speculate.draft_tokens", 0, kMostNodes, [](EngineOptions & o) -> auto& { return o.speculate.draft_tokens; },
      "how far ahead the drafter proposes; 0: a block drafter's block, 3 with mtp"));
  fields.push_back(integer_field(
      "speculate.tree_nodes", 1, kMostNodes, [](EngineOptions & o) -> auto& { return o.speculate.tree_nodes; },
      "nodes of a verify, the root included; 1: the anchor alone"));
  fields.push_back(integer_field(
      "speculate.candidates", 1, kMostNodes, [](EngineOptions & o) -> auto& { return o.speculate.candidates; },
      "candidates a row of the draft that the tree may take; 1: the tree is a chain"));
  fields.push_back({"speculate.temperature",
                    "number",
                    {},
                    "of the draft's probabilities when the tree grows",
                    [](EngineOptions& o, JsonReader& reader, const std::string& key) {
                      o.speculate.temperature = reader.number(key, 1e-3, 1e3);
                    },
                    [](const EngineOptions& o) { return Json(o.speculate.temperature); }});
  fields.push_back(word_field(
      "speculate.growth", kTreeGrowths, [](EngineOptions & o) -> auto& { return o.speculate.growth; },
      "best_first: the tree holds the most probable prefixes; chain_first: the whole chain of the first candidates, as "
      "far as the nodes go, then the most probable others"));
  fields.push_back(word_field(
      "head.screen", kHeadScreens, [](EngineOptions & o) -> auto& { return o.head.screen; },
      "verify: a copy of the head in this format finds head.candidates tokens a row, the head itself scores only those "
      "(greedy only; cpu); none: the head scores all"));
  fields.push_back(integer_field(
      "head.candidates", 1, kMostCandidates, [](EngineOptions & o) -> auto& { return o.head.candidates; },
      "tokens a row that a screened head scores exactly"));
  fields.push_back(integer_field(
      "proposal_head.shortlist", 0, kMostTokens, [](EngineOptions & o) -> auto& { return o.proposal_head.shortlist; },
      "the drafter proposes only so many tokens, the most frequent ones (cpu); 0: any token"));
  fields.push_back(
      {"proposal_head.counts",
       "text",
       {},
       "safetensors file with I32 'counts' of every token; empty: token_counts.safetensors in the model's directory",
       [](EngineOptions& o, JsonReader& reader, const std::string& key) { o.proposal_head.counts = reader.text(key); },
       [](const EngineOptions& o) { return Json(o.proposal_head.counts); }});
  fields.push_back(word_field(
      "proposal_head.screen", kHeadScreens, [](EngineOptions & o) -> auto& { return o.proposal_head.screen; },
      "format of the drafter's own copy of the head (cpu); none: that of the target's head"));
  fields.push_back(integer_field(
      "prefill.chunk", 0, kMostTokens, [](EngineOptions & o) -> auto& { return o.prefill.chunk; },
      "tokens a prefill pass; 0: 128 on the cpu, 4096 on cuda"));
  fields.push_back(integer_field(
      "prefix_cache.bytes", 0, kMostBytes, [](EngineOptions & o) -> auto& { return o.prefix_cache.bytes; },
      "memory for prompts that were computed: one that begins as an earlier one did goes on from there; 0: none"));
  fields.push_back(integer_field(
      "prefix_cache.page_tokens", 1, kMostTokens, [](EngineOptions & o) -> auto& { return o.prefix_cache.page_tokens; },
      "a prompt is kept, and found, at multiples of so many tokens; prefill passes end there"));
  fields.push_back(word_field(
      "prefix_cache.checkpoint", kStateFormats, [](EngineOptions & o) -> auto& { return o.prefix_cache.checkpoint; },
      "recurrent state as it is kept with a prefix; fp32 is exact, int8: blocks of 64 with a BF16 scale"));
  fields.push_back(integer_field(
      "context", 0, kMostTokens, [](EngineOptions & o) -> auto& { return o.context; },
      "tokens the caches hold; 0: the model's maximum, at most 8192"));
  fields.push_back(integer_field(
      "cpu.threads", 0, kMostThreads, [](EngineOptions & o) -> auto& { return o.cpu.threads; },
      "threads; 0: as many as this process may use"));
  fields.push_back(
      {"cpu.instruction_set",
       "text",
       {},
       "auto, or an instruction set that this machine has (tare --version lists them)",
       [](EngineOptions& o, JsonReader& reader, const std::string& key) { o.cpu.instruction_set = reader.text(key); },
       [](const EngineOptions& o) { return Json(o.cpu.instruction_set); }});
  fields.push_back(integer_field(
      "cuda.device", 0, 63, [](EngineOptions & o) -> auto& { return o.cuda.device; }, "which GPU"));
  fields.push_back(flag_field(
      "cuda.graph", [](EngineOptions & o) -> auto& { return o.cuda.graph; },
      "a round is one CUDA graph; false: its kernels are launched one by one"));
  fields.push_back(flag_field(
      "cuda.programmatic", [](EngineOptions & o) -> auto& { return o.cuda.programmatic; },
      "kernels start before their predecessor ends and ask for weights before they wait"));
  fields.push_back(integer_field(
      "cuda.blocks_per_sm", 1, 2, [](EngineOptions & o) -> auto& { return o.cuda.blocks_per_sm; },
      "thread blocks of a weight product an SM: 2 compute together, 1 leaves its successor room to fill its ring"));
  fields.push_back(integer_field(
      "cuda.out_blocks_per_sm", 1, 2, [](EngineOptions & o) -> auto& { return o.cuda.out_blocks_per_sm; },
      "the same of the output projections, whose weights fit into the rings: 1 has an SM each, and no two share one"));
  fields.push_back(integer_field(
      "cuda.trigger", -1, 1 << 20, [](EngineOptions & o) -> auto& { return o.cuda.trigger; },
      "a weight product lets its successor start when a block has this many unit pairs left to ask for; -1: at once"));
  fields.push_back(flag_field(
      "cuda.activating_product", [](EngineOptions & o) -> auto& { return o.cuda.activating_product; },
      "the product of gate and up applies the MLP's activation itself where its rows come out evenly over the SMs; "
      "false: a kernel of its own does"));
  fields.push_back(integer_field(
      "cuda.late_stages", 0, 64, [](EngineOptions & o) -> auto& { return o.cuda.late_stages; },
      "of the target's products behind a norm, the stages of weights that the later half of the thread blocks asks for "
      "before it waits, so that the norm reads first; 0: all that a ring holds"));
  fields.push_back({"cuda.l2_fill_mb",
                    "number",
                    {},
                    "megabytes of the next weights that a GDN or attention kernel's extra blocks pull into L2",
                    [](EngineOptions& o, JsonReader& reader, const std::string& key) {
                      o.cuda.l2_fill_mb = reader.number(key, 0, 64);
                    },
                    [](const EngineOptions& o) { return Json(o.cuda.l2_fill_mb); }});
  fields.push_back(integer_field(
      "cuda.l2_fill_blocks", 1, 132, [](EngineOptions & o) -> auto& { return o.cuda.l2_fill_blocks; },
      "how many extra blocks do so"));
  fields.push_back(word_field(
      "handicap.place", kHandicapPlaces, [](EngineOptions & o) -> auto& { return o.handicap.place; },
      "instrument: where a known cost is spun in every round"));
  fields.push_back(integer_field(
      "handicap.ns", 0, kMostSpinNs, [](EngineOptions & o) -> auto& { return o.handicap.ns; },
      "nanoseconds spun a round"));
  fields.push_back({"handicap.share",
                    "number",
                    {},
                    "share of the round's own time spun besides (0.01 is one percent)",
                    [](EngineOptions& o, JsonReader& reader, const std::string& key) {
                      o.handicap.share = reader.number(key, 0, 10);
                    },
                    [](const EngineOptions& o) { return Json(o.handicap.share); }});
  fields.push_back(word_field(
      "perturb.place", kPerturbPlaces, [](EngineOptions & o) -> auto& { return o.perturb.place; },
      "instrument: what is rounded on purpose"));
  fields.push_back(integer_field(
      "perturb.bits", 1, 23, [](EngineOptions & o) -> auto& { return o.perturb.bits; },
      "mantissa bits kept, round to nearest even"));
  return fields;
}

std::pair<std::string, std::string> group_and_key(const std::string& path) {
  const std::size_t dot = path.find('.');
  if (dot == std::string::npos) return {"", path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

void read_group(EngineOptions& options, JsonReader& reader, const std::string& group,
                const std::vector<Field>& fields) {
  for (const Field& field : fields) {
    const auto [field_group, key] = group_and_key(field.path);
    if (field_group == group && reader.has(key)) field.read(options, reader, key);
  }
}

}  // namespace

WeightFormat EngineOptions::format_of(TensorClass tensors, std::int64_t layer) const {
  WeightFormat format = weights.format;
  for (const WeightOverride& entry : weights.overrides) {
    const bool layer_matches =
        tensors == TensorClass::kHead || (layer >= entry.first_layer && layer <= entry.last_layer);
    if (entry.tensors == tensors && layer_matches) format = entry.format;
  }
  return format;
}

void apply_options(EngineOptions& options, const Json& json, const std::string& where) {
  const std::vector<Field> fields = make_fields();
  JsonReader top(json, where);
  read_group(options, top, "", fields);
  std::vector<std::string> seen_groups;
  for (const Field& field : fields) {
    const std::string group = group_and_key(field.path).first;
    if (group.empty() || std::find(seen_groups.begin(), seen_groups.end(), group) != seen_groups.end()) continue;
    seen_groups.push_back(group);
    if (!top.has(group)) continue;
    JsonReader reader = top.object(group);
    read_group(options, reader, group, fields);
    reader.refuse_unknown_keys();
  }
  top.refuse_unknown_keys();
}

void apply_option(EngineOptions& options, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0)
    throw input_error("--set", fmt::format("'{}' is not PATH=VALUE", assignment),
                      "for example --set weights.format=q4");
  const auto [group, key] = group_and_key(std::string(assignment.substr(0, equals)));
  const std::string text(assignment.substr(equals + 1));
  Json value = Json::parse(text, nullptr, false);
  if (value.is_discarded()) value = text;
  Json patch = Json::object();
  if (group.empty()) {
    patch[key] = std::move(value);
  } else {
    patch[group][key] = std::move(value);
  }
  apply_options(options, patch, "--set");
}

Json to_json(const EngineOptions& options) {
  Json result = Json::object();
  for (const Field& field : make_fields()) {
    const auto [group, key] = group_and_key(field.path);
    if (group.empty()) {
      result[key] = field.print(options);
    } else {
      result[group][key] = field.print(options);
    }
  }
  return result;
}

std::vector<OptionDescription> describe_options() {
  const EngineOptions defaults;
  std::vector<OptionDescription> descriptions;
  for (const Field& field : make_fields())
    descriptions.push_back({field.path, field.type, field.words, field.print(defaults), field.meaning});
  return descriptions;
}

std::string to_text(BackendKind kind) {
  return text_of(kBackendKinds, kind);
}
std::string to_text(TensorClass tensors) {
  return text_of(kTensorClasses, tensors);
}
std::string to_text(WeightFormat format) {
  return text_of(kWeightFormats, format);
}
std::string to_text(ActivationFormat format) {
  return text_of(kActivationFormats, format);
}
std::string to_text(ScaleFormat format) {
  return text_of(kScaleFormats, format);
}
std::string to_text(KeyRotation rotation) {
  return text_of(kKeyRotations, rotation);
}
std::string to_text(CacheFormat format) {
  return text_of(kCacheFormats, format);
}
std::string to_text(StateFormat format) {
  return text_of(kStateFormats, format);
}
std::string to_text(GdnForm form) {
  return text_of(kGdnForms, form);
}

std::string to_text(Rollback rollback) {
  return text_of(kRollbacks, rollback);
}
std::string to_text(TreeGrowth growth) {
  return text_of(kTreeGrowths, growth);
}
std::string to_text(HeadScreen screen) {
  return text_of(kHeadScreens, screen);
}

WeightFormat format_of(HeadScreen screen) {
  if (screen == HeadScreen::kNone) throw internal_error("no screen has no format");
  return screen == HeadScreen::kQ4 ? WeightFormat::kQ4 : WeightFormat::kQ3;
}

}  // namespace tare::engine

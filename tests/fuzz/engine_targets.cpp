// Parsers of checkpoints, tokenizers, engine options, prompts, windows, recorded rounds and references.
#include <cstdint>
#include <cstring>
#include <numeric>

#include "base/json_reader.h"
#include "engine/backend/options.h"
#include "engine/checkpoint/model_config.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/speculate/block_drafter_config.h"
#include "engine/streamed/reference_file.h"
#include "engine/tokenizer/tokenizer.h"
#include "forced/prompts.h"
#include "forced/rounds_file.h"
#include "forced/windows.h"
#include "tests/fuzz/targets.h"

namespace tare::fuzz {
namespace {

// Reads every byte: a view that leaves its file is seen by the sanitizers.
std::uint64_t sum_of(std::span<const std::byte> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0},
                         [](std::uint64_t sum, std::byte byte) { return sum + static_cast<std::uint64_t>(byte); });
}

std::string safetensors(const std::string& header, const std::string& data) {
  std::string bytes(sizeof(std::uint64_t), '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, bytes.size());
  return bytes + header + data;
}

void parse_safetensors(std::string_view bytes) {
  with_file(bytes, "model.safetensors", [](const std::string& file) {
    const engine::SafetensorsFile opened(file);
    std::uint64_t sum = 0;
    for (const std::string& name : opened.names()) sum += sum_of(opened.tensor(name).bytes);
    volatile std::uint64_t kept = sum;
    (void)kept;
  });
}

const std::string kModelConfig = R"({"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5",
 "tie_word_embeddings": true, "text_config": {"model_type": "qwen3_5_text", "hidden_size": 64, "intermediate_size": 160,
 "num_hidden_layers": 4, "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
 "linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_conv_kernel_dim": 4, "vocab_size": 256, "rms_norm_eps": 1e-6,
 "max_position_embeddings": 512, "hidden_act": "silu", "attn_output_gate": true, "tie_word_embeddings": true,
 "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25, "mrope_section": [2, 1, 1]}}})";

void parse_model_config(std::string_view bytes) {
  const Json json = parse_json(bytes, "config.json");
  const engine::ModelConfig config = engine::parse_model_config(json, Json(), "config.json");
  (void)engine::parse_block_drafter_config(json, config, "drafter/config.json");
}

const std::string kTokenizer = R"({"version": "1.0", "truncation": null, "padding": null,
 "added_tokens": [{"id": 258, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
 "special": true}], "normalizer": null, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern":
 {"Regex": "\\p{L}+|\\s+|[^\\s\\p{L}]+"}, "behavior": "Isolated", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false,
 "trim_offsets": false, "use_regex": false}]}, "post_processor": null, "decoder": {"type": "ByteLevel", "add_prefix_space": true,
 "trim_offsets": true, "use_regex": true}, "model": {"type": "BPE", "dropout": null, "unk_token": null,
 "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
 "vocab": {VOCAB}, "merges": [["a", "b"], ["ab", "c"]]}})";

// Byte-level BPE names bytes by printable characters: 33 to 126, 161 to 172 and 174 to 255 stand for themselves, the
// rest for 256 and up, in order (GPT-2's table).
std::string tokenizer_seed() {
  std::string vocabulary;
  int id = 0;
  int next = 256;
  const auto utf8 = [](int point) {
    std::string text;
    if (point < 0x80) {
      text += static_cast<char>(point);
    } else {
      text += static_cast<char>(0xC0 | point >> 6);
      text += static_cast<char>(0x80 | (point & 0x3F));
    }
    return text;
  };
  for (int byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int point = itself ? byte : next++;
    vocabulary += (id == 0 ? "" : ", ") + Json(utf8(point)).dump() + ": " + std::to_string(id);
    ++id;
  }
  vocabulary += R"(, "ab": 256, "abc": 257)";
  std::string text = kTokenizer;
  text.replace(text.find("VOCAB"), 5, vocabulary);
  return text;
}

void parse_tokenizer(std::string_view bytes) {
  with_file(bytes, "tokenizer.json", [](const std::string& file) {
    const engine::Tokenizer tokenizer = engine::Tokenizer::from_file(file);
    const std::vector<std::int32_t> ids = tokenizer.encode("abc ab \xff <|end|> \xc3\xa9 1234\n");
    (void)tokenizer.decode(ids);
  });
}

void parse_options(std::string_view bytes) {
  engine::EngineOptions options;
  if (!bytes.empty() && bytes.front() == '{') {
    engine::apply_options(options, parse_json(bytes, "options"), "options");
  } else {
    engine::apply_option(options, bytes);
  }
  (void)engine::to_json(options).dump();
}

void parse_texts(std::string_view bytes) {
  with_file(bytes, "texts.jsonl", [](const std::string& file) {
    for (const auto& parse : {std::function<void()>([&] { (void)forced::read_prompts(file); }),
                              std::function<void()>([&] { (void)forced::read_windows(file, nullptr, 4); }),
                              std::function<void()>([&] { (void)forced::read_rounds(file); })}) {
      (void)answer_of({"", [&](std::string_view) { parse(); }, {}}, {});
    }
  });
}

void parse_reference(std::string_view bytes) {
  with_file(bytes, "reference.safetensors", [](const std::string& file) { (void)engine::read_reference(file); });
}

}  // namespace

std::vector<Target> engine_targets() {
  const std::string two = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"I8","shape":[1,3],)"
                          R"("data_offsets":[8,11]},"__metadata__":{"k":"v"}})";
  return {
      {"safetensors", parse_safetensors, {safetensors(two, "01234567abc"), safetensors("{}", "")}},
      {"model-config", parse_model_config, {kModelConfig}},
      {"tokenizer", parse_tokenizer, {tokenizer_seed()}},
      {"options",
       parse_options,
       {R"({"weights": {"format": "q4", "overrides": [{"tensors": "mlp", "layers": [0, 1], "format": "q8"}]}})",
        "cpu.threads=2", "weights.format=q4"}},
      {"texts",
       parse_texts,
       {R"({"question_id": 81, "category": "writing", "turns": ["One?", "Two?"]})"
        "\n",
        R"({"id": "a", "kind": "prose", "source": "x", "tokens": [1, 2, 3, 4, 5]})"
        "\n"}},
      {"reference", parse_reference, {safetensors(two, "01234567abc")}},
  };
}

}  // namespace tare::fuzz

// Model directories and safetensors files made for tests, whole or spoilt.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json_reader.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/safetensors.h"
#include "tests/engine/scratch_directory.h"

namespace tare::engine {

inline const std::filesystem::path kFixtures = std::filesystem::path(TARE_SOURCE_DIR) / "tests/fixtures";

// A safetensors file from a header as text and the data after it.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, bytes.size());
  return bytes + header + data;
}

inline Tensor make_tensor(std::string name, Dtype dtype, std::vector<std::int64_t> shape, const std::string& bytes) {
  auto storage = std::make_shared<std::string>(bytes);
  const auto view = std::as_bytes(std::span<const char>(*storage));
  return {std::move(name), dtype, std::move(shape), view, std::move(storage)};
}

template <typename Value>
std::string raw_bytes(const std::vector<Value>& values) {
  std::string bytes(values.size() * sizeof(Value), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// What `body` throws must be an input error that says `what` at `where`.
inline void expect_refused(const std::function<void()>& body, const std::string& where, const std::string& what) {
  try {
    body();
    ADD_FAILURE() << "was accepted; expected: " << where << ": " << what;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
    EXPECT_THAT(error.parts().where, testing::HasSubstr(where));
    EXPECT_THAT(error.parts().what, testing::HasSubstr(what));
    EXPECT_EQ(error.parts().what.find('\n'), std::string::npos) << "one line";
  }
}

// A small text-only model: 4 layers, MTP head, untied.
inline Json small_config() {
  return {{"architectures", Json::array({"Qwen3_5ForCausalLM"})},
          {"model_type", "qwen3_5_text"},
          {"hidden_size", 16},
          {"intermediate_size", 24},
          {"num_hidden_layers", 4},
          {"vocab_size", 64},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 8},
          {"linear_num_key_heads", 2},
          {"linear_num_value_heads", 6},
          {"linear_key_head_dim", 4},
          {"linear_value_head_dim", 5},
          {"linear_conv_kernel_dim", 4},
          {"mtp_num_hidden_layers", 1},
          {"max_position_embeddings", 128},
          {"rms_norm_eps", 1e-6},
          {"tie_word_embeddings", false},
          {"eos_token_id", 3},
          {"rope_parameters", {{"rope_theta", 10000.0}, {"partial_rotary_factor", 0.5}, {"rope_type", "default"}}}};
}

// The same model's synthetic twin, from which its tensors are taken.
inline std::unique_ptr<Checkpoint> small_model() {
  return open_checkpoint(
      "synthetic:hidden=16,intermediate=24,layers=4,vocab=64,heads=4,kv_heads=2,head_dim=8,rotary=4,linear_key_heads=2,"
      "linear_value_heads=6,linear_key_head_dim=4,linear_value_head_dim=5,positions=128,tied=0?seed=5");
}

// The name under which a text-only export stores a canonical tensor.
inline std::string text_only_name(const std::string& canonical) {
  return canonical.starts_with("lm_head.") || canonical.starts_with("mtp.") ? canonical : "model." + canonical;
}

inline std::vector<Tensor> small_tensors() {
  const auto model = small_model();
  std::vector<Tensor> tensors;
  for (const std::string& name : model->names()) {
    tensors.push_back(model->tensor(name));
    tensors.back().name = text_only_name(name);
  }
  return tensors;
}

inline void write_config(const std::filesystem::path& directory, const Json& config) {
  write_file_atomically(directory / "config.json", config.dump());
}

inline std::string bytes_text(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
}

}  // namespace tare::engine

// Byte-level BPE read from a Hugging Face tokenizer.json (the Qwen family's form).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tare::engine {

class Tokenizer {
 public:
  // Throws Error (input) for what this implementation does not cover, naming the field.
  static Tokenizer from_file(const std::filesystem::path& tokenizer_json);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Token ids of the text, equal to the `tokenizers` library's `encode(text, add_special_tokens=False)`; special tokens
  // written in the text are recognised. Any bytes are accepted: invalid UTF-8 is encoded byte by byte and round-trips.
  // Two differences from the library are known, both about characters assigned after Unicode 9 and 14: see nfc.h and
  // split_pattern.h. A file that asks for NFC changes text that is not in NFC, which then does not come back byte for
  // byte. May be called from several threads.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;
  // Exact bytes of the ids (special tokens as their text). Throws Error (input) for an id outside the vocabulary.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids) const;
  // Bytes of one id: what a stream prints (may be a part of a UTF-8 sequence).
  [[nodiscard]] std::string_view token_bytes(std::int32_t id) const;

  [[nodiscard]] std::int32_t vocab_size() const;  // ids 0 .. vocab_size-1 are addressed
  [[nodiscard]] std::optional<std::int32_t> special_token(std::string_view text) const;
  [[nodiscard]] const std::string& digest() const;  // of the file

 private:
  struct Model;
  explicit Tokenizer(std::unique_ptr<Model> model);
  std::unique_ptr<Model> model_;
};

}  // namespace tare::engine

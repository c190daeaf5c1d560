// What a tokenizer.json says, checked: the part of the format that byte-level BPE tokenizers use.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/tokenizer/added_tokens.h"
#include "engine/tokenizer/byte_pair_encoding.h"

namespace tare::engine {

struct TokenizerFile {
  std::vector<AddedToken> added_tokens;
  bool nfc = false;
  std::vector<std::string> split_patterns;  // applied one after the other
  std::vector<BytePairEncoding::Merge> merges;
  std::array<std::int32_t, 256> byte_ids{};
  std::unordered_map<std::string, std::int32_t> whole_pieces;  // filled when ignore_merges is set
  std::vector<std::string> token_bytes;                        // by id; an id that no token has is empty
};

// Accepted: model BPE without dropout, byte_fallback and affixes; merges as "a b" or ["a", "b"]; normalizer none or
// NFC; pre_tokenizer ByteLevel without prefix space, alone or after Splits (behavior Isolated); decoder ByteLevel;
// added tokens without single_word, lstrip, rstrip; no truncation, no padding. post_processor is left alone: it adds
// tokens only where special tokens are asked for. Throws Error (input) naming the field of anything else, and for a
// vocabulary in which one of the 256 bytes has no token, two tokens share an id, or a merge names a token that is not
// there.
[[nodiscard]] TokenizerFile parse_tokenizer_file(std::string_view text, const std::string& where);

}  // namespace tare::engine

// Recorded rounds: texts with the rounds that wrote them, so that another configuration or a checkpoint without trained
// weights can walk the same trees and accept the same paths, and so that other trees can be grown from the same drafts.
// docs/protocol/rounds.md describes the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "engine/decode/session.h"

namespace tare::forced {

struct RecordedText {
  std::string prompt_id;
  std::string category;
  std::vector<std::int32_t> prompt_tokens;
  std::vector<std::int32_t> tokens;           // what was committed after the prompt, the prefill's token first
  std::vector<engine::RoundShape> rounds;     // their paths' lengths add up to tokens.size() - 1
  std::vector<engine::RecordedDraft> drafts;  // of the rounds that have one; empty when drafts were not recorded
};

struct RoundsFile {
  std::string model;              // as it was opened
  std::int64_t vocab_size = 0;    // ids are below it
  Json options = Json::object();  // the engine's, as it printed them
  std::vector<RecordedText> texts;
};

// [{"parents": [...], "path": [...]}, ...], as in the file, the ledger and the worker protocol.
[[nodiscard]] Json to_json(const std::vector<engine::RoundShape>& rounds);
// Throws Error (input) naming `where` and the round: a parent that does not come before its node, a path that is none,
// paths that do not commit `tokens` tokens.
[[nodiscard]] std::vector<engine::RoundShape> read_round_shapes(const Json& rounds, const std::string& where,
                                                                std::size_t tokens);

// What the session made of one prompt.
[[nodiscard]] RecordedText recorded_text(const std::string& prompt_id, const std::string& category,
                                         const std::vector<std::int32_t>& prompt_tokens,
                                         const engine::Generation& generation);

// One JSON object a line: a header, then the texts. Written whole or not at all. Throws Error (environment).
void write_rounds(const std::filesystem::path& path, const RoundsFile& file);
// Throws Error (input) naming line and field: another kind of file or version, ids outside the vocabulary, a parent
// that does not come before its node, a path that is none, paths that do not add up to the text, no texts.
[[nodiscard]] RoundsFile read_rounds(const std::filesystem::path& path);

}  // namespace tare::forced

// A window of text through a backend, as a prompt is prefilled or as a text is decoded, with what the model said at
// every position handed out as it comes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "engine/backend/backend.h"

namespace tare::forced {

// Positions first .. first + rows - 1: what the model says after the tokens 0 .. position. Valid during the call.
struct PassRows {
  std::int64_t first = 0;
  std::int64_t rows = 0;
  std::span<const float> logits;       // [rows, vocab_size]; empty with a screened head in decoding
  std::span<const std::int32_t> best;  // [rows] largest logit's token; empty in prefill, which says logits only
  std::span<const float> hidden;       // [rows, hidden_size] after the final norm; empty unless asked for
};
using TakeRows = std::function<void(const PassRows& rows)>;

struct PassRequest {
  bool logits = true;
  bool hidden = false;
};

// Resets, then absorbs the tokens as a prompt, in pieces whose logits stay below 256 MB and which are whole chunks of
// option prefill.chunk, so that the arithmetic is that of one prompt. Throws what the backend throws.
void prefill_window(engine::Backend& backend, std::span<const std::int32_t> tokens, const PassRequest& request,
                    const TakeRows& take);

// Resets, absorbs the first token, then decodes the rest in rounds, all forced. `nodes` = 1: token by token, the state
// is read and written at every token. More: every round verifies a tree of so many nodes and accepts 1 .. nodes of
// them, how many drawn from the counter-based stream of (nodes, stream); the accepted ones hold the text, the others,
// siblings at every depth, hold another token, as rejected drafts do. Positions come in order, those of the accepted
// path only. The last token is not absorbed: nothing after it is scored. Throws what the backend throws.
void decode_window(engine::Backend& backend, std::span<const std::int32_t> tokens, std::int64_t nodes,
                   std::uint64_t stream, const PassRequest& request, const TakeRows& take);

}  // namespace tare::forced

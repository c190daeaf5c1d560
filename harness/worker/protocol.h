// The worker protocol, version 1: one JSON object a line in each direction (docs/protocol/worker.md, with a schema).
// The harness writes calls to the worker's standard input and reads one reply a call from its standard output; standard
// error is free for messages, and its end is kept as the worker's last words. Nothing is written while a clock runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json_reader.h"
#include "engine/decode/round.h"

namespace tare::harness {

constexpr std::int64_t kProtocolVersion = 1;

// hello: who are you? The first call; versions must be equal.
struct HelloReply {
  std::string program;  // "tare"
  std::string version;
  Json build;    // commit, compiler, flags ...; any object
  Json options;  // list of {path, type, words, default, meaning}; may be empty
};

// open: load the model under these options. Once a launch.
struct OpenCall {
  std::string model;              // path or name as the worker understands it
  Json options = Json::object();  // only what differs from the worker's defaults
  std::vector<int> cores;         // run on these cores only; empty: no pinning
};
struct OpenReply {
  std::string checkpoint_digest;
  std::string tokenizer_digest;  // empty when the model has no tokenizer
  std::int64_t vocab_size = 0;
  Json options;                      // every option with its value in force
  Json description;                  // backend, instruction set, threads ...; any object
  std::int64_t bytes_per_round = 0;  // that one round streams at an empty context; 0: not known
};

// encode: token ids of texts, by this worker's tokenizer.
struct EncodeCall {
  std::vector<std::string> texts;
};
struct EncodeReply {
  std::vector<std::vector<std::int32_t>> tokens;  // one list a text
};

// run: one prompt.
struct RunCall {
  std::string prompt_id;
  std::vector<std::int32_t> prompt;
  double temperature = 0;  // 0: greedy
  std::uint64_t seed = 0;  // of the sampling; random numbers are keyed by (seed, prompt id, position)
  std::int64_t max_tokens = 0;
  std::vector<std::int32_t> forced;  // commit these tokens; empty: run free
  bool natural = false;              // send the natural choices back
  // Walk these trees and accept these paths, whatever the drafts (docs/protocol/rounds.md); empty: the worker's own.
  std::vector<engine::RoundShape> rounds = {};
};
struct RunReply {
  std::string outcome;                // "forced_text", "end_of_text", "immediate_end", "length", "context_full"
  std::vector<std::int32_t> tokens;   // committed after the prompt
  std::vector<std::int32_t> natural;  // natural choices; empty unless asked for
  std::int64_t agreed = 0;            // positions at which the natural choice equals the committed token
  std::int64_t prefill_ns = 0;
  std::int64_t first_token_ns = 0;
  std::int64_t decode_ns = 0;  // sum of the rounds
  std::int64_t total_ns = 0;
  std::vector<std::int64_t> round_ns;       // by round
  std::vector<std::int64_t> round_tokens;   // committed by each round
  std::vector<std::int64_t> round_spun_ns;  // spun on purpose; empty when nothing was
  // Of a worker that drafts, by round; empty when no round of the prompt had a draft.
  std::vector<std::int64_t> round_nodes;    // verified, the root included
  std::vector<std::int64_t> round_drafted;  // tokens ahead that were drafted
  std::vector<std::int64_t> round_cut;      // 1: the text ended inside the accepted path
  engine::PhaseTimes round_phase_ns;        // by phase
  std::int64_t peak_memory_bytes = 0;       // largest resident set so far; 0: not known
};

// profile: like `run` with a forced text, under a collector that says where the time of its rounds goes. Never in a
// launch whose times count: after the first `profile` a launch answers no more `run`.
struct ProfileRow {
  std::string kernel;      // shortened name, or the op's
  std::string launch;      // as the engine declares it; may be empty
  std::string part;        // what it works on, layer numbers as "*"; may be empty
  double calls = 0;        // a round, like all that follows
  double us = 0;           // completion intervals: the rows and idle_us add up to span_us
  double duration_us = 0;  // durations, waiting for predecessors included
  double bytes = 0;        // declared; 0: not known
};
// One launch of one round, microseconds from the round's first begin. It ran from begin to end; from `alone_us` on
// nothing before it was unfinished.
struct ProfileLaunch {
  std::size_t row = 0;  // of `rows`
  double begin_us = 0;
  double alone_us = 0;
  double end_us = 0;
};
struct ProfileReply {
  RunReply run;              // with the collector's cost in its times
  std::string source;        // "kernels" of a GPU, "ops" of the CPU
  std::int64_t rounds = 0;   // that the means are over: all, or all but the stalled ones (stats/stalls.h)
  std::int64_t records = 0;  // of all rounds
  std::int64_t dropped = 0;  // that the collector lost
  std::int64_t invalid = 0;  // without valid times: left out
  double span_us = 0;        // first kernel's begin to last one's end
  double idle_us = 0;        // nothing ran, within the span
  std::string unmatched;     // why rows name no launch; empty when they do
  std::vector<ProfileRow> rows;
  std::vector<ProfileLaunch> round;  // the one of median span, in order of begin; may be empty
};

[[nodiscard]] Json to_json(const std::vector<ProfileRow>& rows);
[[nodiscard]] Json to_json(const std::vector<ProfileLaunch>& round);

// Calls as the lines (without line break) that are sent.
[[nodiscard]] std::string hello_line();
[[nodiscard]] std::string to_line(const OpenCall& call);
[[nodiscard]] std::string to_line(const EncodeCall& call);
[[nodiscard]] std::string to_line(const RunCall& call);
[[nodiscard]] std::string profile_line(const RunCall& call);
[[nodiscard]] std::string close_line();

[[nodiscard]] std::string to_line(const HelloReply& reply);
[[nodiscard]] std::string to_line(const OpenReply& reply);
[[nodiscard]] std::string to_line(const EncodeReply& reply);
[[nodiscard]] std::string to_line(const RunReply& reply);
[[nodiscard]] std::string to_line(const ProfileReply& reply);
[[nodiscard]] std::string close_reply_line();
// An error in answer to any call; the worker stays usable unless it ends itself.
[[nodiscard]] std::string error_line(const Error& error);

// Reading. Throws Error (input) for lines that do not fit the protocol, naming `where` and the field.
// A call's name is in its "call" field; parse_* read the rest.
[[nodiscard]] std::string call_name(const Json& line, const std::string& where);
void check_hello(const Json& line, const std::string& where);  // protocol version
[[nodiscard]] OpenCall parse_open_call(const Json& line, const std::string& where);
[[nodiscard]] EncodeCall parse_encode_call(const Json& line, const std::string& where);
[[nodiscard]] RunCall parse_run_call(const Json& line, const std::string& where);  // of profile too

// Throws the worker's own Error, put within `where`, when the line is an error reply; Error (input) when the reply is
// not the one to `call`.
void expect_reply(const Json& line, const std::string& call, const std::string& where);
[[nodiscard]] HelloReply parse_hello_reply(const Json& line, const std::string& where);
[[nodiscard]] OpenReply parse_open_reply(const Json& line, const std::string& where);
[[nodiscard]] EncodeReply parse_encode_reply(const Json& line, const std::string& where);
[[nodiscard]] RunReply parse_run_reply(const Json& line, const std::string& where);
[[nodiscard]] ProfileReply parse_profile_reply(const Json& line, const std::string& where);

}  // namespace tare::harness

// The rows of the ledger as plain structs. Column names, units and meanings are the same in docs/protocol/ledger.md.
// Times named utc_ns are Unix time in nanoseconds; durations are from a monotonic clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "engine/decode/round.h"
#include "harness/environment/environment.h"

namespace tare::harness {

// Rounds of one replay, column by column, one entry a round; those of rounds with drafts are empty where no round had
// one, and in ledgers before version 5.
struct Rounds {
  std::vector<std::int64_t> duration_ns;
  std::vector<std::int64_t> tokens;        // committed by the round, >= 1
  std::vector<std::int64_t> spun_ns;       // by the handicap, inside duration_ns; 0 without one
  std::vector<std::int64_t> nodes = {};    // verified, the root included
  std::vector<std::int64_t> drafted = {};  // tokens ahead
  std::vector<std::int64_t> cut = {};      // 1: the text ended inside the accepted path
  engine::PhaseTimes phase_ns = {};        // parts of duration_ns (engine::kRoundPhases)

  [[nodiscard]] std::size_t size() const { return duration_ns.size(); }
};

// The columns that only rounds with drafts have, in the ledger's order.
template <class AnyRounds>
[[nodiscard]] auto columns_of_drafts(AnyRounds& rounds) {
  std::vector columns = {&rounds.nodes, &rounds.drafted, &rounds.cut};
  for (auto& phase : rounds.phase_ns) columns.push_back(&phase);
  return columns;
}

// A replay text: what every arm is forced onto. Statistics of repetition as in forced/replay_text.h.
struct TextRecord {
  std::string prompt_id;
  std::string category;
  std::vector<std::int32_t> prompt_tokens;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> round_tokens;  // committed by each round of the free run; empty for given texts
  std::string outcome;                     // of the free run: "length", "end_of_text", ...; "given"
  double distinct_4gram_share = 1;
  double dominant_token_share = 0;
  std::int64_t periodic_suffix_tokens = 0;
  std::int64_t period = 0;
  bool repetitive = false;    // past one of the warning limits
  Json rounds;                // trees and paths that every arm walks (docs/protocol/rounds.md); null: each arm's own
  std::string digest;         // of tokens; filled by the ledger, checked when read
  std::string prompt_digest;  // of prompt_tokens; filled by the ledger, checked when read
};

struct TextDifference {
  std::string prompt_id;
  std::int64_t position = 0;  // token index in the text, or round index
  std::string what;           // "committed", "natural", "rounds", "length"
  std::int64_t wanted = 0;
  std::int64_t got = 0;
};

// One pass of the validation, or of one of its positive controls (texts that are wrong on purpose).
struct ValidationRecord {
  std::int64_t utc_ns = 0;
  std::string name;  // "baseline onto its own texts", "control: off by one", ...
  bool is_control = false;
  std::int64_t prompts = 0;        // N
  std::int64_t prompts_equal = 0;  // in tokens and rounds
  std::optional<TextDifference> first_difference;

  // A validation passed when all prompts are equal and there is one; a control when none of its wrong texts is.
  [[nodiscard]] bool passed() const { return prompts > 0 && prompts_equal == (is_control ? 0 : prompts); }
};

// One life of a worker process.
struct LaunchRecord {
  std::int64_t id = 0;  // given by the ledger
  std::string arm;
  std::string purpose;               // "texts", "validation", "measurement", "profile"
  std::int64_t block = -1;           // -1 outside blocks
  std::int64_t sitting = 0;          // counts the invocations of `tare run` on this ledger, from 1
  std::vector<std::string> program;  // argv
  std::int64_t pid = 0;
  std::int64_t started_utc_ns = 0;
  // Known once the worker has answered:
  Json options;                   // as the worker echoes them, defaults included; null before
  Json build;                     // of the worker, as it says hello
  std::string checkpoint_digest;  // empty before
  std::string model;              // path or "synthetic:..." as opened
  // Known once it has ended:
  std::optional<std::int64_t> ended_utc_ns;
  std::optional<std::int64_t> exit_status;        // exit code; 128 + signal when killed by one
  std::optional<std::int64_t> peak_memory_bytes;  // largest resident set; absent when it could not be read
  std::string last_words;                         // end of its standard error, when it did not end well
};

enum class RunState {
  kRunning,      // begun, not ended: what a killed `tare run` leaves behind
  kFinished,     // counts
  kInterrupted,  // its block was interrupted; measured again under another attempt
  kFailed,       // the worker died, hung or answered with an error
  kExcluded,     // finished, left out by a rule of the experiment
};

struct RunRecord {
  std::int64_t id = 0;  // given by the ledger
  std::int64_t block = 0;
  std::int64_t slot = 0;
  std::int64_t attempt = 0;  // from 1; given by the ledger
  bool warmup = false;
  std::string arm;
  std::int64_t launch_id = 0;
  RunState state = RunState::kRunning;
  std::int64_t started_utc_ns = 0;
  std::optional<std::int64_t> ended_utc_ns;
  std::string reason;  // why interrupted, failed or excluded
};

struct PromptResult {
  std::string prompt_id;
  std::int64_t position = 0;        // place in the run, from 0
  std::int64_t started_utc_ns = 0;  // of the request
  std::int64_t prompt_tokens = 0;
  std::int64_t tokens = 0;                  // tokens after the prompt, the first one included
  std::int64_t prefill_ns = 0;              // inside: the prompt's forward pass
  std::int64_t time_to_first_token_ns = 0;  // inside: request to first token
  std::int64_t decode_tokens = 0;           // tokens committed by the rounds (= sum of rounds.tokens)
  std::int64_t decode_ns = 0;               // inside: sum of the rounds
  std::int64_t inner_ns = 0;                // inside: the whole request
  std::int64_t outer_ns = 0;                // outside, by the harness: the same request
  std::string outcome;                      // "forced_text", "end_of_text", "length", ...
  std::string text_digest;                  // of the tokens really committed; must be the text's
  std::string natural_digest;               // of what the arm would have committed; empty: the worker did not say
  std::int64_t agreed_tokens = 0;           // positions at which the natural choice equals the committed token
  Rounds rounds;
};

struct StoredSample {
  std::optional<std::int64_t> run_id;  // absent outside runs
  std::string kind;                    // "before", "after", "sampler"
  EnvironmentSample sample;
};

// A GPU that arms used in a sitting.
struct GpuRecord {
  std::int64_t sitting = 0;
  GpuFacts facts;
};

// Where the time of a prompt's rounds went, in a twin launch under a collector (docs/protocol/worker.md, profile).
// Means a round.
struct ProfileRecord {
  std::int64_t launch_id = 0;
  std::int64_t position = 0;
  std::string prompt_id;
  std::optional<std::int64_t> started_utc_ns;  // of the walk; absent in ledgers before version 4
  std::string fault;                           // why there is no profile; everything after it is empty then
  std::string source;
  std::int64_t rounds = 0;
  std::int64_t records = 0;
  std::int64_t dropped = 0;  // that the collector lost
  std::int64_t invalid = 0;  // without valid times: left out
  double span_us = 0;
  double idle_us = 0;
  double round_us = 0;  // under the collector
  std::string unmatched;
  Json rows = Json::array();   // as the worker sent them
  std::string natural_digest;  // of what the twin would have committed; empty: it did not say
  Json round;                  // of one round, {row, begin_us, alone_us, end_us} each; null: not sent
};

// What ended an experiment (docs/protocol/experiment.md, "When it ends").
struct StopRecord {
  std::int64_t utc_ns = 0;                   // end of the last run that was counted
  std::string rule;                          // the experiment's: "fixed", "precision", "time"
  std::string ended_by;                      // "blocks", "precision", "time"
  std::int64_t blocks = 0;                   // complete
  std::optional<double> half_width_percent;  // widest of the verdicts' intervals; absent where one has none
  double seconds = 0;                        // that the complete blocks took
};

// When a blind experiment was unblinded, and what its findings were then.
struct UnblindingRecord {
  std::int64_t utc_ns = 0;
  std::string findings_digest;  // harness/analysis/blinding.h
};

[[nodiscard]] std::string to_text(RunState state);  // "running", "finished", ...

}  // namespace tare::harness

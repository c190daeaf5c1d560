// The texts of an experiment: written once by the baseline (or given), stored, and the instrument validated on them.
#pragma once

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "forced/prompts.h"
#include "forced/replay_text.h"
#include "forced/validation.h"
#include "harness/driver/launch.h"
#include "harness/driver/run_experiment.h"

namespace tare::harness {

// Random numbers and limits of the texts, as a run call needs them.
[[nodiscard]] RunCall call_of(const Experiment& experiment, const forced::ReplayText& text);

// Throws Error (interrupted) when the flag is set.
void stop_if_interrupted(const RunSettings& settings);

// The prompts of the experiment's file that take part.
[[nodiscard]] std::vector<forced::Prompt> selected_prompts(const Experiment& experiment);

// Lets the baseline write (or read in, for given texts) the replay texts of the selected prompts.
[[nodiscard]] std::vector<forced::ReplayText> write_texts(const Experiment& experiment, Launch& baseline,
                                                          const RunSettings& settings);

// One replay text a line: {"question_id", "category", "prompt_tokens" or "prompt", "tokens"}. Throws Error (input)
// naming the line.
struct GivenText {
  forced::ReplayText text;
  std::string prompt;  // to be encoded when prompt_tokens is not given
};
[[nodiscard]] std::vector<GivenText> read_given_texts(const std::filesystem::path& file);
// Of an experiment with given texts: of that form, or recorded rounds.
[[nodiscard]] std::vector<GivenText> given_texts_of(const Experiment& experiment);

// Texts that have at least one round.
[[nodiscard]] std::vector<forced::ReplayText> measurable(const std::vector<forced::ReplayText>& texts);

[[nodiscard]] TextRecord to_record(const forced::ReplayText& text);
[[nodiscard]] forced::ReplayText to_replay_text(const TextRecord& record);

// For given texts: forces the baseline onto each and notes its natural choices and round boundaries, which the
// validation then has to meet in another launch.
void note_natural_choices(const Experiment& experiment, Launch& baseline, std::vector<forced::ReplayText>& texts,
                          const RunSettings& settings);

// Forces the baseline, in a launch of its own, onto every text and compares: N of N in tokens and rounds, then the
// positive controls. All results go to the ledger. Throws Error (invalid) with the first difference, or naming the
// control that was not caught. Returns the seconds that the texts took, without the controls.
[[nodiscard]] double validate(const Experiment& experiment, Launch& baseline,
                              const std::vector<forced::ReplayText>& texts, Ledger& ledger,
                              const RunSettings& settings);

}  // namespace tare::harness

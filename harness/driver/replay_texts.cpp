#include "harness/driver/replay_texts.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/file.h"
#include "base/json_reader.h"
#include "forced/rounds_file.h"
#include "harness/environment/environment.h"

namespace tare::harness {
namespace {

constexpr std::size_t kControlTexts = 3;  // texts that each positive control is tried on

void tell(const RunSettings& settings, const std::string& phase, const std::string& what, std::size_t done,
          std::size_t total) {
  if (settings.progress)
    settings.progress({phase, what, static_cast<std::int64_t>(done), static_cast<std::int64_t>(total), -1});
}

std::vector<std::int32_t> narrowed(const std::vector<std::int64_t>& values) {
  std::vector<std::int32_t> result;
  result.reserve(values.size());
  for (const std::int64_t value : values) result.push_back(static_cast<std::int32_t>(value));
  return result;
}

std::vector<forced::ReplayText> given_texts(const Experiment& experiment, Launch& baseline) {
  std::vector<forced::ReplayText> texts;
  for (GivenText& given : given_texts_of(experiment)) {
    if (given.text.prompt_tokens.empty())
      given.text.prompt_tokens = baseline.worker().encode({{given.prompt}}).tokens.front();
    texts.push_back(std::move(given.text));
  }
  return texts;
}

// Token ids of the prompts: their own, or the baseline's tokenizer's, asked once for all texts.
std::vector<std::vector<std::int32_t>> encoded(const std::vector<forced::Prompt>& prompts, Launch& baseline) {
  EncodeCall call;
  for (const forced::Prompt& prompt : prompts)
    if (prompt.tokens.empty()) call.texts.push_back(prompt.turns.front());
  EncodeReply reply;
  if (!call.texts.empty()) reply = baseline.worker().encode(call);
  std::vector<std::vector<std::int32_t>> tokens;
  std::size_t next = 0;
  for (const forced::Prompt& prompt : prompts)
    tokens.push_back(prompt.tokens.empty() ? reply.tokens[next++] : prompt.tokens);
  return tokens;
}

std::optional<TextDifference> difference_of(const forced::Validation& validation) {
  if (!validation.first_difference) return std::nullopt;
  const forced::Difference& first = *validation.first_difference;
  return TextDifference{first.prompt_id, first.position, forced::to_text(first.kind), first.wanted, first.got};
}

forced::ForcedRun force(const Experiment& experiment, Launch& baseline, const forced::ReplayText& text) {
  RunCall call = call_of(experiment, text);
  call.natural = true;
  const TimedRun run = baseline.run(call);
  return {run.reply.tokens, run.reply.natural, narrowed(run.reply.round_tokens)};
}

ValidationRecord record_of(const std::string& name, bool is_control, const forced::Validation& validation) {
  ValidationRecord record;
  record.utc_ns = steady_utc_ns();
  record.name = name;
  record.is_control = is_control;
  record.prompts = validation.prompts;
  record.prompts_equal = validation.reproduced;
  record.first_difference = difference_of(validation);
  return record;
}

using Spoil = std::function<std::optional<forced::ReplayText>(const forced::ReplayText&)>;

// Forces the baseline onto spoiled texts; every one of them must be caught.
void run_control(const std::string& name, const Spoil& spoil, const Experiment& experiment, Launch& baseline,
                 const std::vector<forced::ReplayText>& texts, Ledger& ledger, const RunSettings& settings) {
  forced::Validation validation;
  for (const forced::ReplayText& text : texts) {
    if (validation.prompts == static_cast<std::int64_t>(kControlTexts)) break;
    std::optional<forced::ReplayText> spoiled = spoil(text);
    if (!spoiled) continue;
    stop_if_interrupted(settings);
    // Recorded rounds are of the sound text; the spoiled one must be caught without them.
    spoiled->rounds.clear();
    forced::add(validation, *spoiled, force(experiment, baseline, *spoiled));
  }
  ledger.store_validation(record_of(name, true, validation));
  if (validation.prompts == 0)
    throw Error(ErrorKind::kInvalid, fmt::format("the control '{}' could not be run: no text is long enough", name),
                "validation");
  if (validation.reproduced > 0)
    throw Error(ErrorKind::kInvalid,
                fmt::format("the control '{}' was not caught on {} of {} texts", name, validation.reproduced,
                            validation.prompts),
                "validation", "forcing on this arm does not measure what it claims; nothing was measured");
}

}  // namespace

std::vector<forced::Prompt> selected_prompts(const Experiment& experiment) {
  const forced::PromptFile file = forced::read_prompts(resolve(experiment, experiment.prompts.file));
  forced::PromptSelection selection;
  selection.ids = experiment.prompts.ids;
  selection.categories = experiment.prompts.categories;
  selection.limit = experiment.prompts.limit.value_or(0);
  return forced::select_prompts(file.prompts, selection);
}

RunCall call_of(const Experiment& experiment, const forced::ReplayText& text) {
  RunCall call;
  call.prompt_id = text.prompt_id;
  call.prompt = text.prompt_tokens;
  call.temperature = experiment.texts.mode == TextMode::kSampled ? experiment.texts.temperature : 0;
  call.seed = experiment.texts.seed;
  call.max_tokens = experiment.texts.max_tokens;
  call.forced = text.tokens;
  call.rounds = text.rounds;
  return call;
}

void stop_if_interrupted(const RunSettings& settings) {
  if (settings.interrupted != nullptr && settings.interrupted->load())
    throw Error(ErrorKind::kInterrupted, "stopped by the user", "", "run the same command again to go on");
}

std::vector<forced::ReplayText> write_texts(const Experiment& experiment, Launch& baseline,
                                            const RunSettings& settings) {
  if (experiment.texts.mode == TextMode::kGiven) return given_texts(experiment, baseline);
  const std::vector<forced::Prompt> prompts = selected_prompts(experiment);
  const std::vector<std::vector<std::int32_t>> prompt_tokens = encoded(prompts, baseline);
  std::vector<forced::ReplayText> texts;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    stop_if_interrupted(settings);
    tell(settings, "texts", fmt::format("prompt {}", prompts[i].id), i, prompts.size());
    forced::ReplayText text;
    text.prompt_id = prompts[i].id;
    text.category = prompts[i].category;
    text.prompt_tokens = prompt_tokens[i];
    const TimedRun run = baseline.run(call_of(experiment, text));
    text.tokens = run.reply.tokens;
    text.outcome = run.reply.outcome;
    text.round_tokens = narrowed(run.reply.round_tokens);
    texts.push_back(std::move(text));
  }
  tell(settings, "texts", "done", prompts.size(), prompts.size());
  return texts;
}

std::vector<GivenText> read_given_texts(const std::filesystem::path& file) {
  const std::string content = read_text_file(file);
  std::vector<GivenText> texts;
  std::size_t begin = 0;
  for (std::size_t line = 1; begin < content.size(); ++line) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    const std::string_view row(content.data() + begin, end - begin);
    begin = end + 1;
    if (row.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{} line {}", file.string(), line);
    const Json json = parse_json(row, where);
    JsonReader reader(json, where);
    const auto ids = [&](const std::string& key) {
      std::vector<std::int32_t> result;
      for (const Json& id : reader.array(key)) {
        if (!id.is_number_unsigned() || id.get<std::uint64_t>() > INT32_MAX)
          throw reader.error(key, "must hold token ids");
        result.push_back(id.get<std::int32_t>());
      }
      if (result.empty()) throw reader.error(key, "is empty");
      return result;
    };
    GivenText given;
    const Json& id = reader.any("question_id");
    given.text.prompt_id = id.is_string() ? id.get<std::string>() : std::to_string(reader.integer("question_id"));
    given.text.category = reader.has("category") ? reader.text("category") : "given";
    given.text.outcome = "given";
    if (reader.has("prompt_tokens")) {
      given.text.prompt_tokens = ids("prompt_tokens");
    } else {
      given.prompt = reader.text("prompt");
      if (given.prompt.empty()) throw reader.error("prompt", "is empty");
    }
    given.text.tokens = ids("tokens");
    reader.refuse_unknown_keys();
    texts.push_back(std::move(given));
  }
  if (texts.empty()) throw input_error(file.string(), "holds no texts");
  return texts;
}

std::vector<GivenText> given_texts_of(const Experiment& experiment) {
  const std::filesystem::path file = resolve(experiment, experiment.texts.file);
  if (!experiment.texts.recorded_rounds) return read_given_texts(file);
  std::vector<GivenText> texts;
  for (const forced::RecordedText& recorded : forced::read_rounds(file).texts) {
    GivenText& given = texts.emplace_back();
    given.text.prompt_id = recorded.prompt_id;
    given.text.category = recorded.category;
    given.text.prompt_tokens = recorded.prompt_tokens;
    given.text.tokens = recorded.tokens;
    given.text.outcome = "given";
    given.text.rounds = recorded.rounds;
  }
  return texts;
}

std::vector<forced::ReplayText> measurable(const std::vector<forced::ReplayText>& texts) {
  std::vector<forced::ReplayText> result;
  std::copy_if(texts.begin(), texts.end(), std::back_inserter(result),
               [](const forced::ReplayText& text) { return text.tokens.size() >= 2; });
  if (result.empty())
    throw Error(ErrorKind::kInvalid, "no text has a decode round to measure", "texts",
                "every prompt ended with its first token; use other prompts or another temperature");
  return result;
}

TextRecord to_record(const forced::ReplayText& text) {
  TextRecord record;
  record.prompt_id = text.prompt_id;
  record.category = text.category;
  record.prompt_tokens = text.prompt_tokens;
  record.tokens = text.tokens;
  record.round_tokens = text.round_tokens;
  record.outcome = text.outcome;
  if (!text.rounds.empty()) record.rounds = forced::to_json(text.rounds);
  const forced::Repetition repetition = forced::measure_repetition(text.tokens);
  record.distinct_4gram_share = repetition.distinct_4gram_share;
  record.dominant_token_share = repetition.dominant_token_share;
  record.periodic_suffix_tokens = repetition.periodic_suffix_tokens;
  record.period = repetition.period;
  record.repetitive = forced::is_repetitive(repetition, static_cast<std::int64_t>(text.tokens.size()));
  return record;
}

forced::ReplayText to_replay_text(const TextRecord& record) {
  forced::ReplayText text;
  text.prompt_id = record.prompt_id;
  text.category = record.category;
  text.prompt_tokens = record.prompt_tokens;
  text.tokens = record.tokens;
  text.outcome = record.outcome;
  text.round_tokens = record.round_tokens;
  if (!record.rounds.is_null())
    text.rounds = forced::read_round_shapes(record.rounds, "text of prompt " + record.prompt_id,
                                            record.tokens.empty() ? 0 : record.tokens.size() - 1);
  return text;
}

void note_natural_choices(const Experiment& experiment, Launch& baseline, std::vector<forced::ReplayText>& texts,
                          const RunSettings& settings) {
  for (forced::ReplayText& text : texts) {
    stop_if_interrupted(settings);
    const forced::ForcedRun run = force(experiment, baseline, text);
    text.natural = run.natural;
    text.round_tokens = run.round_tokens;
  }
}

double validate(const Experiment& experiment, Launch& baseline, const std::vector<forced::ReplayText>& texts,
                Ledger& ledger, const RunSettings& settings) {
  const bool given = experiment.texts.mode == TextMode::kGiven;
  forced::Validation validation;
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    stop_if_interrupted(settings);
    tell(settings, "validation", fmt::format("prompt {}", texts[i].prompt_id), i, texts.size());
    forced::add(validation, texts[i], force(experiment, baseline, texts[i]));
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  tell(settings, "validation", "done", texts.size(), texts.size());
  ledger.store_validation(
      record_of(given ? "baseline onto given texts, twice" : "baseline onto its own texts", false, validation));
  if (!validation.passed())
    throw Error(
        ErrorKind::kInvalid,
        fmt::format("{} of {} texts were reproduced; first difference: {}", validation.reproduced, validation.prompts,
                    validation.first_difference ? forced::to_text(*validation.first_difference) : "none"),
        "validation", "the baseline does not reproduce its own text under forcing; nothing was measured");
  const auto vocabulary = static_cast<std::int32_t>(baseline.opened().vocab_size);
  run_control("text moved by one", &forced::off_by_one_control, experiment, baseline, texts, ledger, settings);
  run_control(
      "one flipped token",
      [vocabulary](const forced::ReplayText& text) { return forced::flipped_token_control(text, vocabulary); },
      experiment, baseline, texts, ledger, settings);
  run_control(
      "text of another prompt",
      [&texts](const forced::ReplayText& text) { return forced::other_text_control(text, texts); }, experiment,
      baseline, texts, ledger, settings);
  return seconds;
}

}  // namespace tare::harness

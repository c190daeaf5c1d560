#include "harness/analysis/descriptions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "forced/replay_text.h"
#include "harness/environment/environment.h"

namespace tare::harness {
namespace {

using reports::kMissing;
using reports::Severity;

std::string text_or_empty(const Json& json, const char* key) {
  return json.is_object() && json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : std::string();
}

reports::Build build_of(const Json& json) {
  reports::Build build;
  build.version = text_or_empty(json, "version");
  build.commit = text_or_empty(json, "commit");
  if (json.is_object() && json.contains("dirty") && json["dirty"] == true) build.commit += "+changes";
  build.compiler = text_or_empty(json, "compiler");
  build.flags = text_or_empty(json, "flags");
  build.type = text_or_empty(json, "build_type");
  return build;
}

// The parts of `options` that differ from `baseline`, in the same nesting.
Json differing(const Json& options, const Json& baseline) {
  Json result = Json::object();
  for (const auto& [key, value] : options.items()) {
    const Json other = baseline.is_object() && baseline.contains(key) ? baseline[key] : Json();
    if (value == other) continue;
    result[key] = value.is_object() && other.is_object() ? differing(value, other) : value;
  }
  return result;
}

// The options in force: as the arm's counted (else any) launch echoed them, else as the experiment sets them.
Json options_of(const Gathered& gathered, const Arm& arm) {
  Json options;
  for (const LaunchRecord& launch : gathered.launches)
    if (launch.arm == arm.name && launch.options.is_object()) options = launch.options;
  return options.is_object() ? options : arm.options;
}

reports::RunState state_of(const RunRecord& run, bool counted) {
  if (run.warmup) return reports::RunState::kWarmUp;
  if (counted) return reports::RunState::kCounted;
  switch (run.state) {
    case RunState::kExcluded:
      return reports::RunState::kExcluded;
    case RunState::kFailed:
      return reports::RunState::kFailed;
    default:
      return reports::RunState::kInterrupted;
  }
}

std::string note_of(const RunRecord& run, bool counted) {
  if (!run.reason.empty() || counted) return run.reason;
  if (run.state == RunState::kFinished && !run.warmup) return "its block is not complete yet";
  if (run.state == RunState::kRunning) return "begun and not ended";
  return {};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

forced::ReplayText replay_text(const TextRecord& record) {
  forced::ReplayText text;
  text.prompt_id = record.prompt_id;
  text.category = record.category;
  text.prompt_tokens = record.prompt_tokens;
  text.tokens = record.tokens;
  text.outcome = record.outcome;
  text.round_tokens = record.round_tokens;
  return text;
}

void warn_of_texts(const Gathered& gathered, std::vector<reports::Warning>& warnings) {
  std::vector<std::string> repetitive;
  for (const std::size_t text : gathered.measured)
    if (gathered.texts[text].repetitive) repetitive.push_back(gathered.texts[text].prompt_id);
  const std::size_t unmeasured = gathered.texts.size() - gathered.measured.size();
  if (!repetitive.empty()) {
    constexpr std::size_t kNamed = 8;
    const std::size_t named = std::min(kNamed, repetitive.size());
    const std::string more =
        repetitive.size() > named ? fmt::format(" and {} more", repetitive.size() - named) : std::string();
    warnings.push_back(
        {Severity::kWarning, "texts_repeat",
         fmt::format("{} of {} texts are largely a loop (prompts {}{}): a loop is easier than the text "
                     "the speed is meant for",
                     repetitive.size(), gathered.measured.size(), join(std::span(repetitive).first(named), ", "), more),
         ""});
  }
  if (unmeasured > 0)
    warnings.push_back({Severity::kNote, "texts_without_rounds",
                        fmt::format("{} of {} texts ended with their first token and are not measured", unmeasured,
                                    gathered.texts.size()),
                        ""});
}

}  // namespace

std::vector<reports::Arm> describe_arms(const Gathered& gathered) {
  std::vector<reports::Arm> arms;
  const Json baseline_options = options_of(gathered, gathered.experiment.arms.front());
  for (std::size_t i = 0; i < gathered.experiment.arms.size(); ++i) {
    const Arm& arm = gathered.experiment.arms[i];
    reports::Arm described;
    described.name = arm.name;
    described.program = join(arm.program, " ");
    described.levels = arm.levels;
    const Json options = options_of(gathered, arm);
    described.options_json = options.dump();
    described.options_differing_json = differing(options, baseline_options).dump();
    described.checkpoint.name = arm.model;
    for (const LaunchRecord& launch : gathered.launches) {
      if (launch.arm != arm.name) continue;
      if (!launch.build.is_null()) described.build = build_of(launch.build);
      if (!launch.checkpoint_digest.empty()) described.checkpoint.digest = launch.checkpoint_digest;
    }
    std::set<std::size_t> launches;
    for (const CountedRun& run : gathered.counted)
      if (run.arm == i) launches.insert(run.launch);
    described.launch_count = launches.size();
    for (const std::size_t launch : launches) {
      const auto peak = gathered.launches[launch].peak_memory_bytes;
      if (peak && !(described.peak_memory_bytes >= static_cast<double>(*peak)))
        described.peak_memory_bytes = static_cast<double>(*peak);
    }
    arms.push_back(std::move(described));
  }
  return arms;
}

std::vector<reports::Run> describe_runs(const Gathered& gathered) {
  std::vector<reports::Run> runs;
  if (gathered.runs.empty()) return runs;
  std::map<std::int64_t, std::size_t> launch_order;
  for (const LaunchRecord& launch : gathered.launches) launch_order.emplace(launch.id, launch_order.size());
  std::set<std::int64_t> counted;
  for (const CountedRun& run : gathered.counted) counted.insert(run.record.id);
  const std::int64_t origin = gathered.runs.front().started_utc_ns;
  for (const RunRecord& record : gathered.runs) {
    const bool counts = counted.contains(record.id);
    reports::Run run;
    run.block = static_cast<std::size_t>(record.block);
    run.slot = static_cast<std::size_t>(record.slot);
    const auto& arms = gathered.experiment.arms;
    const auto arm = std::find_if(arms.begin(), arms.end(), [&](const Arm& a) { return a.name == record.arm; });
    run.arm = arm == arms.end() ? 0 : static_cast<std::size_t>(arm - arms.begin());
    run.launch = fmt::format("launch {}", record.launch_id);
    run.launch_order = launch_order[record.launch_id];
    run.start_utc = utc_text_ms(record.started_utc_ns);
    run.start_s = static_cast<double>(record.started_utc_ns - origin) * 1e-9;
    run.state = state_of(record, counts);
    run.note = note_of(record, counts);
    runs.push_back(std::move(run));
  }
  return runs;
}

reports::Texts describe_texts(const Gathered& gathered, std::vector<reports::Warning>& warnings) {
  const TextSource& source = gathered.experiment.texts;
  reports::Texts texts;
  texts.mode = to_text(source.mode);
  if (source.mode == TextMode::kSampled) {
    texts.temperature = source.temperature;
    texts.seed = source.seed;
  }
  texts.repetition_definition = "share of a text's 4-token windows that occurred before in the same text";
  texts.texts = gathered.measured.size();
  std::map<std::string, std::size_t> outcomes;
  for (const TextRecord& text : gathered.texts) ++outcomes[text.outcome];
  for (const auto& [outcome, prompts] : outcomes) texts.outcomes.push_back({outcome, prompts});
  if (gathered.measured.empty()) return texts;
  std::vector<double> tokens;
  std::vector<double> repetition;
  std::vector<forced::ReplayText> suite;
  for (const std::size_t index : gathered.measured) {
    const TextRecord& text = gathered.texts[index];
    suite.push_back(replay_text(text));
    tokens.push_back(static_cast<double>(text.tokens.size()));
    texts.tokens += static_cast<std::int64_t>(text.tokens.size());
    repetition.push_back(1 - text.distinct_4gram_share);
    if (!(texts.repetition_highest >= repetition.back())) {
      texts.repetition_highest = repetition.back();
      texts.most_repetitive_prompt = text.prompt_id;
    }
  }
  texts.digest = forced::suite_digest(suite);
  texts.shortest_tokens = *std::min_element(tokens.begin(), tokens.end());
  texts.longest_tokens = *std::max_element(tokens.begin(), tokens.end());
  texts.median_tokens = median(tokens);
  texts.repetition_median = median(repetition);
  warn_of_texts(gathered, warnings);
  return texts;
}

reports::ScheduleFacts describe_schedule(const Gathered& gathered) {
  reports::ScheduleFacts schedule;
  const ScheduleSettings& settings = gathered.experiment.schedule;
  schedule.granularity = to_text(settings.granularity);
  schedule.blocks = gathered.complete_blocks.size();
  for (const std::int64_t block : gathered.complete_blocks)
    if (block >= 0 && static_cast<std::size_t>(block) < gathered.plan.blocks.size())
      schedule.block_orders.push_back(gathered.plan.blocks[static_cast<std::size_t>(block)].order);
  std::vector<std::string> letters;
  for (std::size_t i = 0; i < gathered.experiment.arms.size(); ++i)
    letters.push_back(fmt::format("{} = {}", static_cast<char>('A' + i), gathered.experiment.arms[i].name));
  schedule.letters = join(letters, ", ");
  schedule.seed = settings.seed;
  schedule.warm_up = settings.warmup;
  schedule.launches = gathered.launches.size();
  return schedule;
}

reports::Stop describe_stop(const Gathered& gathered) {
  const ScheduleSettings& schedule = gathered.experiment.schedule;
  reports::Stop stop;
  stop.rule = to_text(schedule.stop.rule);
  stop.most_blocks = static_cast<std::size_t>(schedule.blocks);
  if (schedule.stop.rule == StopRule::kPrecision) stop.half_width_percent = schedule.stop.half_width_percent;
  if (schedule.stop.rule == StopRule::kTime) stop.budget_s = schedule.stop.budget_s;
  if (!gathered.stop) return stop;
  stop.ended_by = gathered.stop->ended_by;
  stop.ended_utc = utc_text_ms(gathered.stop->utc_ns);
  stop.ended_blocks = static_cast<std::size_t>(gathered.stop->blocks);
  stop.ended_half_width_percent = gathered.stop->half_width_percent.value_or(reports::kMissing);
  stop.ended_seconds = gathered.stop->seconds;
  return stop;
}

reports::Matrix describe_matrix(const Experiment& experiment) {
  reports::Matrix matrix;
  if (experiment.matrix.design == DesignKind::kNone) return matrix;
  matrix.design = to_text(experiment.matrix.design);
  for (std::size_t f = 0; f < experiment.matrix.factors.size(); ++f) {
    reports::Factor factor{experiment.matrix.factors[f].name, {}, experiment.arms.front().levels[f]};
    for (const FactorLevel& level : experiment.matrix.factors[f].levels) factor.levels.push_back(level.name);
    matrix.factors.push_back(std::move(factor));
  }
  for (const Json& excluded : experiment.matrix.exclude) {
    std::vector<std::string> parts;
    for (const auto& [factor, level] : excluded.items()) parts.push_back(factor + " " + level.get<std::string>());
    matrix.excluded.push_back(join(parts, ", "));
  }
  return matrix;
}

}  // namespace tare::harness

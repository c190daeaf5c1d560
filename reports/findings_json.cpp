#include "reports/findings_json.h"

#include <cmath>

namespace tare::reports {
namespace {

// JSON has no NaN and no infinity.
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

// JSON text of the options as an object where it is one, else as the text it is.
Json embedded(const std::string& text) {
  if (text.empty()) return nullptr;
  Json parsed = Json::parse(text, nullptr, false);
  return parsed.is_discarded() ? Json(text) : parsed;
}

Json log_and_percent(double log) {
  return {{"log", number(log)}, {"percent", number(percent_of_log(log))}};
}

// Declared first, for the lists below.
Json of(const Warning& warning);
Json of(const PositiveControl& control);
Json of(const Factor& factor);
Json of(const Sitting& sitting);
Json of(const Measure& measure);
Json of(const Interval& interval);
Json of(const Prompt& prompt);
Json of(const OutcomeCount& outcome);
Json of(const Reading& reading);
Json of(const Fact& fact);
Json of(const RunConditions& run);
Json of(const TimeRow& row);
Json of(const ArmTimeRow& row);
Json of(const RoundLane& lane);
Json of(const ArmTimes& times);
Json of(const TimeDifference& difference);
Json of(const Arm& arm, const Findings& findings);
Json of(const Effect& effect, const Findings& findings);
Json of(const FactorEffect& effect, const Findings& findings);
Json of(const Interaction& interaction, const Findings& findings);
Json of(const SittingEffect& effect, const Findings& findings);
Json of(const PooledEffect& pooled, const Findings& findings);
Json of(const MeasureValue& value, const Findings& findings);
Json of(const ArmRounds& rounds, const Findings& findings);
Json of(const ArmFidelity& fidelity, const Findings& findings);
Json of(const Run& run, const Findings& findings);

template <typename T>
Json of(const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(of(item));
  return list;
}

template <typename T>
Json named(const std::vector<T>& items, const Findings& findings) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(of(item, findings));
  return list;
}

Json of(const Warning& warning) {
  return {{"severity", word_of(warning.severity)},
          {"code", warning.code},
          {"text", warning.text},
          {"about", warning.about}};
}

Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(number(value));
  return list;
}

Json of(const PositiveControl& control) {
  return {{"name", control.name}, {"caught", control.caught}, {"detail", control.detail}};
}

Json of(const Validity& validity) {
  Json json = {{"valid", validity.valid},
               {"prompts_validated", validity.prompts_validated},
               {"prompts_total", validity.prompts_total},
               {"tokens_validated", validity.tokens_validated},
               {"rounds_validated", validity.rounds_validated},
               {"first_difference", nullptr},
               {"controls", of(validity.controls)},
               {"clock", nullptr},
               {"why_invalid", validity.why_invalid}};
  if (const auto& first = validity.first_difference)
    json["first_difference"] = {
        {"prompt", first->prompt}, {"position", first->position}, {"wanted", first->wanted}, {"got", first->got}};
  if (const auto& clock = validity.clock)
    json["clock"] = {{"compared", clock->compared},
                     {"worst_share", number(clock->worst_share)},
                     {"worst_ns", number(clock->worst_ns)},
                     {"agreed", clock->agreed}};
  return json;
}

Json of(const Sitting& sitting) {
  return {{"name", sitting.name}, {"started_utc", sitting.started_utc}, {"blocks", sitting.blocks}};
}

Json of(const SittingEffect& effect, const Findings& findings) {
  return {{"sitting", findings.sittings[effect.sitting].name},
          {"interval", of(effect.interval)},
          {"standard_error_log", number(effect.standard_error_log)}};
}

Json of(const PooledEffect& pooled, const Findings& findings) {
  return {{"arm", findings.arms[pooled.arm].name},
          {"interval", of(pooled.interval)},
          {"between_sd_log", number(pooled.between_sd_log)},
          {"heterogeneity_p", number(pooled.heterogeneity_p)},
          {"conclusive", pooled.conclusive},
          {"sittings", named(pooled.sittings, findings)}};
}

Json of(const Factor& factor) {
  return {{"name", factor.name}, {"levels", factor.levels}, {"reference", factor.levels.at(factor.reference)}};
}

Json of(const FactorEffect& effect, const Findings& findings) {
  const Factor& factor = findings.matrix.factors[effect.factor];
  return {{"factor", factor.name},
          {"level", factor.levels[effect.level]},
          {"reference", factor.levels[factor.reference]},
          {"combinations", effect.combinations},
          {"interval", of(effect.interval)},
          {"p", number(effect.p)},
          {"p_adjusted", number(effect.p_adjusted)},
          {"shown", effect.shown}};
}

Json of(const Interaction& interaction, const Findings& findings) {
  const Factor& factor = findings.matrix.factors[interaction.factor];
  const Factor& other = findings.matrix.factors[interaction.other_factor];
  return {{"factor", factor.name},
          {"level", factor.levels[interaction.level]},
          {"other_factor", other.name},
          {"other_level", other.levels[interaction.other_level]},
          {"combinations", interaction.combinations},
          {"interval", of(interaction.interval)},
          {"p", number(interaction.p)},
          {"p_adjusted", number(interaction.p_adjusted)},
          {"shown", interaction.shown}};
}

Json matrix_json(const Findings& findings) {
  const Matrix& matrix = findings.matrix;
  if (matrix.design.empty()) return nullptr;
  return {{"design", matrix.design},
          {"factors", of(matrix.factors)},
          {"excluded", matrix.excluded},
          {"effects", named(matrix.effects, findings)},
          {"interactions", named(matrix.interactions, findings)}};
}

Json of(const Stop& stop) {
  return {{"rule", stop.rule},
          {"most_blocks", stop.most_blocks},
          {"half_width_percent", number(stop.half_width_percent)},
          {"budget_s", number(stop.budget_s)},
          {"ended_by", stop.ended_by.empty() ? Json(nullptr) : Json(stop.ended_by)},
          {"ended_utc", stop.ended_utc},
          {"ended_blocks", stop.ended_blocks},
          {"ended_half_width_percent", number(stop.ended_half_width_percent)},
          {"ended_seconds", number(stop.ended_seconds)}};
}

Json of(const ArmFidelity& fidelity, const Findings& findings) {
  return {{"arm", findings.arms[fidelity.arm].name},
          {"divergence_nats", number(fidelity.divergence)},
          {"low_nats", number(fidelity.low)},
          {"high_nats", number(fidelity.high)},
          {"on_front", fidelity.on_front}};
}

Json of(const Arm& arm, const Findings& findings) {
  Json levels = Json::object();
  for (std::size_t f = 0; f < arm.levels.size(); ++f)
    levels[findings.matrix.factors[f].name] = findings.matrix.factors[f].levels[arm.levels[f]];
  return {{"name", arm.name},
          {"levels", levels},
          {"display_name", arm.display_name},
          {"program", arm.program},
          {"options", embedded(arm.options_json)},
          {"options_differing", embedded(arm.options_differing_json)},
          {"build",
           {{"version", arm.build.version},
            {"commit", arm.build.commit},
            {"compiler", arm.build.compiler},
            {"flags", arm.build.flags},
            {"type", arm.build.type}}},
          {"checkpoint", {{"name", arm.checkpoint.name}, {"digest", arm.checkpoint.digest}}},
          {"launch_count", arm.launch_count},
          {"peak_memory_bytes", number(arm.peak_memory_bytes)}};
}

Json of(const Measure& measure) {
  return {{"key", measure.key},
          {"name", measure.name},
          {"unit", measure.unit},
          {"higher_is_better", measure.higher_is_better},
          {"definition", measure.definition}};
}

Json of(const Interval& interval) {
  return {{"estimand", word_of(interval.estimand)},
          {"question", question_of(interval.estimand)},
          {"method", interval.method},
          {"estimate", log_and_percent(interval.estimate_log)},
          {"low", log_and_percent(interval.low_log)},
          {"high", log_and_percent(interval.high_log)},
          {"level", number(interval.level)},
          {"degrees_of_freedom", number(interval.degrees_of_freedom)},
          {"of_verdict", interval.of_verdict},
          {"robustness", interval.robustness},
          {"why_missing", interval.why_missing}};
}

Json of(const Effect& effect, const Findings& findings) {
  Json json = {{"arm", findings.arms[effect.arm].name},
               {"baseline", findings.arms[0].name},
               {"measure", findings.measures[effect.measure].key},
               {"estimate", log_and_percent(effect.estimate_log)},
               {"intervals", of(effect.intervals)},
               {"p", number(effect.p)},
               {"p_adjusted", number(effect.p_adjusted)},
               {"in_family", effect.in_family},
               {"verdict", effect.verdict.empty() ? Json(nullptr) : Json(effect.verdict)},
               {"difference_shown", effect.difference_shown},
               {"truth", nullptr},
               {"warnings", of(effect.warnings)}};
  if (effect.truth) {
    const Interval* interval = verdict_interval(effect);
    const auto holds = interval != nullptr ? holds_truth(*interval, *effect.truth) : std::nullopt;
    json["truth"] = {{"effect", log_and_percent(effect.truth->effect_log)},
                     {"source", effect.truth->source},
                     {"held_by_verdict_interval", holds ? Json(*holds) : Json(nullptr)}};
  }
  return json;
}

Json of(const MeasureValue& value, const Findings& findings) {
  return {{"arm", findings.arms[value.arm].name},
          {"measure", findings.measures[value.measure].key},
          {"value", number(value.value)},
          {"lowest_run", number(value.lowest_run)},
          {"highest_run", number(value.highest_run)},
          {"run_count", value.run_count}};
}

Json of(const Run& run, const Findings& findings) {
  Json values = Json::object();
  for (std::size_t m = 0; m < run.values.size(); ++m) values[findings.measures[m].key] = number(run.values[m]);
  return {{"block", run.block},
          {"slot", run.slot},
          {"arm", findings.arms[run.arm].name},
          {"launch", run.launch},
          {"launch_order", run.launch_order},
          {"start_utc", run.start_utc},
          {"start_s", number(run.start_s)},
          {"decode_s", number(run.decode_s)},
          {"tokens", run.tokens},
          {"values", values},
          {"fitted", number(run.fitted)},
          {"drift_log", number(run.drift_log)},
          {"state", word_of(run.state)},
          {"note", run.note}};
}

Json of(const Drift& drift) {
  return {{"degree", drift.degree},
          {"regressor", drift.regressor},
          {"per_slot", log_and_percent(drift.per_slot_log)},
          {"per_slot_low", log_and_percent(drift.per_slot_low_log)},
          {"per_slot_high", log_and_percent(drift.per_slot_high_log)},
          {"residual_sd_log", number(drift.residual_sd_log)},
          {"arm_correlation", number(drift.arm_correlation)},
          {"width_inflation", number(drift.width_inflation)}};
}

Json of(const Prompt& prompt) {
  return {{"id", prompt.id},
          {"category", prompt.category},
          {"tokens", prompt.tokens},
          {"seconds", numbers(prompt.seconds)},
          {"log_ratio", numbers(prompt.log_ratio)}};
}

Json of(const OutcomeCount& outcome) {
  return {{"outcome", outcome.outcome}, {"prompts", outcome.prompts}};
}

Json of(const Texts& texts) {
  return {{"mode", texts.mode},
          {"temperature", number(texts.temperature)},
          {"seed", texts.seed},
          {"digest", texts.digest},
          {"texts", texts.texts},
          {"tokens", texts.tokens},
          {"shortest_tokens", number(texts.shortest_tokens)},
          {"median_tokens", number(texts.median_tokens)},
          {"longest_tokens", number(texts.longest_tokens)},
          {"repetition_definition", texts.repetition_definition},
          {"repetition_median", number(texts.repetition_median)},
          {"repetition_highest", number(texts.repetition_highest)},
          {"most_repetitive_prompt", texts.most_repetitive_prompt},
          {"outcomes", of(texts.outcomes)}};
}

Json of(const Reading& reading) {
  return {{"name", reading.name},
          {"unit", reading.unit},
          {"before", number(reading.before)},
          {"lowest", number(reading.lowest)},
          {"highest", number(reading.highest)},
          {"after", number(reading.after)}};
}

Json of(const Fact& fact) {
  return {{"name", fact.name}, {"value", fact.value}};
}

Json of(const RunConditions& run) {
  return {{"run", run.run},
          {"clock_mhz", number(run.clock_mhz)},
          {"clock_lowest_mhz", number(run.clock_lowest_mhz)},
          {"clock_highest_mhz", number(run.clock_highest_mhz)},
          {"temperature_c", number(run.temperature_c)},
          {"power_w", number(run.power_w)},
          {"energy_j", number(run.energy_j)},
          {"others_cores", number(run.others_cores)},
          {"waited_share", number(run.waited_share)},
          {"load", number(run.load)},
          {"samples", run.samples}};
}

Json of(const Conditions& conditions) {
  return {{"hostname", conditions.hostname},
          {"machine", conditions.machine},
          {"cpu", conditions.cpu},
          {"cores_usable", conditions.cores_usable == 0 ? Json(nullptr) : Json(conditions.cores_usable)},
          {"cores_pinned", conditions.cores_pinned},
          {"memory_bytes", number(conditions.memory_bytes)},
          {"kernel", conditions.kernel},
          {"governor", conditions.governor},
          {"readings", of(conditions.readings)},
          {"facts", of(conditions.facts)},
          {"clock", conditions.clock_name},
          {"runs", of(conditions.runs)}};
}

Json of(const TimeRow& row) {
  return {{"what", row.what},
          {"baseline_us", number(row.baseline_us)},
          {"arm_us", number(row.arm_us)},
          {"difference_us", number(row.difference_us)},
          {"low_us", number(row.low_us)},
          {"high_us", number(row.high_us)}};
}

Json of(const ArmTimeRow& row) {
  return {{"what", row.what}, {"part", row.part}, {"us", number(row.us)}, {"bytes", number(row.bytes)}};
}

Json of(const RoundLane& lane) {
  Json spans = Json::array();
  for (const RoundSpan& span : lane.spans) spans.push_back({span.begin_us, span.alone_us, span.end_us});
  return {{"what", lane.what}, {"part", lane.part}, {"spans_us", spans}};
}

Json of(const ArmRounds& rounds, const Findings& findings) {
  Json categories = Json::array();
  for (const CategoryRounds& category : rounds.categories)
    categories.push_back({{"category", category.category}, {"rounds", category.rounds}, {"tokens", category.tokens}});
  Json positions = Json::array();
  for (const DraftPosition& position : rounds.positions)
    positions.push_back({{"reached", position.reached}, {"tried", position.tried}, {"accepted", position.accepted}});
  Json phases = Json::object();
  for (const RoundPhase& phase : rounds.phases) phases[phase.name] = number(phase.us);
  return {{"arm", findings.arms[rounds.arm].name},
          {"rounds", rounds.rounds},
          {"tokens", rounds.tokens},
          {"nodes", rounds.nodes},
          {"cut", rounds.cut},
          {"tokens_per_round",
           {{"by_rounds", number(rounds.by_rounds)},
            {"by_texts", number(rounds.by_texts)},
            {"by_categories", number(rounds.by_categories)}}},
          {"round_us", number(rounds.round_us)},
          {"categories", std::move(categories)},
          {"positions", std::move(positions)},
          {"phase_us", std::move(phases)}};
}

Json of(const ArmTimes& times) {
  return {{"arm", times.arm},
          {"fault", times.fault},
          {"source", times.source},
          {"prompts", times.prompts},
          {"timed_us", number(times.timed_us)},
          {"busy_us", number(times.busy_us)},
          {"idle_us", number(times.idle_us)},
          {"host_us", number(times.host_us)},
          {"profiled_us", number(times.profiled_us)},
          {"rows", of(times.rows)},
          {"round_of", times.round_of},
          {"round", of(times.round)}};
}

Json of(const TimeDifference& difference) {
  return {{"arm", difference.arm},
          {"prompts", difference.prompts},
          {"rows", of(difference.rows)},
          {"idle", of(difference.idle)},
          {"host", of(difference.host)},
          {"stalls", of(difference.stalls)},
          {"residual", of(difference.residual)},
          {"timed", of(difference.timed)},
          {"explained_share", number(difference.explained_share)},
          {"adds_up", difference.adds_up},
          {"stalled", difference.stalled},
          {"only_baseline", difference.only_baseline},
          {"only_arm", difference.only_arm},
          {"outputs_equal", difference.outputs_equal},
          {"outputs_compared", difference.outputs_compared}};
}

Json of(const ScheduleFacts& schedule) {
  return {{"granularity", schedule.granularity}, {"blocks", schedule.blocks}, {"block_orders", schedule.block_orders},
          {"letters", schedule.letters},         {"seed", schedule.seed},     {"warm_up", schedule.warm_up},
          {"launches", schedule.launches}};
}

Json of(const Methods& methods) {
  return {{"alpha", methods.alpha},
          {"multiplicity", methods.multiplicity},
          {"family_size", methods.family_size},
          {"equivalence_margin_log", number(methods.equivalence_margin_log)},
          {"non_inferiority_margin_log", number(methods.non_inferiority_margin_log)},
          {"bootstrap_resamples", methods.bootstrap_resamples},
          {"bootstrap_seed", methods.bootstrap_seed},
          {"unit_of_replication", methods.unit_of_replication}};
}

}  // namespace

Json findings_json(const Findings& findings) {
  Json json = {{"format", "tare-findings"}, {"version", 1}};
  json["title"] = findings.title;
  json["description"] = findings.description;
  json["experiment"] = findings.experiment;
  json["experiment_digest"] = findings.experiment_digest;
  json["experiment_json"] = embedded(findings.experiment_json);
  json["created_utc"] = findings.created_utc;
  json["command"] = findings.command;
  json["harness_version"] = findings.harness_version;
  json["complete"] = findings.complete;
  json["blinding"] = {{"blind", findings.blinding.blind},
                      {"unblinded_utc", findings.blinding.unblinded_utc},
                      {"findings_digest", findings.blinding.findings_digest},
                      {"changed", findings.blinding.changed}};
  json["warnings"] = of(findings.warnings);
  json["validity"] = of(findings.validity);
  json["arms"] = named(findings.arms, findings);
  json["measures"] = of(findings.measures);
  json["effect_measure"] = findings.effect_measure < findings.measures.size()
                               ? Json(findings.measures[findings.effect_measure].key)
                               : Json(nullptr);
  json["values"] = named(findings.values, findings);
  json["effects"] = named(findings.effects, findings);
  json["matrix"] = matrix_json(findings);
  json["sittings"] = of(findings.sittings);
  json["pooled"] = named(findings.pooled, findings);
  json["drift"] = of(findings.drift);
  json["runs"] = named(findings.runs, findings);
  json["prompts"] = of(findings.prompts);
  json["texts"] = of(findings.texts);
  json["conditions"] = of(findings.conditions);
  json["rounds"] = named(findings.rounds, findings);
  json["times"] = {{"arms", of(findings.times.arms)},
                   {"differences", of(findings.times.differences)},
                   {"read_gb_per_s", number(findings.times.read_gb_per_s)},
                   {"read_rate_source", findings.times.read_rate_source}};
  json["fidelity"] = {{"source", findings.fidelity_source}, {"arms", named(findings.fidelity, findings)}};
  json["schedule"] = of(findings.schedule);
  json["stop"] = of(findings.stop);
  json["methods"] = of(findings.methods);
  return json;
}

std::string findings_json_text(const Findings& findings) {
  return findings_json(findings).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tare::reports

#include "tests/harness/simulated_ledger.h"

#include <cmath>
#include <optional>

#include "base/digest.h"
#include "harness/experiment/plan.h"
#include "stats/schedule.h"

namespace tare::harness {
namespace {

constexpr std::int64_t kStartUtcNs = 1'764'427'306'000'000'000;
constexpr std::int64_t kTokens = 9;  // of a text: the prefill's and eight rounds
constexpr std::int64_t kRounds = kTokens - 1;
constexpr double kWarmUpSlowness = 3;

std::string prompt_name(std::size_t prompt) {
  return "p" + std::to_string(prompt);
}

std::vector<TextRecord> texts_of(std::size_t prompts) {
  std::vector<TextRecord> texts;
  for (std::size_t i = 0; i < prompts; ++i) {
    TextRecord text;
    text.prompt_id = prompt_name(i);
    text.category = i % 2 == 0 ? "code" : "prose";
    text.prompt_tokens.assign(5 + i, static_cast<std::int32_t>(i));
    for (std::int32_t token = 0; token < kTokens; ++token)
      text.tokens.push_back(static_cast<std::int32_t>(i) * 100 + token);
    text.round_tokens.assign(kRounds, 1);
    text.outcome = "length";
    texts.push_back(std::move(text));
  }
  return texts;
}

// One replay that took `seconds` of decode before the handicap.
PromptResult result_of(const TextRecord& text, std::size_t position, double seconds, double handicap_share) {
  PromptResult result;
  result.prompt_id = text.prompt_id;
  result.position = static_cast<std::int64_t>(position);
  result.prompt_tokens = static_cast<std::int64_t>(text.prompt_tokens.size());
  result.tokens = static_cast<std::int64_t>(text.tokens.size());
  result.agreed_tokens = result.tokens;
  const auto round_ns = std::llround(seconds * 1e9 / static_cast<double>(kRounds));
  const auto spun_ns = std::llround(handicap_share * static_cast<double>(round_ns));
  result.rounds.duration_ns.assign(kRounds, round_ns + spun_ns);
  result.rounds.tokens.assign(kRounds, 1);
  result.rounds.spun_ns.assign(kRounds, spun_ns);
  result.decode_tokens = kRounds;
  result.decode_ns = kRounds * (round_ns + spun_ns);
  result.prefill_ns = round_ns * result.prompt_tokens / 4;
  result.time_to_first_token_ns = result.prefill_ns + 1000;
  result.inner_ns = result.time_to_first_token_ns + result.decode_ns;
  result.outer_ns = result.inner_ns + 50'000;
  result.outcome = "forced_text";
  result.text_digest = digest_tokens(text.tokens);
  return result;
}

EnvironmentSample sample_at(std::int64_t utc_ns) {
  EnvironmentSample sample;
  sample.utc_ns = utc_ns;
  sample.load_1min = 1;
  sample.cpu_pressure_avg10 = 0.5;
  sample.cpu_pressure_us = utc_ns / 1'000'000;  // a thousandth of the time
  sample.cpu_busy_ticks = utc_ns / 10'000'000;
  sample.cpu_steal_ticks = 0;
  return sample;
}

class Writer {
 public:
  Writer(const SimulatedRun& run, const std::filesystem::path& directory)
      : run_(run),
        experiment_(simulated_experiment(run)),
        ledger_(Ledger::open_for_writing(directory / kLedgerFile,
                                         {experiment_digest(experiment_), to_json(experiment_), experiment_.name})),
        texts_(texts_of(run.prompts)),
        now_ns_(kStartUtcNs + run.begun_s * 1'000'000'000) {}

  void write(const stats::Observations& observations) {
    const Json machine = {{"hostname", "box"},      {"product", "unsupported"},  {"cpu_model", "Some CPU"},
                          {"usable_cores", {0, 1}}, {"cores_online", 2},         {"memory_bytes", 1'000'000'000},
                          {"kernel", "Linux"},      {"governor", "unsupported"}, {"max_frequency_mhz", "unsupported"}};
    SittingRecord sitting{0, now_ns_, machine, {{"commit", "c"}}, "prompts"};
    if (run_.change_sitting) run_.change_sitting(sitting);
    sitting_ = ledger_.begin_sitting(sitting);
    for (const std::string& id : run_.gpus) {
      GpuFacts gpu;
      gpu.pci_bus_id = id;
      gpu.name = "Simulated GPU";
      gpu.default_power_limit_w = 700;
      gpu.missing = {{"energy", "not supported"}};
      if (run_.change_gpu) run_.change_gpu(gpu);
      ledger_.store_gpu(sitting_, gpu);
    }
    if (run_.change_texts) run_.change_texts(texts_);
    ledger_.store_texts(texts_);
    write_validations();
    const Plan planned = plan(experiment_);
    for (const PlannedBlock& block : planned.blocks) {
      if (run_.blocks_measured >= 0 && block.block >= run_.blocks_measured) break;
      if (run_.blocks_per_sitting > 0 && block.block > 0 && block.block % run_.blocks_per_sitting == 0) {
        sitting.started_utc_ns = now_ns_;
        sitting_ = ledger_.begin_sitting(sitting);
      }
      std::vector<std::int64_t> launches(experiment_.arms.size(), 0);
      if (run_.granularity == Granularity::kPrompt)
        for (const PlannedRun& planned_run : block.runs) launches[planned_run.arm] = begin_launch(planned_run);
      const bool with_warmups = run_.granularity == Granularity::kPrompt || block.block == 0;
      if (with_warmups)
        for (const PlannedRun& warmup : block.warmups) write_run(warmup, launches, observations);
      for (const PlannedRun& planned_run : block.runs) write_run(planned_run, launches, observations);
    }
  }

 private:
  const SimulatedRun& run_;
  Experiment experiment_;
  Ledger ledger_;
  std::vector<TextRecord> texts_;
  std::int64_t sitting_ = 0;
  std::int64_t now_ns_;

  [[nodiscard]] double log_effect_of_sitting(std::size_t arm) const {
    const auto sitting = static_cast<std::size_t>(sitting_ - 1);
    const bool changed = arm + 1 == experiment_.arms.size() && sitting < run_.sitting_log_effects.size();
    return changed ? run_.sitting_log_effects[sitting] : 0;
  }

  void write_validations() {
    const auto prompts = static_cast<std::int64_t>(texts_.size());
    const TextDifference difference{"p0", 0, "natural", 1, 2};
    std::vector<ValidationRecord> validations = {
        {now_ns_, "baseline onto its own texts", false, prompts, prompts, std::nullopt},
        {now_ns_, "control: text moved by one", true, 3, 0, difference},
        {now_ns_, "control: one flipped token", true, 3, 0, difference}};
    if (run_.change_validations) run_.change_validations(validations);
    for (const ValidationRecord& validation : validations) ledger_.store_validation(validation);
  }

  std::int64_t begin_launch(const PlannedRun& planned) {
    LaunchRecord launch;
    launch.sitting = sitting_;
    launch.arm = experiment_.arms[planned.arm].name;
    launch.purpose = "measurement";
    launch.block = planned.block;
    launch.program = {"tare", "worker"};
    launch.pid = 1;
    launch.started_utc_ns = now_ns_;
    launch.options = {{"weights", {{"format", "bf16"}}}, {"arm", launch.arm}};
    launch.build = {{"version", "0.1.0"}, {"commit", "0123456789"}, {"dirty", false}};
    launch.checkpoint_digest = "checkpoint";
    launch.model = "m";
    launch.peak_memory_bytes = 100'000'000 + 4096 * static_cast<std::int64_t>(planned.arm);
    launch.id = ledger_.begin_launch(launch);
    if (run_.change_launch) run_.change_launch(launch);
    ledger_.describe_launch(launch.id, launch.options, launch.build, launch.checkpoint_digest, launch.model);
    ledger_.end_launch(launch.id, now_ns_ + 1, 0, launch.peak_memory_bytes, "");
    return launch.id;
  }

  void write_run(const PlannedRun& planned, std::vector<std::int64_t>& launches,
                 const stats::Observations& observations) {
    if (run_.granularity == Granularity::kRun) launches[planned.arm] = begin_launch(planned);
    std::size_t column = 0;
    while (observations.runs.at(column).block != planned.block || observations.runs.at(column).slot != planned.slot)
      ++column;
    const double share = run_.handicap_share.empty() ? 0 : run_.handicap_share.at(planned.arm);
    RunRecord record;
    record.block = planned.block;
    record.slot = planned.slot;
    record.warmup = planned.warmup;
    record.arm = experiment_.arms[planned.arm].name;
    const std::int64_t run_id =
        ledger_.begin_run({planned.block, planned.slot, planned.warmup}, record.arm, launches[planned.arm], now_ns_);
    RunEnd end;
    end.samples.push_back({run_id, "before", sample_at(now_ns_)});
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      if (texts_[i].tokens.size() < 2) continue;
      const double seconds = observations.denominator[observations.at(i, column)] *
                             (planned.warmup ? kWarmUpSlowness : 1) * std::exp(-log_effect_of_sitting(planned.arm));
      end.prompts.push_back(result_of(texts_[i], i, seconds, share));
      end.prompts.back().started_utc_ns = now_ns_;
      now_ns_ += end.prompts.back().outer_ns;
    }
    end.ended_utc_ns = now_ns_;
    end.samples.push_back({run_id, "after", sample_at(now_ns_)});
    if (run_.change_run) run_.change_run(record, end);
    ledger_.finish_run(run_id, end);
  }
};

}  // namespace

Experiment simulated_experiment(const SimulatedRun& run) {
  Json json = {{"name", run.title.empty() ? "simulated" : run.title},
               {"model", "m"},
               {"prompts", {{"file", "p.jsonl"}}},
               {"arms", Json::array()},
               {"schedule", {{"granularity", to_text(run.granularity)}, {"blocks", run.blocks}, {"seed", run.seed}}}};
  for (const std::string& arm : run.arms) json["arms"].push_back({{"name", arm}});
  json.merge_patch(run.patch);
  return parse_experiment(json.dump(), "simulated.json");
}

SimulatedTruth write_simulated_ledger(const SimulatedRun& run, const std::filesystem::path& directory) {
  const int arms = static_cast<int>(run.arms.size());
  stats::ClockModel clock = run.clock;
  clock.log_effects.resize(run.arms.size(), 0);
  const bool by_run = run.granularity == Granularity::kRun;
  const stats::Schedule schedule = by_run ? stats::make_schedule(arms, run.blocks, run.seed)
                                          : stats::make_resident_schedule(arms, run.blocks, run.seed);
  const stats::SimulatedExperiment simulated =
      stats::simulate(clock, schedule, by_run ? stats::Granularity::kRun : stats::Granularity::kPrompt, run.prompts,
                      run.clock_seed == 0 ? run.seed : run.clock_seed);
  Writer(run, directory).write(simulated.observations);
  SimulatedTruth truth{simulated.suite_truth};
  for (std::size_t arm = 0; arm < run.handicap_share.size(); ++arm)
    truth.log_effects[arm] += std::log1p(run.handicap_share.front()) - std::log1p(run.handicap_share[arm]);
  return truth;
}

}  // namespace tare::harness

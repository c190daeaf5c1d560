#include "sample_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/philox.h"

namespace tare::reports::sample {
namespace {

constexpr double kSpeedOfBaseline = 812.4;  // tok/s
constexpr std::uint64_t kSeed = 20261129;

Arm arm_of(const std::string& name, const std::string& options, double memory_bytes) {
  Arm arm;
  arm.name = name;
  arm.options_json = R"({"weights":{"format":")" + std::string(name.substr(0, 2)) +
                     R"("},"activations":{"format":"q8"},"kv":{"key":"bf16","value":"bf16"},"cpu":{"threads":2}})";
  arm.options_differing_json = options;
  arm.build = {"tare 0.1.0", "4ed0e05c1b7ad2f1e86c5590b7f34ac8d1e2f309+changes", "g++ 12.2.0", "-O2 -g1 -DNDEBUG",
               "RelWithDebInfo"};
  arm.checkpoint = {"models/embedded", "9f3b1c0a77e25d4486c1f0b2ad93e671"};
  arm.launch_count = 6;
  arm.peak_memory_bytes = memory_bytes;
  return arm;
}

std::vector<Measure> measures() {
  return {{"decode_speed", "decode speed", "tok/s", true, "tokens over seconds of decode rounds, all counted runs"},
          {"time_to_first_token", "time to first token", "ms", false, "median over prompts of the mean over runs"},
          {"prefill_speed", "prefill speed", "tok/s", true, "prompt tokens over seconds of prefill"},
          {"peak_memory", "peak memory", "bytes", false, "largest resident set of a worker"}};
}

Interval interval_of(Estimand estimand, const std::string& method, double estimate, double half, double df) {
  Interval interval;
  interval.estimand = estimand;
  interval.method = method;
  interval.estimate_log = estimate;
  interval.low_log = estimate - half;
  interval.high_log = estimate + half;
  interval.degrees_of_freedom = df;
  return interval;
}

std::vector<Interval> intervals_of(double estimate, double half) {
  std::vector<Interval> intervals = {
      interval_of(Estimand::kAnyLaunch, "regression, degree 2", estimate, half, 13),
      interval_of(Estimand::kTheseLaunches, "percentile", estimate + 0.02 * half, 0.55 * half, kMissing),
      interval_of(Estimand::kTheseLaunches, "BCa", estimate + 0.03 * half, 0.56 * half, kMissing),
      interval_of(Estimand::kPromptsLikeThese, "two-way", estimate, 1.3 * half, 21.4),
      interval_of(Estimand::kAnyLaunch, "block pairs", estimate - 0.1 * half, 1.6 * half, 5)};
  intervals[0].of_verdict = true;
  intervals[4].robustness = true;
  return intervals;
}

Effect effect_of(std::size_t arm, double estimate, double half, double p, double p_adjusted, const char* verdict) {
  Effect effect;
  effect.arm = arm;
  effect.estimate_log = estimate;
  effect.intervals = intervals_of(estimate, half);
  effect.p = p;
  effect.p_adjusted = effect.p_holm = p_adjusted;
  effect.p_benjamini_hochberg = p;
  effect.in_family = true;
  effect.verdict = verdict;
  effect.difference_shown = p_adjusted < 0.05;
  return effect;
}

void add_prompts(Findings& findings, const std::vector<double>& effects) {
  Philox noise(kSeed, 1);
  for (std::size_t i = 0; i < 64; ++i) {
    Prompt prompt;
    prompt.id = fmt::format("{}", i + 1);
    prompt.category = i < 32 ? "code" : "prose";
    prompt.tokens = 160 + static_cast<std::int64_t>(noise.below(64));
    const double base = static_cast<double>(prompt.tokens) / kSpeedOfBaseline * std::exp(0.01 * noise.normal());
    for (std::size_t arm = 0; arm < effects.size(); ++arm) {
      const double ratio = arm == 0 ? 0.0 : effects[arm] + 0.004 * noise.normal();
      prompt.log_ratio.push_back(ratio);
      prompt.seconds.push_back(base * std::exp(-ratio));
    }
    findings.prompts.push_back(std::move(prompt));
  }
  std::int64_t tokens = 0;
  for (const Prompt& prompt : findings.prompts) tokens += prompt.tokens;
  findings.texts.tokens = tokens;
  findings.validity.tokens_validated = findings.validity.rounds_validated = static_cast<std::size_t>(tokens);
  for (Run& run : findings.runs) run.tokens = tokens;
}

void add_run(Findings& findings, std::size_t block, std::size_t slot, std::size_t arm, double speed, RunState state) {
  Run run;
  run.block = block;
  run.slot = slot;
  run.arm = arm;
  run.launch_order = findings.runs.size();
  run.launch = fmt::format("launch-{:02}", run.launch_order + 1);
  run.start_s = 11.9 * static_cast<double>(run.launch_order);
  const auto second = static_cast<unsigned>(run.start_s);
  run.start_utc = fmt::format("2026-11-29T15:{:02}:{:02}.000Z", 4 + second / 60, second % 60);
  run.tokens = 12288;
  run.decode_s = static_cast<double>(run.tokens) / speed;
  run.values = {speed, 9.8, 2710.0, findings.arms[arm].peak_memory_bytes};
  run.state = state;
  findings.runs.push_back(std::move(run));
}

void add_runs(Findings& findings, const std::vector<double>& effects, const std::string& order) {
  Philox noise(kSeed, 2);
  for (std::size_t arm = 0; arm < effects.size(); ++arm)
    add_run(findings, 0, arm, arm, kSpeedOfBaseline * std::exp(effects[arm] - 0.021), RunState::kWarmUp);
  add_run(findings, 0, 0, 0, 0.5 * kSpeedOfBaseline, RunState::kInterrupted);
  findings.runs.back().note = "ended by SIGINT; measured again";
  findings.runs.back().values.assign(4, kMissing);
  for (std::size_t slot = 0; slot < order.size(); ++slot) {
    const auto arm = static_cast<std::size_t>(order[slot] - 'A');
    const double place = static_cast<double>(slot) - 8.5;
    const double drift = -0.0004 * place + 0.000018 * (place * place - 26.9);
    const double level = kSpeedOfBaseline * std::exp(effects[arm]);
    add_run(findings, 0, slot, arm, level * std::exp(drift + 0.0011 * noise.normal()), RunState::kCounted);
    findings.runs.back().drift_log = drift;
    findings.runs.back().fitted = level * std::exp(drift);
  }
}

void add_values(Findings& findings, const std::vector<double>& effects) {
  for (std::size_t arm = 0; arm < effects.size(); ++arm) {
    const double speed = kSpeedOfBaseline * std::exp(effects[arm]);
    findings.values.push_back({arm, 0, speed, speed * 0.996, speed * 1.005, 6});
    findings.values.push_back({arm, 1, 9.81 - 0.7 * effects[arm], 9.72, 9.95, 6});
    findings.values.push_back({arm, 2, 2710.4 * std::exp(0.2 * effects[arm]), 2689.7, 2733.2, 6});
    const double memory = findings.arms[arm].peak_memory_bytes;
    findings.values.push_back({arm, 3, memory, memory, memory + 120e3, 6});
  }
}

void add_surroundings(Findings& findings) {
  Validity& validity = findings.validity;
  validity.valid = true;
  validity.prompts_validated = validity.prompts_total = 64;
  validity.tokens_validated = validity.rounds_validated = 12288;
  validity.controls = {{"off-by-one forcing", true, "prompt 1, position 0: wanted 417, got 88"},
                       {"one flipped token", true, "prompt 1, position 96: wanted 11, got 3050"},
                       {"text of another model", true, "prompt 2, position 3: wanted 902, got 15"}};
  validity.clock = ClockAgreement{1152, 0.00061, 141000, true};
  findings.texts = {.mode = "sampled",
                    .temperature = 0.8,
                    .seed = 7,
                    .digest = "c2a1e07d5b9f4c3391d07a6f2e84b518",
                    .texts = 64,
                    .tokens = 12288,
                    .shortest_tokens = 160,
                    .median_tokens = 192,
                    .longest_tokens = 223,
                    .repetition_definition = "share of 4-token windows seen before in the same text",
                    .repetition_median = 0.06,
                    .repetition_highest = 0.41,
                    .most_repetitive_prompt = "23",
                    .outcomes = {{"length limit", 61}, {"end of text", 3}}};
  findings.conditions.hostname = "build-7";
  findings.conditions.machine = "KVM virtual machine";
  findings.conditions.cpu = "AMD EPYC 9R14";
  findings.conditions.cores_usable = 2;
  findings.conditions.memory_bytes = 24.9e9;
  findings.conditions.kernel = "Linux 6.1.0-40-amd64";
  findings.conditions.readings = {{"load average, 1 min", "", 0.42, 0.42, 2.31, 2.1},
                                  {"CPU pressure, 10 s", "%", 0.0, 0.0, 4.7, 1.2},
                                  {"memory available", "bytes", 23.6e9, 20.9e9, 24.2e9, kMissing},
                                  {"steal", "%", 0.0, 0.0, 0.3, 0.1}};
  findings.conditions.facts = {{"Sampler", "off"}, {"Uptime", "11 days"}};
}

Findings bare(const std::vector<Arm>& arms) {
  Findings findings;
  findings.experiment = "quickstart";
  findings.experiment_digest = "51d0c7a2e4f94e6f8f4d6e3fb1c07a99";
  findings.created_utc = "2026-11-29T15:11:42Z";
  findings.command = "tare run experiments/quickstart.json --out runs/quickstart";
  findings.harness_version = "tare 0.1.0 (4ed0e05c1b7a)";
  findings.arms = arms;
  findings.measures = measures();
  findings.methods.bootstrap_resamples = 10000;
  findings.methods.bootstrap_seed = 1;
  add_surroundings(findings);
  return findings;
}

}  // namespace

Findings three_arms() {
  Findings findings = bare({arm_of("q8", "{}", 61.2e6), arm_of("q4", R"({"weights":{"format":"q4"}})", 54.9e6),
                            arm_of("q8-null", "{}", 61.3e6)});
  findings.title = "Four-bit weights against eight, and eight against itself";
  findings.description = "The main job: q8 is the baseline, q4 should be faster, q8-null is q8 under another name.";
  findings.experiment_json = R"({"name":"quickstart","arms":[{"name":"q8"},{"name":"q4"},{"name":"q8-null"}]})";
  const std::vector<double> effects = {0.0, std::log(1.341), 0.0002};
  findings.effects = {effect_of(1, effects[1], 0.0037, 2.1e-16, 4.2e-16, "better"),
                      effect_of(2, effects[2], 0.0013, 0.74, 0.74, "inconclusive")};
  Effect memory;
  memory.arm = 1;
  memory.measure = 3;
  memory.estimate_log = std::log(54.9 / 61.2);
  findings.effects.push_back(memory);
  findings.effects[1].warnings = {{Severity::kWarning, "launch_spread_dominates",
                                   "launches differ by more than the prompts explain; the per-prompt interval is too "
                                   "narrow",
                                   ""}};
  findings.warnings = {
      {Severity::kWarning, "one_block", "one block: a cubic drift is not covered (87.6 % instead of 95 %)", ""},
      {Severity::kNote, "texts_repeat", "prompt 23 repeats itself: 41 % of its 4-token windows", "23"}};
  findings.schedule = {"run", 1, {"ABCABCCCBBAABAACCB"}, "A = q8, B = q4, C = q8-null", 7, true, 22};
  findings.methods.family_size = 2;
  findings.methods.unit_of_replication = "launch";
  findings.drift = {2, "slot", -0.0004, -0.00057, -0.00023, 0.0011, 0.004};
  add_values(findings, effects);
  add_runs(findings, effects, findings.schedule.block_orders[0]);
  add_prompts(findings, effects);
  return findings;
}

Findings handicap() {
  Findings findings =
      bare({arm_of("plain", "{}", 61.2e6), arm_of("slowed", R"({"handicap":{"place":"host","share":0.01}})", 61.2e6)});
  findings.title = "A known cost of 1 %";
  findings.effects = {effect_of(1, -0.00985, 0.0006, 3e-9, 3e-9, "worse")};
  findings.effects[0].truth = KnownTruth{-0.00993, "spun 1.204 s of 121.3 s in 40 runs"};
  findings.schedule = {"prompt", 10, std::vector<std::string>(10, "ABBABAAB"), "A = plain, B = slowed", 3, true, 22};
  findings.methods.family_size = 1;
  findings.methods.unit_of_replication = "block";
  const std::vector<double> effects = {0.0, -0.00985};
  add_values(findings, effects);
  Philox noise(kSeed, 3);
  for (std::size_t block = 0; block < 10; ++block)
    for (std::size_t slot = 0; slot < 2; ++slot)
      add_run(findings, block, slot, slot, kSpeedOfBaseline * std::exp(effects[slot] + 0.002 * noise.normal()),
              RunState::kCounted);
  add_prompts(findings, effects);
  return findings;
}

namespace {

// Arms of the given levels of weights, kv and threads, the first the baseline, and their effects.
Findings of_levels(const std::vector<std::vector<std::size_t>>& combinations) {
  const std::vector<Factor> factors = {
      {"weights", {"q8", "q4", "q3"}, 0}, {"kv", {"bf16", "int8"}, 0}, {"threads", {"1t", "2t"}, 0}};
  const std::vector<std::vector<double>> main = {{0, 0.18, 0.24}, {0, 0.0003}, {0, 0.41}};
  std::vector<Arm> arms;
  std::vector<double> effects;
  for (const std::vector<std::size_t>& levels : combinations) {
    std::string name;
    double effect = 0;
    for (std::size_t f = 0; f < factors.size(); ++f) {
      name += (f == 0 ? "" : "_") + factors[f].levels[levels[f]];
      effect += main[f][levels[f]];
    }
    if (levels[0] == 2 && levels[2] == 1) effect -= 0.06;  // q3 gains less from a second thread
    arms.push_back(arm_of(name, "{}", 61.2e6));
    arms.back().levels = levels;
    effects.push_back(effect);
  }
  Findings findings = bare(arms);
  findings.title = "Weights, caches and threads";
  findings.matrix.factors = factors;
  for (std::size_t arm = 1; arm < arms.size(); ++arm) {
    const bool shown = std::abs(effects[arm]) > 0.002;
    findings.effects.push_back(
        effect_of(arm, effects[arm], 0.004, shown ? 1e-8 : 0.8, shown ? 9e-8 : 0.9, shown ? "better" : "equivalent"));
    findings.effects.back().difference_shown = shown;
  }
  findings.methods.equivalence_margin_log = -std::log(0.99);
  findings.methods.family_size = arms.size() - 1;
  findings.methods.unit_of_replication = "launch";
  findings.schedule = {"run", 2, {"ABCDEEDCBA", "EDCBAABCDE"}, "A = the baseline", 7, true, 22};
  add_values(findings, effects);
  add_prompts(findings, effects);
  return findings;
}

}  // namespace

Findings matrix() {
  std::vector<std::vector<std::size_t>> combinations;
  for (std::size_t weights = 0; weights < 3; ++weights)
    for (std::size_t kv = 0; kv < 2; ++kv)
      for (std::size_t threads = 0; threads < 2; ++threads)
        if (weights < 2 || kv == 0) combinations.push_back({weights, kv, threads});
  Findings findings = of_levels(combinations);
  findings.matrix.design = "full";
  findings.matrix.excluded = {"weights q3, kv int8"};
  const auto interval = [](double estimate, double half) {
    return interval_of(Estimand::kAnyLaunch, "contrast", estimate, half, 40);
  };
  findings.matrix.effects = {{0, 1, 4, interval(0.18, 0.003), 1e-9, 4e-9, true},
                             {0, 2, 2, interval(0.21, 0.004), 1e-9, 4e-9, true},
                             {1, 1, 4, interval(0.0003, 0.002), 0.7, 0.7, false},
                             {2, 1, 5, interval(0.398, 0.002), 1e-9, 4e-9, true}};
  findings.matrix.interactions = {{0, 1, 1, 1, 2, interval(0.0004, 0.004), 0.8, 0.9, false},
                                  {0, 1, 2, 1, 2, interval(0.001, 0.004), 0.6, 0.9, false},
                                  {0, 2, 2, 1, 1, interval(-0.06, 0.006), 1e-7, 4e-7, true},
                                  {1, 1, 2, 1, 2, interval(-0.0002, 0.004), 0.9, 0.9, false}};
  findings.fidelity_source = "decoding in rounds of 16";
  for (std::size_t arm = 0; arm < findings.arms.size(); ++arm) {
    const std::vector<std::size_t>& levels = findings.arms[arm].levels;
    const double divergence = std::vector<double>{2e-4, 9e-3, 4e-2}[levels[0]] * (levels[1] == 0 ? 1 : 1.2);
    findings.fidelity.push_back(
        {arm, divergence, 0.8 * divergence, 1.2 * divergence, levels[1] == 0 && levels[2] == 1});
  }
  return findings;
}

Findings one_at_a_time() {
  Findings findings = of_levels({{0, 0, 0}, {1, 0, 0}, {2, 0, 0}, {0, 1, 0}, {0, 0, 1}});
  findings.matrix.design = "one_at_a_time";
  for (std::size_t arm = 1; arm < findings.arms.size(); ++arm) {
    const std::vector<std::size_t>& levels = findings.arms[arm].levels;
    const auto factor = static_cast<std::size_t>(
        std::find_if(levels.begin(), levels.end(), [](std::size_t l) { return l > 0; }) - levels.begin());
    const Effect& effect = findings.effects[arm - 1];
    findings.matrix.effects.push_back(
        {factor, levels[factor], 1, effect.intervals[0], effect.p, effect.p_adjusted, effect.difference_shown});
  }
  return findings;
}

const std::string& hostile_name() {
  static const std::string name =
      "<script>alert(\"x\")</script> | 'a' `ls` \\n $HOME {b} %g @c _d_ *e* ~f &amp; \x01\x7f\xff \xe2\x80\xae"
      "\xc3\xa9\xe6\xbc\xa2 rgb(1,2,3) id='x' {{g}} \n\r\t;=1+1,\"\"";
  return name;
}

Findings hostile() {
  const std::string& name = hostile_name();
  Findings findings = three_arms();
  for (std::string* text :
       {&findings.title, &findings.description, &findings.experiment, &findings.experiment_digest,
        &findings.experiment_json, &findings.created_utc, &findings.command, &findings.harness_version,
        &findings.drift.regressor, &findings.texts.mode, &findings.texts.digest, &findings.texts.most_repetitive_prompt,
        &findings.texts.repetition_definition, &findings.schedule.letters, &findings.methods.unit_of_replication,
        &findings.conditions.cpu, &findings.conditions.hostname, &findings.conditions.kernel})
    *text = name;
  for (Arm& arm : findings.arms) {
    arm.name += name;
    arm.program = arm.options_json = arm.options_differing_json = arm.build.commit = arm.checkpoint.name = name;
  }
  for (Measure& measure : findings.measures) measure.name = measure.key = measure.unit = measure.definition = name;
  for (Effect& effect : findings.effects) {
    effect.warnings.push_back({Severity::kWarning, name, name, name});
    for (Interval& interval : effect.intervals) interval.method = interval.why_missing = name;
  }
  findings.effects[1].intervals[1].low_log = kMissing;
  findings.effects[0].truth = KnownTruth{0.29, name};
  for (Run& run : findings.runs) run.launch = run.note = name;
  for (Prompt& prompt : findings.prompts) prompt.id = prompt.category = name;
  findings.validity.controls[0] = {name, false, name};
  findings.texts.outcomes[0].outcome = name;
  findings.conditions.readings[0].name = name;
  findings.conditions.facts[0] = {name, name};
  return findings;
}

Findings invalid() {
  Findings findings = three_arms();
  findings.effects.clear();
  findings.values.clear();
  findings.runs.clear();
  findings.prompts.clear();
  findings.validity.valid = false;
  findings.validity.prompts_validated = 11;
  findings.validity.first_difference = FirstDifference{"12", 37, "417", "88"};
  findings.warnings = {{Severity::kInvalid, "validation_failed", "the replays do not give back their texts", ""}};
  return findings;
}

}  // namespace tare::reports::sample

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "engine/backend/options.h"
#include "harness/experiment/experiment.h"
#include "harness/experiment/launch_rules.h"
#include "stats/block_effects.h"

namespace tare::harness {
namespace {

constexpr std::int64_t kMostBlocks = 1000;     // beyond any sitting; stops a mistyped number
constexpr std::int64_t kMostTokens = 1 << 24;  // as EngineOptions::context
constexpr std::int64_t kMostCore = 4095;       // as CPU_SETSIZE allows with room
constexpr double kMostSeconds = 86'400;        // a day
constexpr double kHighestTemperature = 100;    // beyond it every draw is uniform
constexpr double kHighestAlpha = 0.5;
constexpr double kHighestHalfWidthPercent = 50;     // wider is no precision
constexpr double kMostBudgetSeconds = 30 * 86'400;  // a month
constexpr double kHighestMarginPercent = 50;        // a margin beyond it excuses anything

std::string nonempty_text(JsonReader& reader, const std::string& key) {
  std::string value = reader.text(key);
  if (value.empty()) throw reader.error(key, "must not be empty");
  return value;
}

double positive_number(JsonReader& reader, const std::string& key, double most) {
  const double value = reader.number(key, 0, most);
  if (value == 0) throw reader.error(key, "must be larger than 0");
  return value;
}

std::uint64_t seed_of(JsonReader& reader, const std::string& key) {
  return static_cast<std::uint64_t>(reader.integer(key, 0));
}

std::vector<std::string> read_ids(JsonReader& reader, const std::string& key) {
  std::vector<std::string> ids;
  for (const Json& element : reader.array(key)) {
    const bool number = element.is_number_integer();
    if (!number && !element.is_string())
      throw reader.error(fmt::format("{}[{}]", key, ids.size()), "must be a question id: a number or a text");
    ids.push_back(number ? std::to_string(element.get<std::int64_t>()) : element.get<std::string>());
  }
  return ids;
}

PromptSelection read_prompts(JsonReader reader) {
  PromptSelection prompts;
  prompts.file = nonempty_text(reader, "file");
  if (reader.has("limit")) prompts.limit = reader.integer("limit", 1);
  if (reader.has("ids")) prompts.ids = read_ids(reader, "ids");
  if (reader.has("categories")) prompts.categories = reader.texts("categories");
  reader.refuse_unknown_keys();
  return prompts;
}

// A field that belongs to some modes only is refused in the others: it would be read as if it did something.
void refuse_in_mode(JsonReader& reader, const std::string& key, const std::string& mode, const std::string& used_in) {
  if (reader.has(key))
    throw reader.error(key, fmt::format("has no meaning with mode '{}'", mode), "it is used with mode " + used_in);
}

TextSource read_texts(JsonReader reader) {
  TextSource texts;
  const std::string mode = reader.word("mode", {"sampled", "greedy", "given"});
  if (mode == "sampled") {
    texts.mode = TextMode::kSampled;
    if (reader.has("temperature")) texts.temperature = positive_number(reader, "temperature", kHighestTemperature);
    if (reader.has("seed")) texts.seed = seed_of(reader, "seed");
  } else {
    texts.mode = mode == "greedy" ? TextMode::kGreedy : TextMode::kGiven;
    refuse_in_mode(reader, "temperature", mode, "sampled");
    refuse_in_mode(reader, "seed", mode, "sampled");
  }
  if (mode == "given") {
    texts.file = nonempty_text(reader, "file");
    if (reader.has("rounds")) texts.recorded_rounds = reader.word("rounds", {"own", "recorded"}) == "recorded";
    refuse_in_mode(reader, "max_tokens", mode, "sampled or greedy");
  } else {
    if (reader.has("max_tokens")) texts.max_tokens = reader.integer("max_tokens", 2, kMostTokens);
    refuse_in_mode(reader, "file", mode, "given");
    refuse_in_mode(reader, "rounds", mode, "given");
  }
  reader.refuse_unknown_keys();
  return texts;
}

std::vector<std::string> read_program(JsonReader& reader) {
  const Json& program = reader.any("program");
  if (program.is_string()) return {nonempty_text(reader, "program")};
  if (!program.is_array() || program.empty())
    throw reader.error("program", "must be a program's path, or a list of the path and its arguments");
  std::vector<std::string> argv = reader.texts("program");
  if (argv.front().empty()) throw reader.error("program[0]", "must not be empty");
  return argv;
}

// Names of kernels or ops; none when the key is not there.
std::vector<std::string> read_patterns(JsonReader& reader, const std::string& key) {
  if (!reader.has(key)) return {};
  std::vector<std::string> patterns = reader.texts(key);
  if (patterns.empty()) throw reader.error(key, "must name at least one kernel or op");
  for (std::size_t i = 0; i < patterns.size(); ++i)
    if (const std::string fault = pattern_fault(patterns[i]); !fault.empty())
      throw reader.error(
          fmt::format("{}[{}]", key, i), fmt::format("'{}' {}", patterns[i], fault),
          "a kernel's or op's name as `tare profile` prints it, or part of it with a star before or after");
  return patterns;
}

Arm read_arm(JsonReader reader, const Json& common_options, const std::string& common_model, const Matrix& matrix) {
  Arm arm;
  arm.name = reader.text("name");
  if (!is_plain_name(arm.name))
    throw reader.error("name", fmt::format("'{}' is not a name", arm.name), "use A-Z a-z 0-9 . _ -");
  arm.model = reader.has("model") ? nonempty_text(reader, "model") : common_model;
  if (reader.has("program")) arm.program = read_program(reader);
  const Json own = reader.has("options") ? reader.object("options").json() : Json::object();
  if (arm.program.empty()) {
    engine::EngineOptions checked;
    engine::apply_options(checked, common_options, "options");
    engine::apply_options(checked, own, reader.place("options"));
  }
  if (reader.has("sampler_hz")) arm.sampler_hz = reader.number("sampler_hz", 0, kMostSamplerHz);
  arm.must_launch = read_patterns(reader, "must_launch");
  arm.must_not_launch = read_patterns(reader, "must_not_launch");
  arm.options = common_options;
  arm.options.merge_patch(own);
  if (!matrix.factors.empty()) {
    arm.levels = read_levels(matrix, reader.object("levels").json(), reader.place("levels"));
  } else if (reader.has("levels")) {
    throw reader.error("levels", "has no meaning without factors");
  }
  reader.refuse_unknown_keys();
  return arm;
}

std::vector<Arm> read_arms(JsonReader& reader, const Json& common_options, const std::string& common_model,
                           const Matrix& matrix) {
  std::vector<Arm> arms;
  for (const Json& element : reader.array("arms")) {
    const std::string place = fmt::format("arms[{}]", arms.size());
    Arm arm = read_arm(JsonReader(element, place), common_options, common_model, matrix);
    const bool known = std::any_of(arms.begin(), arms.end(), [&](const Arm& other) { return other.name == arm.name; });
    if (known) throw input_error(place + ".name", fmt::format("'{}' is the name of another arm too", arm.name));
    arms.push_back(std::move(arm));
  }
  if (arms.size() < kFewestArms || arms.size() > kMostArms)
    throw reader.error(
        "arms", fmt::format("must be {} to {} arms, the baseline first; is {}", kFewestArms, kMostArms, arms.size()));
  return arms;
}

// Arms made of the factors.
std::vector<Arm> expand_arms(const Matrix& matrix, const Json& common_options, const std::string& common_model) {
  engine::EngineOptions common;
  engine::apply_options(common, common_options, "options");
  for (const Factor& factor : matrix.factors) {
    for (std::size_t i = 0; i < factor.levels.size(); ++i) {
      engine::EngineOptions checked = common;
      engine::apply_options(checked, factor.levels[i].options, fmt::format("factors.{}[{}].options", factor.name, i));
    }
  }
  std::vector<Arm> arms;
  std::vector<std::string> in_force;  // options with their defaults
  for (const LevelIndices& levels : combinations_of(matrix, kMostArms)) {
    Arm arm;
    arm.name = arm_name_of(matrix, levels);
    arm.model = common_model;
    arm.levels = levels;
    arm.options = common_options;
    for (std::size_t f = 0; f < levels.size(); ++f)
      arm.options.merge_patch(matrix.factors[f].levels[levels[f]].options);
    engine::EngineOptions options;
    engine::apply_options(options, arm.options, fmt::format("options of arm '{}'", arm.name));
    in_force.push_back(engine::to_json(options).dump());
    for (std::size_t other = 0; other < arms.size(); ++other) {
      if (arms[other].name == arm.name)
        throw input_error("factors", fmt::format("two arms would be called '{}'", arm.name), "rename a level");
      if (in_force[other] == in_force.back())
        throw input_error("factors",
                          fmt::format("arms '{}' and '{}' have the same options", arms[other].name, arm.name),
                          "levels must differ in what they set");
    }
    arms.push_back(std::move(arm));
  }
  return arms;
}

// Arms that are written out, with the levels they have: what a normalised experiment holds, and the way to give arms of
// a matrix programs of their own.
void check_written_arms(Matrix& matrix, const std::vector<Arm>& arms) {
  for (std::size_t a = 0; a < arms.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (arms[a].levels == arms[b].levels)
        throw input_error(fmt::format("arms[{}].levels", a), fmt::format("are those of arm '{}' too", arms[b].name));
  if (matrix.combinations.empty() && matrix.design == DesignKind::kListed)
    for (const Arm& arm : arms) matrix.combinations.push_back(levels_json(matrix, arm.levels));
  const std::vector<LevelIndices> designed = combinations_of(matrix, kMostArms);
  const bool same = designed.size() == arms.size() &&
                    std::equal(designed.begin(), designed.end(), arms.begin(),
                               [](const LevelIndices& levels, const Arm& arm) { return levels == arm.levels; });
  if (!same)
    throw input_error("arms", fmt::format("are not the {} combinations of the design, in its order", designed.size()),
                      "leave the arms out, and the design makes them");
}

Matrix read_matrix(JsonReader& reader) {
  if (!reader.has("factors")) {
    if (reader.has("design")) throw reader.error("design", "has no meaning without factors");
    return {};
  }
  if (!reader.has("design") && reader.has("arms")) {
    Matrix matrix;
    matrix.design = DesignKind::kListed;  // by the arms themselves
    matrix.factors = read_factors(reader.object("factors"));
    return matrix;
  }
  return read_design(reader.object("design"), read_factors(reader.object("factors")));
}

StopSettings read_stop(JsonReader reader) {
  StopSettings stop;
  const std::string rule = reader.word("rule", {"fixed", "precision", "time"});
  if (rule == "precision") {
    stop.rule = StopRule::kPrecision;
    stop.half_width_percent = positive_number(reader, "half_width_percent", kHighestHalfWidthPercent);
  } else if (rule == "time") {
    stop.rule = StopRule::kTime;
    stop.budget_s = positive_number(reader, "budget_s", kMostBudgetSeconds);
  }
  reader.refuse_unknown_keys();
  return stop;
}

// Enough blocks for what is asked of them.
void check_blocks(const Experiment& experiment) {
  const ScheduleSettings& schedule = experiment.schedule;
  const bool by_run = schedule.granularity == Granularity::kRun;
  const auto need = [&](std::int64_t least, const std::string& why) {
    if (schedule.blocks < least)
      throw input_error("schedule.blocks", fmt::format("must be at least {} {}; is {}", least, why, schedule.blocks));
  };
  if (by_run && experiment.arms.size() >= kFewestArmsOfPalindromes)
    need(2, fmt::format("for {} arms: one block does not tell a curved drift from the arms", experiment.arms.size()));
  if (schedule.stop.rule == StopRule::kPrecision)
    need(by_run ? 2 : stats::kMinimumBlocks,
         "to stop on precision: it is the most blocks, and a verdict needs so many");
}

ScheduleSettings read_schedule(JsonReader reader) {
  ScheduleSettings schedule;
  const std::string granularity = reader.word("granularity", {"run", "prompt"});
  schedule.granularity = granularity == "run" ? Granularity::kRun : Granularity::kPrompt;
  if (reader.has("blocks")) schedule.blocks = reader.integer("blocks", 1, kMostBlocks);
  if (reader.has("seed")) schedule.seed = seed_of(reader, "seed");
  if (reader.has("warmup")) schedule.warmup = reader.boolean("warmup");
  if (reader.has("stop")) schedule.stop = read_stop(reader.object("stop"));
  reader.refuse_unknown_keys();
  return schedule;
}

AnalysisSettings read_analysis(JsonReader reader) {
  AnalysisSettings analysis;
  if (reader.has("alpha")) analysis.alpha = positive_number(reader, "alpha", kHighestAlpha);
  if (reader.has("multiplicity") && reader.word("multiplicity", {"holm", "screen"}) == "screen")
    analysis.multiplicity = Multiplicity::kScreen;
  if (reader.has("equivalence_margin_percent"))
    analysis.equivalence_margin_percent = positive_number(reader, "equivalence_margin_percent", kHighestMarginPercent);
  if (reader.has("non_inferiority_margin_percent"))
    analysis.non_inferiority_margin_percent =
        positive_number(reader, "non_inferiority_margin_percent", kHighestMarginPercent);
  reader.refuse_unknown_keys();
  return analysis;
}

std::vector<Measure> read_measures(JsonReader& reader) {
  std::vector<Measure> measures;
  if (!reader.has("measures")) {
    for (const MeasureDescription& entry : measure_table())
      if (entry.by_default) measures.push_back(entry.measure);
    return measures;
  }
  const std::vector<std::string> names = reader.texts("measures");
  for (std::size_t i = 0; i < names.size(); ++i) {
    try {
      const Measure measure = measure_of(names[i]);
      if (std::find(measures.begin(), measures.end(), measure) != measures.end())
        throw input_error("", fmt::format("'{}' appears twice", names[i]));
      measures.push_back(measure);
    } catch (const Error& error) {
      throw error.within(fmt::format("measures[{}]", i));
    }
  }
  std::sort(measures.begin(), measures.end());
  if (measures.empty() || measures.front() != Measure::kDecodeSpeed)
    throw reader.error("measures", "must have decode_speed among them: the verdict rests on it");
  return measures;
}

std::vector<int> read_pinning(JsonReader reader) {
  std::vector<int> cores;
  for (const Json& element : reader.array("cores")) {
    const std::string key = fmt::format("cores[{}]", cores.size());
    if (!element.is_number_integer() || element < 0 || element > kMostCore)
      throw reader.error(key, fmt::format("must be the number of a core, 0 to {}", kMostCore));
    const int core = element.get<int>();
    if (std::find(cores.begin(), cores.end(), core) != cores.end()) throw reader.error(key, "appears twice");
    cores.push_back(core);
  }
  if (cores.empty()) throw reader.error("cores", "must name at least one core");
  reader.refuse_unknown_keys();
  return cores;
}

ProfileSettings read_profile(JsonReader reader) {
  ProfileSettings profile;
  if (reader.has("prompts")) profile.prompts = reader.integer("prompts", 0, kMostProfiledPrompts);
  reader.refuse_unknown_keys();
  return profile;
}

EnvironmentSettings read_environment(JsonReader reader) {
  EnvironmentSettings environment;
  if (reader.has("sampler_hz")) environment.sampler_hz = reader.number("sampler_hz", 0, kMostSamplerHz);
  reader.refuse_unknown_keys();
  return environment;
}

Limits read_limits(JsonReader reader) {
  Limits limits;
  if (reader.has("worker_start_s")) limits.worker_start_s = positive_number(reader, "worker_start_s", kMostSeconds);
  if (reader.has("prompt_s")) limits.prompt_s = positive_number(reader, "prompt_s", kMostSeconds);
  reader.refuse_unknown_keys();
  return limits;
}

Experiment read_fields(JsonReader reader) {
  Experiment experiment;
  experiment.name = nonempty_text(reader, "name");
  if (reader.has("description")) experiment.description = reader.text("description");
  if (reader.has("blind")) experiment.blind = reader.boolean("blind");
  experiment.model = nonempty_text(reader, "model");
  if (reader.has("texts")) experiment.texts = read_texts(reader.object("texts"));
  if (experiment.texts.mode == TextMode::kGiven) {
    if (reader.has("prompts"))
      throw reader.error("prompts", "has no meaning with given texts", "texts.file holds the prompts too");
  } else {
    experiment.prompts = read_prompts(reader.object("prompts"));
  }
  const Json common_options = reader.has("options") ? reader.object("options").json() : Json::object();
  experiment.matrix = read_matrix(reader);
  if (experiment.matrix.factors.empty() || reader.has("arms")) {
    experiment.arms = read_arms(reader, common_options, experiment.model, experiment.matrix);
    if (!experiment.matrix.factors.empty()) check_written_arms(experiment.matrix, experiment.arms);
  } else {
    experiment.arms = expand_arms(experiment.matrix, common_options, experiment.model);
  }
  experiment.schedule = read_schedule(reader.object("schedule"));
  check_blocks(experiment);
  experiment.measures = read_measures(reader);
  if (reader.has("analysis")) experiment.analysis = read_analysis(reader.object("analysis"));
  if (reader.has("pinning")) experiment.pinned_cores = read_pinning(reader.object("pinning"));
  if (reader.has("profile")) experiment.profile = read_profile(reader.object("profile"));
  // What ran is known from twin launches alone.
  for (std::size_t i = 0; experiment.profile.prompts == 0 && i < experiment.arms.size(); ++i)
    if (has_launch_rules(experiment.arms[i]))
      throw input_error(
          fmt::format("arms[{}].{}", i, experiment.arms[i].must_launch.empty() ? "must_not_launch" : "must_launch"),
          "needs \"profile\"", R"(add "profile": {"prompts": 2}: twin launches say what an arm launches)");
  if (reader.has("environment")) experiment.environment = read_environment(reader.object("environment"));
  if (reader.has("limits")) experiment.limits = read_limits(reader.object("limits"));
  reader.refuse_unknown_keys();
  return experiment;
}

}  // namespace

Experiment parse_experiment(std::string_view text, const std::filesystem::path& file) {
  const Json json = parse_json(text, file.string(), JsonComments::kAllowed);
  try {
    Experiment experiment = read_fields(JsonReader(json, ""));
    experiment.file = file;
    return experiment;
  } catch (const Error& error) {
    throw error.within(file.string());
  }
}

Experiment read_experiment(const std::filesystem::path& file) {
  return parse_experiment(read_text_file(file), file);
}

}  // namespace tare::harness

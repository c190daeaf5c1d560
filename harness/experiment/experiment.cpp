#include "harness/experiment/experiment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/digest.h"
#include "base/file.h"
#include "base/text.h"

namespace tare::harness {
namespace {

constexpr std::string_view kSyntheticModel = "synthetic:";

bool is_synthetic(const std::string& model) {
  return model.starts_with(kSyntheticModel);
}

Json texts_json(const TextSource& texts) {
  Json json = {{"mode", to_text(texts.mode)}};
  if (texts.mode == TextMode::kSampled) {
    json["temperature"] = texts.temperature;
    json["seed"] = texts.seed;
  }
  if (texts.mode == TextMode::kGiven) {
    json["file"] = texts.file;
    if (texts.recorded_rounds) json["rounds"] = "recorded";
  } else {
    json["max_tokens"] = texts.max_tokens;
  }
  return json;
}

Json prompts_json(const PromptSelection& prompts) {
  Json json = {{"file", prompts.file}};
  if (prompts.limit) json["limit"] = *prompts.limit;
  if (!prompts.ids.empty()) json["ids"] = prompts.ids;
  if (!prompts.categories.empty()) json["categories"] = prompts.categories;
  return json;
}

Json analysis_json(const AnalysisSettings& analysis) {
  Json json = {{"alpha", analysis.alpha}};
  if (analysis.multiplicity != Multiplicity::kHolm) json["multiplicity"] = to_text(analysis.multiplicity);
  if (analysis.equivalence_margin_percent) json["equivalence_margin_percent"] = *analysis.equivalence_margin_percent;
  if (analysis.non_inferiority_margin_percent)
    json["non_inferiority_margin_percent"] = *analysis.non_inferiority_margin_percent;
  return json;
}

Json arms_json(const Experiment& experiment) {
  Json json = Json::array();
  for (const Arm& arm : experiment.arms) {
    Json entry = {{"name", arm.name}, {"options", arm.options}};
    if (!arm.levels.empty()) entry["levels"] = levels_json(experiment.matrix, arm.levels);
    if (!arm.program.empty()) entry["program"] = arm.program;
    if (arm.model != experiment.model) entry["model"] = arm.model;
    if (arm.sampler_hz) entry["sampler_hz"] = *arm.sampler_hz;
    if (!arm.must_launch.empty()) entry["must_launch"] = arm.must_launch;
    if (!arm.must_not_launch.empty()) entry["must_not_launch"] = arm.must_not_launch;
    json.push_back(std::move(entry));
  }
  return json;
}

Json schedule_json(const ScheduleSettings& schedule) {
  Json json = {{"granularity", to_text(schedule.granularity)},
               {"blocks", schedule.blocks},
               {"seed", schedule.seed},
               {"warmup", schedule.warmup}};
  if (schedule.stop.rule == StopRule::kPrecision)
    json["stop"] = {{"rule", "precision"}, {"half_width_percent", schedule.stop.half_width_percent}};
  if (schedule.stop.rule == StopRule::kTime) json["stop"] = {{"rule", "time"}, {"budget_s", schedule.stop.budget_s}};
  return json;
}

bool is_executable_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

bool is_on_path(const std::string& program) {
  std::string folders = environment_variable("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  folders += ':';
  for (std::size_t begin = 0, end; (end = folders.find(':', begin)) != std::string::npos; begin = end + 1) {
    const std::string folder = folders.substr(begin, end - begin);
    if (!folder.empty() && is_executable_file(std::filesystem::path(folder) / program)) return true;
  }
  return false;
}

void check_file(const Experiment& experiment, const std::string& key, const std::string& written) {
  const std::string path = resolve(experiment, written);
  if (!std::filesystem::is_regular_file(path))
    throw input_error(fmt::format("{}: {}", experiment.file.string(), key), fmt::format("there is no file {}", path));
}

void check_model(const Experiment& experiment, const std::string& key, const std::string& written) {
  if (is_synthetic(written)) return;
  const std::string path = resolve(experiment, written);
  if (!std::filesystem::is_directory(path))
    throw input_error(fmt::format("{}: {}", experiment.file.string(), key),
                      fmt::format("there is no checkpoint folder {}", path));
}

void check_program(const Experiment& experiment, const Arm& arm, const std::string& key) {
  const std::vector<std::string> argv = resolve_program(experiment, arm);
  if (argv.empty()) return;
  const bool has_folder = argv.front().find('/') != std::string::npos;
  const std::string where = fmt::format("{}: {}", experiment.file.string(), key);
  if (has_folder && !std::filesystem::exists(argv.front()))
    throw input_error(where, fmt::format("there is no program {}", argv.front()),
                      "a path starts at the experiment file's folder");
  if (has_folder && !is_executable_file(argv.front()))
    throw input_error(where, fmt::format("{} cannot be executed", argv.front()));
  if (!has_folder && !is_on_path(argv.front()))
    throw input_error(where, fmt::format("there is no program '{}' in PATH", argv.front()),
                      "write a path with a '/' for a program elsewhere");
}

}  // namespace

Json to_json(const Experiment& experiment) {
  Json measures = Json::array();
  for (const Measure measure : experiment.measures) measures.push_back(describe(measure).name);
  Json json = {{"name", experiment.name},         {"description", experiment.description},
               {"model", experiment.model},       {"texts", texts_json(experiment.texts)},
               {"arms", arms_json(experiment)},   {"schedule", schedule_json(experiment.schedule)},
               {"measures", std::move(measures)}, {"analysis", analysis_json(experiment.analysis)}};
  if (experiment.matrix.design != DesignKind::kNone) {
    json["factors"] = factors_json(experiment.matrix);
    json["design"] = design_json(experiment.matrix);
  }
  if (experiment.texts.mode != TextMode::kGiven) json["prompts"] = prompts_json(experiment.prompts);
  if (!experiment.pinned_cores.empty()) json["pinning"] = {{"cores", experiment.pinned_cores}};
  // Only where it was changed: directories that were measured before there was a sampler stay the same experiment.
  if (experiment.profile.prompts > 0) json["profile"] = {{"prompts", experiment.profile.prompts}};
  if (experiment.environment.sampler_hz != kDefaultSamplerHz)
    json["environment"] = {{"sampler_hz", experiment.environment.sampler_hz}};
  if (experiment.blind) json["blind"] = true;
  json["limits"] = {{"worker_start_s", experiment.limits.worker_start_s}, {"prompt_s", experiment.limits.prompt_s}};
  return json;
}

std::string experiment_digest(const Experiment& experiment) {
  nlohmann::json sorted = nlohmann::json::parse(to_json(experiment).dump());
  for (const char* key : {"name", "description", "blind", "limits"}) sorted.erase(key);
  return digest(sorted.dump());
}

double sampler_hz(const Experiment& experiment, const Arm& arm) {
  return arm.sampler_hz.value_or(experiment.environment.sampler_hz);
}

std::string resolve(const Experiment& experiment, const std::string& written) {
  if (is_synthetic(written)) return written;
  const std::filesystem::path path = written;
  if (path.is_absolute()) return written;
  return (experiment.file.parent_path() / path).lexically_normal().string();
}

std::vector<std::string> resolve_program(const Experiment& experiment, const Arm& arm) {
  std::vector<std::string> argv = arm.program;
  if (!argv.empty() && argv.front().find('/') != std::string::npos) {
    argv.front() = resolve(experiment, argv.front());
    // Without a '/' left (./worker beside the experiment file), the system would look in PATH.
    if (argv.front().find('/') == std::string::npos) argv.front() = "./" + argv.front();
  }
  return argv;
}

void check_paths(const Experiment& experiment) {
  if (experiment.texts.mode == TextMode::kGiven) {
    check_file(experiment, "texts.file", experiment.texts.file);
  } else {
    check_file(experiment, "prompts.file", experiment.prompts.file);
  }
  for (std::size_t i = 0; i < experiment.arms.size(); ++i) {
    const Arm& arm = experiment.arms[i];
    const std::string key = fmt::format("arms[{}]", i);
    check_model(experiment, arm.model == experiment.model ? "model" : key + ".model", arm.model);
    check_program(experiment, arm, key + ".program");
  }
}

std::string to_text(TextMode mode) {
  switch (mode) {
    case TextMode::kSampled:
      return "sampled";
    case TextMode::kGreedy:
      return "greedy";
    case TextMode::kGiven:
      return "given";
  }
  throw internal_error("a text mode has no name");
}

std::string to_text(Granularity granularity) {
  switch (granularity) {
    case Granularity::kRun:
      return "run";
    case Granularity::kPrompt:
      return "prompt";
  }
  throw internal_error("a granularity has no name");
}

std::string to_text(StopRule rule) {
  switch (rule) {
    case StopRule::kFixed:
      return "fixed";
    case StopRule::kPrecision:
      return "precision";
    case StopRule::kTime:
      return "time";
  }
  throw internal_error("a stop rule has no name");
}

std::string to_text(Multiplicity multiplicity) {
  return multiplicity == Multiplicity::kHolm ? "holm" : "screen";
}

}  // namespace tare::harness

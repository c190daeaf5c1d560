// What an experiment is: the plain form of an experiment file (JSON with comments; docs/protocol/experiment.md).
// Reading checks every key, type and range; nothing here opens a model, a prompt file or a program except check_paths.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_reader.h"
#include "harness/experiment/factors.h"
#include "harness/experiment/measures.h"

namespace tare::harness {

constexpr std::size_t kFewestArms = 2;
constexpr double kDefaultSamplerHz = 5;  // steps of clocks and power last longer than a fifth of a second
constexpr std::int64_t kMostProfiledPrompts = 4096;
constexpr double kMostSamplerHz = 1000;  // above 10, NVML's own advice, only to find out what a sample costs
constexpr std::size_t kMostArms = 16;    // more verdicts than sixteen leave none of them power; letters A to P
// From so many arms on a block is a palindrome, which tells no curve from the arms (stats/schedule.h): two are needed.
constexpr std::size_t kFewestArmsOfPalindromes = 6;

// Which prompts of a file in the Spec-Bench format take part: those with one of `ids` (all when empty) and one of
// `categories` (all when empty), cut to `limit` as forced::select_prompts does it.
struct PromptSelection {
  std::string file;  // as written; see resolve()
  std::optional<std::int64_t> limit;
  std::vector<std::string> ids;  // question ids; the file may write them as numbers
  std::vector<std::string> categories;
};

enum class TextMode {
  kSampled,  // the baseline writes the texts once, sampling at `temperature` with `seed`
  kGreedy,   // the baseline writes them once, greedily
  kGiven,    // token ids come from `file`
};

struct TextSource {
  TextMode mode = TextMode::kSampled;
  double temperature = 0.8;       // sampled
  std::uint64_t seed = 1;         // sampled
  std::int64_t max_tokens = 128;  // sampled, greedy: tokens a text has at most
  std::string file;               // given; as written
  bool recorded_rounds = false;   // given: `file` is of tare rollouts, and every arm walks its trees and paths
};

struct Arm {
  std::string name;                  // [A-Za-z0-9._-]+, unique
  Json options = Json::object();     // the experiment's common options overlaid with the arm's own; only what was set
  std::vector<std::string> program;  // argv of another worker program; empty: this program's own worker
  std::string model;                 // as written; the experiment's unless the arm names another
  std::optional<double>
      sampler_hz;       // the experiment's unless the arm says otherwise: what sampling costs can be weighed
  LevelIndices levels;  // of a matrix: one a factor; empty without factors
  // Names of kernels or ops (launch_rules.h): what the arm's twin launches must all launch, and none of them may.
  std::vector<std::string> must_launch, must_not_launch;
};

enum class Granularity {
  kRun,     // a fresh launch for every slot; the unit is the run
  kPrompt,  // all workers resident for a block, arms alternate prompt by prompt; the unit is the block
};

// When the blocks end. Looked at after every block, and never at whether a difference is significant: stopping there
// would find differences that are not (docs/method/statistics.md).
enum class StopRule {
  kFixed,      // after `blocks`
  kPrecision,  // when every verdict's interval is at most so wide; two blocks at least, `blocks` at most
  kTime,       // when the next block would not fit into the budget; `blocks` at most
};
struct StopSettings {
  StopRule rule = StopRule::kFixed;
  double half_width_percent = 0;  // precision: of the verdicts' intervals
  double budget_s = 0;            // time: of the blocks, launches included
};

struct ScheduleSettings {
  Granularity granularity = Granularity::kRun;
  std::int64_t blocks = 1;  // at most, under any rule
  StopSettings stop;
  std::uint64_t seed = 1;  // first letter of the order, and the streams of the analysis
  bool warmup = true;      // a first run is stored, flagged and left out
};

// What alpha holds over the verdicts of an experiment (stats/multiplicity.h).
enum class Multiplicity {
  kHolm,    // the chance of any false claim
  kScreen,  // the expected share of false claims among those made (Benjamini-Hochberg)
};

struct AnalysisSettings {
  double alpha = 0.05;  // two-sided; intervals cover 1 - alpha
  Multiplicity multiplicity = Multiplicity::kHolm;
  std::optional<double> equivalence_margin_percent;      // of the effect; absent: equivalence is not asked
  std::optional<double> non_inferiority_margin_percent;  // absent: non-inferiority is not asked
};

// In every block a twin launch of every arm replays the first texts under a collector.
struct ProfileSettings {
  std::int64_t prompts = 0;  // texts; 0: no twin launches
};

// Readings of the machine while a run goes on (harness/environment/sampler.h).
struct EnvironmentSettings {
  double sampler_hz = kDefaultSamplerHz;  // 0: only before and after each run
};

struct Limits {
  double worker_start_s = 120;  // from the start of a worker to its answer to `open`
  double prompt_s = 300;        // from a request to its answer; a worker silent for longer counts as hung
};

struct Experiment {
  std::filesystem::path file;  // where it was read from; relative paths in it start at this file's folder
  std::string name;
  std::string description;
  bool blind = false;  // reports hide which arm is which until they are unblinded (harness/analysis/blinding.h)
  std::string model;
  PromptSelection prompts;  // empty for given texts
  TextSource texts;
  Matrix matrix;          // what the arms were made of; empty when they are written one by one
  std::vector<Arm> arms;  // the first is the baseline
  ScheduleSettings schedule;
  std::vector<Measure> measures;  // in the table's order; decode speed is always among them
  AnalysisSettings analysis;
  std::vector<int> pinned_cores;  // empty: not pinned
  EnvironmentSettings environment;
  ProfileSettings profile;
  Limits limits;
};

// Throws Error (input): file, key, what is wrong; unknown keys with the nearest known name. Engine options of arms
// without a program of their own are checked against engine::EngineOptions; other programs check theirs at `open`.
[[nodiscard]] Experiment read_experiment(const std::filesystem::path& file);
// The same from text; `file` is used for errors and as the start of relative paths, and is not opened.
[[nodiscard]] Experiment parse_experiment(std::string_view text, const std::filesystem::path& file);

// Normalised form: every field with its present value, paths as written, common options already overlaid. Reads back
// through parse_experiment to an equal experiment.
[[nodiscard]] Json to_json(const Experiment& experiment);
// Names what is measured and how: XXH3-128 of the normalised form, keys sorted, without name, description and limits
// (a longer time limit does not make it another experiment).
[[nodiscard]] std::string experiment_digest(const Experiment& experiment);

// Samples a second while a run of this arm is measured; 0: none.
[[nodiscard]] double sampler_hz(const Experiment& experiment, const Arm& arm);

// `written` from the experiment file's folder on; absolute paths and "synthetic:..." models stay as they are.
[[nodiscard]] std::string resolve(const Experiment& experiment, const std::string& written);
// The arm's argv with the program's path resolved: a name without '/' is left to PATH. Empty for the own worker.
[[nodiscard]] std::vector<std::string> resolve_program(const Experiment& experiment, const Arm& arm);
// Throws Error (input) naming the key when a model, prompt file, text file or program is not there.
void check_paths(const Experiment& experiment);

[[nodiscard]] std::string to_text(TextMode mode);              // "sampled", "greedy", "given"
[[nodiscard]] std::string to_text(Granularity granularity);    // "run", "prompt"
[[nodiscard]] std::string to_text(StopRule rule);              // "fixed", "precision", "time"
[[nodiscard]] std::string to_text(Multiplicity multiplicity);  // "holm", "screen"

// What `tare init` writes: a commented experiment that parses.
[[nodiscard]] std::string example_experiment();

}  // namespace tare::harness

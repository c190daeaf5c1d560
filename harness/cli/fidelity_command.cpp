#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "base/digest.h"
#include "base/error.h"
#include "base/text.h"
#include "forced/fidelity_budget.h"
#include "forced/fidelity_policy.h"
#include "forced/rounds_file.h"
#include "harness/cli/commands.h"
#include "harness/cli/model_arguments.h"
#include "harness/fidelity/decision_states.h"
#include "harness/fidelity/fidelity_files.h"
#include "harness/fidelity/fidelity_report.h"
#include "harness/fidelity/measure_fidelity.h"
#include "harness/fidelity/needle_arms.h"
#include "harness/fidelity/rollout_arms.h"

namespace tare::harness {
namespace {

struct Arguments {
  ModelArguments model;
  std::string reference;
  std::string reference_model;
  std::string texts;
  std::string baseline;
  std::string arms;
  std::string path = "both";
  std::vector<std::int64_t> round_nodes = {1, 16};
  std::int64_t windows = 0;
  std::int64_t first_position = 0;
  bool ladder = false;
  bool decisions = false;
  bool needle = false;
  std::string rollouts;
  int jobs = 1;
  std::string calibration;
  std::string policy;
  std::string budget;
  std::string accept;
  std::string out;
  bool json = false;
};

// --arms: an object, name -> options, the first the baseline. Otherwise --baseline and what --options and --set say.
std::vector<FidelityArm> arms_of(const Arguments& arguments) {
  std::vector<FidelityArm> arms;
  if (!arguments.arms.empty()) {
    if (!arguments.baseline.empty())
      throw input_error("--baseline", "stands beside --arms, whose first is the baseline");
    const Json json = read_json_file(arguments.arms, JsonComments::kAllowed);
    if (!json.is_object() || json.empty())
      throw input_error(arguments.arms, "must hold an object: name of an arm -> its options");
    for (const auto& [name, options] : json.items()) {
      arms.push_back({name, arguments.model.options()});
      engine::apply_options(arms.back().options, options, arguments.arms + ": " + name);
    }
    return arms;
  }
  if (!arguments.baseline.empty()) {
    arms.push_back({"baseline", {}});
    engine::apply_options(arms.back().options, parse_json(arguments.baseline, "--baseline"), "--baseline");
  }
  arms.push_back({"arm", arguments.model.options()});
  return arms;
}

class ProgressLine {
 public:
  ProgressLine() : terminal_(::isatty(STDERR_FILENO) != 0), start_(std::time(nullptr)) {}

  void show(const std::string& what, std::int64_t done, std::int64_t total) {
    if (!terminal_ && what == last_) return;
    std::string left;
    if (done > 0 && done < total) {
      const double passed = std::difftime(std::time(nullptr), start_);
      left = ", " + human_seconds(passed / static_cast<double>(done) * static_cast<double>(total - done)) + " left";
    }
    const std::string line = fmt::format("{}: window {} of {}{}", what, done, total, left);
    if (terminal_) {
      fmt::print(stderr, "\r\x1b[K{}{}", line, done == total ? "\n" : "");
    } else {
      fmt::print(stderr, "{}\n", line);
    }
    last_ = what;
  }

 private:
  bool terminal_;
  std::time_t start_;
  std::string last_;
};

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  (void)std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// Judges, spends what is accepted, and says how it went as an exit code.
int judge(const Arguments& arguments, Json& fidelity, const std::vector<FidelityArm>& arms) {
  const forced::FidelityPolicy policy = forced::read_fidelity_policy(std::filesystem::path(arguments.policy));
  const std::string policy_digest = digest_file(arguments.policy);
  const std::string reference = fidelity["reference"]["digest"].get<std::string>();
  const std::vector<forced::FidelityExpense> before = arguments.budget.empty()
                                                          ? std::vector<forced::FidelityExpense>{}
                                                          : forced::read_budget(arguments.budget, reference);
  const std::vector<forced::FidelityVerdict> verdicts =
      forced::judge_fidelity(fidelity, policy, "fidelity.json", forced::total(before));
  add_verdicts(fidelity, verdicts, policy_digest);
  if (!arguments.accept.empty()) {
    const std::string& arm = arms.back().name;
    forced::record_expense(arguments.budget, {now_utc(), arguments.accept, arm, policy_digest, reference,
                                              forced::expense_of(verdicts, arm)});
  }
  switch (forced::overall_verdict(verdicts)) {
    case stats::Verdict::kBetter:
    case stats::Verdict::kEquivalent:
    case stats::Verdict::kNonInferior:
      return 0;
    case stats::Verdict::kWorse:
      return 1;
    case stats::Verdict::kInconclusive:
      return 3;
    case stats::Verdict::kInvalid:
      break;
  }
  return exit_code(ErrorKind::kInvalid);
}

void check(const Arguments& arguments) {
  if (!arguments.budget.empty() && arguments.policy.empty()) throw input_error("--budget", "needs --policy");
  if (!arguments.accept.empty() && arguments.budget.empty()) throw input_error("--accept", "needs --budget");
  for (const std::int64_t nodes : arguments.round_nodes)
    if (nodes < 1) throw input_error("--round-nodes", "must be at least 1");
}

int run_fidelity(const Arguments& arguments) {
  check(arguments);
  const std::vector<FidelityArm> arms = arms_of(arguments);
  if (!arguments.accept.empty() && arms.size() != 2) throw input_error("--accept", "takes one arm beside the baseline");
  const std::string& owner = arguments.reference_model.empty() ? arguments.model.model : arguments.reference_model;
  engine::Reference reference = engine::read_reference(arguments.reference);
  check_belongs(reference, owner, arguments.reference);
  reference = first_windows(reference, arguments.windows);
  if (!arguments.texts.empty()) check_texts(reference, arguments.texts, owner, arguments.reference);
  if (!arguments.calibration.empty()) check_learned(reference, arguments.calibration, owner);
  if (!arguments.policy.empty()) (void)forced::read_fidelity_policy(std::filesystem::path(arguments.policy));

  // Read before the hours of walks, so that a fault is told now.
  std::optional<forced::RoundsFile> recorded;
  if (!arguments.rollouts.empty()) recorded = forced::read_rounds(arguments.rollouts);

  FidelitySettings settings;
  settings.model = arguments.model.model;
  settings.reference_model = arguments.reference_model;
  settings.arms = arms;
  settings.prefill = arguments.path != "decode";
  settings.round_nodes = arguments.path != "prefill" ? arguments.round_nodes : std::vector<std::int64_t>{};
  settings.ladder = arguments.ladder;
  settings.jobs = arguments.jobs;
  settings.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  ProgressLine progress;
  const FidelityProgress show = [&](const std::string& what, std::int64_t done, std::int64_t total) {
    progress.show(what, done, total);
  };
  FidelityConditions conditions;
  conditions.model = arguments.model.model;
  conditions.reference_file = arguments.reference;
  conditions.reference_digest = digest_file(arguments.reference);
  conditions.summary.first_position = arguments.first_position;
  const std::filesystem::path out = arguments.out;
  Json fidelity = begin_fidelity(reference, arms.front().name, conditions);
  (void)measure_fidelity(reference, settings, show, [&](const FidelityMeasurement& so_far) {
    add_arm(fidelity, reference, so_far, conditions);
    write_fidelity_files(fidelity, out);
  });
  fidelity["complete"] = true;
  if (arguments.decisions) {
    Json decisions = Json::array();
    for (const ArmDecisions& arm : compare_arms(reference, settings, show)) decisions.push_back(to_json(arm));
    fidelity["decisions"] = std::move(decisions);
  }
  if (arguments.needle) fidelity["needle"] = needle_json(ask_needles(reference, settings, show));
  if (recorded) fidelity["rollouts"] = to_json(compare_rollouts(*recorded, settings, show));
  const int code = arguments.policy.empty() ? 0 : judge(arguments, fidelity, arms);
  write_fidelity_files(fidelity, out);
  fmt::print("{}", arguments.json ? fidelity.dump(2) + "\n" : fidelity_text(fidelity));
  if (!arguments.json) fmt::print("{}\n", (out / "fidelity.md").string());
  return code;
}

}  // namespace

void add_fidelity_command(CommandLine& line) {
  const auto arguments = std::make_shared<Arguments>();
  const Command command = line.add_command("fidelity", "score configurations against an FP32 reference");
  arguments->model.add_to(command);
  command.add_option("--reference", arguments->reference, "file of tare reference").required();
  command.add_option("--reference-model", arguments->reference_model,
                     "the checkpoint of the reference, when --model was made from it");
  command.add_option("--texts", arguments->texts, "file of windows that the reference must be of");
  command.add_option("--baseline", arguments->baseline, "options of the baseline as JSON: adds paired differences");
  command.add_option("--arms", arguments->arms,
                     "JSON file: name -> options on top of --options; the first is the baseline");
  command.add_option("--path", arguments->path, "prefill, decode or both")
      .one_of({"prefill", "decode", "both"})
      .show_default();
  command.add_option("--round-nodes", arguments->round_nodes, "nodes of a decode round; 1 is token by token")
      .comma_separated()
      .show_default();
  command.add_option("--windows", arguments->windows, "the first so many of the reference; 0: all").show_default();
  command.add_option("--first-position", arguments->first_position, "positions before it are not scored")
      .show_default();
  command.add_flag("--ladder", arguments->ladder, "also the baseline with logits rounded to 2^-20 .. 2^-5");
  command.add_flag(
      "--decisions", arguments->decisions,
      "also 64 states without a text to follow, cold, continued and from a prefix cache: do the arms choose alike?");
  command.add_flag("--needle", arguments->needle,
                   "also facts in long texts: do the arms find them, and a spoiled baseline not?");
  command.add_option("--rollouts", arguments->rollouts,
                     "also texts of the arms' own after the prompts of this file of tare rollouts, and that file's "
                     "texts replayed");
  command.add_option("--jobs", arguments->jobs, "arms and paths walked at a time; use with --set cpu.threads=1")
      .show_default();
  command.add_option("--calibration", arguments->calibration,
                     "texts that a model or quantiser learned from: refused when the reference's windows are in them");
  command.add_option("--policy", arguments->policy, "policy file: its section fidelity judges the differences");
  command.add_option("--budget", arguments->budget, "file of accepted changes: what they spent is taken off margins");
  command.add_option("--accept", arguments->accept, "in words: the change that is accepted if it passes, and spends");
  command.add_option("--out", arguments->out, "directory for fidelity.json and fidelity.md").required();
  command.add_flag("--json", arguments->json, "print fidelity.json");
  command.set_footer(
      "Example: tare fidelity --model models/embedded --set weights.format=q4 --baseline '{}' --reference "
      "reference.safetensors --windows 4 --out fidelity");
  command.set_action([arguments] { return run_fidelity(*arguments); });
}

}  // namespace tare::harness

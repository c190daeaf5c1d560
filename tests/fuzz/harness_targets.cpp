// Parsers of experiments, the worker protocol and exports of Nsight Systems.
#include <filesystem>

#include "base/file.h"
#include "harness/experiment/experiment.h"
#include "harness/worker/protocol.h"
#include "profiles/nsys/nsys_import.h"
#include "tests/fuzz/targets.h"
#include "tests/profiles/nsys_fixture.h"

namespace tare::fuzz {
namespace {

void parse_experiment(std::string_view bytes) {
  const harness::Experiment experiment = harness::parse_experiment(bytes, "experiment.json");
  (void)harness::experiment_digest(experiment);
}

// A line may be any call or reply; each parser answers for itself.
void parse_protocol(std::string_view bytes) {
  const Json line = parse_json(bytes, "line");
  const auto each = [&](auto parse) {
    (void)answer_of({"", [&](std::string_view) { (void)parse(line, "line"); }, {}}, {});
  };
  each(harness::parse_open_call);
  each(harness::parse_encode_call);
  each(harness::parse_run_call);
  each(harness::parse_hello_reply);
  each(harness::parse_open_reply);
  each(harness::parse_encode_reply);
  each(harness::parse_run_reply);
  each(harness::parse_profile_reply);
}

void parse_nsys(std::string_view bytes) {
  with_file(bytes, "export.sqlite", [](const std::string& file) { (void)profiles::import_nsys(file, {}); });
}

std::string nsys_seed() {
  std::string bytes;
  with_file("", "seed.sqlite", [&](const std::string& file) {
    std::filesystem::remove(file);
    profiles::write_decode_capture(file, profiles::known_schemas().back(), {.rounds = 2});
    bytes = read_text_file(file);
  });
  return bytes;
}

const std::string kExperiment = R"({"name": "fuzz", "model": "synthetic:0.8b?seed=1",
 "texts": {"mode": "sampled", "temperature": 0.8, "seed": 1, "max_tokens": 8}, "prompts": {"file": "p.jsonl", "limit": 2},
 "options": {"cpu": {"threads": 1}}, "arms": [{"name": "a", "options": {}}, {"name": "b", "options": {"weights": {"format": "q4"}}}],
 "schedule": {"granularity": "prompt", "blocks": 5, "seed": 1, "warmup": true}, "measures": ["decode_speed"],
 "profile": {"prompts": 1}, "analysis": {"alpha": 0.05}})";

}  // namespace

std::vector<Target> harness_targets() {
  return {
      {"experiment", parse_experiment, {kExperiment}},
      {"protocol",
       parse_protocol,
       {R"({"type": "open", "id": 1, "model": "m", "options": {}, "cores": [0, 1]})",
        R"({"type": "run", "id": 2, "prompt": [1, 2], "forced": [3, 4], "max_tokens": 2})",
        R"({"type": "hello", "id": 0, "protocol": 1, "program": "tare", "version": "0", "build": {}, "options": []})"}},
      {"nsys", parse_nsys, {nsys_seed()}},
  };
}

}  // namespace tare::fuzz

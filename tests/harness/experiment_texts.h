// Experiments shared by the tests of the parser and of the schema: a small right one, and wrong ones.
#pragma once

#include <string>
#include <vector>

#include "base/json_reader.h"

namespace tare::harness {

inline Json small_experiment() {
  return Json::parse(R"({
    "name": "small", "model": "m", "prompts": {"file": "p.jsonl"},
    "arms": [{"name": "a"}, {"name": "b", "options": {"weights": {"format": "q4"}}}],
    "schedule": {"granularity": "run"}})");
}

struct BrokenExperiment {
  std::string why;
  std::string place;  // where the parser finds the fault
  Json json;
};

// Each must be refused by the parser and by docs/protocol/experiment.schema.json. A patch (RFC 7396) of the small one.
inline std::vector<BrokenExperiment> broken_experiments() {
  struct Patch {
    const char* why;
    const char* place;
    const char* patch;
  };
  const std::vector<Patch> patches = {
      {"no name", "name", R"({"name": null})"},
      {"empty name", "name", R"({"name": ""})"},
      {"number for a name", "name", R"({"name": 3})"},
      {"no model", "model", R"({"model": null})"},
      {"no prompts", "prompts", R"({"prompts": null})"},
      {"prompts beside given texts", "prompts", R"({"texts": {"mode": "given", "file": "t.jsonl"}})"},
      {"no prompt file", "prompts.file", R"({"prompts": {"file": null}})"},
      {"limit of zero prompts", "prompts.limit", R"({"prompts": {"limit": 0}})"},
      {"unknown key of prompts", "prompts.fil", R"({"prompts": {"fil": "x"}})"},
      {"one arm", "arms", R"({"arms": [{"name": "a"}]})"},
      {"seventeen arms", "arms",
       R"({"arms": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}, {"name": "e"}, {"name": "f"},
                    {"name": "g"}, {"name": "h"}, {"name": "i"}, {"name": "j"}, {"name": "k"}, {"name": "l"},
                    {"name": "m"}, {"name": "n"}, {"name": "o"}, {"name": "p"}, {"name": "q"}]})"},
      {"neither arms nor factors", "arms", R"({"arms": null})"},
      {"factors without a design", "design",
       R"({"arms": null, "factors": {"w": [{"name": "a"}, {"name": "b", "options": {"weights": {"format": "q4"}}}]}})"},
      {"a design without factors", "design", R"({"design": {"kind": "full"}})"},
      {"no factor", "factors", R"({"arms": null, "design": {"kind": "full"}, "factors": {}})"},
      {"a factor with one level", "factors.w",
       R"({"arms": null, "design": {"kind": "full"}, "factors": {"w": [{"name": "a"}]}})"},
      {"a level with a space in its name", "factors.w[0].name",
       R"({"arms": null, "design": {"kind": "full"}, "factors": {"w": [{"name": "a b"}, {"name": "c"}]}})"},
      {"an unknown option of a level", "factors.w[1].options.wieghts",
       R"({"arms": null, "design": {"kind": "full"},
           "factors": {"w": [{"name": "a"}, {"name": "b", "options": {"wieghts": {}}}]}})"},
      {"an unknown design", "design.kind",
       R"({"arms": null, "design": {"kind": "half"},
           "factors": {"w": [{"name": "a"}, {"name": "b", "options": {"weights": {"format": "q4"}}}]}})"},
      {"a listed design without combinations", "design.combinations",
       R"({"arms": null, "design": {"kind": "listed"},
           "factors": {"w": [{"name": "a"}, {"name": "b", "options": {"weights": {"format": "q4"}}}]}})"},
      {"combinations of a full design", "design.combinations",
       R"({"arms": null, "design": {"kind": "full", "combinations": [{"w": "a"}, {"w": "b"}]},
           "factors": {"w": [{"name": "a"}, {"name": "b", "options": {"weights": {"format": "q4"}}}]}})"},
      {"an unknown stop rule", "schedule.stop.rule", R"({"schedule": {"stop": {"rule": "significance"}}})"},
      {"precision without a width", "schedule.stop.half_width_percent",
       R"({"schedule": {"blocks": 4, "stop": {"rule": "precision"}}})"},
      {"a budget of precision", "schedule.stop.budget_s",
       R"({"schedule": {"blocks": 4, "stop": {"rule": "precision", "half_width_percent": 1, "budget_s": 9}}})"},
      {"no budget", "schedule.stop.budget_s", R"({"schedule": {"stop": {"rule": "time", "budget_s": 0}}})"},
      {"unknown multiplicity", "analysis.multiplicity", R"({"analysis": {"multiplicity": "none"}})"},
      {"arm without name", "arms[1].name", R"({"arms": [{"name": "a"}, {}]})"},
      {"arm name with a space", "arms[1].name", R"({"arms": [{"name": "a"}, {"name": "b c"}]})"},
      {"unknown key of an arm", "arms[1].option", R"({"arms": [{"name": "a"}, {"name": "b", "option": {}}]})"},
      {"unknown option", "arms[1].options.wieghts",
       R"({"arms": [{"name": "a"}, {"name": "b", "options": {"wieghts": {}}}]})"},
      {"unknown option value", "arms[1].options.weights.format",
       R"({"arms": [{"name": "a"}, {"name": "b", "options": {"weights": {"format": "q1"}}}]})"},
      {"option out of range", "arms[1].options.prefill.chunk",
       R"({"arms": [{"name": "a"}, {"name": "b", "options": {"prefill": {"chunk": -1}}}]})"},
      {"unknown common option", "options.threads", R"({"options": {"threads": 2}})"},
      {"empty program", "arms[1].program", R"({"arms": [{"name": "a"}, {"name": "b", "program": []}]})"},
      {"launch names without a profile", "arms[1].must_launch",
       R"({"arms": [{"name": "a"}, {"name": "b", "must_launch": ["gdn"]}]})"},
      {"launch names with profile of no prompt", "arms[0].must_not_launch",
       R"({"profile": {"prompts": 0}, "arms": [{"name": "a", "must_not_launch": ["gdn"]}, {"name": "b"}]})"},
      {"a star within a launch name", "arms[1].must_launch[0]",
       R"({"profile": {"prompts": 2}, "arms": [{"name": "a"}, {"name": "b", "must_launch": ["gdn*norm"]}]})"},
      {"a star alone", "arms[1].must_not_launch[1]",
       R"({"profile": {"prompts": 2}, "arms": [{"name": "a"}, {"name": "b", "must_not_launch": ["gdn", "*"]}]})"},
      {"no launch name", "arms[1].must_launch",
       R"({"profile": {"prompts": 2}, "arms": [{"name": "a"}, {"name": "b", "must_launch": []}]})"},
      {"no schedule", "schedule", R"({"schedule": null})"},
      {"no granularity", "schedule.granularity", R"({"schedule": {"granularity": null}})"},
      {"unknown granularity", "schedule.granularity", R"({"schedule": {"granularity": "token"}})"},
      {"no block", "schedule.blocks", R"({"schedule": {"blocks": 0}})"},
      {"half a block", "schedule.blocks", R"({"schedule": {"blocks": 1.5}})"},
      {"negative seed", "schedule.seed", R"({"schedule": {"seed": -1}})"},
      {"warm-up as a word", "schedule.warmup", R"({"schedule": {"warmup": "yes"}})"},
      {"unknown text mode", "texts.mode", R"({"texts": {"mode": "beam"}})"},
      {"temperature of greedy texts", "texts.temperature", R"({"texts": {"mode": "greedy", "temperature": 1}})"},
      {"temperature zero", "texts.temperature", R"({"texts": {"mode": "sampled", "temperature": 0}})"},
      {"top_p", "texts.top_p", R"({"texts": {"mode": "sampled", "top_p": 0.9}})"},
      {"given texts without a file", "texts.file", R"({"texts": {"mode": "given"}})"},
      {"texts of one token", "texts.max_tokens", R"({"texts": {"mode": "greedy", "max_tokens": 1}})"},
      {"unknown measure", "measures[1]", R"({"measures": ["decode_speed", "speed"]})"},
      {"measures without the effect", "measures", R"({"measures": ["peak_memory"]})"},
      {"a measure twice", "measures[1]", R"({"measures": ["decode_speed", "decode_speed"]})"},
      {"alpha zero", "analysis.alpha", R"({"analysis": {"alpha": 0}})"},
      {"alpha above a half", "analysis.alpha", R"({"analysis": {"alpha": 0.6}})"},
      {"margin zero", "analysis.equivalence_margin_percent", R"({"analysis": {"equivalence_margin_percent": 0}})"},
      {"no cores to pin to", "pinning.cores", R"({"pinning": {"cores": []}})"},
      {"a negative core", "pinning.cores[0]", R"({"pinning": {"cores": [-1]}})"},
      {"no time limit", "limits.prompt_s", R"({"limits": {"prompt_s": 0}})"},
      {"unknown key", "scheduel", R"({"scheduel": {}})"},
  };
  std::vector<BrokenExperiment> broken;
  for (const Patch& patch : patches) {
    Json json = small_experiment();
    json.merge_patch(Json::parse(patch.patch));
    broken.push_back({patch.why, patch.place, std::move(json)});
  }
  return broken;
}

}  // namespace tare::harness

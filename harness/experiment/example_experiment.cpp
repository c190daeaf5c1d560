#include "harness/experiment/experiment.h"

namespace tare::harness {

std::string example_experiment() {
  return R"json(// An experiment for `tare run`. Comments are allowed; paths start at this file's folder.
// Every key is described in docs/protocol/experiment.md, every engine option by `tare worker --options`.
{
  "name": "q8-against-q4",
  "description": "Is decoding with 4-bit weights faster than with 8-bit weights?",

  // A Hugging Face checkpoint folder: config.json, *.safetensors, tokenizer.json.
  "model": "../models/embedded",

  // Spec-Bench format, one prompt a line. Optional: "limit": 16, "ids": [1, 2], "categories": ["code"].
  "prompts": {"file": "../prompts/tare-64.jsonl"},

  // The baseline writes every text once; then all arms are forced through the same tokens.
  // "mode": "greedy" takes the likeliest token; "mode": "given" reads token ids from "file".
  "texts": {"mode": "sampled", "temperature": 0.8, "seed": 1, "max_tokens": 128},

  // Engine options of every arm.
  "options": {"cpu": {"threads": 2}},

  // Two to five arms, the baseline first. An arm's options are laid over the common ones. An arm may also have
  // "model": another checkpoint, and "program": another worker program, such as an older build.
  "arms": [
    {"name": "q8", "options": {"weights": {"format": "q8"}}},
    {"name": "q4", "options": {"weights": {"format": "q4"}}},
    // The baseline under another name: the experiment must show no difference here.
    {"name": "q8-again", "options": {"weights": {"format": "q8"}}}
  ],

  // "run": a fresh worker process for every slot of a balanced order. "prompt": all workers stay up for a block and
  // take turns prompt by prompt; then ask for at least 5 blocks.
  "schedule": {"granularity": "run", "blocks": 1, "seed": 1, "warmup": true},

  "measures": ["decode_speed", "time_to_first_token", "prefill_speed", "peak_memory"],

  // Margins, in percent of the effect, are decided before the data are seen. Without one, equivalence (or
  // non-inferiority) is never claimed.
  "analysis": {"alpha": 0.05, "equivalence_margin_percent": 1.0}

  // Optional: keep the workers on these cores.
  // "pinning": {"cores": [0, 1]},
  // Optional: a worker that is silent for longer counts as hung.
  // "limits": {"worker_start_s": 120, "prompt_s": 300}
}
)json";
}

}  // namespace tare::harness

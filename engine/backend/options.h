// Every switch an arm can set. One struct; it reads itself from JSON, prints itself, and lists itself
// (option_description.h). Unknown keys and values are refused with the nearest known name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/backend/option_words.h"
#include "engine/formats/state_codec.h"
#include "engine/formats/weight_format.h"

namespace tare::engine {

struct WeightOverride {
  TensorClass tensors = TensorClass::kMlp;
  std::int64_t first_layer = 0;  // layers first..last, both included; ignored for the head
  std::int64_t last_layer = 0;
  WeightFormat format = WeightFormat::kBF16;
};

struct EngineOptions {
  BackendKind backend = BackendKind::kCpu;
  struct Weights {
    WeightFormat format = WeightFormat::kBF16;  // of every projection and the head
    std::vector<WeightOverride> overrides;      // later ones win
    ScaleFormat scales = ScaleFormat::kFP16;    // of the groups of quantised weights (formats/weight_format.h)
  } weights;
  struct Activations {
    // Input of the projections. auto: fp32 on the CPU, bf16 on CUDA. q8 (INT8 blocks of 64, quantised weights only) is
    // the CPU's, bf16 is CUDA's; fp32 on CUDA runs reference products, slow and exact.
    ActivationFormat format = ActivationFormat::kAuto;
  } activations;
  struct KeyValue {
    CacheFormat key = CacheFormat::kBF16;
    CacheFormat value = CacheFormat::kBF16;
    KeyRotation rotation = KeyRotation::kNone;  // of keys and queries, after their own rotation by position
  } kv;
  struct State {
    CacheFormat convolution = CacheFormat::kFP32;  // fp32 or bf16
    StateFormat recurrent = StateFormat::kFP32;
  } state;
  struct Gdn {
    GdnForm form = GdnForm::kRecurrent;
  } gdn;
  // How a verify leaves the recurrent state such that any path of its tree can be committed. ring: inputs of the nodes
  // are kept and those of the path re-applied. snapshot: the state after every node is kept. tree_chunk: the nodes are
  // one chunk with an ancestor mask (docs/method/model.md), no node's state is formed.
  Rollback rollback = Rollback::kRing;
  struct Speculate {
    std::string drafter = "none";   // "none"; "mtp", the checkpoint's own head; the directory of a block drafter; or
                                    // "synthetic", one of random weights for a synthetic model
    std::int64_t draft_tokens = 0;  // how far ahead it proposes; 0: a block drafter's block, 3 with mtp
    std::int64_t tree_nodes = 16;   // of a verify, the root included; 1: the anchor alone
    std::int64_t candidates = 8;    // a row of the draft that the tree may take; 1: the tree is a chain
    double temperature = 1;         // of the draft's probabilities when a tree grows
    // best_first: the most probable prefixes; chain_first: the whole chain of firsts, then the most probable others.
    TreeGrowth growth = TreeGrowth::kBestFirst;
  } speculate;
  // The head of a verify in two levels (docs/method/heads.md): a low-bit copy scores every token, and only the best few
  // of a row are scored with the head itself.
  struct Head {
    HeadScreen screen = HeadScreen::kNone;
    std::int64_t candidates = 32;
  } head;
  // The head of a drafter: which rows of the target's it scores, and in which format. Changes no text.
  struct ProposalHead {
    std::int64_t shortlist = 0;             // the most frequent tokens, so many; 0: the whole vocabulary
    std::string counts;                     // file of the frequencies; empty: token_counts.safetensors of the model
    HeadScreen screen = HeadScreen::kNone;  // none: as the target's head is stored
  } proposal_head;
  struct Prefill {
    std::int64_t chunk = 0;  // tokens a pass; 0: 128 on the CPU, 4096 on CUDA
  } prefill;
  // What is kept of prompts, so that a later one with the same beginning need not be computed (decode/prefix_cache.h).
  struct PrefixCache {
    std::int64_t bytes = 0;                       // that it may hold; 0: nothing is kept
    std::int64_t page_tokens = 128;               // a prompt is kept, and found, at multiples of so many tokens
    StateFormat checkpoint = StateFormat::kFP32;  // of the recurrent state in it; fp32 is exact
  } prefix_cache;
  std::int64_t context = 0;  // tokens the caches can hold; 0: the model's maximum, at most 8192
  struct Cpu {
    std::int64_t threads = 0;              // 0: as many as this process may use
    std::string instruction_set = "auto";  // or a name of available_instruction_sets(): "AVX3_DL", "AVX2" ...
  } cpu;
  struct Cuda {
    std::int64_t device = 0;
    bool graph = true;               // a round is one CUDA graph; false: its kernels are launched one by one
    bool programmatic = true;        // kernels start before their predecessor ends and ask for weights before they wait
    std::int64_t blocks_per_sm = 2;  // thread blocks of a weight product an SM: 2 compute together, 1 leaves its
                                     // successor room to fill its ring
    std::int64_t out_blocks_per_sm = 1;  // the same of the output projections; 1: no two share an SM
    std::int64_t trigger = -1;  // a product lets its successor start when a block has this many unit pairs left to ask
                                // for; -1: at once
    bool activating_product = true;  // gate's and up's product applies the activation itself where its rows come out
                                     // evenly over the SMs; false: a kernel of its own does
    std::int64_t late_stages = 4;    // of the target's products behind a norm, what the later half of the thread blocks
                                     // asks for before the wait, in stages of their rings; 0: all that a ring holds
    double l2_fill_mb = 0;           // weights that the extra blocks of a GDN or attention kernel pull into L2
    std::int64_t l2_fill_blocks = 16;
  } cuda;
  struct Handicap {  // instrument: a known cost a round, spun after the round's work and inside its time
    HandicapPlace place = HandicapPlace::kNone;
    std::int64_t ns = 0;  // spun every round
    double share = 0;     // and this share of the round's time so far
  } handicap;
  struct Perturb {  // instrument: a known rounding
    PerturbPlace place = PerturbPlace::kNone;
    std::int64_t bits = 23;  // mantissa bits kept, round to nearest even
  } perturb;

  [[nodiscard]] WeightFormat format_of(TensorClass tensors, std::int64_t layer) const;
  [[nodiscard]] WeightCodec codec_of(TensorClass tensors, std::int64_t layer) const {
    return {format_of(tensors, layer), weights.scales};
  }
};

// Applies the fields present in `json` to `options`. Throws Error (input).
void apply_options(EngineOptions& options, const Json& json, const std::string& where);
// Applies one "path=value" (value as JSON, or a bare word taken as text): "weights.format=q4", "cpu.threads=2".
void apply_option(EngineOptions& options, std::string_view assignment);
// Every field with its present value, in the form apply_options reads.
[[nodiscard]] Json to_json(const EngineOptions& options);

[[nodiscard]] std::string to_text(BackendKind kind);     // "cpu", "cuda"
[[nodiscard]] std::string to_text(TensorClass tensors);  // "attention", "gdn", "mlp", "head", "mtp", "drafter"
[[nodiscard]] std::string to_text(WeightFormat format);  // "bf16", "q8", "q5", "q4", "q3", "fp8", "nvfp4"
[[nodiscard]] std::string to_text(ActivationFormat format);
[[nodiscard]] std::string to_text(ScaleFormat format);  // "fp16", "e4m3"
[[nodiscard]] std::string to_text(CacheFormat format);
[[nodiscard]] std::string to_text(KeyRotation rotation);
[[nodiscard]] std::string to_text(StateFormat format);
[[nodiscard]] std::string to_text(GdnForm form);
[[nodiscard]] std::string to_text(Rollback rollback);  // "ring", "snapshot", "tree_chunk"
[[nodiscard]] std::string to_text(TreeGrowth growth);  // "best_first", "chain_first"
[[nodiscard]] std::string to_text(HeadScreen screen);  // "none", "q4", "q3"
// The format of a screen. Throws Error (internal) for none.
[[nodiscard]] WeightFormat format_of(HeadScreen screen);

}  // namespace tare::engine

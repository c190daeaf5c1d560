// Non-inferiority of fidelity: margins that a policy file fixed before the run, against differences to a named baseline
// (docs/protocol/policy.md, section "fidelity"). `tare fidelity --policy` and `tare gate` read and judge by this.
//
// Any inexact change turns a handful of near ties whatever its size (tare fidelity --ladder shows the floor), so "no
// difference" is the wrong question. Asked is whether the difference is below the margin: with d the loss (arm less
// baseline; for top1 baseline less arm) and its one-sided bounds at 95 % over windows,
//   better        d's upper bound is below 0
//   non_inferior  d's upper bound is below the margin
//   worse         d's lower bound is not below the margin
//   inconclusive  none of these, or fewer windows than asked
//   invalid       the row is not there, or holds an infinite score
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "stats/verdict.h"

namespace tare::forced {

// What may be judged: names of differences in fidelity.json.
inline constexpr const char* kFidelityMetrics[] = {"kl64_tail", "kl64", "top1", "nll"};

struct FidelityPolicy {
  std::string file = "fidelity.json";                  // for tare gate: beside the ledger, unless absolute
  std::string path = "decode";                         // "prefill" or "decode"
  std::int64_t nodes = 1;                              // of a decode round; read with path decode only
  std::string head = "own";                            // "own": the configuration's logits; "exact": the BF16 head's
  std::vector<std::string> kinds = {"prose", "code"};  // each must hold
  std::vector<std::string> arms;                       // empty: all but the baseline
  std::int64_t fewest_windows = 20;       // of a kind: below it no interval over windows holds what it says
  std::map<std::string, double> margins;  // metric -> largest loss: nats, or a share for top1
};

// The object under "fidelity". Throws Error (input) naming key and value: an unknown key, path, head or metric, a
// margin that is not above 0, no margins.
[[nodiscard]] FidelityPolicy read_fidelity_policy(JsonReader reader);
// Section "fidelity" of a policy file; the file's other sections are not read. Throws Error (input) as above, and when
// there is no such section.
[[nodiscard]] FidelityPolicy read_fidelity_policy(const std::filesystem::path& file);

struct FidelityVerdict {
  std::string arm;
  std::string kind;
  std::string metric;
  double margin = 0;       // of the policy
  double spent = 0;        // of it by changes accepted before (forced/fidelity_budget.h)
  double loss = 0;         // arm less baseline; baseline less arm for top1
  double lower_bound = 0;  // one-sided
  double upper_bound = 0;
  stats::Verdict verdict = stats::Verdict::kInvalid;
  std::string reason;  // one sentence
};

// What was spent of each margin before: metric -> nats or share. Empty: nothing.
using SpentMargins = std::map<std::string, double>;

// One verdict for every arm, kind and metric of the policy. `fidelity` is the content of a fidelity.json, `where` its
// name. Throws Error (input) when it is of another version or has no arm to be judged.
[[nodiscard]] std::vector<FidelityVerdict> judge_fidelity(const Json& fidelity, const FidelityPolicy& policy,
                                                          const std::string& where, const SpentMargins& spent = {});

// The worst of them, in the order invalid, worse, inconclusive, non_inferior, better.
[[nodiscard]] stats::Verdict overall_verdict(const std::vector<FidelityVerdict>& verdicts);

[[nodiscard]] Json to_json(const FidelityVerdict& verdict);

}  // namespace tare::forced

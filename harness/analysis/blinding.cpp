#include "harness/analysis/blinding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/philox.h"
#include "harness/analysis/analysis.h"
#include "harness/environment/environment.h"
#include "harness/ledger/run_lock.h"
#include "reports/findings_json.h"

namespace tare::harness {
namespace {

constexpr const char* kHidden = "hidden until unblinded";
constexpr std::size_t kDigestDigitsOfSeed = 16;  // of the experiment's digest: 64 bits
constexpr std::uint64_t kStreamOfLetters = 77;   // of the seed; the schedule's and the analysis's are others
constexpr int kHexadecimal = 16;

std::string letter(std::size_t i) {
  return std::string(1, static_cast<char>('A' + i));
}

// Which arm stands at each place.
std::vector<std::size_t> order_of(const Gathered& open) {
  std::vector<std::size_t> order(open.experiment.arms.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::uint64_t key = std::stoull(open.digest.substr(0, kDigestDigitsOfSeed), nullptr, kHexadecimal);
  Philox random(key ^ open.experiment.schedule.seed, kStreamOfLetters);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

// Arm to letter.
std::map<std::string, std::string> letters_of(const Gathered& open) {
  const std::vector<std::size_t> order = order_of(open);
  std::map<std::string, std::string> letters;
  for (std::size_t i = 0; i < order.size(); ++i) letters[open.experiment.arms[order[i]].name] = letter(i);
  return letters;
}

// The text with every arm's name, as a whole word, replaced by its letter.
std::string lettered(const std::string& text, const std::map<std::string, std::string>& letters) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (!is_word(text[at])) {
      out.push_back(text[at++]);
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    const std::string word = text.substr(at, end - at);
    const auto found = letters.find(word);
    out += found == letters.end() ? word : found->second;
    at = end;
  }
  return out;
}

void hide_arms(std::vector<reports::Arm>& arms) {
  for (reports::Arm& arm : arms) {
    arm.program = arm.options_differing_json = kHidden;
    arm.options_json.clear();
    arm.build = {};
    arm.checkpoint = {};
    arm.peak_memory_bytes = reports::kMissing;
    arm.levels.clear();
  }
}

// Only what the verdicts are about: memory, energy or tokens a round tell which arm it is.
void hide_other_measures(reports::Findings& findings) {
  if (findings.effect_measure >= findings.measures.size()) return;
  const std::size_t kept = findings.effect_measure;
  std::erase_if(findings.values, [&](const reports::MeasureValue& value) { return value.measure != kept; });
  std::erase_if(findings.effects, [&](const reports::Effect& effect) { return effect.measure != kept; });
  for (reports::MeasureValue& value : findings.values) value.measure = 0;
  for (reports::Effect& effect : findings.effects) {
    effect.measure = 0;
    effect.truth.reset();
  }
  for (reports::Run& run : findings.runs)
    if (kept < run.values.size()) run.values = {run.values[kept]};
  findings.measures = {findings.measures[kept]};
  findings.effect_measure = 0;
}

void letter_texts(const std::map<std::string, std::string>& letters, reports::Findings& findings) {
  const auto change = [&](std::string& text) { text = lettered(text, letters); };
  const auto change_all = [&](std::vector<reports::Warning>& warnings) {
    for (reports::Warning& warning : warnings) {
      change(warning.text);
      change(warning.about);
    }
  };
  change_all(findings.warnings);
  for (reports::Effect& effect : findings.effects) change_all(effect.warnings);
  for (reports::Run& run : findings.runs) change(run.note);
  change(findings.validity.why_invalid);
  for (reports::PositiveControl& control : findings.validity.controls) change(control.detail);
}

}  // namespace

bool is_blind(const Ledger& ledger) {
  const Json& experiment = ledger.identity().experiment;
  return experiment.value("blind", false) && !ledger.unblinding();
}

void refuse_blind(const Ledger& ledger) {
  if (is_blind(ledger))
    throw input_error(ledger.file().string(), "is blind: this command would tell its arms",
                      "tare report --unblind DIR freezes the analysis first");
}

Gathered blinded(const Gathered& open) {
  const std::vector<std::size_t> order = order_of(open);
  const std::map<std::string, std::string> letters = letters_of(open);
  std::vector<std::size_t> place(order.size());  // of each arm
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  const auto rename = [&](std::string& arm) {
    const auto found = letters.find(arm);
    if (found != letters.end()) arm = found->second;
  };

  Gathered blind = open;
  blind.experiment.name = "blind";
  blind.experiment.description.clear();
  blind.experiment.matrix = {};
  for (std::size_t i = 0; i < order.size(); ++i) {
    blind.experiment.arms[i] = open.experiment.arms[order[i]];
    blind.experiment.arms[i].name = letter(i);
    blind.experiment.arms[i].levels.clear();
  }
  for (PlannedBlock& block : blind.plan.blocks) {
    for (char& slot : block.order) {
      const auto arm = static_cast<std::size_t>(slot - 'A');
      if (arm < place.size()) slot = letter(place[arm]).front();
    }
    for (std::vector<PlannedRun>* runs : {&block.runs, &block.warmups})
      for (PlannedRun& run : *runs) run.arm = place[run.arm];
  }
  for (LaunchRecord& launch : blind.launches) rename(launch.arm);
  for (RunRecord& run : blind.runs) {
    rename(run.arm);
    run.reason = lettered(run.reason, letters);
  }
  for (CountedRun& run : blind.counted) {
    rename(run.record.arm);
    run.arm = place[run.arm];
  }
  for (std::string& misfit : blind.misfits) misfit = lettered(misfit, letters);
  return blind;
}

void hide_what_tells(const Gathered& open, const Gathered& blind, reports::Findings& findings) {
  findings.blinding.blind = true;
  findings.title = fmt::format("{} arms, blind", blind.experiment.arms.size());
  findings.description.clear();
  findings.experiment = "blind";
  findings.experiment_json.clear();
  findings.command = "tare run EXPERIMENT --out DIR";
  findings.matrix = {};
  findings.times = {};
  findings.rounds.clear();
  hide_arms(findings.arms);
  hide_other_measures(findings);
  std::erase_if(findings.conditions.facts,
                [](const reports::Fact& fact) { return fact.name.starts_with("GPU energy a token"); });
  for (reports::RunConditions& run : findings.conditions.runs) run.energy_j = run.power_w = reports::kMissing;
  letter_texts(letters_of(open), findings);
  findings.warnings.insert(findings.warnings.begin(),
                           {reports::Severity::kNote, "blind",
                            "arms are hidden: they have letters in an order keyed by the seed, and A, which stands "
                            "where the baseline would, "
                            "need not be it. tare report --unblind DIR freezes the analysis and names them",
                            ""});
}

std::string findings_digest(const reports::Findings& findings) {
  Json json = reports::findings_json(findings);
  for (const char* key : {"created_utc", "harness_version", "command", "blinding"}) json.erase(key);
  return digest(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

UnblindingRecord unblind(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / kLedgerFile;
  const RunLock lock(directory);
  UnblindingRecord unblinding;
  LedgerIdentity identity;
  {
    const Ledger ledger = Ledger::open_for_reading(file);
    if (!ledger.identity().experiment.value("blind", false))
      throw input_error(file.string(), "is not blind", "\"blind\": true in the experiment, or tare run --blind");
    if (const auto before = ledger.unblinding())
      throw input_error(file.string(), fmt::format("was unblinded {}", utc_text(before->utc_ns)),
                        "tare report DIR writes its report");
    const reports::Findings findings = analyse_openly(ledger);
    if (!findings.complete)
      throw input_error(file.string(), "is not complete: who sees the arms now could stop on what is seen",
                        "run the experiment to its end first");
    identity = ledger.identity();
    unblinding = {utc_now_ns(), findings_digest(findings)};
  }
  Ledger::open_for_writing(file, identity).store_unblinding(unblinding);
  return unblinding;
}

void describe_unblinding(const UnblindingRecord& unblinding, reports::Findings& findings) {
  reports::Blinding& blinding = findings.blinding;
  blinding.unblinded_utc = utc_text(unblinding.utc_ns);
  blinding.findings_digest = unblinding.findings_digest;
  blinding.changed = findings_digest(findings) != unblinding.findings_digest;
  if (blinding.changed)
    findings.warnings.insert(
        findings.warnings.begin(),
        {reports::Severity::kWarning, "changed_since_unblinding",
         fmt::format("these are not the findings that were frozen when the arms were named ({}): the ledger or the "
                     "analysis is another",
                     blinding.unblinded_utc),
         ""});
}

}  // namespace tare::harness

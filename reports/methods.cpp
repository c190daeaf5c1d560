// The methods paragraphs: what was done, from the findings alone, in words that a paper can take over.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/text.h"
#include "reports/escape.h"
#include "reports/numbers.h"
#include "reports/sentences.h"

namespace tare::reports {
namespace {

std::string plural_arms(std::size_t count) {
  return count_text(count) + (count == 1 ? " arm" : " arms");
}

std::string plural_blocks(std::size_t count) {
  return count_text(count) + (count == 1 ? " block" : " blocks");
}

std::string texts_paragraph(const Findings& findings) {
  const Texts& texts = findings.texts;
  std::string how = visible_text(texts.mode);
  if (texts.mode == "sampled") {
    how = fmt::format("sampled once by the baseline (temperature {}, seed {})",
                      std::isnan(texts.temperature) ? kNotAvailable : shortest(texts.temperature), texts.seed);
  } else if (texts.mode == "greedy") {
    how = "written once by the baseline, greedily";
  } else if (texts.mode == "given") {
    how = "given as token ids";
  }
  return fmt::format(
      "Text. Every arm replays the same {} texts ({} tokens, digest {}), {}, and commits exactly those tokens, so a "
      "difference in speed cannot come from a difference in text. Before anything was measured the baseline was forced "
      "onto the texts and had to choose each token by itself: {} of {}.",
      count_text(texts.texts), count_text(texts.tokens), or_not_available(texts.digest), or_not_available(how),
      count_text(findings.validity.prompts_validated), count_text(findings.validity.prompts_total));
}

std::string design_sentence(const Findings& findings) {
  if (findings.arms.empty()) return "No arm was measured.";
  const Matrix& matrix = findings.matrix;
  if (matrix.design.empty())
    return fmt::format("{} were compared, each against {}.", plural_arms(findings.arms.size()), arm_name(findings, 0));
  std::vector<std::string> factors;
  for (const Factor& factor : matrix.factors) {
    std::vector<std::string> levels;
    for (std::size_t level = 0; level < factor.levels.size(); ++level)
      levels.push_back(visible_text(factor.levels[level]) + (level == factor.reference ? " (baseline)" : ""));
    factors.push_back(fmt::format("{}: {}", visible_text(factor.name), join(levels, ", ")));
  }
  std::string kind = "listed combinations of levels";
  if (matrix.design == "full") kind = "every combination of levels";
  if (matrix.design == "one_at_a_time") kind = "each level alone, the others as in the baseline";
  std::string text =
      fmt::format("{} were made of {} factors ({}): {}; each was compared with {}.", plural_arms(findings.arms.size()),
                  matrix.factors.size(), join(factors, "; "), kind, arm_name(findings, 0));
  if (!matrix.excluded.empty()) {
    std::vector<std::string> left_out;
    for (const std::string& combination : matrix.excluded) left_out.push_back(visible_text(combination));
    text += fmt::format(" Left out beforehand: {}.", join(left_out, "; "));
  }
  if (matrix.design == "one_at_a_time")
    text += " Nothing is said of levels together.";
  else
    text += " Effects of levels and interactions are contrasts of logarithms by least squares.";
  return text;
}

std::string percent_of(double percent) {
  return fmt::format("{}{}%", shortest(std::round(percent * 1e4) / 1e4), kNoBreakSpace);
}

// The rule that was set beforehand, and what ended the measurement.
std::string stop_sentence(const Findings& findings) {
  const Stop& stop = findings.stop;
  const std::string most = stop.most_blocks > 0 ? plural_blocks(stop.most_blocks) : "the scheduled number of blocks";
  std::string text;
  if (stop.rule == "precision") {
    text = fmt::format(
        "The stop rule, set beforehand: when the interval of every verdict is within \u00B1{}, after two blocks at "
        "least "
        "and {} at most. It looks at the width of intervals, never at whether a difference is shown.",
        percent_of(stop.half_width_percent), most);
  } else if (stop.rule == "time") {
    text = fmt::format("The stop rule, set beforehand: as many whole blocks as fit into {}, {} at most.",
                       human_seconds(stop.budget_s), most);
  } else {
    text = fmt::format("The stop rule, set beforehand: {}.", most);
  }
  if (stop.ended_by.empty()) return text;
  text += fmt::format(" It ended after {}", plural_blocks(stop.ended_blocks));
  if (stop.ended_by == "precision")
    text += fmt::format(", with the widest interval at \u00B1{}", percent_of(stop.ended_half_width_percent));
  if (stop.ended_by == "time") text += ", when the next one would not have fitted";
  if (std::isfinite(stop.ended_seconds)) text += fmt::format(" ({} of measurement)", human_seconds(stop.ended_seconds));
  return text + ".";
}

std::string order_paragraph(const Findings& findings) {
  const ScheduleFacts& schedule = findings.schedule;
  std::vector<std::string> orders;
  for (const std::string& order : schedule.block_orders) orders.push_back(visible_text(order));
  const bool by_prompt = schedule.granularity == "prompt";
  return fmt::format(
      "Design and order. {} {} {} of {} ({}; first letter from seed {}){} {}{}", design_sentence(findings),
      stop_sentence(findings),
      schedule.blocks == 1 ? std::string("One block") : count_text(schedule.blocks) + " blocks",
      orders.empty() ? kNotAvailable : join(orders, " "),
      schedule.letters.empty() ? "letters not recorded" : visible_text(schedule.letters), schedule.seed,
      by_prompt ? "; the workers stay resident for a block and the prompts alternate between the arms in this order."
                : "; every slot is a fresh launch of a worker process.",
      schedule.warm_up ? "A first run of warm-up is stored and left out. " : "No warm-up run was made. ",
      fmt::format("{} launches were started; the unit of replication is the {}.", count_text(schedule.launches),
                  or_not_available(findings.methods.unit_of_replication)));
}

// Every run that was made and does not count, with the reasons that were recorded.
std::string exclusion_paragraph(const Findings& findings) {
  std::vector<std::string> parts;
  for (const RunState state : {RunState::kWarmUp, RunState::kInterrupted, RunState::kExcluded, RunState::kFailed}) {
    std::size_t count = 0;
    std::map<std::string, std::size_t> reasons;
    for (const Run& run : findings.runs) {
      if (run.state != state) continue;
      ++count;
      if (!run.note.empty()) ++reasons[running_text(run.note)];
    }
    if (count == 0) continue;
    std::string part = fmt::format("{} {}", count_text(count), word_of(state));
    std::vector<std::string> said;
    for (const auto& [reason, times] : reasons)
      said.push_back(times == 1 ? reason : fmt::format("{} times: {}", times, reason));
    if (!said.empty()) part += " (" + join(said, "; ") + ")";
    parts.push_back(std::move(part));
  }
  const auto counted = static_cast<std::size_t>(std::count_if(
      findings.runs.begin(), findings.runs.end(), [](const Run& run) { return run.state == RunState::kCounted; }));
  return fmt::format(
      "Excluded. {} runs were counted. {}", count_text(counted),
      parts.empty() ? std::string("No run was left out.")
                    : fmt::format("Stored and not counted: {}. No run was left out for its speed.", listed(parts)));
}

std::string sitting_sentence(const Findings& findings) {
  if (findings.sittings.size() < 2) return {};
  std::string text = fmt::format(" Blocks were measured in {} sittings.", findings.sittings.size());
  if (!findings.pooled.empty())
    text +=
        " Beside the verdicts, the effects of single sittings are pooled with random effects; the part between "
        "sittings is shown.";
  return text;
}

std::string with_what(const Interval& interval) {
  const bool bootstrap = interval.method == "percentile" || interval.method == "BCa";
  return or_not_available(interval.method) + (bootstrap ? " bootstrap" : "");
}

std::string interval_paragraph(const Findings& findings) {
  const Methods& methods = findings.methods;
  std::set<std::string> seen;
  std::string text = "Intervals. An effect is the natural log of the ratio arm to baseline, shown in percent.";
  for (const Effect& effect : findings.effects) {
    if (effect.measure != findings.effect_measure) continue;
    for (const Interval& interval : ordered_intervals(effect)) {
      const std::string line = fmt::format(" {}{}: {}{}.", interval.robustness ? "As a check, for " : "For ",
                                           "\u201C" + question_of(interval.estimand) + "\u201D", with_what(interval),
                                           interval.of_verdict ? ", from which the verdict is read" : "");
      if (seen.insert(line).second) text += line;
    }
  }
  if (methods.bootstrap_resamples > 0)
    text += fmt::format(" Bootstraps resample the prompts, both arms together, {} times (seed {}).",
                        count_text(methods.bootstrap_resamples), methods.bootstrap_seed);
  if (findings.schedule.granularity != "prompt" || findings.drift.degree > 0) text += " " + drift_sentence(findings);
  if (std::isfinite(findings.drift.width_inflation))
    text += fmt::format(" The drift terms widen an arm\u2019s interval by a factor of {} at most.",
                        fixed(findings.drift.width_inflation, 3));
  const bool screen = methods.multiplicity == "screen";
  text +=
      fmt::format(" A difference counts as shown when p, adjusted by {} over the {} of this experiment, is below {}{}",
                  screen ? "Benjamini and Hochberg" : "Holm",
                  methods.family_size == 1 ? std::string("one verdict") : count_text(methods.family_size) + " verdicts",
                  shortest(methods.alpha),
                  screen ? ": of the differences called shown, that share is expected to be none. It is a screen; what "
                           "it shows is to be "
                           "measured again."
                         : ".");
  for (const auto& [margin, name] : {std::pair{methods.equivalence_margin_log, "equivalence"},
                                     std::pair{methods.non_inferiority_margin_log, "non-inferiority"}})
    if (std::isfinite(margin))
      text += fmt::format(" The margin of {}, set beforehand, is {}.", name, percent_of(-percent_of_log(-margin)));
  text += sitting_sentence(findings);
  return text;
}

std::string limits_paragraph() {
  return "Not claimed. The verdict's interval speaks of this suite of prompts on this machine, in this sitting; it "
         "says "
         "nothing of other machines, of batches, or of other days, between which speeds differ by more than within one "
         "sitting. An effect that matters is repeated in a second sitting. Intervals are not adjusted for the number "
         "of verdicts; the p values are.";
}

}  // namespace

std::vector<std::string> methods_paragraphs(const Findings& findings) {
  return {texts_paragraph(findings), order_paragraph(findings), exclusion_paragraph(findings),
          interval_paragraph(findings), limits_paragraph()};
}

std::string methods_text(const Findings& findings) {
  return join(methods_paragraphs(findings), "\n\n") + "\n";
}

}  // namespace tare::reports

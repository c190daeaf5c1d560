// The methods paragraphs: what was done, from the findings alone, in words that a paper can take over.
#include <fmt/format.h>

#include <cmath>
#include <set>

#include "base/text.h"
#include "reports/escape.h"
#include "reports/numbers.h"
#include "reports/sentences.h"

namespace tare::reports {
namespace {

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

std::string order_paragraph(const Findings& findings) {
  const ScheduleFacts& schedule = findings.schedule;
  std::vector<std::string> orders;
  for (const std::string& order : schedule.block_orders) orders.push_back(visible_text(order));
  const bool by_prompt = schedule.granularity == "prompt";
  return fmt::format(
      "Order. {} of {} ({}; first letter from seed {}){} {}{}",
      schedule.blocks == 1 ? std::string("One block") : count_text(schedule.blocks) + " blocks",
      orders.empty() ? kNotAvailable : join(orders, " "),
      schedule.letters.empty() ? "letters not recorded" : visible_text(schedule.letters), schedule.seed,
      by_prompt ? "; the workers stay resident for a block and the prompts alternate between the arms in this order."
                : "; every slot is a fresh launch of a worker process.",
      schedule.warm_up ? "A first run of warm-up is stored and left out. " : "No warm-up run was made. ",
      fmt::format("{} launches were started; the unit of replication is the {}.", count_text(schedule.launches),
                  or_not_available(findings.methods.unit_of_replication)));
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
  text +=
      fmt::format(" A difference counts as shown when p, adjusted by Holm over the {} of this experiment, is below {}.",
                  methods.family_size == 1 ? std::string("one verdict") : count_text(methods.family_size) + " verdicts",
                  shortest(methods.alpha));
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
  return {texts_paragraph(findings), order_paragraph(findings), interval_paragraph(findings), limits_paragraph()};
}

std::string methods_text(const Findings& findings) {
  return join(methods_paragraphs(findings), "\n\n") + "\n";
}

}  // namespace tare::reports

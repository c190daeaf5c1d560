#include "reports/csv.h"

#include <optional>

#include "reports/csv_line.h"

namespace tare::reports {

std::string effects_csv(const Findings& findings) {
  CsvLine header;
  for (const char* name : {"experiment",
                           "experiment_digest",
                           "valid",
                           "baseline",
                           "arm",
                           "measure",
                           "unit",
                           "higher_is_better",
                           "estimand",
                           "question",
                           "method",
                           "robustness",
                           "of_verdict",
                           "estimate_log",
                           "low_log",
                           "high_log",
                           "estimate_percent",
                           "low_percent",
                           "high_percent",
                           "level",
                           "degrees_of_freedom",
                           "p",
                           "p_holm",
                           "p_benjamini_hochberg",
                           "family_size",
                           "verdict",
                           "difference_shown",
                           "true_effect_log",
                           "holds_truth",
                           "options_differing",
                           "checkpoint_digest",
                           "build_commit",
                           "compiler",
                           "flags",
                           "cpu",
                           "cores_usable",
                           "kernel",
                           "granularity",
                           "blocks",
                           "created_utc"})
    header.text(name);
  std::string csv = header.done();
  for (const Effect& effect : findings.effects) {
    const Arm& arm = findings.arms[effect.arm];
    const Measure& measure = findings.measures[effect.measure];
    for (const Interval& interval : effect.intervals) {
      CsvLine line;
      line.text(findings.experiment).text(findings.experiment_digest).flag(findings.validity.valid);
      line.text(findings.arms[0].name).text(arm.name).text(measure.key).text(measure.unit);
      line.flag(measure.higher_is_better).text(word_of(interval.estimand)).text(question_of(interval.estimand));
      line.text(interval.method).flag(interval.robustness).flag(interval.of_verdict);
      line.number(interval.estimate_log).number(interval.low_log).number(interval.high_log);
      line.number(percent_of_log(interval.estimate_log)).number(percent_of_log(interval.low_log));
      line.number(percent_of_log(interval.high_log)).number(interval.level).number(interval.degrees_of_freedom);
      line.number(effect.p).number(effect.p_holm).number(effect.p_benjamini_hochberg);
      effect.in_family ? line.integer(findings.methods.family_size) : line.text("");
      line.text(effect.verdict).flag(effect.difference_shown);
      line.number(effect.truth ? effect.truth->effect_log : kMissing);
      line.flag(effect.truth ? holds_truth(interval, *effect.truth) : std::nullopt);
      line.text(arm.options_differing_json).text(arm.checkpoint.digest).text(arm.build.commit);
      line.text(arm.build.compiler).text(arm.build.flags).text(findings.conditions.cpu);
      findings.conditions.cores_usable > 0 ? line.integer(findings.conditions.cores_usable) : line.text("");
      line.text(findings.conditions.kernel).text(findings.schedule.granularity).integer(findings.schedule.blocks);
      csv += line.text(findings.created_utc).done();
    }
  }
  return csv;
}

std::string runs_csv(const Findings& findings) {
  CsvLine header;
  for (const char* name :
       {"run", "block", "slot", "arm", "launch", "launch_order", "start_utc", "start_s", "decode_s", "tokens"})
    header.text(name);
  for (const Measure& measure : findings.measures) header.text(measure.key + " [" + measure.unit + "]");
  for (const char* name : {"fitted", "drift_log", "state", "note", "experiment_digest"}) header.text(name);
  std::string csv = header.done();
  for (std::size_t i = 0; i < findings.runs.size(); ++i) {
    const Run& run = findings.runs[i];
    CsvLine line;
    line.integer(i).integer(run.block).integer(run.slot).text(findings.arms[run.arm].name).text(run.launch);
    line.integer(run.launch_order).text(run.start_utc).number(run.start_s).number(run.decode_s).integer(run.tokens);
    for (std::size_t m = 0; m < findings.measures.size(); ++m)
      line.number(m < run.values.size() ? run.values[m] : kMissing);
    line.number(run.fitted).number(run.drift_log).text(word_of(run.state)).text(run.note);
    csv += line.text(findings.experiment_digest).done();
  }
  return csv;
}

std::string prompts_csv(const Findings& findings) {
  CsvLine header;
  for (const char* name :
       {"prompt", "category", "tokens", "arm", "seconds", "log_ratio", "ratio_percent", "experiment_digest"})
    header.text(name);
  std::string csv = header.done();
  for (const Prompt& prompt : findings.prompts) {
    for (std::size_t arm = 0; arm < findings.arms.size(); ++arm) {
      const double ratio = arm < prompt.log_ratio.size() ? prompt.log_ratio[arm] : kMissing;
      CsvLine line;
      line.text(prompt.id).text(prompt.category).integer(prompt.tokens).text(findings.arms[arm].name);
      line.number(arm < prompt.seconds.size() ? prompt.seconds[arm] : kMissing);
      csv += line.number(ratio).number(percent_of_log(ratio)).text(findings.experiment_digest).done();
    }
  }
  return csv;
}

}  // namespace tare::reports

#include "reports/sentences.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "reports/escape.h"
#include "reports/numbers.h"

namespace tare::reports {
namespace {

std::string plural(std::size_t count, const std::string& one, const std::string& many) {
  return count_text(count) + " " + (count == 1 ? one : many);
}

bool is_speed(const Measure& measure) {
  return measure.unit.ends_with("/s");
}

// "q4 is faster than q8 by 34.1 % [33.6, 34.6]", or for other measures "q4: time to first token is 3.1 % lower ...".
std::string difference_clause(const Findings& findings, const Effect& effect, const Interval& interval) {
  const Measure& measure = findings.measures[effect.measure];
  const bool larger = effect.estimate_log >= 0;
  const std::string arm = arm_name(findings, effect.arm);
  const std::string baseline = arm_name(findings, 0);
  const std::string size = size_with_interval(interval);
  if (effect.measure == findings.effect_measure && is_speed(measure))
    return fmt::format("{} is {} than {} by {}", arm, larger ? "faster" : "slower", baseline, size);
  return fmt::format("{}: {} is {} than with {} by {}", arm, visible_text(measure.name), larger ? "higher" : "lower",
                     baseline, size);
}

std::string p_clause(const Findings& findings, const Effect& effect) {
  const bool screen = findings.methods.multiplicity == "screen";
  if (!std::isnan(effect.p_adjusted))
    return (screen ? "Benjamini-Hochberg-adjusted p " : "Holm-adjusted p ") + p_relation(effect.p_adjusted);
  if (!std::isnan(effect.p)) return "p " + p_relation(effect.p);
  return {};
}

std::string margin_text(double margin_log) {
  if (std::isnan(margin_log)) return "the margin";
  const double percent = -percent_of_log(-std::abs(margin_log));
  return fmt::format("{}{}%", shortest(std::round(percent * 1e6) / 1e6), kNoBreakSpace);
}

// What the verdict's word adds to "difference shown" or "no difference shown"; empty when it adds nothing.
std::string word_clause(const Findings& findings, const Effect& effect) {
  if (effect.verdict == "equivalent")
    return fmt::format(" Equivalent within \u00B1{}.", margin_text(findings.methods.equivalence_margin_log));
  if (effect.verdict == "non_inferior")
    return fmt::format(" Non-inferior: worse by less than {}.",
                       margin_text(findings.methods.non_inferiority_margin_log));
  return {};
}

bool excludes_zero(const Interval& interval) {
  return is_known(interval) && (interval.low_log > 0 || interval.high_log < 0);
}

std::string truth_sentence(const Effect& effect, const Interval& interval) {
  if (!effect.truth) return {};
  const auto holds = holds_truth(interval, *effect.truth);
  const std::string what =
      holds ? (*holds ? "the interval holds it" : "the interval does NOT hold it") : "there is no interval to hold it";
  const PercentTexts texts = percent_texts(effect.truth->effect_log, interval.low_log, interval.high_log);
  std::string sentence = fmt::format("Known truth {}{}%: {}", texts.estimate, kNoBreakSpace, what);
  if (!effect.truth->source.empty()) sentence += fmt::format(" ({})", running_text(effect.truth->source));
  return sentence + ".";
}

}  // namespace

std::string arm_name(const Findings& findings, std::size_t arm) {
  return visible_text(shown_name(findings.arms[arm]));
}

std::string printed_verdict(const std::string& verdict) {
  std::string printed = visible_text(verdict);
  std::replace(printed.begin(), printed.end(), '_', '-');
  return printed;
}

std::string listed(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  if (names.size() == 1) return names[0];
  const std::vector<std::string> head(names.begin(), names.end() - 1);
  return join(head, ", ") + " and " + names.back();
}

std::string or_not_available(const std::string& text) {
  const std::string visible = running_text(text);
  return visible.empty() ? kNotAvailable : visible;
}

VerdictLine verdict_line(const Findings& findings, const Effect& effect) {
  VerdictLine line;
  line.arm = arm_name(findings, effect.arm);
  const Interval* interval = verdict_interval(effect);
  if (!is_trusted(findings.validity) || effect.verdict == "invalid") {
    line.word = "invalid";
    line.tone = Tone::kInvalid;
    line.sentence = line.arm + ": no number may be read, the experiment is not valid.";
    return line;
  }
  if (interval == nullptr || !is_known(*interval)) {
    line.word = effect.verdict.empty() ? "no verdict" : printed_verdict(effect.verdict);
    line.estimate = std::isnan(effect.estimate_log)
                        ? std::string()
                        : signed_fixed(percent_of_log(effect.estimate_log), 2) + kNoBreakSpace + "%";
    const std::string why = interval == nullptr ? "no interval belongs to the verdict" : interval->why_missing;
    line.sentence = fmt::format("{}: no interval, so nothing is shown{}.", line.arm,
                                why.empty() ? std::string() : " (" + running_text(why) + ")");
    line.truth = truth_sentence(effect, interval == nullptr ? Interval{} : *interval);
    return line;
  }
  const PercentTexts texts = percent_texts(*interval);
  line.estimate = texts.estimate + kNoBreakSpace + "%";
  line.interval = fmt::format("[{},{}{}]", texts.low, kNoBreakSpace, texts.high);
  const std::string p = p_clause(findings, effect);
  const std::string in_brackets = p.empty() ? std::string() : " (" + p + ")";
  if (effect.difference_shown) {
    const bool gain = (effect.estimate_log > 0) == findings.measures[effect.measure].higher_is_better;
    const bool tolerable = effect.verdict == "equivalent" || effect.verdict == "non_inferior";
    line.word = printed_verdict(effect.verdict.empty() ? (gain ? "better" : "worse") : effect.verdict);
    line.tone = gain ? Tone::kGood : (tolerable ? Tone::kNeutral : Tone::kBad);
    line.sentence = fmt::format("{}: difference shown{}.", difference_clause(findings, effect, *interval), in_brackets);
  } else {
    const bool says_more = effect.verdict == "equivalent" || effect.verdict == "non_inferior";
    line.word = says_more ? printed_verdict(effect.verdict) : "no difference shown";
    line.sentence =
        fmt::format("{}: no difference shown: {}{}.", line.arm, percent_with_interval(*interval), in_brackets);
    if (excludes_zero(*interval))
      line.sentence += fmt::format(" Alone the interval leaves 0 out; among {} it does not count.",
                                   plural(findings.methods.family_size, "verdict", "verdicts"));
  }
  line.sentence += word_clause(findings, effect);
  line.truth = truth_sentence(effect, *interval);
  return line;
}

std::string validity_sentence(const Validity& validity) {
  // Given texts were written by nobody here: there are no rounds to give back.
  const bool has_rounds = validity.rounds_validated > 0;
  const std::string counted =
      fmt::format("{} of {} replays gave back their text, token by token{}", count_text(validity.prompts_validated),
                  count_text(validity.prompts_total), has_rounds ? " and round by round" : "");
  if (!validity.valid) {
    std::string sentence = "The instrument is not valid; no number below may be read as a result. " + counted + ".";
    if (validity.first_difference) {
      const FirstDifference& first = *validity.first_difference;
      sentence +=
          fmt::format(" First difference: prompt {}, position {}: wanted {}, got {}.", visible_text(first.prompt),
                      first.position, or_not_available(first.wanted), or_not_available(first.got));
    }
    if (!validity.why_invalid.empty()) sentence += fmt::format(" Reason: {}.", running_text(validity.why_invalid));
    return sentence;
  }
  std::vector<std::string> caught;
  std::vector<std::string> missed;
  for (const PositiveControl& control : validity.controls)
    (control.caught ? caught : missed).push_back(visible_text(control.name));
  std::string sentence = fmt::format(
      "{}: {} ({}{}).",
      missed.empty() ? "The instrument is valid" : "The validation cannot be trusted, it missed what it must catch",
      counted, plural(validity.tokens_validated, "token", "tokens"),
      has_rounds ? ", " + plural(validity.rounds_validated, "round", "rounds") : "");
  if (validity.controls.empty()) sentence += " No positive control was run.";
  if (!caught.empty())
    sentence += fmt::format(" Positive controls caught, {} of {}: {}.", count_text(caught.size()),
                            count_text(validity.controls.size()), listed(caught));
  if (!missed.empty()) sentence += fmt::format(" Positive controls MISSED: {}.", listed(missed));
  return sentence;
}

std::string compared_sentence(const Findings& findings) {
  if (findings.arms.empty()) return "No arm was measured.";
  std::vector<std::string> others;
  for (std::size_t arm = 1; arm < findings.arms.size(); ++arm) others.push_back(arm_name(findings, arm));
  std::string sentence = others.empty()
                             ? arm_name(findings, 0) + " alone"
                             : fmt::format("{} against {} (the baseline)", listed(others), arm_name(findings, 0));
  if (findings.effect_measure < findings.measures.size())
    sentence += ", by " + visible_text(findings.measures[findings.effect_measure].name);
  std::int64_t tokens = 0;
  for (const Prompt& prompt : findings.prompts) tokens += prompt.tokens;
  if (!findings.prompts.empty())
    sentence += fmt::format(", over {} and {} forced tokens a run",
                            plural(findings.prompts.size(), "prompt", "prompts"), count_text(tokens));
  else if (findings.texts.texts > 0)
    sentence += fmt::format(", over {} of {} tokens", plural(findings.texts.texts, "forced text", "forced texts"),
                            count_text(findings.texts.tokens));
  const auto counted = static_cast<std::size_t>(std::count_if(
      findings.runs.begin(), findings.runs.end(), [](const Run& run) { return run.state == RunState::kCounted; }));
  sentence += fmt::format("; {} counted in {}", plural(counted, "run", "runs"),
                          plural(findings.schedule.blocks, "block", "blocks"));
  return sentence + ".";
}

std::string machine_line(const Findings& findings) {
  const Conditions& conditions = findings.conditions;
  std::vector<std::string> parts = {or_not_available(conditions.cpu)};
  if (conditions.cores_usable > 0) parts.push_back(plural(conditions.cores_usable, "usable core", "usable cores"));
  if (std::isfinite(conditions.memory_bytes)) parts.push_back(bytes_text(conditions.memory_bytes) + " memory");
  if (!conditions.kernel.empty()) parts.push_back(visible_text(conditions.kernel));
  for (const Reading& reading : conditions.readings)
    if (reading.name.starts_with("load") && std::isfinite(reading.highest))
      parts.push_back(fmt::format("load up to {}", fixed(reading.highest, 1)));
  if (!findings.harness_version.empty()) parts.push_back(visible_text(findings.harness_version));
  return join(parts, " \u00B7 ");
}

std::vector<WarningLine> warning_lines(const Findings& findings) {
  std::vector<WarningLine> lines;
  for (const Severity severity : {Severity::kInvalid, Severity::kWarning, Severity::kNote}) {
    const auto add = [&](const Warning& warning, const std::string& about) {
      if (warning.severity != severity) return;
      WarningLine line{word_of(severity), visible_text(about), running_text(warning.text), visible_text(warning.code)};
      const auto same = std::find_if(lines.begin(), lines.end(), [&](const WarningLine& other) {
        return other.code == line.code && other.text == line.text && other.about.empty() == line.about.empty();
      });
      if (same == lines.end()) {
        lines.push_back(std::move(line));
      } else if (("; " + same->about + "; ").find("; " + line.about + "; ") == std::string::npos) {
        same->about += "; " + line.about;
      }
    };
    for (const Warning& warning : findings.warnings) add(warning, warning.about);
    for (const Effect& effect : findings.effects) {
      for (const Warning& warning : effect.warnings) {
        const Arm& arm = findings.arms[effect.arm];
        std::string about = shown_name(arm);
        const auto is_own = [&](const std::string& text) {
          return text.empty() || text == arm.name || text == arm.display_name;
        };
        if (effect.measure != findings.effect_measure) about += ", " + findings.measures[effect.measure].name;
        add(warning, is_own(warning.about) ? about : about + ", " + warning.about);
      }
    }
  }
  return lines;
}

std::string drift_sentence(const Findings& findings) {
  const Drift& drift = findings.drift;
  std::string sentence;
  if (drift.degree == 0) {
    sentence = "No drift term was fitted";
  } else {
    constexpr std::array<const char*, 4> kDegrees = {"", "linear", "quadratic", "cubic"};
    const std::string degree =
        drift.degree < 4 ? kDegrees[static_cast<std::size_t>(drift.degree)] : fmt::format("degree-{}", drift.degree);
    sentence = fmt::format("Fitted with a {} drift in {}", degree, or_not_available(drift.regressor));
    if (std::isfinite(drift.per_slot_log)) {
      Interval interval;
      interval.estimate_log = drift.per_slot_log;
      interval.low_log = drift.per_slot_low_log;
      interval.high_log = drift.per_slot_high_log;
      sentence += fmt::format(": {} a slot", percent_with_interval(interval));
    }
  }
  if (std::isfinite(drift.residual_sd_log))
    sentence += fmt::format(
        "; runs scatter by {}{}% around the fit",
        fixed(percent_of_log(drift.residual_sd_log), decimals_of_value(percent_of_log(drift.residual_sd_log), 2)),
        kNoBreakSpace);
  if (std::isfinite(drift.arm_correlation))
    sentence += fmt::format("; largest correlation of an arm with a drift term {}", fixed(drift.arm_correlation, 3));
  return sentence + ".";
}

}  // namespace tare::reports

#include "reports/gate.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/escape.h"

namespace tare::reports {
namespace {

bool fails(const GateFindings& findings, GateOutcome outcome) {
  return outcome == GateOutcome::kFail || (outcome == GateOutcome::kInconclusive && findings.inconclusive_fails);
}

std::string verdict_word(const GateCheck& check) {
  return std::string(stats::verdict_name(check.verdict));
}

struct Counts {
  std::size_t tests = 0;
  std::size_t failures = 0;
  std::size_t errors = 0;
  std::size_t skipped = 0;
};

Counts count(const GateFindings& findings, const std::vector<GateCheck>& checks) {
  Counts counts;
  for (const GateCheck& check : checks) {
    ++counts.tests;
    if (fails(findings, check.outcome)) {
      ++counts.failures;
    } else if (check.outcome == GateOutcome::kInvalid) {
      ++counts.errors;
    } else if (check.outcome == GateOutcome::kInconclusive) {
      ++counts.skipped;
    }
  }
  return counts;
}

std::string count_attributes(const Counts& counts) {
  return fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"0.000\"", counts.tests,
                     counts.failures, counts.errors, counts.skipped);
}

std::string test_case(const GateFindings& findings, const GateCheck& check) {
  std::string text = fmt::format("    <testcase name=\"{}\" classname=\"tare.gate.{}\" time=\"0.000\">\n",
                                 xml_text(check.name), xml_text(check.section));
  const std::string message = xml_text(check.text);
  const std::string type = xml_text(verdict_word(check));
  if (fails(findings, check.outcome)) {
    text += fmt::format("      <failure message=\"{}\" type=\"{}\"/>\n", message, type);
  } else if (check.outcome == GateOutcome::kInvalid) {
    text += fmt::format("      <error message=\"{}\" type=\"{}\"/>\n", message, type);
  } else if (check.outcome == GateOutcome::kInconclusive) {
    text += fmt::format("      <skipped message=\"{}\"/>\n", message);
  }
  text += fmt::format("      <system-out>{}: {}</system-out>\n", type, message);
  return text + "    </testcase>\n";
}

std::string suite(const GateFindings& findings, const std::string& section, const std::vector<GateCheck>& checks) {
  std::string text = fmt::format("  <testsuite name=\"{}\" {} timestamp=\"{}\" hostname=\"-\">\n    <properties>\n",
                                 xml_text(section), count_attributes(count(findings, checks)),
                                 xml_text(findings.created_utc.substr(0, 19)));  // the schema knows no time zone
  const auto property = [&](const std::string& name, const std::string& value) {
    text += fmt::format("      <property name=\"{}\" value=\"{}\"/>\n", xml_text(name), xml_text(value));
  };
  property("experiment", findings.experiment);
  property("policy", findings.policy);
  property("policy_digest", findings.policy_digest);
  property("harness", findings.harness_version);
  property("against", findings.against);
  for (const GateCheck& check : checks) {
    property(check.name + ".verdict", verdict_word(check));
    for (const auto& [name, value] : check.numbers) property(check.name + "." + name, value);
  }
  text += "    </properties>\n";
  for (const GateCheck& check : checks) text += test_case(findings, check);
  return text + "  </testsuite>\n";
}

}  // namespace

GateOutcome outcome_of(const GateFindings& findings) {
  if (findings.checks.empty()) return GateOutcome::kInvalid;
  GateOutcome worst = GateOutcome::kPass;
  for (const GateCheck& check : findings.checks) worst = std::max(worst, check.outcome);
  return worst;
}

std::string word_of(GateOutcome outcome) {
  switch (outcome) {
    case GateOutcome::kPass:
      return "pass";
    case GateOutcome::kInconclusive:
      return "inconclusive";
    case GateOutcome::kFail:
      return "fail";
    case GateOutcome::kInvalid:
      return "invalid";
  }
  return "invalid";
}

int exit_code_of(const GateFindings& findings) {
  switch (outcome_of(findings)) {
    case GateOutcome::kPass:
      return 0;
    case GateOutcome::kInconclusive:
      return findings.inconclusive_fails ? 1 : 3;
    case GateOutcome::kFail:
      return 1;
    case GateOutcome::kInvalid:
      return 2;
  }
  return 2;
}

std::vector<GateCheck> worst_first(const GateFindings& findings) {
  std::vector<GateCheck> checks = findings.checks;
  std::stable_sort(checks.begin(), checks.end(),
                   [](const GateCheck& a, const GateCheck& b) { return a.outcome > b.outcome; });
  return checks;
}

std::string junit_of(const GateFindings& findings) {
  std::vector<std::string> sections;
  for (const GateCheck& check : findings.checks)
    if (std::find(sections.begin(), sections.end(), check.section) == sections.end()) sections.push_back(check.section);
  std::string text = fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"tare gate\" {}>\n",
                                 count_attributes(count(findings, findings.checks)));
  for (const std::string& section : sections) {
    std::vector<GateCheck> of_section;
    for (const GateCheck& check : findings.checks)
      if (check.section == section) of_section.push_back(check);
    text += suite(findings, section, of_section);
  }
  return text + "</testsuites>\n";
}

std::string gate_summary(const GateFindings& findings, std::size_t most_bytes) {
  std::string text = fmt::format(
      "## tare gate: {}\n\nExperiment {}, policy {} ({}), against {}. {}, {}.\n\n", word_of(outcome_of(findings)),
      markdown_text(findings.experiment), markdown_code(findings.policy), markdown_code(findings.policy_digest),
      markdown_text(findings.against), markdown_text(findings.harness_version), markdown_text(findings.created_utc));
  if (findings.checks.empty()) return text + "Nothing was compared.\n";
  text += "| outcome | check | verdict | what was found |\n|---|---|---|---|\n";
  const std::vector<GateCheck> checks = worst_first(findings);
  constexpr std::size_t kTailBytes = 64;  // "and N more checks"
  for (std::size_t i = 0; i < checks.size(); ++i) {
    const GateCheck& check = checks[i];
    const std::string row = fmt::format("| {} | {} | {} | {} |\n", word_of(check.outcome), markdown_text(check.name),
                                        markdown_text(verdict_word(check)), markdown_text(check.text));
    if (text.size() + row.size() + kTailBytes > most_bytes)
      return text + fmt::format("\nand {} more checks\n", checks.size() - i);
    text += row;
  }
  return text;
}

std::vector<std::string> annotations_of(const GateFindings& findings) {
  std::vector<std::string> errors;
  std::vector<std::string> warnings;
  for (const GateCheck& check : worst_first(findings)) {
    if (check.outcome == GateOutcome::kPass) continue;
    const bool is_error = check.outcome == GateOutcome::kInvalid || fails(findings, check.outcome);
    (is_error ? errors : warnings)
        .push_back(fmt::format("::{} title={}::{}", is_error ? "error" : "warning",
                               annotation_property(fmt::format("tare gate: {}", check.name)),
                               annotation_message(fmt::format("{}: {}", verdict_word(check), check.text))));
  }
  if (findings.checks.empty()) errors.emplace_back("::error title=tare gate::invalid: nothing was compared");
  for (auto [lines, type] : {std::pair{&errors, "error"}, std::pair{&warnings, "warning"}}) {
    if (lines->size() <= kMostAnnotationsOfType) continue;
    const std::size_t shown = kMostAnnotationsOfType - 1;
    const std::size_t more = lines->size() - shown;
    lines->resize(shown);
    lines->push_back(fmt::format("::{} title=tare gate::and {} more; the summary has them all", type, more));
  }
  errors.insert(errors.end(), warnings.begin(), warnings.end());
  return errors;
}

}  // namespace tare::reports

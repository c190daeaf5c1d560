#include "reports/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/file.h"
#include "base/json_reader.h"
#include "markup.h"
#include "reports/csv.h"
#include "reports/findings_json.h"
#include "reports/html.h"
#include "reports/markdown.h"
#include "reports/numbers.h"
#include "reports/sections.h"
#include "sample_findings.h"
#include "temporary_directory.h"

namespace tare::reports {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// The page as a whole, its figures drawn.
markup::Page page_of(const Findings& findings, const fs::path& directory) {
  const WrittenReport written = write_report(findings, directory);
  EXPECT_TRUE(written.missing.empty());
  return markup::read(read_text_file(directory / "report.html"));
}

std::string html_without_figures(const Findings& findings) {
  return html_of(make_document(findings, {}));
}

std::string markdown_without_figures(const Findings& findings) {
  return markdown_of(make_document(findings, {}));
}

// The numbers a reader looks for, as they are printed.
std::vector<std::string> numbers_in(const Findings& findings) {
  std::vector<std::string> numbers;
  for (const Effect& effect : findings.effects) {
    for (const Interval& interval : effect.intervals) {
      const PercentTexts texts = percent_texts(interval);
      numbers.insert(numbers.end(), {texts.estimate, texts.low, texts.high});
    }
  }
  for (const MeasureValue& value : findings.values)
    if (findings.measures[value.measure].unit == "bytes") numbers.push_back(bytes_text(value.value));
  return numbers;
}

std::vector<std::vector<std::string>> parsed_csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows(1, std::vector<std::string>(1));
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '"' && i + 1 < text.size() && text[i + 1] == '"')
        rows.back().back().push_back(text[++i]);
      else if (c == '"')
        quoted = false;
      else
        rows.back().back().push_back(c);
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      rows.back().emplace_back();
    } else if (c == '\r' && text[i + 1] == '\n') {
      ++i;
      rows.emplace_back(1);
    } else {
      rows.back().back().push_back(c);
    }
  }
  EXPECT_FALSE(quoted);
  rows.pop_back();  // what follows the last line end
  return rows;
}

std::size_t column_of(const std::vector<std::vector<std::string>>& rows, const std::string& name) {
  const auto found = std::find(rows[0].begin(), rows[0].end(), name);
  EXPECT_NE(found, rows[0].end()) << name;
  return static_cast<std::size_t>(found - rows[0].begin());
}

TEST(Html, IsOneWellFormedFileThatNeedsNothingElse) {
  const TemporaryDirectory directory;
  const markup::Page page = page_of(sample::three_arms(), directory.path());
  EXPECT_EQ(page.fault, "");
  for (const markup::Element& element : page.elements) {
    for (const char* forbidden : {"script", "link", "iframe", "object", "embed", "img", "base", "form"})
      EXPECT_NE(element.name, forbidden);
    for (const auto& [name, value] : element.attributes) {
      if (name.starts_with("xmlns")) continue;
      EXPECT_THAT(value, Not(HasSubstr("//"))) << element.name << " " << name;
      EXPECT_FALSE(name.starts_with("on")) << name;
    }
  }
  const std::string style = read_text_file(directory.path() / "report.html");
  EXPECT_THAT(style, Not(HasSubstr("@import")));
  EXPECT_THAT(style, Not(HasSubstr("url(h")));
}

TEST(Html, IdsAreUniqueAndReferencesHold) {
  const TemporaryDirectory directory;
  const markup::Page page = page_of(sample::three_arms(), directory.path());
  const std::vector<std::string> ids = markup::attributes(page, "id");
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), ids.size());
  for (const std::string& reference : markup::attributes(page, "href")) EXPECT_THAT(ids, Contains(reference.substr(1)));
  for (const std::string& list : markup::attributes(page, "aria-labelledby")) {
    std::istringstream words(list);
    for (std::string word; words >> word;) EXPECT_THAT(ids, Contains(word));
  }
}

TEST(Html, TablesHaveCaptionsAndScopes) {
  const markup::Page page = markup::read(html_without_figures(sample::three_arms()));
  std::size_t tables = 0;
  std::size_t captions = 0;
  for (const markup::Element& element : page.elements) {
    tables += element.name == "table" ? 1 : 0;
    captions += element.name == "caption" ? 1 : 0;
    if (element.name == "th") {
      EXPECT_TRUE(element.attributes.contains("scope"));
    }
  }
  EXPECT_EQ(tables, captions);
  EXPECT_GE(tables, 10U);
}

TEST(Html, HoldsEveryNumber) {
  const Findings findings = sample::three_arms();
  const markup::Page page = markup::read(html_without_figures(findings));
  for (const std::string& number : numbers_in(findings)) EXPECT_THAT(page.text, HasSubstr(number));
}

TEST(Html, TheFirstScreenAnswers) {
  const std::string html = html_without_figures(sample::three_arms());
  const std::string first = markup::read(html).text.substr(0, 2500);
  for (const char* answer : {"q4 and q8-null against q8 (the baseline)", "The instrument is valid: 64 of 64",
                             "q4 is faster than q8 by 34.1\u00A0% [33.6,\u00A034.6]", "q8-null: no difference shown",
                             "one block: a cubic drift", "AMD EPYC 9R14"})
    EXPECT_THAT(first, HasSubstr(answer));
}

TEST(Html, InvalidSaysSoFirstAndShowsNoVerdict) {
  const std::string html = html_without_figures(sample::invalid());
  EXPECT_THAT(html, HasSubstr("class=\"validity invalid\""));
  EXPECT_THAT(html, HasSubstr("No verdict: the experiment is not valid."));
  EXPECT_THAT(html, Not(HasSubstr("class=\"verdict ")));
}

TEST(Html, ConditionsAreReadable) {
  const markup::Page page = markup::read(html_without_figures(sample::three_arms()));
  EXPECT_THAT(page.text, HasSubstr("4ed0e05c1b7a\u2026+changes"));
  EXPECT_THAT(page.text, HasSubstr("Memory available"));
  EXPECT_THAT(page.text, HasSubstr("23.6 GB"));
  EXPECT_THAT(page.text, HasSubstr("Load average, 1 min"));
}

TEST(Html, TheMachineDuringEachRunIsATable) {
  Findings findings = sample::three_arms();
  findings.conditions.clock_name = "GPU SM clock";
  RunConditions run;
  run.run = 5;
  run.clock_mhz = 1965;
  run.clock_lowest_mhz = 1950;
  run.clock_highest_mhz = 1980;
  run.power_w = 512.4;
  run.waited_share = 0.031;
  run.samples = 57;
  findings.conditions.runs = {run};
  const markup::Page page = markup::read(html_without_figures(findings));
  EXPECT_THAT(page.text, HasSubstr("GPU SM clock, MHz"));
  EXPECT_THAT(page.text, HasSubstr("1965 (1950\u20131980)"));
  EXPECT_THAT(page.text, HasSubstr("512"));
  EXPECT_THAT(page.text, HasSubstr("57"));
  EXPECT_THAT(findings_json_text(findings), HasSubstr("\"temperature_c\": null"));
  EXPECT_THAT(findings_json_text(findings), HasSubstr("\"power_w\": 512.4"));
}

TEST(Html, ClocksThatDisagreeAreSaid) {
  Findings findings = sample::three_arms();
  EXPECT_THAT(html_without_figures(findings), HasSubstr("agree in all 1,152 requests to within 0.2"));
  findings.validity.clock->agreed = false;
  EXPECT_THAT(html_without_figures(findings), HasSubstr("do NOT agree: in some of 1,152 requests they differ by more"));
}

TEST(Html, AnUnfinishedScheduleIsSaid) {
  Findings findings = sample::three_arms();
  EXPECT_THAT(html_without_figures(findings), Not(HasSubstr("the schedule is not finished")));
  findings.complete = false;
  EXPECT_THAT(html_without_figures(findings), HasSubstr("the schedule is not finished"));
}

TEST(Hostile, HtmlStaysWellFormedAndRunsNothing) {
  const TemporaryDirectory directory;
  const markup::Page page = page_of(sample::hostile(), directory.path());
  EXPECT_EQ(page.fault, "");
  for (const markup::Element& element : page.elements) EXPECT_NE(element.name, "script");
  EXPECT_THAT(page.text, HasSubstr("<script>alert(\"x\")</script> | 'a' `ls` \\n $HOME {b} %g"));
  EXPECT_THAT(page.text, HasSubstr("{{g}}"));  // not taken for a template
}

TEST(Hostile, MarkdownTablesKeepTheirShape) {
  for (const Findings& findings : {sample::hostile(), sample::three_arms(), sample::handicap()}) {
    std::istringstream stream(markdown_without_figures(findings));
    std::string line;
    std::size_t columns = 0;
    std::size_t tables = 0;
    while (std::getline(stream, line)) {
      if (line.empty() || line[0] != '|') {
        columns = 0;
        continue;
      }
      std::size_t bars = 0;
      for (std::size_t i = 0; i < line.size(); ++i) bars += line[i] == '|' && (i == 0 || line[i - 1] != '\\') ? 1 : 0;
      if (columns == 0) {
        columns = bars;
        ++tables;
      }
      EXPECT_EQ(bars, columns) << line;
    }
    EXPECT_GE(tables, 7U);
  }
}

TEST(Markdown, HoldsEveryNumberAndLinksTheFigures) {
  const TemporaryDirectory directory;
  const Findings findings = sample::three_arms();
  static_cast<void>(write_report(findings, directory.path()));
  const std::string markdown = read_text_file(directory.path() / "report.md");
  for (const std::string& number : numbers_in(findings)) EXPECT_THAT(markdown, HasSubstr(number));
  for (const char* name : {"effects", "runs", "prompts"}) {
    EXPECT_THAT(markdown, HasSubstr("](figures/" + std::string(name) + ".svg)"));
    EXPECT_TRUE(fs::exists(directory.path() / "figures" / (std::string(name) + ".svg")));
  }
}

TEST(Csv, EffectsReadBack) {
  const Findings findings = sample::three_arms();
  const auto rows = parsed_csv(effects_csv(findings));
  ASSERT_EQ(rows.size(), 11U);  // two effects with five intervals; the one without intervals has no line
  for (const auto& row : rows) EXPECT_EQ(row.size(), rows[0].size());
  const Interval& interval = findings.effects[0].intervals[3];
  EXPECT_EQ(rows[4][column_of(rows, "estimand")], "prompts-like-these");
  EXPECT_EQ(std::stod(rows[4][column_of(rows, "low_log")]), interval.low_log);
  EXPECT_EQ(std::stod(rows[4][column_of(rows, "high_percent")]), percent_of_log(interval.high_log));
  EXPECT_EQ(rows[2][column_of(rows, "degrees_of_freedom")], "");  // missing is empty, not nan
  EXPECT_EQ(rows[1][column_of(rows, "of_verdict")], "true");
  EXPECT_EQ(rows[1][column_of(rows, "options_differing")], R"({"weights":{"format":"q4"}})");
  EXPECT_EQ(rows[1][column_of(rows, "cpu")], "AMD EPYC 9R14");
}

TEST(Csv, RunsAndPromptsReadBack) {
  const Findings findings = sample::three_arms();
  const auto runs = parsed_csv(runs_csv(findings));
  ASSERT_EQ(runs.size(), findings.runs.size() + 1);
  EXPECT_EQ(runs[4][column_of(runs, "state")], "interrupted");
  EXPECT_EQ(runs[4][column_of(runs, "decode_speed [tok/s]")], "");
  EXPECT_EQ(std::stod(runs[9][column_of(runs, "decode_speed [tok/s]")]), findings.runs[8].values[0]);
  const auto prompts = parsed_csv(prompts_csv(findings));
  ASSERT_EQ(prompts.size(), 64U * 3U + 1);
  EXPECT_EQ(std::stod(prompts[2][column_of(prompts, "log_ratio")]), findings.prompts[0].log_ratio[1]);
}

TEST(Csv, HostileNamesStayInTheirFields) {
  const Findings findings = sample::hostile();
  for (const std::string& text : {effects_csv(findings), runs_csv(findings), prompts_csv(findings)}) {
    const auto rows = parsed_csv(text);
    for (const auto& row : rows) ASSERT_EQ(row.size(), rows[0].size());
  }
}

TEST(Json, ReadsBackWithMissingNumbersAsNull) {
  const Findings findings = sample::three_arms();
  const Json json = parse_json(findings_json_text(findings), "findings.json");
  EXPECT_EQ(json["format"], "tare-findings");
  EXPECT_EQ(json["effects"][0]["intervals"][0]["low"]["log"].get<double>(), findings.effects[0].intervals[0].low_log);
  EXPECT_TRUE(json["effects"][0]["intervals"][1]["degrees_of_freedom"].is_null());
  EXPECT_EQ(json["arms"][1]["options"]["weights"]["format"], "q4");
  EXPECT_EQ(json["runs"].size(), findings.runs.size());
  EXPECT_EQ(json["prompts"].size(), 64U);
  EXPECT_EQ(json["validity"]["controls"].size(), 3U);
  EXPECT_EQ(json["runs"][5]["arm"], "q4");
}

TEST(Json, TakesAnyText) {
  EXPECT_NO_THROW(static_cast<void>(parse_json(findings_json_text(sample::hostile()), "findings.json")));
  EXPECT_NO_THROW(static_cast<void>(parse_json(findings_json_text({}), "findings.json")));
}

TEST(WriteReport, ListsWhatItWroteReportFirst) {
  const TemporaryDirectory directory;
  const WrittenReport written = write_report(sample::three_arms(), directory.path() / "new" / "deep");
  EXPECT_EQ(written.files.front().filename(), "report.html");
  EXPECT_EQ(written.files.size(), 17U);  // eight files and three of each figure
  for (const fs::path& file : written.files) EXPECT_GT(fs::file_size(file), 0U) << file;
}

TEST(WriteReport, IsTheSameEveryTime) {
  const TemporaryDirectory directory;
  const WrittenReport first = write_report(sample::three_arms(), directory.path() / "a");
  static_cast<void>(write_report(sample::three_arms(), directory.path() / "b"));
  for (const fs::path& file : first.files)
    EXPECT_EQ(read_text_file(file), read_text_file(directory.path() / "b" / fs::relative(file, directory.path() / "a")))
        << file;
}

TEST(WriteReport, WithoutGnuplotEverythingElseIsThereAndSaysSo) {
  const TemporaryDirectory directory;
  static_cast<void>(write_report(sample::three_arms(), directory.path()));
  ReportOptions options;
  options.gnuplot = "/nowhere/gnuplot";
  const WrittenReport written = write_report(sample::three_arms(), directory.path(), options);
  ASSERT_EQ(written.missing.size(), 3U);
  EXPECT_EQ(written.missing[0].kind(), ErrorKind::kEnvironment);
  EXPECT_THAT(written.missing[0].parts().hint, HasSubstr("gnuplot-nox"));
  for (const char* name : {"report.html", "report.md"}) {
    const std::string text = read_text_file(directory.path() / name);
    EXPECT_THAT(text, HasSubstr("Figure missing: Effect of each arm with its intervals."));
    EXPECT_THAT(text, HasSubstr("apt-get install gnuplot-nox"));
  }
  EXPECT_FALSE(fs::exists(directory.path() / "figures" / "effects.svg")) << "a drawing of the earlier report is left";
  EXPECT_TRUE(fs::exists(directory.path() / "figures" / "effects.gp"));
}

TEST(WriteReport, EmptyFindingsSayWhatIsMissing) {
  const TemporaryDirectory directory;
  const WrittenReport written = write_report({}, directory.path());
  EXPECT_TRUE(written.missing.empty());
  const markup::Page page = markup::read(read_text_file(directory.path() / "report.html"));
  EXPECT_EQ(page.fault, "");
  for (const char* said : {"No arm was measured.", "not valid", "No effect was computed.", "There are no runs.",
                           "There are no prompts.", "No positive control was run", "Nothing was measured.",
                           "There is nothing to draw: no effect with an interval was computed."})
    EXPECT_THAT(page.text, HasSubstr(said));
}

TEST(WriteReport, DegenerateFindingsAreWritten) {
  const TemporaryDirectory directory;
  Findings one_arm = sample::three_arms();
  one_arm.arms.resize(1);
  one_arm.effects.clear();
  std::erase_if(one_arm.values, [](const MeasureValue& value) { return value.arm > 0; });
  std::erase_if(one_arm.runs, [](const reports::Run& run) { return run.arm > 0; });
  for (Prompt& prompt : one_arm.prompts) {
    prompt.seconds.resize(1);
    prompt.log_ratio.resize(1);
  }
  Findings missing = sample::three_arms();
  for (Effect& effect : missing.effects) {
    effect.estimate_log = effect.p = effect.p_adjusted = kMissing;
    for (Interval& interval : effect.intervals)
      interval.estimate_log = interval.low_log = interval.high_log = interval.level = kMissing;
  }
  for (reports::Run& run : missing.runs) run.values.clear();
  for (MeasureValue& value : missing.values) value.value = value.lowest_run = value.highest_run = kMissing;
  for (Prompt& prompt : missing.prompts) prompt.log_ratio.clear();
  Findings one_prompt = sample::handicap();
  one_prompt.prompts.resize(1);
  one_prompt.runs.resize(2);
  for (const Findings& findings : {one_arm, missing, one_prompt}) {
    const markup::Page page = page_of(findings, directory.path());
    EXPECT_EQ(page.fault, "");
    for (const char* wrong : {"nan", "NaN", "inf "}) EXPECT_THAT(page.text, Not(HasSubstr(wrong)));
  }
}

TEST(WriteReport, RefusesIndicesThatPointNowhere) {
  const TemporaryDirectory directory;
  std::vector<Findings> broken(5, sample::three_arms());
  broken[0].effects[0].arm = 3;
  broken[1].effects[0].measure = 4;
  broken[2].runs[0].arm = 3;
  broken[3].values[0].measure = 4;
  broken[4].prompts[0].log_ratio.resize(4);
  for (const Findings& findings : broken) {
    try {
      static_cast<void>(write_report(findings, directory.path()));
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    }
  }
}

TEST(WriteReport, ADirectoryThatCannotBeMadeIsTheEnvironments) {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() / "file", "x");
  try {
    static_cast<void>(write_report({}, directory.path() / "file" / "report"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
  }
}

// Two arms that were profiled and one that could not be.
Findings profiled() {
  Findings findings = sample::three_arms();
  findings.times.arms = {{.arm = "q8",
                          .fault = "",
                          .source = "ops",
                          .prompts = 4,
                          .timed_us = 100,
                          .busy_us = 90,
                          .idle_us = 4,
                          .host_us = 6,
                          .profiled_us = 103},
                         {.arm = "q4",
                          .fault = "",
                          .source = "ops",
                          .prompts = 4,
                          .timed_us = 80,
                          .busy_us = 71,
                          .idle_us = 4,
                          .host_us = 5,
                          .profiled_us = 83},
                         {.arm = "q8-again", .fault = "no CUPTI here", .source = ""}};
  TimeDifference difference;
  difference.arm = "q4";
  difference.prompts = 4;
  for (int i = 0; i < 25; ++i) difference.rows.push_back({"op " + std::to_string(i), 3.6, 2.84, -0.76, -0.8, -0.72});
  difference.idle = {"idle", 4, 4, 0, -0.1, 0.1};
  difference.host = {"host", 6, 5, -1, -2, 0};
  difference.residual = {"residual", -3, -3, 0, -0.2, 0.2};
  difference.timed = {"timed round", 100, 80, -20, -21, -19};
  difference.explained_share = 0.95;
  difference.only_arm = {"op 3"};
  difference.outputs_equal = 3;
  difference.outputs_compared = 4;
  findings.times.differences = {difference};
  return findings;
}

TEST(TimesSection, StandsWhereSomethingWasProfiledAndAddsUpWhatItLeavesOut) {
  EXPECT_THAT(markdown_without_figures(sample::three_arms()), Not(HasSubstr("Where the time goes")));
  const std::string text = markdown_without_figures(profiled());
  EXPECT_THAT(text, HasSubstr("## Where the time goes"));
  EXPECT_THAT(text, HasSubstr("| q8 | 100.00 | 90.00 | 4.00 | 6.00 | 103.00 | 4 |"));
  EXPECT_THAT(text, HasSubstr("Not profiled: q8-again: no CUPTI here"));
  EXPECT_THAT(text, HasSubstr("| 5 others | 18.00 | 14.20 | \u22123.80 |"));
  EXPECT_THAT(text, HasSubstr("| host | 6.00 | 5.00 | \u22121.00 |"));
  EXPECT_THAT(text, HasSubstr("| residual | \u22123.00 | \u22123.00 | 0.00 |"));
  EXPECT_THAT(text, HasSubstr("make up 95.0 % of the difference"));
  EXPECT_THAT(text, HasSubstr("Only q4 launches: op 3."));
  EXPECT_THAT(text,
              HasSubstr("Other kernels or ops and other outputs: both arms would have emitted the same tokens on 3 "
                        "of 4 prompts."));
}

TEST(TimesSection, SaysLoudlyThatPartsDoNotAddUp) {
  Findings findings = profiled();
  EXPECT_THAT(markdown_without_figures(findings), Not(HasSubstr("DO NOT ADD UP")));
  findings.times.differences[0].adds_up = false;
  EXPECT_THAT(markdown_without_figures(findings), HasSubstr("THE PARTS DO NOT ADD UP"));
  EXPECT_THAT(markdown_without_figures(findings), Not(HasSubstr("STALLED")));
  findings.times.differences[0].stalled = true;
  EXPECT_THAT(markdown_without_figures(findings), HasSubstr("STALLED"));
}

TEST(TimesSection, NamesOutputsOfTheSameKernels) {
  Findings findings = profiled();
  findings.times.differences[0].only_arm.clear();
  EXPECT_THAT(markdown_without_figures(findings), HasSubstr("The same kernels or ops and other outputs"));
  findings.times.differences[0].outputs_equal = 4;
  EXPECT_THAT(markdown_without_figures(findings), HasSubstr("The same kernels or ops and the same outputs"));
  findings.times.differences[0].outputs_compared = 0;
  EXPECT_THAT(markdown_without_figures(findings), Not(HasSubstr("outputs")));
}

TEST(TimesSection, JsonHasEveryRow) {
  const Json json = findings_json(profiled());
  EXPECT_EQ(json.at("times").at("arms").size(), 3U);
  EXPECT_TRUE(json.at("times").at("arms")[2].at("timed_us").is_null());
  EXPECT_EQ(json.at("times").at("differences")[0].at("rows").size(), 25U);
  EXPECT_EQ(json.at("times").at("differences")[0].at("host").at("difference_us"), -1);
}

}  // namespace
}  // namespace tare::reports

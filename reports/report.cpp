#include "reports/report.h"

#include <fmt/format.h>

#include <utility>

#include "base/file.h"
#include "reports/csv.h"
#include "reports/document.h"
#include "reports/figures.h"
#include "reports/findings_json.h"
#include "reports/gnuplot.h"
#include "reports/html.h"
#include "reports/markdown.h"
#include "reports/sections.h"
#include "reports/svg.h"

namespace tare::reports {
namespace {

namespace fs = std::filesystem;

void check(bool good, const char* what) {
  if (!good) throw internal_error(fmt::format("findings for the report: {}", what));
}

void check_indices(const Findings& findings) {
  const std::size_t arms = findings.arms.size();
  const std::size_t measures = findings.measures.size();
  for (const MeasureValue& value : findings.values)
    check(value.arm < arms && value.measure < measures, "a value of an unknown arm or measure");
  for (const Effect& effect : findings.effects)
    check(effect.arm < arms && effect.measure < measures, "an effect of an unknown arm or measure");
  for (const Run& run : findings.runs) {
    check(run.arm < arms, "a run of an unknown arm");
    check(run.values.size() <= measures, "a run with more values than measures");
  }
  for (const RunConditions& run : findings.conditions.runs)
    check(run.run < findings.runs.size(), "conditions of an unknown run");
  for (const Prompt& prompt : findings.prompts)
    check(prompt.seconds.size() <= arms && prompt.log_ratio.size() <= arms, "a prompt with more ratios than arms");
}

void make_directory(const fs::path& directory) {
  std::error_code failure;
  fs::create_directories(directory, failure);
  if (failure)
    throw Error(ErrorKind::kEnvironment, "cannot be made: " + failure.message(), directory.string(),
                "check the path and its permissions");
}

// Draws one figure; what keeps it from being drawn goes into the figure and into `report.missing`.
Figure draw(const Plot& plot, const fs::path& directory, const ReportOptions& options, WrittenReport& report) {
  Figure figure{plot.name, plot.title, plot.caption, {}, {}, plot.section, plot.before};
  const fs::path drawing = directory / (plot.name + ".svg");
  for (const char* ending : {".svg", ".gp", ".dat"}) {  // of an earlier report: never shown as this one's
    std::error_code ignored;
    fs::remove(directory / (plot.name + ending), ignored);
  }
  if (!plot.nothing.empty()) {
    figure.missing = fmt::format("There is nothing to draw: {}.", plot.nothing);
    return figure;
  }
  write_file_atomically(directory / (plot.name + ".gp"), plot.script);
  write_file_atomically(directory / (plot.name + ".dat"), plot.data);
  report.files.push_back(directory / (plot.name + ".gp"));
  report.files.push_back(directory / (plot.name + ".dat"));
  try {
    run_gnuplot(options.gnuplot, directory, plot.name + ".gp");
    figure.svg = finished_svg(read_text_file(drawing), plot.name, plot.title, plot.description);
    write_file_atomically(drawing, "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n" + figure.svg);
    report.files.push_back(drawing);
  } catch (const Error& error) {
    figure.svg.clear();
    figure.missing = error.parts().what + (error.parts().hint.empty() ? "." : "; " + error.parts().hint + ".");
    report.missing.push_back(error);
  }
  return figure;
}

}  // namespace

std::vector<Plot> report_plots(const Findings& findings) {
  return {effects_plot(findings), runs_plot(findings),  prompts_plot(findings), conditions_plot(findings),
          times_plot(findings),   round_plot(findings), rates_plot(findings),   time_differences_plot(findings)};
}

WrittenReport write_report(const Findings& findings, const fs::path& directory, const ReportOptions& options) {
  check_indices(findings);
  make_directory(directory / "figures");
  WrittenReport report;
  std::vector<Figure> figures;
  for (const Plot& plot : report_plots(findings)) {
    Figure figure = draw(plot, directory / "figures", options, report);
    if (plot.nothing.empty() || !plot.optional) figures.push_back(std::move(figure));
  }
  const Document document = make_document(findings, figures);
  std::vector<fs::path> pages;
  const auto write = [&](const char* name, const std::string& content) {
    write_file_atomically(directory / name, content);
    pages.push_back(directory / name);
  };
  write("report.html", html_of(document));
  write("report.md", markdown_of(document));
  write("findings.json", findings_json_text(findings));
  write("effects.csv", effects_csv(findings));
  write("runs.csv", runs_csv(findings));
  write("prompts.csv", prompts_csv(findings));
  report.files.insert(report.files.begin(), pages.begin(), pages.end());
  return report;
}

}  // namespace tare::reports

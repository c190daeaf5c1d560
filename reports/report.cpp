#include "reports/report.h"

#include <fmt/format.h>

#include <cstdlib>
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

// Script and data of a plot, drawn in `directory`.
std::string drawn(const Plot& plot, const fs::path& directory, const ReportOptions& options) {
  write_file_atomically(directory / (plot.name + ".gp"), plot.script);
  write_file_atomically(directory / (plot.name + ".dat"), plot.data);
  run_gnuplot(options.gnuplot, directory, plot.name + ".gp");
  return finished_svg(read_text_file(directory / (plot.name + ".svg")), plot.name, plot.title, plot.description);
}

std::string as_file(const std::string& svg) {
  return "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n" + svg;
}

// A folder of a name that nobody else has, gone with this.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "tare-figure-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw Error(ErrorKind::kEnvironment, "no folder can be made there", fs::temp_directory_path().string());
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

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
  report.files.push_back(directory / (plot.name + ".gp"));
  report.files.push_back(directory / (plot.name + ".dat"));
  try {
    figure.svg = drawn(plot, directory, options);
    write_file_atomically(drawing, as_file(figure.svg));
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
  return {effects_plot(findings),   runs_plot(findings),  prompts_plot(findings), conditions_plot(findings),
          times_plot(findings),     round_plot(findings), rates_plot(findings),   time_differences_plot(findings),
          acceptance_plot(findings)};
}

void write_figure(const Plot& plot, const fs::path& file, const ReportOptions& options) {
  if (!plot.nothing.empty()) throw internal_error(fmt::format("figure {}: {}", plot.name, plot.nothing));
  const TemporaryFolder folder;
  write_file_atomically(file, as_file(drawn(plot, folder.path(), options)));
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

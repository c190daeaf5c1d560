#include "reports/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/thread_pool.h"
#include "reports/csv.h"
#include "reports/document.h"
#include "reports/figures.h"
#include "reports/findings_json.h"
#include "reports/gnuplot.h"
#include "reports/html.h"
#include "reports/latex.h"
#include "reports/markdown.h"
#include "reports/pdf.h"
#include "reports/sections.h"
#include "reports/sentences.h"
#include "reports/svg.h"

namespace tare::reports {
namespace {

namespace fs = std::filesystem;

constexpr double kDrawingLimit_s = 60;
constexpr unsigned kMostDrawers = 8;  // more drawings than that are rarely there

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
  for (const ArmFidelity& fidelity : findings.fidelity) check(fidelity.arm < arms, "fidelity of an unknown arm");
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

// A figure, its files, and what kept it from being drawn.
struct Drawn {
  Figure figure;
  std::vector<fs::path> files;
  std::optional<Error> missing;
};

Drawn draw(const Plot& plot, const fs::path& directory, const ReportOptions& options, const std::string& utc) {
  Drawn result{Figure{plot.name, plot.title, plot.caption, {}, {}, plot.section, plot.before}, {}, {}};
  const fs::path drawing = directory / (plot.name + ".svg");
  for (const char* ending :
       {".svg", ".gp", ".dat", ".pdf", ".png"}) {  // of an earlier report: never shown as this one's
    std::error_code ignored;
    fs::remove(directory / (plot.name + ending), ignored);
  }
  if (!plot.nothing.empty()) {
    result.figure.missing = fmt::format("There is nothing to draw: {}.", plot.nothing);
    return result;
  }
  result.files = {directory / (plot.name + ".gp"), directory / (plot.name + ".dat")};
  try {
    result.figure.svg = drawn(plot, directory, options);
    write_file_atomically(drawing, as_file(result.figure.svg));
    result.files.push_back(drawing);
    for (const char* kind : {"pdf", "png"}) {
      if (!options.for_print) continue;
      run_gnuplot(options.gnuplot, directory, plot.name + ".gp", kDrawingLimit_s, fmt::format("kind='{}'", kind));
      const fs::path file = directory / (plot.name + "." + kind);
      if (file.extension() == ".pdf" && !utc.empty()) write_file_atomically(file, dated_pdf(read_text_file(file), utc));
      result.files.push_back(file);
    }
  } catch (const Error& error) {
    result.figure.svg.clear();
    result.figure.missing = error.parts().what + (error.parts().hint.empty() ? "." : "; " + error.parts().hint + ".");
    result.missing = error;
  }
  return result;
}

// When what the figures show was there: the experiment's end, or the start of its last run while it has none; empty
// where there is no run.
std::string measured_utc(const Findings& findings) {
  if (!findings.stop.ended_utc.empty()) return findings.stop.ended_utc;
  std::string last;
  for (const Run& run : findings.runs) last = std::max(last, run.start_utc);
  return last;
}

// All figures, in the order of `plots`, drawn side by side: each is a process of its own.
std::vector<Drawn> draw_all(const std::vector<Plot>& plots, const fs::path& directory, const ReportOptions& options,
                            const std::string& utc) {
  std::vector<std::optional<Drawn>> results(plots.size());
  ThreadPool pool(static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, kMostDrawers)));
  pool.parallel_for(plots.size(), 1, [&](int, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) results[i] = draw(plots[i], directory, options, utc);
  });
  std::vector<Drawn> all;
  for (std::optional<Drawn>& result : results) all.push_back(std::move(*result));
  return all;
}

}  // namespace

std::vector<Plot> report_plots(const Findings& findings) {
  return {effects_plot(findings),   matrix_plot(findings), factors_plot(findings), interactions_plot(findings),
          front_plot(findings),     runs_plot(findings),   prompts_plot(findings), conditions_plot(findings),
          times_plot(findings),     round_plot(findings),  rates_plot(findings),   time_differences_plot(findings),
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
  const std::vector<Plot> plots = report_plots(findings);
  std::vector<Drawn> all = draw_all(plots, directory / "figures", options, measured_utc(findings));
  for (std::size_t i = 0; i < plots.size(); ++i) {
    report.files.insert(report.files.end(), all[i].files.begin(), all[i].files.end());
    if (all[i].missing) report.missing.push_back(*all[i].missing);
    if (plots[i].nothing.empty() || !plots[i].optional) figures.push_back(std::move(all[i].figure));
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
  write("tables.tex", latex_of(document));
  write("methods.txt", methods_text(findings));
  report.files.insert(report.files.begin(), pages.begin(), pages.end());
  return report;
}

}  // namespace tare::reports

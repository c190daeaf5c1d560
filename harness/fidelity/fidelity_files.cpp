#include "harness/fidelity/fidelity_files.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/file.h"
#include "harness/fidelity/fidelity_report.h"
#include "harness/worker/child_process.h"
#include "reports/report.h"

namespace tare::harness {
namespace {

constexpr const char* kAllKinds = "all";  // of rows over every kind of text; none where there is one kind

bool gnuplot_is_there() {
  try {
    (void)find_program("gnuplot");
    return true;
  } catch (const Error&) {
    return false;
  }
}

double number_or_missing(const Json& value) {
  return value.is_number() ? value.get<double>() : reports::kMissing;
}

// Which rows stand for an arm: of decoding where it was walked, else of prefill.
struct Walk {
  std::string path = "prefill";
  std::int64_t nodes = 0;
  bool several_kinds = false;

  explicit Walk(const Json& fidelity) {
    for (const Json& row : fidelity["rows"]) {
      if (row["path"] == "decode" && path != "decode") {
        path = "decode";
        nodes = row["nodes"].get<std::int64_t>();
      }
      several_kinds = several_kinds || row["kind"] == kAllKinds;
    }
  }
  [[nodiscard]] bool has(const Json& row) const {
    return row["path"] == path && row["head"] == "own" && row.value("nodes", std::int64_t{0}) == nodes;
  }
  [[nodiscard]] std::string words() const {
    return path == "decode" ? fmt::format("decoding in rounds of {}", nodes) : path;
  }
};

reports::FidelityPoint point_of(const Json& arm, const Json& row) {
  reports::FidelityPoint point;
  point.arm = arm["name"].get<std::string>();
  point.kind = row["kind"].get<std::string>();
  point.megabytes = arm["bytes_per_round"].get<double>() / 1e6;
  point.tokens_per_second = arm["decode_tokens_per_second"].get<double>();
  point.divergence = number_or_missing(row["kl64_tail"]["mean"]);
  if (row["kl64_tail"].contains("interval")) {
    point.low = row["kl64_tail"]["interval"][0].get<double>();
    point.high = row["kl64_tail"]["interval"][1].get<double>();
  }
  return point;
}

}  // namespace

reports::FidelityFigure fidelity_figure(const Json& fidelity) {
  const Walk walk(fidelity);
  reports::FidelityFigure figure;
  figure.heading =
      fmt::format("{}: divergence from the reference, {}", fidelity["model"].get<std::string>(), walk.words());
  figure.speed_words = "decode speed of these walks";
  for (const Json& arm : fidelity["arms"])
    for (const Json& row : fidelity["rows"])
      if (row["arm"] == arm["name"] && walk.has(row) && !(walk.several_kinds && row["kind"] == kAllKinds))
        figure.points.push_back(point_of(arm, row));
  return figure;
}

OverallFidelity overall_fidelity(const Json& fidelity) {
  const Walk walk(fidelity);
  OverallFidelity overall{walk.words(), {}};
  for (const Json& arm : fidelity["arms"])
    for (const Json& row : fidelity["rows"])
      if (row["arm"] == arm["name"] && walk.has(row) && (!walk.several_kinds || row["kind"] == kAllKinds))
        overall.points.push_back(point_of(arm, row));
  return overall;
}

void write_fidelity_files(const Json& fidelity, const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  write_file_atomically(directory / "fidelity.md", fidelity_markdown(fidelity));
  const reports::Plot plot = reports::fidelity_plot(fidelity_figure(fidelity));
  if (!plot.nothing.empty()) {
    fmt::print(stderr, "no figure: {}\n", plot.nothing);
  } else if (!gnuplot_is_there()) {
    fmt::print(stderr, "no figure: gnuplot is missing; tare report {} draws it later\n", directory.string());
  } else {
    reports::write_figure(plot, directory / "fidelity.svg");
  }
  write_file_atomically(directory / "fidelity.json", fidelity.dump(1) + "\n");
}

Json read_fidelity(const std::filesystem::path& file) {
  Json fidelity = read_json_file(file);
  JsonReader reader(fidelity, file.string());
  (void)reader.integer("version", kFidelityVersion, kFidelityVersion);
  return fidelity;
}

Json rewrite_fidelity_files(const std::filesystem::path& directory) {
  const Json fidelity = read_fidelity(directory / "fidelity.json");
  write_fidelity_files(fidelity, directory);
  return fidelity;
}

}  // namespace tare::harness

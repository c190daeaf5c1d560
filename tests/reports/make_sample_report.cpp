// Writes the reports of the sample findings, to be looked at in a browser: make_sample_report DIRECTORY [GNUPLOT].
#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "reports/figure_roofline.h"
#include "reports/report.h"
#include "sample_findings.h"
#include "sample_times.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: {} DIRECTORY [GNUPLOT]\n", argv[0]);
    return 2;
  }
  const std::filesystem::path directory = argv[1];
  tare::reports::ReportOptions options;
  if (argc > 2) options.gnuplot = argv[2];
  try {
    namespace sample = tare::reports::sample;
    tare::reports::Findings hostile = sample::hostile();
    sample::add_op_times(hostile);
    sample::rename_times(hostile.times, sample::hostile_name());
    tare::reports::Findings ops = sample::three_arms();
    sample::add_op_times(ops);
    tare::reports::Findings kernels = sample::handicap();
    sample::add_kernel_times(kernels, 60);
    for (const auto& [name, findings] :
         {std::pair{"three_arms", ops}, std::pair{"kernels", kernels},
          std::pair{"handicap", tare::reports::sample::handicap()}, std::pair{"hostile", hostile},
          std::pair{"matrix", sample::matrix()}, std::pair{"one_at_a_time", sample::one_at_a_time()},
          std::pair{"invalid", tare::reports::sample::invalid()}, std::pair{"empty", tare::reports::Findings{}}}) {
      const auto written = tare::reports::write_report(findings, directory / name, options);
      fmt::print("{}\n", written.files.front().string());
      for (const auto& error : written.missing) fmt::print("missing: {} ({})\n", error.what(), error.parts().hint);
    }
    tare::reports::write_figure(tare::reports::roofline_plot({"Roofline of a round of 1 token, 64 in the caches",
                                                              60,
                                                              200,
                                                              {{"mlp", 3.66, 200, 90},
                                                               {"gdn", 3.61, 200, 71},
                                                               {"attention", 3.63, 200, 66},
                                                               {"head", 3.76, 200, 120},
                                                               {"recurrent state", 0.9, 54, 48},
                                                               {"key-value cache", 2, 120, tare::reports::kMissing}}}),
                                directory / "roofline.svg");
  } catch (const tare::Error& error) {
    fmt::print(stderr, "error: {}\nhint: {}\n", error.what(), error.parts().hint);
    return tare::exit_code(error.kind());
  }
  return 0;
}

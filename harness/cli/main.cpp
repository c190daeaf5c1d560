#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "engine/backends/found_gpu.h"
#include "engine/cpu/kernels.h"
#include "harness/cli/commands.h"
#include "harness/driver/log.h"
#include "harness/environment/build_info.h"
#include "harness/environment/gpu.h"
#include "harness/worker/child_process.h"

namespace tare::harness {

std::string own_program() {
  std::error_code failure;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (failure) throw Error(ErrorKind::kEnvironment, "/proc/self/exe cannot be read: " + failure.message());
  return path.string();
}

}  // namespace tare::harness

namespace {

using tare::Error;
using tare::ErrorKind;

// One line each, whatever a message holds.
void print_line(const char* head, std::string text) {
  for (char& character : text)
    if (static_cast<unsigned char>(character) < 0x20) character = ' ';
  std::fprintf(stderr, "%s: %s\n", head, text.c_str());
}

int report(const Error& error) {
  print_line("error", error.what());
  if (!error.parts().hint.empty()) print_line("hint", error.parts().hint);
  return tare::exit_code(error.kind());
}

std::string gnuplot_text() {
  try {
    return tare::harness::find_program("gnuplot");
  } catch (const Error&) {
    return "missing (reports are written without figures)";
  }
}

std::string version_text() {
  const tare::harness::BuildInfo build = tare::harness::build_info();
  return "tare " + build.version + "\ncommit " + build.commit + (build.dirty ? " with changes" : "") + "\nbuild " +
         build.compiler + ", " + build.build_type + " " + build.flags + "\nCUDA " + build.cuda +
         "\nfound: instruction sets " + tare::join(tare::engine::available_instruction_sets(), " ") + "; " +
         tare::engine::found_gpu() + "; " + tare::harness::found_nvml() + "; gnuplot " + gnuplot_text();
}

int run_program(int argc, char** argv) {
  tare::harness::CommandLine line("tare",
                                  "tare weighs two configurations of an LLM decoding engine against each other.",
                                  "Example: tare run experiments/quickstart.json --out runs/quickstart", version_text);
  tare::harness::add_run_command(line);
  tare::harness::add_reconcile_command(line);
  tare::harness::add_report_command(line);
  tare::harness::add_export_command(line);
  tare::harness::add_gate_command(line);
  tare::harness::add_compare_command(line);
  tare::harness::add_plan_command(line);
  tare::harness::add_calibrate_command(line);
  tare::harness::add_init_command(line);
  tare::harness::add_generate_command(line);
  tare::harness::add_logits_command(line);
  tare::harness::add_reference_command(line);
  tare::harness::add_ceiling_command(line);
  tare::harness::add_doctor_command(line);
  tare::harness::add_profile_command(line);
  tare::harness::add_nsys_command(line);
  tare::harness::add_quantize_command(line);
  tare::harness::add_rollouts_command(line);
  tare::harness::add_trees_command(line);
  tare::harness::add_fidelity_command(line);
  tare::harness::add_worker_command(line);
  return line.run(argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  // A file that reaches the user's size limit is an error of its writer (EFBIG), not the end of the program.
  ::signal(SIGXFSZ, SIG_IGN);
  tare::harness::log_to_standard_error();  // standard output is for results
  try {
    return run_program(argc, argv);
  } catch (const Error& error) {
    return report(error);
  } catch (const std::bad_alloc&) {
    return report(Error(ErrorKind::kEnvironment, "memory is exhausted", "", "use a smaller model or context"));
  } catch (const std::exception& failure) {
    return report(tare::internal_error(failure.what()));
  }
}

#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
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

// The parser would only say that a command is required.
void refuse_unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  const std::string name = argv[1];
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw tare::input_error(name, "is not a command", tare::name_hint(name, names));
}

int run_program(int argc, char** argv) {
  CLI::App app("tare weighs two configurations of an LLM decoding engine against each other.", "tare");
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text);
  app.footer("Example: tare run experiments/quickstart.json --out runs/quickstart");
  tare::harness::Chosen chosen;
  tare::harness::add_run_command(app, chosen);
  tare::harness::add_reconcile_command(app, chosen);
  tare::harness::add_report_command(app, chosen);
  tare::harness::add_export_command(app, chosen);
  tare::harness::add_gate_command(app, chosen);
  tare::harness::add_compare_command(app, chosen);
  tare::harness::add_plan_command(app, chosen);
  tare::harness::add_calibrate_command(app, chosen);
  tare::harness::add_init_command(app, chosen);
  tare::harness::add_generate_command(app, chosen);
  tare::harness::add_logits_command(app, chosen);
  tare::harness::add_reference_command(app, chosen);
  tare::harness::add_ceiling_command(app, chosen);
  tare::harness::add_doctor_command(app, chosen);
  tare::harness::add_profile_command(app, chosen);
  tare::harness::add_nsys_command(app, chosen);
  tare::harness::add_quantize_command(app, chosen);
  tare::harness::add_rollouts_command(app, chosen);
  tare::harness::add_trees_command(app, chosen);
  tare::harness::add_fidelity_command(app, chosen);
  tare::harness::add_worker_command(app, chosen);
  refuse_unknown_command(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {  // --help, --version
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    print_line("error", error.what());
    print_line("hint", "tare --help, or --help after a command");
    return tare::exit_code(ErrorKind::kInput);
  }
  return chosen.action();
}

}  // namespace

int main(int argc, char** argv) {
  // A file that reaches the user's size limit is an error of its writer (EFBIG), not the end of the program.
  ::signal(SIGXFSZ, SIG_IGN);
  spdlog::set_default_logger(spdlog::stderr_logger_st("tare"));  // standard output is for results
  spdlog::set_pattern("%l: %v");
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

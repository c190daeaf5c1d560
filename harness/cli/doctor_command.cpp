#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/json_reader.h"
#include "harness/cli/commands.h"
#include "harness/environment/doctor.h"

namespace tare::harness {
namespace {

struct Arguments {
  DoctorSettings settings;
  bool json = false;
};

void print(const Diagnosis& diagnosis) {
  for (const Check& check : diagnosis.checks) {
    const std::string about = check.about.empty() ? "" : check.about + ": ";
    fmt::print("{:<8} {:<16} {}{}\n", to_text(check.state), check.name, about, check.found);
    if (!check.mend.empty()) fmt::print("{:<25} -> {}\n", "", check.mend);
  }
  const std::size_t spoils = diagnosis.count(CheckState::kSpoils);
  fmt::print("\n{}; {} not readable here\n",
             spoils == 0 ? std::string("nothing that was found would spoil a measurement now")
                         : fmt::format("{} thing{} would spoil a measurement now", spoils, spoils == 1 ? "" : "s"),
             diagnosis.count(CheckState::kUnknown));
}

int examine(const Arguments& arguments) {
  const Diagnosis diagnosis = diagnose(arguments.settings);
  if (arguments.json) {
    fmt::print("{}\n", to_json(diagnosis).dump(2));
  } else {
    print(diagnosis);
  }
  return diagnosis.count(CheckState::kSpoils) == 0 ? 0 : exit_code(ErrorKind::kEnvironment);
}

}  // namespace

void add_doctor_command(CommandLine& line) {
  const auto arguments = std::make_shared<Arguments>();
  const Command command = line.add_command(
      "doctor",
      "what on this machine would spoil a measurement now, and how to mend it; exit code 4 when something would");
  command.add_option("--seconds", arguments->settings.seconds, "of watching, at least 1").show_default();
  command.add_flag("--json", arguments->json, "machine and checks as JSON");
  command.set_footer("Example: tare doctor && tare run experiments/quickstart.json --out runs/quickstart");
  command.set_action([arguments] { return examine(*arguments); });
}

}  // namespace tare::harness

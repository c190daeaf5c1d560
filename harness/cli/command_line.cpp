#include "harness/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace tare::harness {

const Option& Option::required() const {
  option_->required();
  return *this;
}
const Option& Option::show_default() const {
  option_->capture_default_str();
  return *this;
}
const Option& Option::comma_separated() const {
  option_->delimiter(',');
  return *this;
}
const Option& Option::once_a_use() const {
  option_->allow_extra_args(false)->take_all();
  return *this;
}
const Option& Option::not_with(const Option& other) const {
  option_->excludes(other.option_);
  return *this;
}
const Option& Option::range(double least, double most) const {
  option_->check(CLI::Range(least, most));
  return *this;
}
const Option& Option::whole_range(std::int64_t least, std::int64_t most) const {
  option_->check(CLI::Range(least, most));
  return *this;
}
const Option& Option::positive() const {
  option_->check(CLI::PositiveNumber);
  return *this;
}
const Option& Option::not_negative() const {
  option_->check(CLI::NonNegativeNumber);
  return *this;
}
const Option& Option::one_of(const std::vector<std::string>& words) const {
  option_->check(CLI::IsMember(words));
  return *this;
}

template <class Value>
Option Command::add_option(const std::string& names, Value& value, const std::string& description) const {
  return Option(command_->add_option(names, value, description));
}
template Option Command::add_option(const std::string&, std::string&, const std::string&) const;
template Option Command::add_option(const std::string&, std::vector<std::string>&, const std::string&) const;
template Option Command::add_option(const std::string&, int&, const std::string&) const;
template Option Command::add_option(const std::string&, std::int64_t&, const std::string&) const;
template Option Command::add_option(const std::string&, std::uint64_t&, const std::string&) const;
template Option Command::add_option(const std::string&, std::optional<int>&, const std::string&) const;
template Option Command::add_option(const std::string&, double&, const std::string&) const;
template Option Command::add_option(const std::string&, std::vector<int>&, const std::string&) const;
template Option Command::add_option(const std::string&, std::vector<std::int64_t>&, const std::string&) const;
template Option Command::add_option(const std::string&, std::vector<double>&, const std::string&) const;

Option Command::add_flag(const std::string& names, bool& value, const std::string& description) const {
  return Option(command_->add_flag(names, value, description));
}

void Command::set_footer(const std::string& text) const {
  command_->footer(text);
}

void Command::set_action(std::function<int()> action) const {
  command_->callback([chosen = chosen_, action = std::move(action)] { *chosen = action; });
}

CommandLine::CommandLine(const std::string& program, const std::string& description, const std::string& footer,
                         std::function<std::string()> version)
    : app_(std::make_unique<CLI::App>(description, program)) {
  app_->require_subcommand(1);
  app_->set_version_flag("--version", std::move(version));
  app_->footer(footer);
}

CommandLine::~CommandLine() = default;

Command CommandLine::add_command(const std::string& name, const std::string& description) {
  return {app_->add_subcommand(name, description), &chosen_};
}

// CLI11 would only say that a command is required.
void CommandLine::refuse_unknown_command(int argc, char** argv) const {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* command : std::as_const(*app_).get_subcommands(nullptr)) names.push_back(command->get_name());
  const std::string name = argv[1];
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw input_error(name, "is not a command", name_hint(name, names));
}

int CommandLine::run(int argc, char** argv) {
  refuse_unknown_command(argc, argv);
  try {
    app_->parse(argc, argv);
  } catch (const CLI::Success& help) {  // --help, --version
    return app_->exit(help);
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorKind::kInput, error.what(), "", "tare --help, or --help after a command");
  }
  return chosen_();
}

}  // namespace tare::harness

// The command line of the program: commands, and the options that each fills. CLI11 does the work; it is included in
// command_line.cpp alone, since it costs four seconds of compiling wherever it is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tare::harness {

// One option, flag or positional argument of a command; every call returns it again.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  const Option& required() const;
  const Option& show_default() const;  // in --help: the value that it fills has now
  const Option& comma_separated() const;
  const Option& once_a_use() const;  // of a list: each use takes one value
  const Option& not_with(const Option& other) const;
  // What else is refused.
  const Option& range(double least, double most) const;
  const Option& whole_range(std::int64_t least, std::int64_t most) const;
  const Option& positive() const;
  const Option& not_negative() const;
  const Option& one_of(const std::vector<std::string>& words) const;

 private:
  CLI::Option* option_;
};

// A command, which may be copied: it names one of a CommandLine.
class Command {
 public:
  Command(CLI::App* command, std::function<int()>* chosen) : command_(command), chosen_(chosen) {}

  // `names`: "--name", or "name" of a positional argument. `value` must live until the action has run. Value: what
  // command_line.cpp instantiates it for.
  template <class Value>
  Option add_option(const std::string& names, Value& value, const std::string& description) const;
  Option add_flag(const std::string& names, bool& value, const std::string& description) const;
  void set_footer(const std::string& text) const;
  // What the command does, which returns the exit code.
  void set_action(std::function<int()> action) const;

 private:
  CLI::App* command_;
  std::function<int()>* chosen_;
};

class CommandLine {
 public:
  CommandLine(const std::string& program, const std::string& description, const std::string& footer,
              std::function<std::string()> version);
  ~CommandLine();

  Command add_command(const std::string& name, const std::string& description);
  // Reads the arguments and does what the chosen command does, or prints --help or --version; returns the exit code.
  // Throws Error (input) on what it does not understand.
  int run(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
  std::function<int()> chosen_;

  void refuse_unknown_command(int argc, char** argv) const;
};

}  // namespace tare::harness

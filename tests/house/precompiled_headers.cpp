#include "tests/house/precompiled_headers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <sstream>

namespace tare::house {
namespace {

constexpr const char* kHeaders = "cmake_pch.hxx";
constexpr const char* kPreprocess = "-fpch-preprocess";  // says how to write what is preprocessed, for ccache

struct Command {
  std::set<std::string> options;
  std::string made;  // headers, by the path that sources include them by
  std::string read;
};

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

Command parse(const std::string& text) {
  Command command;
  std::string level;
  std::istringstream words(text);
  std::string before;
  for (std::string word; words >> word; before = word) {
    const std::string start = word.substr(0, 2);
    if (start == "-O") level = word;
    if ((start == "-f" || start == "-m" || start == "-g" || word.rfind("-std=", 0) == 0) && word != kPreprocess)
      command.options.insert(word);
    if (before == "-include" && ends_with(word, kHeaders)) command.read = word;
    if (before == "-o" && ends_with(word, std::string(kHeaders) + ".gch")) command.made = word;
  }
  if (!level.empty()) command.options.insert(level);
  return command;
}

}  // namespace

PrecompiledUse use_of_precompiled_headers(const nlohmann::json& commands) {
  std::map<std::string, std::set<std::string>> made;
  for (const nlohmann::json& entry : commands) {
    const Command command = parse(entry.at("command"));
    // By its name within the build, as CMake writes it after -o, and the whole of it after -include.
    if (!command.made.empty()) made[command.made.substr(0, command.made.size() - 4)] = command.options;
  }
  PrecompiledUse use;
  for (const nlohmann::json& entry : commands) {
    const Command command = parse(entry.at("command"));
    if (command.read.empty() || !command.made.empty()) continue;
    ++use.sources;
    const std::string file = entry.at("file");
    const auto headers = std::find_if(made.begin(), made.end(),
                                      [&](const auto& candidate) { return ends_with(command.read, candidate.first); });
    if (headers == made.end())
      use.faults.push_back(fmt::format("{} reads {}, which no command makes", file, command.read));
    else if (headers->second != command.options)
      use.faults.push_back(fmt::format("{} is compiled with {}, the headers it reads with {}", file,
                                       fmt::join(command.options, " "), fmt::join(headers->second, " ")));
  }
  return use;
}

}  // namespace tare::house

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "base/error.h"
#include "forced/acceptance.h"
#include "forced/rounds_file.h"
#include "forced/tree_replay.h"
#include "harness/cli/acceptance_table.h"
#include "harness/cli/commands.h"

namespace tare::harness {
namespace {

struct Arguments {
  std::string file;
  std::vector<std::int64_t> nodes = {1, 8, 16, 32};
  std::vector<std::int64_t> candidates = {1, 8};
  std::vector<double> temperatures = {1};
  bool json = false;
};

struct Setting {
  forced::TreeSetting tree;
  forced::Acceptance acceptance;
};

void check(const Arguments& arguments) {
  const auto refuse = [](const char* option, bool bad, const char* what) {
    if (bad) throw input_error(option, what);
  };
  for (const std::int64_t nodes : arguments.nodes) refuse("--nodes", nodes < 1, "must be at least 1: the root counts");
  for (const std::int64_t candidates : arguments.candidates)
    refuse("--candidates", candidates < 1, "must be at least 1");
  for (const double temperature : arguments.temperatures)
    refuse("--temperatures", !(temperature > 0), "must be above 0");
}

int replay(const Arguments& arguments) {
  check(arguments);
  const forced::RoundsFile file = forced::read_rounds(arguments.file);
  std::vector<Setting> settings;
  for (const std::int64_t nodes : arguments.nodes)
    for (const std::int64_t candidates : arguments.candidates)
      for (const double temperature : arguments.temperatures) {
        Setting setting{{nodes, candidates, temperature}, {}};
        std::vector<forced::TextTally> tallies;
        for (const forced::RecordedText& text : file.texts) tallies.push_back(forced::replay_trees(text, setting.tree));
        setting.acceptance = forced::measure_acceptance(tallies);
        settings.push_back(std::move(setting));
      }
  if (arguments.json) {
    Json list = Json::array();
    for (const Setting& setting : settings) {
      Json json = {{"nodes", setting.tree.nodes},
                   {"candidates", setting.tree.candidates},
                   {"temperature", setting.tree.temperature}};
      json.update(to_json(setting.acceptance));
      list.push_back(std::move(json));
    }
    fmt::print("{}\n", Json{{"file", arguments.file}, {"texts", file.texts.size()}, {"trees", list}}.dump(2));
    return 0;
  }
  fmt::print("{} texts of {}; tokens a round\n", file.texts.size(), file.model);
  fmt::print("{:>9} {:>11} {:>12} {:>10} {:>9} {:>14} {:>12}\n", "nodes", "candidates", "temperature", "by rounds",
             "by texts", "by categories", "nodes used");
  for (const Setting& setting : settings)
    fmt::print("{:>9} {:>11} {:>12g} {:>10.3f} {:>9.3f} {:>14.3f} {:>12.1f}\n", setting.tree.nodes,
               setting.tree.candidates, setting.tree.temperature, setting.acceptance.by_rounds,
               setting.acceptance.by_texts, setting.acceptance.by_categories,
               static_cast<double>(setting.acceptance.nodes) / static_cast<double>(setting.acceptance.rounds));
  return 0;
}

}  // namespace

void add_trees_command(CommandLine& line) {
  const auto arguments = std::make_shared<Arguments>();
  const Command command =
      line.add_command("trees", "tokens a round of other trees from recorded drafts, without the target");
  command.add_option("file", arguments->file, "recorded rounds, of tare rollouts --every-position").required();
  command.add_option("--nodes", arguments->nodes, "budgets, the root included").comma_separated().show_default();
  command.add_option("--candidates", arguments->candidates, "candidates a row; 1 is the chain")
      .comma_separated()
      .show_default();
  command.add_option("--temperatures", arguments->temperatures, "of the drafts, relative to the recorded one")
      .comma_separated()
      .show_default();
  command.add_flag("--json", arguments->json, "JSON, with acceptance by position");
  command.set_footer("Example: tare trees rounds.jsonl --nodes 8,16,32 --candidates 1,8");
  command.set_action([arguments] { return replay(*arguments); });
}

}  // namespace tare::harness

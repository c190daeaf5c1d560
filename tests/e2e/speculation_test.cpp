// Rounds with drafts from end to end: arms that draft differently walk one text, rounded logits change no round of it,
// and recorded rounds are walked by a checkpoint without trained weights.
#include <gmock/gmock.h>

#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/workspace.h"

namespace tare::e2e {
namespace {

using testing::HasSubstr;

class Speculation : public Workspace {
 protected:
  [[nodiscard]] static Json drafting(std::int64_t nodes, std::int64_t candidates) {
    return {{"speculate",
             {{"drafter", source("models/embedded/drafter")}, {"tree_nodes", nodes}, {"candidates", candidates}}}};
  }
  [[nodiscard]] static Json experiment() {
    Json json = {{"name", "drafts"},
                 {"model", source("models/embedded")},
                 {"prompts", {{"file", source("prompts/tare-64.jsonl")}, {"limit", 4}}},
                 {"texts", {{"mode", "greedy"}, {"max_tokens", 40}}},
                 {"options", {{"cpu", {{"threads", 1}}}, {"context", 1024}}},
                 {"measures", {"decode_speed", "tokens_per_round", "round_time"}},
                 {"schedule", {{"granularity", "prompt"}, {"blocks", 1}, {"seed", 1}, {"warmup", false}}}};
    json["arms"] = Json::array();
    return json;
  }
  void add_arm(Json& json, const std::string& name, const Json& options) const {
    json["arms"].push_back({{"name", name}, {"options", options}});
  }
  [[nodiscard]] std::map<std::string, Json> rounds_by_arm() const {
    std::map<std::string, Json> result;
    const Json findings = parse_json(read_text_file(folder_ / "out" / "findings.json"), "findings.json");
    for (const Json& arm : findings.at("rounds")) result[arm.at("arm").get<std::string>()] = arm;
    return result;
  }
};

double by_rounds(const Json& arm) {
  return arm.at("tokens_per_round").at("by_rounds").get<double>();
}

TEST_F(Speculation, ChainAndTreeWalkOneTextAndRoundedLogitsChangeNoRoundOfIt) {
  Json json = experiment();
  add_arm(json, "tree", drafting(16, 8));
  add_arm(json, "chain", drafting(16, 1));
  add_arm(json, "plain", Json::object());
  Json rounded = drafting(16, 8);
  rounded["perturb"] = {{"place", "logits"}, {"bits", 3}};
  add_arm(json, "rounded", rounded);
  const Finished measured = tare_run(write(json));
  // One block is too few for a verdict.
  ASSERT_TRUE(measured.code == 0 || measured.code == 3) << measured.err;
  const std::map<std::string, Json> rounds = rounds_by_arm();
  ASSERT_EQ(rounds.size(), 4U);
  EXPECT_EQ(by_rounds(rounds.at("plain")), 1);
  EXPECT_GT(by_rounds(rounds.at("chain")), 1.5);
  EXPECT_GE(by_rounds(rounds.at("tree")), by_rounds(rounds.at("chain")));
  for (const char* field : {"rounds", "tokens", "nodes", "tokens_per_round", "positions", "categories"})
    EXPECT_EQ(rounds.at("rounded").at(field), rounds.at("tree").at(field)) << field;
  for (const char* arm : {"tree", "chain"}) {
    double phases = 0;
    for (const auto& [name, us] : rounds.at(arm).at("phase_us").items()) phases += us.get<double>();
    EXPECT_GT(phases, 0);
    EXPECT_LE(phases, rounds.at(arm).at("round_us").get<double>());
  }
  const std::string report = read_text_file(folder_ / "out" / "report.md");
  EXPECT_THAT(report, HasSubstr("## Rounds and drafts"));
  EXPECT_THAT(report, HasSubstr("tokens a round"));
}

// A sampled text too is walked in the rounds in which it was written: a draft is accepted when it is the keyed draw.
TEST_F(Speculation, SampledTextsComeBackTokenByTokenAndRoundByRound) {
  Json json = experiment();
  json["texts"] = {{"mode", "sampled"}, {"temperature", 0.8}, {"seed", 5}, {"max_tokens", 40}};
  add_arm(json, "tree", drafting(16, 8));
  add_arm(json, "chain", drafting(8, 1));
  const Finished measured = tare_run(write(json));
  ASSERT_TRUE(measured.code == 0 || measured.code == 3) << measured.err;
  const Json findings = parse_json(read_text_file(folder_ / "out" / "findings.json"), "findings.json");
  const Json& validity = findings.at("validity");
  EXPECT_TRUE(validity.at("valid").get<bool>());
  EXPECT_EQ(validity.at("prompts_validated"), 4);
  const auto tokens = validity.at("tokens_validated").get<std::int64_t>();
  const auto rounds = validity.at("rounds_validated").get<std::int64_t>();
  EXPECT_GT(rounds, 0);
  EXPECT_LT(rounds, tokens) << "drafts were accepted";
  const std::map<std::string, Json> arms = rounds_by_arm();
  EXPECT_EQ(arms.at("tree").at("tokens"), arms.at("chain").at("tokens"));
  EXPECT_GE(by_rounds(arms.at("tree")), by_rounds(arms.at("chain")));
}

TEST_F(Speculation, RecordedRoundsAreWalkedByACheckpointWithoutTrainedWeights) {
  const Finished rollouts =
      run({tare(), "rollouts", "--model", source("models/embedded"), "--options", drafting(12, 8).dump(), "--prompts",
           source("prompts/tare-64.jsonl"), "--limit", "2", "--max-tokens", "30", "--out", "rounds.jsonl", "--json"},
          folder_);
  ASSERT_EQ(rollouts.code, 0) << rollouts.err;
  const Json recorded = parse_json(rollouts.out, "output");
  EXPECT_GT(recorded.at("tokens_per_round").at("by_rounds").get<double>(), 1.3);

  Json json = experiment();
  json.erase("prompts");
  json["texts"] = {{"mode", "given"}, {"file", "rounds.jsonl"}, {"rounds", "recorded"}};
  json["model"] = "synthetic:0.8b?seed=1";
  json["options"] = {{"cpu", {{"threads", 2}}}, {"context", 1024}, {"weights", {{"format", "q4"}}}};
  add_arm(json, "ring", {{"rollback", "ring"}});
  add_arm(json, "tree-chunk", {{"rollback", "tree_chunk"}});
  const Finished measured = tare_run(write(json));
  ASSERT_TRUE(measured.code == 0 || measured.code == 3) << measured.err;
  const std::map<std::string, Json> walked = rounds_by_arm();
  ASSERT_EQ(walked.size(), 2U);
  for (const auto& [name, arm] : walked)
    for (const char* field : {"rounds", "tokens", "nodes"}) EXPECT_EQ(arm.at(field), recorded.at(field)) << name;
}

// All 64 prompts, written freely: the tree and the chain write what plain decoding writes. Floors of acceptance well
// below what was measured (docs/results/cpu), far above what a wrong tap, position or state leaves.
TEST_F(Speculation, AllTextsAreThoseOfPlainDecodingAndDraftsAreAccepted) {
  const auto rollouts = [&](std::int64_t nodes, std::int64_t candidates, const std::string& drafter) {
    Json options = drafting(nodes, candidates);
    options["speculate"]["drafter"] = drafter;
    options["context"] = 1024;
    const Finished result =
        run({tare(), "rollouts", "--model", source("models/embedded"), "--options", options.dump(), "--prompts",
             source("prompts/tare-64.jsonl"), "--max-tokens", "64", "--out", "rounds.jsonl", "--json"},
            folder_);
    EXPECT_EQ(result.code, 0) << result.err;
    std::vector<Json> texts;
    std::istringstream lines(read_text_file(folder_ / "rounds.jsonl"));
    std::string line;
    std::getline(lines, line);  // the header
    while (std::getline(lines, line)) texts.push_back(parse_json(line, "rounds.jsonl").at("tokens"));
    return std::pair{texts, parse_json(result.out, "output").at("tokens_per_round").at("by_rounds").get<double>()};
  };
  const auto [plain, one] = rollouts(1, 1, "drafter");
  EXPECT_EQ(plain.size(), 64U);
  EXPECT_EQ(one, 1);
  const auto [by_chain, chain] = rollouts(16, 1, "drafter");
  const auto [by_tree, tree] = rollouts(16, 8, "drafter");
  const auto [by_mtp, mtp] = rollouts(16, 8, "mtp");
  EXPECT_EQ(by_chain, plain);
  EXPECT_EQ(by_tree, plain);
  EXPECT_EQ(by_mtp, plain);
  EXPECT_GE(tree, 2.5);
  EXPECT_GE(tree, chain);
  EXPECT_GE(chain, 2.0);
  EXPECT_GE(mtp, 2.5);
}

TEST_F(Speculation, OtherTreesAreWeighedFromRecordedDrafts) {
  const std::vector<std::string> common = {
      "--prompts", source("prompts/tare-64.jsonl"), "--limit", "2", "--max-tokens", "30", "--out", "rounds.jsonl",
      "--json"};
  const auto rollouts = [&](const Json& options, const std::vector<std::string>& more) {
    std::vector<std::string> argv = {tare(),      "rollouts",    "--model", source("models/embedded"),
                                     "--options", options.dump()};
    argv.insert(argv.end(), common.begin(), common.end());
    argv.insert(argv.end(), more.begin(), more.end());
    const Finished result = run(argv, folder_);
    EXPECT_EQ(result.code, 0) << result.err;
    return parse_json(result.out, "output");
  };
  const Json session = rollouts(drafting(16, 8), {});
  (void)rollouts(drafting(16, 8), {"--every-position"});
  const Finished trees =
      run({tare(), "trees", "rounds.jsonl", "--nodes", "1,16,4096", "--candidates", "8", "--json"}, folder_);
  ASSERT_EQ(trees.code, 0) << trees.err;
  const Json settings = parse_json(trees.out, "output").at("trees");
  ASSERT_EQ(settings.size(), 3U);
  EXPECT_EQ(settings[0].at("tokens_per_round").at("by_rounds"), 1);
  for (const char* field : {"rounds", "tokens", "nodes", "cut_rounds"})
    EXPECT_EQ(settings[1].at(field), session.at(field)) << field;
  EXPECT_GE(settings[2].at("tokens_per_round").at("by_rounds"), settings[1].at("tokens_per_round").at("by_rounds"));

  const Finished none = run({tare(), "trees", "rounds.jsonl", "--nodes", "0"}, folder_);
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("--nodes"));
}

TEST_F(Speculation, BudgetsBeyondWhatIsVerifiedAreRefused) {
  const auto generated = [&](const std::string& nodes, const std::string& tokens) {
    return run({tare(), "generate", "--model", source("models/embedded"), "--prompt", "The server", "--max-tokens",
                "12", "--set", "speculate.drafter=drafter", "--set", "speculate.tree_nodes=" + nodes, "--set",
                "speculate.draft_tokens=" + tokens},
               folder_);
  };
  const Finished plain = generated("1", "0");
  EXPECT_EQ(plain.code, 0) << plain.err;
  for (const auto& [nodes, tokens] : {std::pair{"2", "0"}, {"16", "1"}, {"1024", "0"}}) {
    const Finished drafted = generated(nodes, tokens);
    EXPECT_EQ(drafted.code, 0) << drafted.err;
    EXPECT_EQ(drafted.out, plain.out) << nodes << " nodes";
  }
  for (const char* nodes : {"0", "1025", "1048576"}) {
    const Finished refused = generated(nodes, "0");
    EXPECT_EQ(refused.code, 2) << nodes;
    EXPECT_THAT(refused.err, HasSubstr("speculate.tree_nodes"));
  }
}

TEST_F(Speculation, ADrafterOfAnotherTargetIsRefused) {
  const Finished result = run({tare(), "generate", "--model", source("models/embedded"), "--prompt", "x", "--set",
                               "speculate.drafter=" + source("tests/fixtures/block-drafter")},
                              folder_);
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("hidden"));
}

}  // namespace
}  // namespace tare::e2e

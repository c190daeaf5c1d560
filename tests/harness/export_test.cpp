#include "harness/export/export_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/file.h"
#include "base/sqlite/sqlite.h"
#include "harness/export/anonymiser.h"
#include "harness/export/tables.h"
#include "harness/ledger/ledger.h"
#include "harness/ledger/ledger_tables.h"
#include "tests/harness/simulated_ledger.h"

namespace tare::harness {
namespace {

namespace fs = std::filesystem;
using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Not;

constexpr const char* kHost = "kestrel.lab.example";
constexpr const char* kRelease = "6.1.0-18-amd64";
constexpr const char* kUuid = "GPU-0a1b2c3d-1111-2222-3333-444455556666";
constexpr const char* kPci = "00000000:1B:00.0";
constexpr const char* kUser = "mwillow";

// What must not be in an anonymous export, wherever it was put.
const std::vector<std::string>& secrets() {
  static const std::vector<std::string> all = {kHost, kRelease, kUuid,           kPci,           "0000:1b:00.0",
                                               kUser, "/home/", "/opt/engines/", "/data/secret", "/scratch/"};
  return all;
}

class Export : public testing::Test {
 protected:
  fs::path folder_ = fs::path(testing::TempDir()) /
                     (std::string("tare-export-") + testing::UnitTest::GetInstance()->current_test_info()->name());

  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "run");
    SimulatedRun run;
    run.title = "named";
    run.arms = {"base", "other"};
    run.granularity = Granularity::kPrompt;
    run.blocks = 5;
    run.prompts = 4;
    run.patch = {
        {"description", std::string("made by ") + kUser + " on " + kHost + ", see /scratch/notes.txt (" + kPci + ")"},
        {"model", "/data/secret models/tiny"}};
    run.gpus = {kPci};
    run.change_gpu = [](GpuFacts& gpu) {
      gpu.uuid = kUuid;
      gpu.name = "NVIDIA H200";
    };
    run.change_sitting = [](SittingRecord& sitting) {
      sitting.machine["hostname"] = kHost;
      sitting.machine["kernel"] = std::string("Linux ") + kRelease + " x86_64";
      sitting.machine["cpu_model"] = "AMD EPYC 9R14";
    };
    write_simulated_ledger(run, folder_ / "run");
    // What launches say of their machine: the simulation has none.
    Connection connection(folder_ / "run" / kLedgerFile, OpenMode::kCreate, "");
    Statement(connection, "UPDATE launches SET program = ?, last_words = ?")
        .bind(Json({std::string("/home/") + kUser + "/build/bin/worker", "--cache=/opt/engines/cache"}).dump())
        .bind(std::string("cannot read '/opt/engines/a.bin' on ") + kHost + ": " + kUuid)
        .run();
  }
  void TearDown() override {
    if (!HasFailure()) fs::remove_all(folder_);
  }

  // Which of the secrets the files hold: file and secret.
  [[nodiscard]] std::vector<std::string> found_in(const fs::path& folder) const {
    std::vector<std::string> found;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      const std::string bytes = read_text_file(entry.path());
      for (const std::string& secret : secrets())
        if (bytes.find(secret) != std::string::npos) found.push_back(entry.path().filename().string() + ": " + secret);
    }
    return found;
  }
};

TEST_F(Export, HasEveryTableTheReportAndFiguresForPrint) {
  const Exported exported = export_run(folder_ / "run", folder_ / "out");
  EXPECT_THAT(exported.missing, IsEmpty());
  EXPECT_EQ(exported.files.front(), folder_ / "out" / "README.md");
  for (const fs::path& file : exported.files) EXPECT_GT(fs::file_size(file), 0U) << file;
  for (const char* name : {"report.html", "tables.tex", "methods.txt", "findings.json", "verdict.json", "ledger.json",
                           "ledger.sqlite", "figures/effects.svg", "figures/effects.pdf", "figures/effects.png",
                           "ledger/runs.csv", "ledger/rounds.csv", "ledger/texts_lists.csv", "ledger/samples.csv"})
    EXPECT_TRUE(fs::exists(folder_ / "out" / name)) << name;
  EXPECT_EQ(read_text_file(folder_ / "out" / "figures/effects.pdf").substr(0, 5), "%PDF-");
  EXPECT_EQ(read_text_file(folder_ / "out" / "figures/effects.png").substr(1, 3), "PNG");
  const Json ledger = read_json_file(folder_ / "out" / "ledger.json");
  EXPECT_EQ(ledger["tables"]["rounds"][0]["duration_ns"].size(), 8U);
  EXPECT_EQ(ledger["tables"]["sittings"][0]["machine"]["hostname"], kHost);
}

TEST_F(Export, TablesAreTidyAndWhole) {
  const std::vector<LedgerTable> tables = read_ledger_tables(folder_ / "run" / kLedgerFile);
  std::map<std::string, CsvFile> files;
  for (const LedgerTable& table : tables)
    for (const CsvFile& file : csv_of(table)) files[file.name] = file;
  // 2 arms, a warm-up and 5 runs each in their own block, 4 prompts, 8 rounds.
  EXPECT_EQ(files.at("runs.csv").lines, 20U);
  EXPECT_EQ(files.at("prompt_results.csv").lines, 80U);
  EXPECT_EQ(files.at("rounds.csv").lines, 640U);
  EXPECT_THAT(files.at("rounds.csv").content,
              testing::StartsWith("run_id,position,count,nodes,drafted,cut,draft_ns,tree_ns,verify_ns,accept_ns,"
                                  "commit_ns,index,duration_ns,tokens,spun_ns\r\n1,0,8,,,,,,,,,0,"));
  EXPECT_THAT(files.at("texts_lists.csv").content, HasSubstr("\r\n1,tokens,3,103\r\n"));
}

TEST_F(Export, AnonymousHoldsNoNameAndTheSameNumbers) {
  static_cast<void>(export_run(folder_ / "run", folder_ / "open"));
  const Exported exported = export_run(folder_ / "run", folder_ / "out", {.anonymise = true});
  EXPECT_THAT(found_in(folder_ / "out"), IsEmpty());
  // Positive control: without the flag every one of them is found, in the ledger and in what is made from it.
  const std::vector<std::string> open = found_in(folder_ / "open");
  for (const std::string& secret : secrets()) {
    if (secret == "0000:1b:00.0") continue;  // another spelling of kPci, which the simulation does not use
    EXPECT_THAT(open, Contains("ledger.sqlite: " + secret));
    EXPECT_THAT(open, Contains("ledger.json: " + secret));
  }
  EXPECT_THAT(open, Contains(std::string("report.html: ") + kHost));
  EXPECT_THAT(open, Contains(std::string("report.html: ") + kRelease));

  EXPECT_EQ(exported.taken_out.at("host"), 1U);
  EXPECT_EQ(exported.taken_out.at("kernel"), 1U);
  EXPECT_EQ(exported.taken_out.at("gpu"), 1U);
  EXPECT_EQ(exported.taken_out.at("pci"), 1U);
  EXPECT_THAT(exported.taken_out, Contains(Key("user")));
  EXPECT_THAT(exported.taken_out, Contains(Key("dir")));
  const Json before = read_json_file(folder_ / "open" / "findings.json");
  const Json after = read_json_file(folder_ / "out" / "findings.json");
  EXPECT_EQ(after["effects"], before["effects"]);
  EXPECT_EQ(after["runs"], before["runs"]);
  EXPECT_EQ(after["conditions"]["hostname"], "host-1");
  EXPECT_EQ(after["conditions"]["kernel"], "Linux kernel-1 x86_64");
  EXPECT_EQ(after["conditions"]["cpu"], "AMD EPYC 9R14");
  EXPECT_THAT(after["description"], HasSubstr("on host-1, see dir-"));
  EXPECT_EQ(read_text_file(folder_ / "out" / "effects.csv").find("6.1.0"), std::string::npos);
}

TEST_F(Export, NothingIsOverwritten) {
  write_file_atomically(folder_ / "note", "mine");
  EXPECT_THROW(static_cast<void>(export_run(folder_ / "run", folder_ / "run")), Error);
  EXPECT_THROW(static_cast<void>(export_run(folder_ / "run", folder_)), Error);
  EXPECT_EQ(read_text_file(folder_ / "note"), "mine");
  EXPECT_THROW(static_cast<void>(export_run(folder_, folder_ / "out")), Error);  // no ledger
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST(Anonymiser, TheSameIsTheSameWordAndOtherWordsStay) {
  Anonymiser anonymiser({}, {"ann", "root"});
  EXPECT_EQ(anonymiser.text("ann, anna and joann: root node"), "user-1, anna and joann: root node");
  EXPECT_EQ(anonymiser.text("/srv/models/a"), "dir-1/a");
  EXPECT_EQ(anonymiser.text("open '/srv/models/b', not ../models/a or tok/s or 3 / 4"),
            "open 'dir-1/b', not ../models/a or tok/s or 3 / 4");
  EXPECT_EQ(anonymiser.text("/my models/a b.bin"), "dir-2/a b.bin");
  EXPECT_EQ(anonymiser.text("GPU 0000:1B:00.0 and 00000000:1b:00.0, not 0000:9b:00.0"),
            "GPU pci-1 and pci-1, not pci-2");
  EXPECT_EQ(anonymiser.text("2026-11-29T15:04:05.1Z"), "2026-11-29T15:04:05.1Z");
}

}  // namespace
}  // namespace tare::harness

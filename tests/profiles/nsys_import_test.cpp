#include "profiles/nsys/nsys_import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "tests/profiles/nsys_fixture.h"

namespace tare::profiles {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const NsysSchema kNewest = known_schemas().back();

class NsysImport : public testing::Test {
 protected:
  fs::path folder_;

  void SetUp() override {
    const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(info->test_suite_name()) + "-" + info->name();
    for (char& character : name)
      if (character == '/') character = '-';
    folder_ = fs::path(testing::TempDir()) / ("tare-" + name);
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] fs::path file() const { return folder_ / "capture.sqlite"; }
  [[nodiscard]] NsysProfile import(const NsysSettings& settings = {}) const { return import_nsys(file(), settings); }

  // The message and hint of the error that importing gives.
  [[nodiscard]] std::string fault(ErrorKind kind, const NsysSettings& settings = {}) const {
    try {
      (void)import(settings);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(file().string()));
      EXPECT_NE(error.parts().hint, "") << error.what();
      return std::string(error.what()) + " | " + error.parts().hint;
    }
    ADD_FAILURE() << "no error";
    return {};
  }
};

const KernelRow& row_of(const NsysProfile& profile, const std::string& kernel, const std::string& part) {
  for (const KernelRow& row : profile.rows)
    if (row.kernel == kernel && row.part == part) return row;
  throw std::runtime_error("no row " + kernel + " " + part);
}

void expect_row(const NsysProfile& profile, const std::string& kernel, const std::string& part, double calls, double us,
                double duration_us) {
  const KernelRow& row = row_of(profile, kernel, part);
  EXPECT_NEAR(row.calls, calls, 1e-9) << kernel;
  EXPECT_NEAR(row.us, us, 1e-9) << kernel;
  EXPECT_NEAR(row.duration_us, duration_us, 1e-9) << kernel;
}

// Rows and idle time are the span, in every table.
void expect_adds_up(const RoundTable& table) {
  double sum = table.idle_us;
  for (const KernelRow& row : table.rows) sum += row.us;
  EXPECT_NEAR(sum, table.span_us, 1e-6 * table.span_us);
}

class NsysSchemas : public NsysImport, public testing::WithParamInterface<NsysSchema> {};

TEST_P(NsysSchemas, GiveTheSameTable) {
  const NsysSchema& schema = GetParam();
  write_decode_capture(file(), schema);
  const NsysProfile profile = import();
  EXPECT_EQ(profile.schema_version, schema.version);
  EXPECT_EQ(profile.rounds.size(), 5U);
  EXPECT_EQ(profile.records, 5 * 21U);
  EXPECT_NEAR(profile.kernels_only, 20, 1e-9);
  EXPECT_NEAR(profile.span_us, 342, 1e-9);
  EXPECT_NEAR(profile.idle_us, 156, 1e-9);
  EXPECT_THAT(profile.range_us, ElementsAre(900, 900, 900, 900, 900));
  expect_adds_up(profile);
  EXPECT_THAT(profile.warnings, IsEmpty());
  // The prompt's three kernels, the other thread's, and the other process's where processes are told apart.
  EXPECT_EQ(profile.outside, 3U + 5U + (schema.process ? 5U : 0U));
  const std::string product = schema.demangled || schema.mangled ? "product<16>" : "product";
  const std::string beneath_attention = schema.graph_nodes ? "verify/attention" : "verify";
  const std::string beneath_mlp = schema.graph_nodes ? "verify/mlp" : "verify";
  expect_row(profile, "draft_step", "draft", 4, 24, 24);
  expect_row(profile, product, beneath_attention, 8, 80, 80 + 7 * 3);
  expect_row(profile, "norm", beneath_mlp, 8, 80, 80 + 8 * 3);
  expect_row(profile, "[memcpy DtoH]", "verify", 1, 2, 2);
  EXPECT_NEAR(row_of(profile, "[memcpy DtoH]", "verify").declared_bytes, 64, 1e-9);
  EXPECT_EQ(profile.rows.size(), 4U);
  const std::vector<PhaseRow> phases = phases_of(profile);
  ASSERT_EQ(phases.size(), 2U);
  EXPECT_EQ(phases[0].phase, "verify");
  EXPECT_NEAR(phases[0].us, 162, 1e-9);
  EXPECT_NEAR(phases[0].calls, 17, 1e-9);
  EXPECT_NEAR(phases[1].us, 24, 1e-9);
}

TEST_P(NsysSchemas, LeaveOutARoundThatTheEndCutOff) {
  write_decode_capture(file(), GetParam(), {.last_round_open = true});
  const NsysProfile profile = import();
  EXPECT_EQ(profile.rounds.size(), 4U);
  EXPECT_NEAR(profile.span_us, 342, 1e-9);
  EXPECT_THAT(profile.warnings, ElementsAre(HasSubstr("1 rounds were open when the recording ended")));
}

TEST_P(NsysSchemas, RefuseGraphsRecordedWhole) {
  write_decode_capture(file(), GetParam(), {.whole_graphs = true});
  EXPECT_THAT(fault(ErrorKind::kInvalid), AllOf(HasSubstr("5 graph launches of the rounds were recorded whole"),
                                                HasSubstr("--cuda-graph-trace=node")));
}

INSTANTIATE_TEST_SUITE_P(All, NsysSchemas, testing::ValuesIn(known_schemas()), [](const auto& info) {
  std::string name = "schema_" + info.param.version;
  for (char& character : name)
    if (character == '.') character = '_';
  return name;
});

// Either sign is enough: the table of whole graphs, or launches of graphs that no kernel belongs to.
TEST_F(NsysImport, KnowsWholeGraphsByEitherSign) {
  for (const char* hide : {"ALTER TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE RENAME TO kept",
                           "UPDATE StringIds SET value = 'call' WHERE value LIKE 'cudaGraphLaunch%'"}) {
    fs::remove(file());
    write_decode_capture(file(), kNewest, {.whole_graphs = true}, [&](NsysWriter& out) { out.execute(hide); });
    EXPECT_THAT(fault(ErrorKind::kInvalid), HasSubstr("5 graph launches of the rounds were recorded whole")) << hide;
  }
}

// What a range does not name is found by its beginning; ranges of any thread's making are the process's.
TEST_F(NsysImport, FindsRoundsByTheBeginningOfTheirNames) {
  write_decode_capture(file(), kNewest, {.round_name = "step 17"});
  EXPECT_EQ(import({.round_range = "step *"}).rounds.size(), 5U);
  EXPECT_THAT(fault(ErrorKind::kInput, {.round_range = "step"}), HasSubstr("no NVTX range is called 'step'"));
  EXPECT_THAT(fault(ErrorKind::kInput), AllOf(HasSubstr("no NVTX range is called 'round'"), HasSubstr("--round-range"),
                                              HasSubstr("'attention' (8 times)"), HasSubstr("'step 17' (5 times)")));
}

TEST_F(NsysImport, FindsRoundsOfStartedRanges) {
  write_decode_capture(file(), kNewest, {.round_type = NsysWriter::kStartEnd});
  const NsysProfile profile = import();
  EXPECT_EQ(profile.rounds.size(), 5U);
  // A started range is open on every thread: the other one's kernel belongs to it now.
  EXPECT_NEAR(profile.kernels_only, 21, 1e-9);
  expect_row(profile, "norm", "detokenize", 1, 50, 50);
  expect_row(profile, "norm", "verify/mlp", 8, 80, 104);
}

TEST_F(NsysImport, CountsARoundWithinARoundOnce) {
  write_decode_capture(file(), kNewest, {}, [](NsysWriter& out) {
    for (int round = 0; round < 5; ++round) {
      const std::int64_t base = kFirstRoundNs + round * kRoundNs;
      out.range(base + 101'000, base + 790'000, "round");
    }
  });
  const NsysProfile profile = import();
  EXPECT_EQ(profile.rounds.size(), 5U);
  EXPECT_NEAR(profile.kernels_only, 20, 1e-9);
  EXPECT_THAT(profile.warnings, ElementsAre(HasSubstr("5 ranges of that name launched nothing")));
}

TEST_F(NsysImport, LeavesOutWarmRounds) {
  write_decode_capture(file(), kNewest, {.rounds = 6, .draft_kernels = 10});
  EXPECT_EQ(import({.skip_rounds = 2}).rounds.size(), 4U);
  EXPECT_THAT(fault(ErrorKind::kInput, {.skip_rounds = 6}), HasSubstr("no round is left: 6 were found and 6 skipped"));
}

TEST_F(NsysImport, SaysWhenRoundsAreUnlike) {
  write_decode_capture(file(), kNewest, {.draft_kernels = 10});
  const NsysProfile profile = import();
  EXPECT_EQ(profile.fewest_kernels, 20);
  EXPECT_EQ(profile.most_kernels, 26);
  EXPECT_THAT(profile.warnings, ElementsAre(HasSubstr("rounds launch from 20 to 26 kernels")));
}

TEST_F(NsysImport, RefusesRoundsOfTooFewKernels) {
  write_decode_capture(file(), kNewest);
  EXPECT_THAT(fault(ErrorKind::kInvalid, {.least_kernels = 21}),
              AllOf(HasSubstr("20.0 kernels a round in 5 rounds: too few"), HasSubstr("--cuda-graph-trace=node"),
                    HasSubstr("--least-kernels")));
  EXPECT_EQ(import({.least_kernels = 20}).rounds.size(), 5U);
}

// 5 rounds of 20 kernels, 3 of the prompt, 5 + 5 of others: 113; without ranges all of them are cut.
TEST_F(NsysImport, CutsEqualParts) {
  write_decode_capture(file(), kNewest);
  EXPECT_THAT(fault(ErrorKind::kInvalid, {.equal_rounds = 5}), HasSubstr("113 kernels do not divide into 5 rounds"));
  fs::remove(file());
  write_decode_capture(file(), kNewest, {}, [](NsysWriter& out) {
    for (int i = 0; i < 2; ++i)
      out.kernel({.start_ns = 1'000 + i * 1'000, .end_ns = 1'500 + i * 1'000, .correlation = 1, .short_name = "warm"});
  });
  const NsysProfile profile = import({.equal_rounds = 5, .skip_rounds = 1});
  EXPECT_EQ(profile.rounds.size(), 4U);
  EXPECT_EQ(profile.kernels_only, 23);
  EXPECT_THAT(profile.range_us, IsEmpty());
  expect_adds_up(profile);
  fs::remove(file());
  write_decode_capture(file(), kNewest, {.whole_graphs = true});
  EXPECT_THAT(fault(ErrorKind::kInvalid, {.equal_rounds = 5}), HasSubstr("5 graph launches were recorded whole"));
}

TEST_F(NsysImport, NeedsADeviceWhereThereAreSeveral) {
  write_decode_capture(file(), kNewest, {}, [](NsysWriter& out) {
    out.call(kFirstRoundNs + 60'000, 9'001, "cudaLaunchKernel");
    out.kernel({.start_ns = kFirstRoundNs + 70'000,
                .end_ns = kFirstRoundNs + 80'000,
                .correlation = 9'001,
                .signature = "reduce(float *)",
                .device = 1});
  });
  EXPECT_THAT(fault(ErrorKind::kInput),
              AllOf(HasSubstr("ran on 2 devices: 0 (100 kernels), 1 (1 kernels)"), HasSubstr("--device")));
  EXPECT_NEAR(import({.device = 0}).span_us, 342, 1e-9);
  const NsysProfile other = import({.device = 1, .least_kernels = 1});
  EXPECT_EQ(other.rounds.size(), 1U);
  EXPECT_EQ(other.rows.at(0).kernel, "reduce");
  EXPECT_THAT(other.warnings, ElementsAre(HasSubstr("4 ranges of that name launched nothing on device 1")));
  EXPECT_THAT(fault(ErrorKind::kInput, {.device = 3}), HasSubstr("no kernel of the rounds ran on device 3"));
}

TEST_F(NsysImport, ShowsFillsOverheadAndComplaints) {
  write_decode_capture(file(), kNewest, {}, [](NsysWriter& out) {
    out.call(kFirstRoundNs + 160'000, 9'001, "cudaMemsetAsync");
    out.fill(kFirstRoundNs + 362'000, kFirstRoundNs + 372'000, 9'001, 4096);
    out.overhead(kFirstRoundNs - 50'000, kFirstRoundNs + 25'000);  // half of it before the first round
    out.overhead(1'000, 2'000);
    out.diagnostic(1, "for information");
    out.diagnostic(2, "Some events were dropped");
  });
  const NsysProfile profile = import();
  expect_row(profile, "[memset]", "verify", 0.2, 2, 2);
  EXPECT_NEAR(profile.overhead_us, 25.0 / 5, 1e-9);
  EXPECT_THAT(profile.warnings, ElementsAre("Nsight Systems says: Some events were dropped"));
}

// A kernel of a round whose times cannot be true: not collected, backwards, or still running when 100 ms of its stream
// have gone on.
TEST_F(NsysImport, RefusesTimesThatCannotBeTrue) {
  const std::int64_t at = kFirstRoundNs + 364'000;
  const std::pair<std::int64_t, std::int64_t> good{at, at + 1'000};
  const std::pair<std::int64_t, std::int64_t> bad[] = {{0, 0}, {at, at - 1}, {at, at + 150'000'000}};
  const auto write = [&](std::pair<std::int64_t, std::int64_t> times) {
    fs::remove(file());
    write_decode_capture(file(), kNewest, {.rounds = 60}, [&](NsysWriter& out) {
      out.call(kFirstRoundNs + 160'000, 9'001, "cudaLaunchKernel");
      out.kernel({.start_ns = times.first, .end_ns = times.second, .correlation = 9'001, .signature = "odd(int)"});
    });
  };
  write(good);
  expect_row(import(), "odd", "verify", 1.0 / 60, 1.0 / 60, 1.0 / 60);
  for (const auto& times : bad) {
    write(times);
    EXPECT_THAT(fault(ErrorKind::kInvalid), HasSubstr("1 kernels and copies of the rounds have no valid times"));
  }
}

TEST_F(NsysImport, NamesWhatHasNoName) {
  write_decode_capture(file(), kNewest, {}, [](NsysWriter& out) {
    out.call(kFirstRoundNs + 160'000, 9'001, "cudaLaunchKernel");
    out.kernel({.start_ns = kFirstRoundNs + 364'000, .end_ns = kFirstRoundNs + 365'000, .correlation = 9'001});
    // Names are lost: ids that lead nowhere, and control characters that would break a terminal's line.
    out.execute("UPDATE StringIds SET value = 'a' || char(10) || 'b' WHERE value = 'draft_step(float *)'");
    out.execute("DELETE FROM StringIds WHERE value LIKE 'tare::norm%' OR value LIKE '_ZN4tare4norm%'");
    out.execute("DELETE FROM StringIds WHERE value = 'norm'");
  });
  const NsysProfile profile = import();
  std::vector<std::string> names;
  for (const KernelRow& row : profile.rows) names.push_back(row.kernel);
  EXPECT_THAT(names, testing::IsSupersetOf({std::string("product<16>"), std::string("a b")}));
  EXPECT_EQ(std::count_if(names.begin(), names.end(),
                          [](const std::string& name) { return name.starts_with("<unknown kernel #"); }),
            2);
}

TEST_F(NsysImport, RefusesCorrelationsThatNameNoProcessWhenThereAreSeveral) {
  NsysSchema schema = kNewest;
  schema.process = false;
  write_decode_capture(file(), schema, {}, [](NsysWriter& out) {
    out.call(kFirstRoundNs, 11, "cudaLaunchKernel", NsysWriter::kOtherPid, NsysWriter::kOtherPid);
  });
  EXPECT_THAT(fault(ErrorKind::kInput), HasSubstr("calls come from 2 processes"));
}

TEST_F(NsysImport, SaysWhatWasNotRecorded) {
  const auto without = [&](const std::vector<std::string>& tables) {
    fs::remove(file());
    write_decode_capture(file(), kNewest, {}, [&](NsysWriter& out) {
      for (const std::string& table : tables) out.execute("ALTER TABLE " + table + " RENAME TO kept_" + table);
    });
  };
  without({});
  EXPECT_EQ(import().rounds.size(), 5U);
  without({"CUPTI_ACTIVITY_KIND_KERNEL"});
  EXPECT_THAT(fault(ErrorKind::kInput), AllOf(HasSubstr("holds no kernels"), HasSubstr("--trace=cuda,nvtx")));
  without({"NVTX_EVENTS"});
  EXPECT_THAT(fault(ErrorKind::kInput), AllOf(HasSubstr("no NVTX ranges"), HasSubstr("--equal-rounds")));
  without({"CUPTI_ACTIVITY_KIND_RUNTIME"});
  EXPECT_THAT(fault(ErrorKind::kInput), HasSubstr("no calls of the CUDA API"));
  without({"StringIds", "META_DATA_EXPORT"});
  EXPECT_THAT(fault(ErrorKind::kInput), HasSubstr("no export of Nsight Systems"));
}

TEST_F(NsysImport, SaysWhenARangeLaunchesNothing) {
  write_decode_capture(file(), kNewest);
  EXPECT_THAT(fault(ErrorKind::kInvalid, {.round_range = "attention"}),
              HasSubstr("no kernel was launched within a range 'attention'"));
}

TEST_F(NsysImport, RefusesSchemasThatItDoesNotKnow) {
  NsysSchema schema = kNewest;
  for (const char* version : {"4.0.0", "0.9", "x"}) {
    fs::remove(file());
    schema.version = version;
    write_decode_capture(file(), schema);
    EXPECT_THAT(fault(ErrorKind::kInput),
                AllOf(HasSubstr("has export schema '" + schema.version + "'"), HasSubstr("another release")));
  }
  fs::remove(file());
  write_decode_capture(file(), kNewest, {}, [](NsysWriter& out) {
    out.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN correlationId TO requestId");
  });
  EXPECT_THAT(fault(ErrorKind::kInput), HasSubstr("table CUPTI_ACTIVITY_KIND_KERNEL has no column correlationId"));
}

TEST_F(NsysImport, RefusesWhatIsNoWholeDatabase) {
  EXPECT_THROW((void)import(), Error);
  std::ofstream(file()).close();
  EXPECT_THAT(fault(ErrorKind::kInput), HasSubstr("is an empty database"));
  write_file_atomically(file(),
                        "this is a report, not its export; long enough to have a header of 100 bytes in it, is it?\n");
  EXPECT_THAT(fault(ErrorKind::kInput), HasSubstr("nsys export --type sqlite"));
  fs::remove(file());
  write_decode_capture(file(), kNewest, {.rounds = 400});
  EXPECT_EQ(import().rounds.size(), 400U);
  const std::string whole = read_text_file(file());
  for (const double part : {0.999, 0.7, 0.2, 0.01}) {
    write_file_atomically(file(), whole.substr(0, static_cast<std::size_t>(static_cast<double>(whole.size()) * part)));
    EXPECT_THAT(fault(ErrorKind::kInput), AllOf(HasSubstr("is cut short"), HasSubstr("copies must be whole"))) << part;
  }
  write_file_atomically(file(), whole.substr(0, 60));
  EXPECT_THAT(fault(ErrorKind::kInput), HasSubstr("SQLite says"));
  // A page in the middle overwritten: the size is right.
  std::string damaged = whole;
  constexpr std::size_t kPage = 4096;
  for (std::size_t page = 3; page + 1 < damaged.size() / kPage; ++page) damaged.replace(page * kPage, 8, 8, '\xff');
  write_file_atomically(file(), damaged);
  EXPECT_THAT(fault(ErrorKind::kInput), HasSubstr("SQLite says"));
}

TEST_F(NsysImport, RefusesAFolder) {
  fs::create_directories(file());
  EXPECT_THAT(fault(ErrorKind::kInput), HasSubstr("is no file"));
}

}  // namespace
}  // namespace tare::profiles

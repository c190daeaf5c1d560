// tare nsys on made-up exports, scripts/nsys-run with a made-up nsys, and our ranges as a tool sees them.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "tests/e2e/workspace.h"
#include "tests/profiles/nsys_fixture.h"

namespace tare::e2e {
namespace {

namespace fs = std::filesystem;
using profiles::known_schemas;
using profiles::write_decode_capture;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class Nsys : public Workspace {
 protected:
  [[nodiscard]] Finished nsys(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {tare(), "nsys"});
    return run(arguments, folder_);
  }
  void capture(const profiles::DecodeCapture& shape = {}) const {
    write_decode_capture(folder_ / "capture.sqlite", known_schemas().back(), shape);
  }
};

TEST_F(Nsys, PrintsTheTable) {
  capture();
  const Finished result = nsys({"capture.sqlite"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("     80.00     8.0          -        -   23.4%  product<16>  verify/attention"),
                    HasSubstr("    156.00                               45.6%  idle between kernels"),
                    HasSubstr("\nphases: verify 162.0 us, draft 24.0 us\n5 rounds (range 'round') on device 0, 20.0 "
                              "kernels a round, 900.0 us on the host"),
                    HasSubstr("13 kernels and copies outside of rounds")));
}

TEST_F(Nsys, WritesJsonWhoseRowsAddUp) {
  capture();
  const Finished result = nsys({"capture.sqlite", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = parse_json(result.out, "output");
  double sum = json.at("idle_us");
  for (const Json& row : json.at("rows")) sum += row.at("us_per_round").get<double>();
  EXPECT_NEAR(sum, json.at("span_us").get<double>(), 1e-6);
  EXPECT_NEAR(sum, 342, 1e-6);
  EXPECT_EQ(json.at("rounds"), 5);
  EXPECT_EQ(json.at("range_us").size(), 5U);
  EXPECT_EQ(json.at("schema_version"), "3.25.0");
  EXPECT_TRUE(json.at("warnings").empty());
}

TEST_F(Nsys, DrawsATrace) {
  capture();
  const Finished result = nsys({"capture.sqlite", "--trace", "trace.json", "--trace-rounds", "2"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("ui.perfetto.dev"));
  const Json trace = read_json_file(folder_ / "trace.json");
  EXPECT_EQ(trace.at("otherData").at("rounds"), 5);
  std::size_t kernels = 0;
  for (const Json& event : trace.at("traceEvents")) kernels += event.value("cat", "") == "kernel" ? 1 : 0;
  EXPECT_EQ(kernels, 2 * 21U);
}

// Wrong or poor input: exit code 2, one error with the file's name, a hint. The same file passes without the fault.
TEST_F(Nsys, SaysWhatIsWrong) {
  capture({.whole_graphs = true});
  const auto expect_fault = [](const Finished& result, const std::string& error, const std::string& hint) {
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(result.err, AllOf(testing::StartsWith("error: capture.sqlite: "), HasSubstr(error), HasSubstr("hint: "),
                                  HasSubstr(hint)));
  };
  expect_fault(nsys({"capture.sqlite"}), "recorded whole", "--cuda-graph-trace=node");
  fs::remove(folder_ / "capture.sqlite");
  capture();
  expect_fault(nsys({"capture.sqlite", "--round-range", "step"}), "no NVTX range is called 'step'",
               "'round' (5 times)");
  expect_fault(nsys({"capture.sqlite", "--equal-rounds", "7"}), "113 kernels do not divide into 7 rounds",
               "rounds that launch different kernels");
  expect_fault(nsys({"capture.sqlite", "--least-kernels", "100"}), "20.0 kernels a round", "--least-kernels");
  const std::string whole = read_text_file(folder_ / "capture.sqlite");
  write("capture.sqlite", whole.substr(0, whole.size() / 2));
  expect_fault(nsys({"capture.sqlite"}), "is cut short", "nsys export --type sqlite");
  write("capture.sqlite", "");
  expect_fault(nsys({"capture.sqlite"}), "is an empty database", "nsys export --type sqlite");
  write("capture.sqlite", whole);
  EXPECT_EQ(nsys({"capture.sqlite"}).code, 0);
  EXPECT_EQ(nsys({"nothing.sqlite"}).code, 2);
  EXPECT_EQ(nsys({"capture.sqlite", "--equal-rounds", "0"}).code, 2);
  EXPECT_EQ(nsys({}).code, 2);
}

TEST_F(Nsys, WarnsOnStandardError) {
  capture({.last_round_open = true});
  const Finished result = nsys({"capture.sqlite", "--json"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("warning: 1 rounds were open"));
  EXPECT_EQ(parse_json(result.out, "output").at("warnings").size(), 1U);
}

// Stands for nsys: notes its arguments, runs the program, writes what nsys would.
class NsysRun : public Workspace {
 protected:
  void SetUp() override {
    Workspace::SetUp();
    fs::create_directories(folder_ / "bin");
    const std::string script = write("bin/nsys", R"(#!/bin/sh
echo "$@" >>calls
mode=$1; shift
for argument in "$@"; do
  case $argument in
    --output=*) output=${argument#--output=} ;;
    --*) ;;
    *) break ;;
  esac
done
[ -e no-report ] || echo made by "$mode" >"$output"
while [ "$mode" = profile ] && [ $# -gt 0 ]; do
  case $1 in --*) shift ;; *) exec "$@" ;; esac
done
)");
    fs::permissions(script, fs::perms::owner_all);
  }

  [[nodiscard]] Finished record(const std::string& arguments, const std::string& path = "$PWD/bin:$PATH") const {
    return run({"/bin/sh", "-c", "PATH=" + path + "; " + source("scripts/nsys-run") + " " + arguments}, folder_);
  }
};

TEST_F(NsysRun, RecordsNodesAndExports) {
  const Finished result = record("--out here -- echo one two");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("one two"));
  EXPECT_THAT(result.err, HasSubstr("tare nsys here.sqlite"));
  EXPECT_EQ(read_text_file(folder_ / "here.nsys-rep"), "made by profile\n");
  EXPECT_EQ(read_text_file(folder_ / "here.sqlite"), "made by export\n");
  EXPECT_THAT(read_text_file(folder_ / "calls"),
              AllOf(HasSubstr("--cuda-graph-trace=node"), HasSubstr("--trace=cuda,nvtx"),
                    HasSubstr("export --type=sqlite"), HasSubstr("--output=here.nsys-rep echo one two\n")));
}

TEST_F(NsysRun, KeepsWhatIsThereUnlessForced) {
  EXPECT_EQ(record("--out here true").code, 0);
  const Finished refused = record("--out here true");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("error: here.nsys-rep is there already"), HasSubstr("--force")));
  EXPECT_EQ(record("--out here --force true").code, 0);
}

TEST_F(NsysRun, SaysWhatIsMissing) {
  const Finished without = record("true", "/usr/bin:/bin");
  EXPECT_EQ(without.code, 4);
  EXPECT_THAT(without.err, AllOf(HasSubstr("error: nsys was not found"), HasSubstr("hint: ")));
  write("no-report", "");
  const Finished empty = record("true");
  EXPECT_EQ(empty.code, 4);
  EXPECT_THAT(empty.err, HasSubstr("error: nsys wrote no report nsys-capture.nsys-rep"));
  EXPECT_EQ(record("").code, 2);
  EXPECT_EQ(record("--wrong true").code, 2);
  EXPECT_EQ(record("--out").code, 2);
}

TEST_F(NsysRun, EndsAsTheProgramDid) {
  const Finished result = record("sh -c 'exit 7'");
  EXPECT_EQ(result.code, 7);
  EXPECT_THAT(result.err, HasSubstr("warning: the program ended with exit code 7"));
  EXPECT_TRUE(fs::exists(folder_ / "nsys-capture.sqlite"));
}

TEST_F(NsysRun, TellsItsUsage) {
  const Finished help = record("--help", "/usr/bin:/bin");
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("scripts/nsys-run [--out NAME]"), HasSubstr("Exit code"),
                              testing::Not(HasSubstr("set -euo"))));
}

// Ranges go to a tool that listens, from the program itself and from a worker; without one there are none.
#ifdef TARE_FAKE_NVTX
TEST_F(Nsys, SeesOurRanges) {
  const std::string generate = tare() + " generate --model " + source("models/embedded") +
                               " --prompt 'The server' --max-tokens 4 --set cpu.threads=1";
  const std::string tool = "FAKE_NVTX_LOG=ranges NVTX_INJECTION64_PATH=" TARE_FAKE_NVTX " ";
  ASSERT_EQ(run({"/bin/sh", "-c", "FAKE_NVTX_LOG=ranges " + generate}, folder_).code, 0);
  EXPECT_FALSE(fs::exists(folder_ / "ranges"));
  ASSERT_EQ(run({"/bin/sh", "-c", tool + generate}, folder_).code, 0);
  const std::string round = "round\n  verify\n  commit\n";
  EXPECT_THAT(read_text_file(folder_ / "ranges"), testing::EndsWith("\nprefill\n" + round + round + round));

  fs::remove(folder_ / "ranges");
  const std::string experiment = write(small_experiment());
  ASSERT_EQ(run({"/bin/sh", "-c", tool + tare() + " run " + experiment + " --out out"}, folder_).code, 0);
  EXPECT_THAT(read_text_file(folder_ / "ranges"), HasSubstr("prefill\n" + round + round + round));
}
#endif

}  // namespace
}  // namespace tare::e2e

// A GPU in the ledger and the report, and the doctor, with a library that says it is NVML; and all of it without one.
#include <gmock/gmock.h>

#include "harness/ledger/ledger.h"
#include "tests/e2e/workspace.h"
#include "tests/harness/fake_nvml/fake_gpu.h"

namespace tare::e2e {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

class EnvironmentOfRuns : public Workspace {
 protected:
  // Our worker, saying that it uses the fake's GPU: the backend that would say so itself needs a real one.
  [[nodiscard]] Json experiment_on_gpu() const {
    Json experiment = small_experiment();
    experiment["prompts"]["limit"] = 8;
    experiment["texts"]["max_tokens"] = 128;
    experiment["environment"] = {{"sampler_hz", 10}};
    const std::string command = tare() +
                                R"( worker | sed -u 's/"description":{/"description":{"device":{"pci_bus_id":")" +
                                harness::kFakeGpu + R"("},/')";
    for (Json& arm : experiment["arms"]) arm["program"] = {"sh", "-c", command};
    return experiment;
  }
  [[nodiscard]] Finished with_gpu(const std::filesystem::path& script, std::vector<std::string> argv) const {
    std::vector<std::string> all = {"/usr/bin/env", "LD_LIBRARY_PATH=" + std::string(TARE_BINARY_DIR) + "/fake_nvml",
                                    "FAKE_NVML=" + script.string()};
    all.insert(all.end(), argv.begin(), argv.end());
    return run(all, folder_);
  }
  [[nodiscard]] harness::Ledger ledger() const {
    return harness::Ledger::open_for_reading(folder_ / "out" / harness::kLedgerFile);
  }
  [[nodiscard]] std::vector<std::string> warning_codes() const {
    std::vector<std::string> codes;
    const Json findings = read_json_file(folder_ / "out" / "findings.json");
    for (const Json& warning : findings["warnings"]) codes.push_back(warning["code"]);
    return codes;
  }
  [[nodiscard]] static Json check_of(const Json& diagnosis, const std::string& name) {
    for (const Json& check : diagnosis["checks"])
      if (check["name"] == name) return check;
    ADD_FAILURE() << "no check " << name;
    return Json::object();
  }
};

TEST_F(EnvironmentOfRuns, TheGpuThatTheWorkerNamesIsReadBeforeDuringAndAfter) {
  harness::FakeGpu gpu(folder_ / "gpu.txt");
  gpu.set("power_limit", "400000");
  const Finished result = with_gpu(gpu.script(), {tare(), "run", write(experiment_on_gpu()), "--out", "out"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto gpus = ledger().gpus();
  ASSERT_EQ(gpus.size(), 1U);
  EXPECT_EQ(gpus[0].facts.name, "Fake GPU 0000:01:00.0");
  EXPECT_THAT(gpus[0].facts.missing, IsEmpty());
  std::map<std::string, int> kinds;
  for (const harness::StoredSample& stored : ledger().samples()) {
    ++kinds[stored.kind];
    ASSERT_TRUE(stored.sample.gpu) << stored.kind;
    EXPECT_EQ(stored.sample.gpu->sm_clock_mhz, 1980);
    EXPECT_EQ(stored.sample.gpu->other_processes.has_value(), stored.kind != "sampler");
  }
  EXPECT_EQ(kinds["before"], 9);  // eight runs and a warm-up
  EXPECT_EQ(kinds["after"], 9);
  EXPECT_GT(kinds["sampler"], 0);
  EXPECT_THAT(warning_codes(), Contains("gpu_power_capped"));
  const std::string report = read_text_file(folder_ / "out" / "report.md");
  EXPECT_THAT(report, HasSubstr("GPU SM clock"));
  EXPECT_THAT(report, HasSubstr("Fake GPU"));
}

TEST_F(EnvironmentOfRuns, WithoutNvmlTheRunGoesOnAndSaysWhatIsMissing) {
  Json experiment = experiment_on_gpu();
  experiment["prompts"]["limit"] = 2;
  const Finished result = tare_run(write(experiment));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("no readings of GPU 0000:01:00.0"));
  const auto gpus = ledger().gpus();
  ASSERT_EQ(gpus.size(), 1U);
  ASSERT_EQ(gpus[0].facts.missing.size(), 1U);
  EXPECT_EQ(gpus[0].facts.missing[0].reading, "everything");
  EXPECT_THAT(read_text_file(folder_ / "out" / "report.md"), HasSubstr("GPU 0000:01:00.0: everything"));
}

TEST_F(EnvironmentOfRuns, AnArmWithoutASamplerHasNoSamples) {
  Json experiment = small_experiment();
  experiment["prompts"]["limit"] = 8;
  experiment["texts"]["max_tokens"] = 128;
  experiment["environment"] = {{"sampler_hz", 10}};
  experiment["arms"][1]["sampler_hz"] = 0;
  ASSERT_EQ(tare_run(write(experiment)).code, 0);
  std::map<std::int64_t, std::string> arms;
  for (const harness::RunRecord& run : ledger().runs()) arms[run.id] = run.arm;
  std::map<std::string, int> samples;
  for (const harness::StoredSample& stored : ledger().samples())
    if (stored.kind == "sampler") ++samples[arms.at(*stored.run_id)];
  EXPECT_GT(samples["q8"], 0);
  EXPECT_EQ(samples["q4"], 0);
}

TEST_F(EnvironmentOfRuns, TheDoctorNamesACappedGpuAndSaysSoInItsExitCode) {
  harness::FakeGpu gpu(folder_ / "gpu.txt");
  gpu.set("power_limit", "400000");
  const Finished result = with_gpu(gpu.script(), {tare(), "doctor", "--seconds", "1", "--json"});
  EXPECT_EQ(result.code, 4) << result.err;
  const Json diagnosis = Json::parse(result.out);
  const Json check = check_of(diagnosis, "gpu_power_limit");
  EXPECT_EQ(check["state"], "spoils");
  EXPECT_THAT(check["mend"].get<std::string>(), HasSubstr("nvidia-smi -i 0000:01:00.0 -pl 700"));
  EXPECT_EQ(check_of(diagnosis, "gpu_persistence")["state"], "good");
}

TEST_F(EnvironmentOfRuns, TheDoctorsExitCodeFollowsItsFindings) {
  const Finished result = run({tare(), "doctor", "--seconds", "1", "--json"}, folder_);
  const Json diagnosis = Json::parse(result.out);
  EXPECT_EQ(result.code, diagnosis["spoils"] == 0 ? 0 : 4);
  EXPECT_FALSE(diagnosis["machine"]["usable_cores"].empty());
  const Finished text = run({tare(), "doctor", "--seconds", "1"}, folder_);
  EXPECT_THAT(text.out, testing::AllOf(HasSubstr("neighbours"), HasSubstr("spoil a measurement now")));
  EXPECT_EQ(run({tare(), "doctor", "--seconds", "0"}, folder_).code, 2);
}

}  // namespace
}  // namespace tare::e2e

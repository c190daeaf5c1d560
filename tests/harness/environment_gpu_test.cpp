// NVML through a library of our own making (fake_nvml): mapping, readings, and everything that may be missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "harness/environment/gpu.h"
#include "tests/error_of.h"
#include "tests/harness/fake_nvml/fake_gpu.h"
#include "tests/harness/ledger_rows.h"
#include "tests/harness/test_child.h"

namespace tare::harness {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

const char* const kLibrary = TARE_BINARY_DIR "/fake_nvml/libnvidia-ml.so.1";
const char* const kOldLibrary = TARE_BINARY_DIR "/fake_nvml_old/libnvidia-ml.so.1";

class GpuTest : public testing::Test {
 protected:
  FreshFolder folder_;
  FakeGpu gpu_{folder_.path() / "gpu.txt"};
};

TEST_F(GpuTest, ReadsEverything) {
  gpu_.set("reasons", "12");
  const GpuDevice device = Nvml(kLibrary).device(kFakeGpu);
  EXPECT_EQ(device.facts().name, "Fake GPU 0000:01:00.0");
  EXPECT_EQ(device.facts().uuid, "GPU-0000:01:00.0");
  EXPECT_EQ(device.facts().driver_version, "580.1");
  EXPECT_EQ(device.facts().default_power_limit_w, 700);
  EXPECT_EQ(device.facts().max_sm_clock_mhz, 1980);
  EXPECT_EQ(device.facts().persistence, true);
  EXPECT_THAT(device.facts().missing, IsEmpty());
  const GpuSample sample = device.sample({});
  EXPECT_EQ(sample.pci_bus_id, kFakeGpu);
  EXPECT_EQ(sample.sm_clock_mhz, 1980);
  EXPECT_EQ(sample.memory_clock_mhz, 3201);
  EXPECT_EQ(sample.temperature_c, 41);
  EXPECT_EQ(sample.power_w, 450);
  EXPECT_EQ(sample.power_limit_w, 700);
  EXPECT_EQ(sample.energy_mj, 1'000'000);
  EXPECT_EQ(sample.event_reasons, 12U);
  EXPECT_EQ(event_reasons_text(*sample.event_reasons), "power cap, hardware slowdown");
  EXPECT_EQ(sample.other_processes, 0);
}

TEST_F(GpuTest, AQuickSampleLeavesTheDearReadingsOut) {
  const GpuSample sample = Nvml(kLibrary).device(kFakeGpu).sample_quickly();
  EXPECT_EQ(sample.sm_clock_mhz, 1980);
  EXPECT_EQ(sample.event_reasons, 0U);
  EXPECT_FALSE(sample.power_limit_w);
  EXPECT_FALSE(sample.energy_mj);
  EXPECT_FALSE(sample.other_processes);
}

// CUDA's device 0 need not be NVML's.
TEST_F(GpuTest, IsFoundByItsPciBusIdNotByItsPlace) {
  gpu_.list("0000:02:00.0 0000:01:00.0");
  gpu_.add("0000:02:00.0 sm_clock 345");
  const Nvml nvml(kLibrary);
  EXPECT_EQ(nvml.device(kFakeGpu).sample_quickly().sm_clock_mhz, 1980);
  EXPECT_EQ(nvml.device("0000:02:00.0").sample_quickly().sm_clock_mhz, 345);
  ASSERT_EQ(nvml.devices().size(), 2U);
  EXPECT_EQ(nvml.devices()[0].facts().pci_bus_id, "0000:02:00.0");
  const Error error = error_of([&] { (void)nvml.device("0000:03:00.0"); });
  EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("0000:03:00.0"), HasSubstr("not found")));
}

TEST_F(GpuTest, WhatIsNotSupportedOrNotPermittedIsMissingWithItsReasonNotZero) {
  gpu_.set("energy", "unsupported");
  gpu_.set("processes", "denied");
  gpu_.set("sm_clock", "denied");
  const GpuDevice device = Nvml(kLibrary).device(kFakeGpu);
  const GpuSample sample = device.sample({});
  EXPECT_FALSE(sample.energy_mj);
  EXPECT_FALSE(sample.other_processes);
  EXPECT_FALSE(sample.sm_clock_mhz);
  EXPECT_EQ(sample.power_w, 450);
  const auto missing = [](const char* reading, const char* why) {
    return Contains(AllOf(Field(&MissingReading::reading, reading), Field(&MissingReading::why, why)));
  };
  EXPECT_THAT(device.facts().missing, AllOf(testing::SizeIs(3), missing("energy counter", "not supported"),
                                            missing("other processes", "insufficient permissions"),
                                            missing("SM clock", "insufficient permissions")));
}

TEST_F(GpuTest, AnOldDriverGivesEventReasonsUnderTheirFormerNameAndNoEnergy) {
  gpu_.set("reasons", "4");
  const GpuDevice device = Nvml(kOldLibrary).device(kFakeGpu);
  EXPECT_EQ(device.sample({}).event_reasons, 4U);
  ASSERT_EQ(device.facts().missing.size(), 1U);
  EXPECT_EQ(device.facts().missing[0].reading, "energy counter");
  EXPECT_THAT(device.facts().missing[0].why, HasSubstr("does not have it"));
}

TEST_F(GpuTest, AMissingLibraryIsTheEnvironmentAndSaysWhatIsLost) {
  const Error error = error_of([] { (void)Nvml("libno-such-nvml.so.1"); });
  EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
  EXPECT_THAT(error.what(), HasSubstr("libno-such-nvml.so.1"));
  EXPECT_THAT(error.parts().hint, HasSubstr("not recorded"));
}

TEST_F(GpuTest, ALibraryThatIsNotNvmlIsRefused) {
  EXPECT_THAT(error_of([] { (void)Nvml("libm.so.6"); }).what(), HasSubstr("lacks nvmlInit_v2"));
}

TEST_F(GpuTest, WhatWasFoundIsSaidInALine) {
  EXPECT_EQ(found_nvml(kLibrary), "NVML of driver 580.1");
  EXPECT_THAT(found_nvml("libno-such-nvml.so.1"), testing::StartsWith("no NVML (libno-such-nvml.so.1"));
}

TEST_F(GpuTest, AMissingPermissionIsTheEnvironment) {
  gpu_.add("init denied 1");
  const Error error = error_of([] { (void)Nvml(kLibrary); });
  EXPECT_EQ(error.kind(), ErrorKind::kEnvironment);
  EXPECT_THAT(error.what(), HasSubstr("insufficient permissions"));
}

TEST_F(GpuTest, WorkersAndThisProgramAreNoNeighbours) {
  const TestChild child([] {
    ::setpgid(0, 0);
    ::pause();
  });
  const pid_t worker = child.pid();
  ::setpgid(worker, worker);
  const std::string own = std::to_string(::getpid()) + " " + std::to_string(worker);
  const std::vector<pid_t> groups = {worker};
  const GpuDevice device = Nvml(kLibrary).device(kFakeGpu);
  gpu_.set("processes", own);
  EXPECT_EQ(device.sample(groups).other_processes, 0);
  gpu_.set("processes", own + " 1");  // process 1 is always somebody else's
  EXPECT_EQ(device.sample(groups).other_processes, 1);
}

// In a container NVML gives the host's process ids: none is ours by number, but one of them must be the worker's.
TEST_F(GpuTest, ForeignProcessIdsAreCountedWithoutOneForEachWorker) {
  const GpuDevice device = Nvml(kLibrary).device(kFakeGpu);
  constexpr pid_t kNoSuchGroup = 1 << 30;
  const std::vector<pid_t> groups = {kNoSuchGroup};
  gpu_.set("processes", "4000001");
  EXPECT_EQ(device.sample(groups).other_processes, 0);
  gpu_.set("processes", "4000001 4000002");
  EXPECT_EQ(device.sample(groups).other_processes, 1);
}

TEST_F(GpuTest, ALongListOfProcessesIsReadWhole) {
  std::string pids;
  for (int pid = 0; pid < 100; ++pid) pids += std::to_string(4'000'000 + pid) + " ";
  gpu_.set("processes", pids);
  EXPECT_EQ(Nvml(kLibrary).device(kFakeGpu).sample({}).other_processes, 100);
}

TEST(EventReasons, UnknownBitsAreShownAsANumber) {
  EXPECT_EQ(event_reasons_text(0), "none");
  EXPECT_EQ(event_reasons_text(0x1000 | kReasonIdle), "idle, 0x1000");
}

}  // namespace
}  // namespace tare::harness

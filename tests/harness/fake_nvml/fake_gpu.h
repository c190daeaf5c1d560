// What the fake NVML (fake_nvml.cpp) says, written by a test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "base/file.h"

namespace tare::harness {

constexpr const char* kFakeGpu = "0000:01:00.0";

// A quiet H200 at work: nothing that any rule minds.
inline std::map<std::string, std::string> quiet_gpu() {
  return {{"sm_clock", "1980"},  {"memory_clock", "3201"}, {"max_sm_clock", "1980"},  {"max_memory_clock", "3201"},
          {"temperature", "41"}, {"power", "450000"},      {"power_limit", "700000"}, {"default_power_limit", "700000"},
          {"energy", "1000000"}, {"reasons", "0"},         {"persistence", "1"},      {"processes", ""}};
}

// Points the library at a script of its own; the environment variable is read by the library in this process.
class FakeGpu {
 public:
  explicit FakeGpu(std::filesystem::path script) : script_(std::move(script)), readings_(quiet_gpu()) {
    write();
    ::setenv("FAKE_NVML", script_.c_str(), 1);
  }
  FakeGpu(const FakeGpu&) = delete;
  FakeGpu& operator=(const FakeGpu&) = delete;
  ~FakeGpu() { ::unsetenv("FAKE_NVML"); }

  void set(const std::string& reading, const std::string& value) {
    readings_[reading] = value;
    write();
  }
  // A line of its own: "init denied 1", "0000:02:00.0 sm_clock 300".
  void add(const std::string& line) {
    extra_ += line + "\n";
    write();
  }
  void list(const std::string& gpus) {
    gpus_ = gpus;
    write();
  }
  [[nodiscard]] const std::filesystem::path& script() const { return script_; }

 private:
  std::filesystem::path script_;
  std::map<std::string, std::string> readings_;
  std::string gpus_ = kFakeGpu;
  std::string extra_;

  void write() const {
    std::string text = "gpus " + gpus_ + "\n";
    for (const auto& [reading, value] : readings_) text += std::string(kFakeGpu) + " " + reading + " " + value + "\n";
    write_file_atomically(script_, text + extra_);
  }
};

}  // namespace tare::harness

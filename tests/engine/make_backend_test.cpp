#include "engine/backends/make_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/json_reader.h"

namespace tare::engine {
namespace {

const std::filesystem::path kModel = std::filesystem::path(TARE_SOURCE_DIR) / "tests/fixtures/hybrid-small";

TEST(MakeBackend, MakesTheCpuBackendUnlessToldOtherwise) {
  const auto checkpoint = open_checkpoint(kModel.string());
  EXPECT_EQ(make_backend(*checkpoint, {})->description().at("backend"), "cpu");
}

// Without a toolkit, or without a GPU, the same switch gives one clear error; with both it gives the CUDA backend.
TEST(MakeBackend, CudaIsMadeOrRefusedAsAMatterOfTheEnvironment) {
  const auto checkpoint = open_checkpoint(kModel.string());
  EngineOptions options;
  options.backend = BackendKind::kCuda;
  try {
    EXPECT_EQ(make_backend(*checkpoint, options)->description().at("backend"), "cuda");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kEnvironment) << error.what();
    EXPECT_THAT(error.what(), testing::AnyOf(testing::HasSubstr("built without CUDA"), testing::HasSubstr("GPU"),
                                             testing::HasSubstr("driver")));
  }
}

}  // namespace
}  // namespace tare::engine

#include "engine/backend/options.h"
#include "base/error.h"
#include "base/json_reader.h"
#include "engine/backend/option_description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tare::engine {
namespace {

using testing::HasSubstr;

std::string fault(const Json& json) {
  EngineOptions options;
  try {
    apply_options(options, json, "options");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return std::string(error.what()) + " | " + error.parts().hint;
  }
  ADD_FAILURE() << "no error for " << json.dump();
  return {};
}

TEST(EngineOptions, PrintedFormReadsBackToItself) {
  EngineOptions options;
  apply_option(options, "weights.format=q4");
  apply_option(
      options,
      R"(weights.overrides=[{"tensors": "mlp", "layers": [0, 3], "format": "q8"}, {"tensors": "head", "format": "bf16"}])");
  apply_option(options, "handicap.share=0.01");
  apply_option(options, "cpu.instruction_set=AVX2");
  EngineOptions read;
  apply_options(read, to_json(options), "options");
  EXPECT_EQ(to_json(read), to_json(options));
  EXPECT_NE(to_json(options), to_json(EngineOptions{}));
}

// A field that is printed but not described, or the other way round, would be a switch that nobody can find.
TEST(EngineOptions, EveryFieldIsDescribedWithItsDefault) {
  const Json defaults = to_json(EngineOptions{});
  std::size_t printed = 0;
  for (const auto& [group, value] : defaults.items()) printed += value.is_object() ? value.size() : 1;
  EXPECT_EQ(printed, describe_options().size());
  for (const OptionDescription& option : describe_options()) {
    EXPECT_FALSE(option.meaning.empty()) << option.path;
    EXPECT_EQ(option.type == "word", !option.words.empty()) << option.path;
  }
}

TEST(EngineOptions, LaterOverridesWinWithinTheirLayers) {
  EngineOptions options;
  apply_options(options, Json::parse(R"({"weights": {"format": "q4", "overrides": [
                  {"tensors": "mlp", "format": "q8"}, {"tensors": "mlp", "layers": [2, 3], "format": "bf16"},
                  {"tensors": "head", "format": "bf16"}]}})"),
                "options");
  EXPECT_EQ(options.format_of(TensorClass::kMlp, 1), WeightFormat::kQ8);
  EXPECT_EQ(options.format_of(TensorClass::kMlp, 2), WeightFormat::kBF16);
  EXPECT_EQ(options.format_of(TensorClass::kMlp, 4), WeightFormat::kQ8);
  EXPECT_EQ(options.format_of(TensorClass::kGdn, 2), WeightFormat::kQ4);
  EXPECT_EQ(options.format_of(TensorClass::kHead, 0), WeightFormat::kBF16);
}

TEST(EngineOptions, LeavesOtherFieldsAlone) {
  EngineOptions options;
  apply_option(options, "cpu.threads=7");
  apply_options(options, Json::parse(R"({"gdn": {"form": "chunked"}})"), "options");
  EXPECT_EQ(options.cpu.threads, 7);
  EXPECT_EQ(options.gdn.form, GdnForm::kChunked);
}

TEST(EngineOptions, HeadsAreChosenAndBounded) {
  EngineOptions options;
  EXPECT_EQ(options.head.screen, HeadScreen::kNone);
  EXPECT_EQ(options.head.candidates, 32);
  EXPECT_EQ(options.proposal_head.shortlist, 0);
  apply_options(options, Json::parse(R"({"head": {"screen": "q3", "candidates": 16},
                  "proposal_head": {"shortlist": 1024, "counts": "c.safetensors", "screen": "q4"}})"),
                "options");
  EXPECT_EQ(format_of(options.head.screen), WeightFormat::kQ3);
  EXPECT_EQ(options.head.candidates, 16);
  EXPECT_EQ(options.proposal_head.shortlist, 1024);
  EXPECT_EQ(options.proposal_head.counts, "c.safetensors");
  EXPECT_EQ(format_of(options.proposal_head.screen), WeightFormat::kQ4);
  EXPECT_THROW((void)format_of(HeadScreen::kNone), Error);
  EXPECT_THAT(fault(Json::parse(R"({"head": {"screen": "q8"}})")), HasSubstr("options.head.screen"));
  EXPECT_THAT(fault(Json::parse(R"({"head": {"candidates": 0}})")), HasSubstr("must lie in 1"));
  EXPECT_THAT(fault(Json::parse(R"({"proposal_head": {"shortlist": -1}})")), HasSubstr("must lie in 0"));
}

TEST(EngineOptions, RefusesUnknownNamesWithTheNearest) {
  EXPECT_THAT(fault(Json::parse(R"({"wieghts": {}})")),
              testing::AllOf(HasSubstr("options.wieghts"), HasSubstr("'weights'")));
  EXPECT_THAT(fault(Json::parse(R"({"cpu": {"thread": 2}})")),
              testing::AllOf(HasSubstr("options.cpu.thread"), HasSubstr("'threads'")));
  EXPECT_THAT(fault(Json::parse(R"({"gdn": {"form": "chunk"}})")), HasSubstr("did you mean 'chunked'?"));
}

TEST(EngineOptions, RefusesValuesOutOfRangeAndOfOtherTypes) {
  EXPECT_THAT(fault(Json::parse(R"({"cpu": {"threads": -1}})")), HasSubstr("must lie in 0"));
  EXPECT_THAT(fault(Json::parse(R"({"cpu": {"threads": 1.5}})")), HasSubstr("must be an integer"));
  EXPECT_THAT(
      fault(Json::parse(R"({"weights": {"overrides": [{"tensors": "mlp", "format": "q4", "layers": [3, 1]}]}})")),
      HasSubstr("overrides[0].layers"));
  EngineOptions options;
  EXPECT_THROW(apply_option(options, "cpu.threads"), Error);
  EXPECT_THROW(apply_option(options, "=3"), Error);
}

}  // namespace
}  // namespace tare::engine

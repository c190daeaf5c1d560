#include "base/json_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace tare {
namespace {

using testing::HasSubstr;

// Message and hint of the Error that `action` throws.
template <class Action>
std::string fault(const Action& action) {
  const Error error = error_of(action);
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  return std::string(error.what()) + " | " + error.parts().hint;
}

TEST(ParseJson, NamesLineAndColumn) {
  EXPECT_THAT(fault([] { (void)parse_json("{\n  \"a\": 1,,\n}", "f.json"); }), HasSubstr("f.json:2:10"));
}

TEST(ParseJson, RefusesDuplicateKeysAtAnyDepth) {
  EXPECT_THAT(fault([] { (void)parse_json(R"({"a": {"b": 1, "b": 2}})", "f"); }), HasSubstr("'b' appears twice"));
  EXPECT_EQ(parse_json(R"({"a": {"b": 1}, "c": {"b": 2}})", "f")["c"]["b"], 2);
}

TEST(ParseJson, AllowsCommentsOnlyWhenAsked) {
  const char* text = "{ // note\n\"a\": 1 }";
  EXPECT_EQ(parse_json(text, "f", JsonComments::kAllowed)["a"], 1);
  EXPECT_THAT(fault([&] { (void)parse_json(text, "f"); }), HasSubstr("is not JSON"));
}

TEST(JsonReader, RefusesUnknownKeyWithNearestName) {
  const Json json = {{"format", "q4"}, {"treads", 2}};
  EXPECT_THAT(fault([&] {
                JsonReader reader(json, "cpu");
                (void)reader.has("format");
                (void)reader.has("threads");
                reader.refuse_unknown_keys();
              }),
              testing::AllOf(HasSubstr("cpu.treads: unknown key"), HasSubstr("did you mean 'threads'?")));
}

TEST(JsonReader, NamesPlaceAndTypeOfAWrongValue) {
  const Json json = {{"count", "three"}};
  EXPECT_THAT(fault([&] { (void)JsonReader(json, "x").integer("count"); }),
              HasSubstr("x.count: must be an integer, is string"));
}

TEST(JsonReader, HoldsIntegersToTheirRange) {
  const Json json = {{"count", 5}, {"huge", 18446744073709551615ULL}};
  EXPECT_EQ(JsonReader(json, "x").integer("count", 5, 5), 5);
  EXPECT_THAT(fault([&] { (void)JsonReader(json, "x").integer("count", 6, 9); }),
              HasSubstr("must lie in 6 to 9, is 5"));
  EXPECT_THAT(fault([&] { (void)JsonReader(json, "x").integer("huge"); }), HasSubstr("too large"));
}

TEST(JsonReader, TreatsNullAsAbsentButMissingAsAnError) {
  const Json json = {{"a", nullptr}};
  JsonReader reader(json, "x");
  EXPECT_FALSE(reader.has("a"));
  EXPECT_THAT(fault([&] { (void)reader.text("b"); }), HasSubstr("x.b: is missing"));
}

TEST(JsonReader, OffersTheNearestWord) {
  const Json json = {{"form", "recurent"}};
  EXPECT_THAT(fault([&] {
                (void)JsonReader(json, "gdn").word("form", {"recurrent", "chunked"});
              }),
              HasSubstr("did you mean 'recurrent'?"));
}

}  // namespace
}  // namespace tare

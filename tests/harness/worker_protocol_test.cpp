#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/worker/protocol.h"
#include "tests/error_of.h"
#include "tests/harness/schema_check.h"

namespace tare::harness {
namespace {

using testing::HasSubstr;

RunReply reply() {
  RunReply result;
  result.outcome = "forced_text";
  result.tokens = {4, 5, 6};
  result.natural = {4, 5, 7};
  result.agreed = 2;
  result.prefill_ns = 10;
  result.first_token_ns = 11;
  result.decode_ns = 30;
  result.total_ns = 45;
  result.round_ns = {14, 16};
  result.round_tokens = {1, 1};
  result.round_spun_ns = {1, 2};
  result.peak_memory_bytes = 99;
  return result;
}

ProfileReply profile() {
  ProfileReply result;
  result.run = reply();
  result.source = "ops";
  result.rounds = 2;
  result.records = 6;
  result.dropped = 2;
  result.invalid = 1;
  result.span_us = 10;
  result.idle_us = 1;
  result.rows = {{"product q4", "product q4", "layers.*.mlp.down_proj.weight", 2, 6, 6, 1000},
                 {"norm", "", "", 1, 3, 3, 0}};
  result.round = {{0, 0, 0, 3.125}, {1, 3, 3.125, 4.5}};
  return result;
}

TEST(ProtocolSchema, AcceptsEveryLineWeWrite) {
  const SchemaCheck schema("worker.schema.json");
  RunCall run;
  run.prompt_id = "1";
  run.prompt = {1};
  run.forced = {2};
  run.natural = true;
  const std::vector<std::string> lines = {hello_line(),
                                          to_line(OpenCall{"m", Json::object(), {0, 1}}),
                                          to_line(EncodeCall{{"text"}}),
                                          to_line(run),
                                          close_line(),
                                          to_line(HelloReply{"tare", "1", Json::object(), Json::array()}),
                                          to_line(OpenReply{"d", "", 10, Json::object(), Json::object(), 5}),
                                          to_line(EncodeReply{{{1, 2}, {}}}),
                                          to_line(reply()),
                                          profile_line(run),
                                          to_line(profile()),
                                          close_reply_line(),
                                          error_line(Error(ErrorKind::kInput, "what", "where", "hint"))};
  for (const std::string& line : lines) EXPECT_EQ(schema.faults(parse_json(line, "line")), "") << line;
}

TEST(ProtocolSchema, RefusesLinesThatDoNotFit) {
  const SchemaCheck schema("worker.schema.json");
  for (const char* line :
       {R"({})", R"({"call": "hello"})", R"({"call": "hello", "protocol": 2})", R"({"call": "open", "model": "m"})",
        R"({"call": "run", "prompt_id": 1, "prompt": [1], "temperature": 0, "seed": 0, "max_tokens": 1})",
        R"({"reply": "run", "outcome": "unknown", "tokens": [], "prefill_ns": 0, "first_token_ns": 0, "decode_ns": 0,
            "total_ns": 0, "round_ns": [], "round_tokens": []})",
        R"({"reply": "encode", "tokens": [[-1]]})"})
    EXPECT_NE(schema.faults(parse_json(line, "line")), "") << line;
}

TEST(Protocol, RunCallSurvivesTheLine) {
  RunCall call;
  call.prompt_id = "12";
  call.prompt = {1, 2};
  call.temperature = 0.8;
  call.seed = 7;
  call.max_tokens = 5;
  call.forced = {3};
  call.natural = true;
  const RunCall read = parse_run_call(parse_json(to_line(call), "l"), "l");
  EXPECT_EQ(to_line(read), to_line(call));
  EXPECT_EQ(read.forced, call.forced);
}

TEST(Protocol, RunReplySurvivesTheLine) {
  const RunReply read = parse_run_reply(parse_json(to_line(reply()), "l"), "l");
  EXPECT_EQ(to_line(read), to_line(reply()));
}

TEST(Protocol, ProfileReplySurvivesTheLine) {
  const ProfileReply read = parse_profile_reply(parse_json(to_line(profile()), "line"), "line");
  EXPECT_EQ(to_line(read), to_line(profile()));
  EXPECT_EQ(read.rows.size(), 2U);
  EXPECT_EQ(read.rows[0].part, "layers.*.mlp.down_proj.weight");
  ASSERT_EQ(read.round.size(), 2U);
  EXPECT_EQ(read.round[1].row, 1U);
  EXPECT_EQ(read.round[1].alone_us, 3.125);
}

TEST(Protocol, AProfilesRoundIsOptionalAndOfItsRows) {
  ProfileReply without = profile();
  without.round.clear();
  EXPECT_TRUE(parse_profile_reply(parse_json(to_line(without), "line"), "line").round.empty());
  ProfileReply stranger = profile();
  stranger.round[0].row = 2;
  EXPECT_THAT(error_of([&] { (void)parse_profile_reply(parse_json(to_line(stranger), "line"), "line"); }).what(),
              HasSubstr("row"));
  ProfileReply backwards = profile();
  backwards.round[1].end_us = 2;
  EXPECT_THAT(error_of([&] { (void)parse_profile_reply(parse_json(to_line(backwards), "line"), "line"); }).what(),
              HasSubstr("end_us"));
}

TEST(Protocol, RefusesProfilesThatDoNotAddUp) {
  ProfileReply more = profile();
  more.rows[0].us += 1;
  EXPECT_THAT(error_of([&] { (void)parse_profile_reply(parse_json(to_line(more), "line"), "line"); }).what(),
              HasSubstr("add up to 11 us, span_us is 10"));
  ProfileReply fewer = profile();
  fewer.rounds = 1;
  EXPECT_THAT(error_of([&] { (void)parse_profile_reply(parse_json(to_line(fewer), "line"), "line"); }).what(),
              HasSubstr("profiled 1 rounds, the run had 2, 2 of them not stalled"));
  ProfileReply other = profile();
  other.source = "guesses";
  EXPECT_THAT(error_of([&] { (void)parse_profile_reply(parse_json(to_line(other), "line"), "line"); }).what(),
              HasSubstr("must be kernels or ops"));
}

TEST(Protocol, RefusesRepliesWhoseNumbersDoNotAddUp) {
  RunReply broken = reply();
  broken.decode_ns = 31;
  EXPECT_THAT(error_of([&] { (void)parse_run_reply(parse_json(to_line(broken), "l"), "l"); }).what(),
              HasSubstr("not the sum"));
  broken = reply();
  broken.round_tokens = {1, 2};
  EXPECT_THAT(error_of([&] { (void)parse_run_reply(parse_json(to_line(broken), "l"), "l"); }).what(),
              HasSubstr("committed 3"));
  broken = reply();
  broken.round_tokens = {2};
  EXPECT_THAT(error_of([&] { (void)parse_run_reply(parse_json(to_line(broken), "l"), "l"); }).what(),
              HasSubstr("different lengths"));
}

TEST(Protocol, RefusesUnknownCallKeysAndNegativeTokens) {
  EXPECT_THAT(error_of([] {
                (void)parse_open_call(parse_json(R"({"call": "open", "model": "m", "optoins": {}})", "l"), "l");
              }).what(),
              HasSubstr("optoins"));
  EXPECT_THAT(error_of([] {
                (void)parse_run_call(parse_json(R"({"call": "run", "prompt_id": "1", "prompt": [-1], "temperature": 0,
                                                    "seed": 0, "max_tokens": 1})",
                                                "l"),
                                     "l");
              }).what(),
              HasSubstr("prompt[0]"));
}

TEST(Protocol, ErrorReplyBecomesTheWorkersErrorWithinTheArm) {
  const Error sent(ErrorKind::kInput, "there is no such model", "models/none", "give another");
  try {
    expect_reply(parse_json(error_line(sent), "l"), "open", "arm q4: open");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_STREQ(error.what(), "arm q4: open: models/none: there is no such model");
    EXPECT_EQ(error.parts().hint, "give another");
  }
}

TEST(Protocol, RefusesTheReplyToAnotherCall) {
  EXPECT_THAT(error_of([] { expect_reply(parse_json(close_reply_line(), "l"), "run", "arm a"); }).what(),
              HasSubstr("answered 'close' to the call 'run'"));
}

TEST(Protocol, BytesThatAreNotUtf8DoNotBreakALine) {
  EXPECT_NO_THROW((void)parse_json(error_line(Error(ErrorKind::kInput, "bad \xff byte")), "l"));
}

}  // namespace
}  // namespace tare::harness

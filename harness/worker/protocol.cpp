#include "harness/worker/protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "forced/rounds_file.h"
#include "stats/stalls.h"

namespace tare::harness {
namespace {

constexpr std::array<std::pair<const char*, ErrorKind>, 4> kErrorKinds = {{{"input", ErrorKind::kInput},
                                                                           {"invalid", ErrorKind::kInvalid},
                                                                           {"environment", ErrorKind::kEnvironment},
                                                                           {"internal", ErrorKind::kInternal}}};

constexpr std::int64_t kMostId = (std::int64_t{1} << 31) - 1;

std::string text_of(ErrorKind kind) {
  for (const auto& [text, value] : kErrorKinds)
    if (value == kind) return text;
  return "internal";
}

// One line; bytes that are not UTF-8 are replaced, since JSON cannot carry them.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <class Integer>
std::vector<Integer> integers(JsonReader& reader, const std::string& key, std::int64_t least, std::int64_t most) {
  std::vector<Integer> result;
  const Json& array = reader.array(key);
  result.reserve(array.size());
  for (const Json& element : array) {
    const bool fits =
        element.is_number_integer() && element.get<std::int64_t>() >= least && element.get<std::int64_t>() <= most;
    if (!fits)
      throw reader.error(fmt::format("{}[{}]", key, result.size()),
                         fmt::format("must be an integer in {} to {}", least, most));
    result.push_back(static_cast<Integer>(element.get<std::int64_t>()));
  }
  return result;
}

std::vector<std::int32_t> token_ids(JsonReader& reader, const std::string& key) {
  return integers<std::int32_t>(reader, key, 0, kMostId);
}

std::vector<std::int64_t> durations(JsonReader& reader, const std::string& key) {
  return integers<std::int64_t>(reader, key, 0, std::numeric_limits<std::int64_t>::max());
}

JsonReader call_reader(const Json& line, const std::string& where) {
  JsonReader reader(line, where);
  reader.ignore("call");
  return reader;
}

JsonReader reply_reader(const Json& line, const std::string& where) {
  JsonReader reader(line, where);
  reader.ignore("reply");
  return reader;
}

void check_rounds(const RunReply& reply, const std::string& where) {
  const std::size_t rounds = reply.round_ns.size();
  if (reply.round_tokens.size() != rounds || (!reply.round_spun_ns.empty() && reply.round_spun_ns.size() != rounds))
    throw input_error(where, "round_ns, round_tokens and round_spun_ns have different lengths");
  for (const auto* column : {&reply.round_nodes, &reply.round_drafted, &reply.round_cut})
    if (!column->empty() && column->size() != rounds)
      throw input_error(where, "round_nodes, round_drafted and round_cut must have an entry a round");
  if (reply.round_nodes.empty() != reply.round_drafted.empty() || reply.round_cut.empty() != reply.round_nodes.empty())
    throw input_error(where, "round_nodes, round_drafted and round_cut come together or not at all");
  for (std::size_t i = 0; i < reply.round_nodes.size(); ++i) {
    const std::int64_t accepted = reply.round_tokens[i] - 1;
    if (accepted < 0 || accepted >= reply.round_nodes[i])
      throw input_error(where, fmt::format("round {} of {} nodes cannot commit {} tokens", i, reply.round_nodes[i],
                                           reply.round_tokens[i]));
  }
  for (const std::vector<std::int64_t>& column : reply.round_phase_ns)
    if (!column.empty() && column.size() != rounds)
      throw input_error(where, "round_phase_ns must have an entry a round for every phase it names");
  const std::int64_t committed = std::accumulate(reply.round_tokens.begin(), reply.round_tokens.end(), std::int64_t{0});
  const auto tokens = static_cast<std::int64_t>(reply.tokens.size());
  if (tokens > 0 && committed != tokens - 1)
    throw input_error(
        where, fmt::format("the rounds committed {} tokens, the reply has {} after the first", committed, tokens - 1));
  const std::int64_t sum = std::accumulate(reply.round_ns.begin(), reply.round_ns.end(), std::int64_t{0});
  if (sum != reply.decode_ns) throw input_error(where, "decode_ns is not the sum of round_ns");
}

Json to_json(const RunReply& reply) {
  Json json = {{"outcome", reply.outcome},
               {"tokens", reply.tokens},
               {"agreed", reply.agreed},
               {"prefill_ns", reply.prefill_ns},
               {"first_token_ns", reply.first_token_ns},
               {"decode_ns", reply.decode_ns},
               {"total_ns", reply.total_ns},
               {"round_ns", reply.round_ns},
               {"round_tokens", reply.round_tokens},
               {"peak_memory_bytes", reply.peak_memory_bytes}};
  if (!reply.natural.empty()) json["natural"] = reply.natural;
  if (!reply.round_spun_ns.empty()) json["round_spun_ns"] = reply.round_spun_ns;
  if (!reply.round_nodes.empty()) {
    json["round_nodes"] = reply.round_nodes;
    json["round_drafted"] = reply.round_drafted;
    json["round_cut"] = reply.round_cut;
  }
  for (std::size_t phase = 0; phase < engine::kRoundPhases.size(); ++phase)
    if (!reply.round_phase_ns[phase].empty())
      json["round_phase_ns"][engine::kRoundPhases[phase]] = reply.round_phase_ns[phase];
  return json;
}

Json to_json(const RunCall& call, const char* name) {
  Json line = {{"call", name},          {"prompt_id", call.prompt_id},
               {"prompt", call.prompt}, {"temperature", call.temperature},
               {"seed", call.seed},     {"max_tokens", call.max_tokens}};
  if (!call.forced.empty()) line["forced"] = call.forced;
  if (call.natural) line["natural"] = true;
  if (!call.rounds.empty()) line["rounds"] = forced::to_json(call.rounds);
  return line;
}

RunReply read_run(JsonReader& reader, const std::string& where) {
  RunReply reply;
  reply.outcome = reader.text("outcome");
  reply.tokens = token_ids(reader, "tokens");
  if (reader.has("natural")) reply.natural = token_ids(reader, "natural");
  const auto tokens = static_cast<std::int64_t>(reply.tokens.size());
  reply.agreed = reader.has("agreed") ? reader.integer("agreed", 0, tokens) : 0;
  reply.prefill_ns = reader.integer("prefill_ns", 0);
  reply.first_token_ns = reader.integer("first_token_ns", 0);
  reply.decode_ns = reader.integer("decode_ns", 0);
  reply.total_ns = reader.integer("total_ns", 0);
  reply.round_ns = durations(reader, "round_ns");
  reply.round_tokens = durations(reader, "round_tokens");
  if (reader.has("round_spun_ns")) reply.round_spun_ns = durations(reader, "round_spun_ns");
  if (reader.has("round_nodes")) reply.round_nodes = durations(reader, "round_nodes");
  if (reader.has("round_drafted")) reply.round_drafted = durations(reader, "round_drafted");
  if (reader.has("round_cut")) reply.round_cut = integers<std::int64_t>(reader, "round_cut", 0, 1);
  if (reader.has("round_phase_ns")) {
    JsonReader phases = reader.object("round_phase_ns");
    for (std::size_t phase = 0; phase < engine::kRoundPhases.size(); ++phase)
      if (phases.has(engine::kRoundPhases[phase]))
        reply.round_phase_ns[phase] = durations(phases, engine::kRoundPhases[phase]);
    phases.refuse_unknown_keys();
  }
  if (reader.has("peak_memory_bytes")) reply.peak_memory_bytes = reader.integer("peak_memory_bytes", 0);
  check_rounds(reply, where);
  return reply;
}

void read_round(JsonReader& reader, const std::string& where, ProfileReply& reply) {
  for (const Json& element : reader.array("round")) {
    JsonReader entry(element, fmt::format("{}.round[{}]", where, reply.round.size()));
    ProfileLaunch& next = reply.round.emplace_back();
    next.row = static_cast<std::size_t>(entry.integer("row", 0, static_cast<std::int64_t>(reply.rows.size()) - 1));
    next.begin_us = entry.number("begin_us", 0);
    next.end_us = entry.number("end_us", next.begin_us);
    next.alone_us = entry.has("alone_us") ? entry.number("alone_us", next.begin_us, next.end_us) : next.begin_us;
  }
}

// Rows and idle time make up the span, to what rounding of the worker's own sums may do.
void check_profile(const ProfileReply& reply, const std::string& where) {
  constexpr double kRounding = 1e-3;
  const std::vector<bool> stalled = stats::stalled_rounds(reply.run.round_ns);
  const auto all = static_cast<std::int64_t>(stalled.size());
  const auto counted = all - std::count(stalled.begin(), stalled.end(), true);
  if (reply.rounds != all && reply.rounds != counted)
    throw input_error(
        where, fmt::format("profiled {} rounds, the run had {}, {} of them not stalled", reply.rounds, all, counted));
  double sum = reply.idle_us;
  for (const ProfileRow& row : reply.rows) sum += row.us;
  if (std::abs(sum - reply.span_us) > kRounding * reply.span_us)
    throw input_error(where, fmt::format("rows and idle_us add up to {} us, span_us is {}", sum, reply.span_us));
}

}  // namespace

std::string hello_line() {
  return dump({{"call", "hello"}, {"protocol", kProtocolVersion}});
}

std::string to_line(const OpenCall& call) {
  Json line = {{"call", "open"}, {"model", call.model}, {"options", call.options}};
  if (!call.cores.empty()) line["cores"] = call.cores;
  return dump(line);
}

std::string to_line(const EncodeCall& call) {
  return dump({{"call", "encode"}, {"texts", call.texts}});
}

std::string to_line(const RunCall& call) {
  return dump(to_json(call, "run"));
}

std::string profile_line(const RunCall& call) {
  return dump(to_json(call, "profile"));
}

std::string close_line() {
  return dump({{"call", "close"}});
}

std::string to_line(const HelloReply& reply) {
  return dump({{"reply", "hello"},
               {"protocol", kProtocolVersion},
               {"program", reply.program},
               {"version", reply.version},
               {"build", reply.build},
               {"options", reply.options}});
}

std::string to_line(const OpenReply& reply) {
  return dump({{"reply", "open"},
               {"checkpoint_digest", reply.checkpoint_digest},
               {"tokenizer_digest", reply.tokenizer_digest},
               {"vocab_size", reply.vocab_size},
               {"options", reply.options},
               {"description", reply.description},
               {"bytes_per_round", reply.bytes_per_round}});
}

std::string to_line(const EncodeReply& reply) {
  return dump({{"reply", "encode"}, {"tokens", reply.tokens}});
}

std::string to_line(const RunReply& reply) {
  Json line = to_json(reply);
  line["reply"] = "run";
  return dump(line);
}

Json to_json(const std::vector<ProfileRow>& rows) {
  Json list = Json::array();
  for (const ProfileRow& row : rows)
    list.push_back({{"kernel", row.kernel},
                    {"launch", row.launch},
                    {"part", row.part},
                    {"calls", row.calls},
                    {"us", row.us},
                    {"duration_us", row.duration_us},
                    {"bytes", row.bytes}});
  return list;
}

Json to_json(const std::vector<ProfileLaunch>& round) {
  Json list = Json::array();
  for (const ProfileLaunch& launch : round)
    list.push_back(
        {{"row", launch.row}, {"begin_us", launch.begin_us}, {"alone_us", launch.alone_us}, {"end_us", launch.end_us}});
  return list;
}

std::string to_line(const ProfileReply& reply) {
  Json line = {{"reply", "profile"},           {"run", to_json(reply.run)},  {"source", reply.source},
               {"rounds", reply.rounds},       {"records", reply.records},   {"dropped", reply.dropped},
               {"invalid", reply.invalid},     {"span_us", reply.span_us},   {"idle_us", reply.idle_us},
               {"unmatched", reply.unmatched}, {"rows", to_json(reply.rows)}};
  if (!reply.round.empty()) line["round"] = to_json(reply.round);
  return dump(line);
}

std::string close_reply_line() {
  return dump({{"reply", "close"}});
}

std::string error_line(const Error& error) {
  const ErrorParts& parts = error.parts();
  return dump({{"reply", "error"},
               {"kind", text_of(parts.kind)},
               {"what", parts.what},
               {"where", parts.where},
               {"hint", parts.hint}});
}

std::string call_name(const Json& line, const std::string& where) {
  return JsonReader(line, where).text("call");
}

void check_hello(const Json& line, const std::string& where) {
  JsonReader reader(line, where);
  const std::int64_t version = reader.integer("protocol");
  if (version != kProtocolVersion)
    throw reader.error("protocol", fmt::format("is version {}, this program speaks {}", version, kProtocolVersion));
}

OpenCall parse_open_call(const Json& line, const std::string& where) {
  JsonReader reader = call_reader(line, where);
  OpenCall call;
  call.model = reader.text("model");
  if (reader.has("options")) call.options = reader.object("options").json();
  if (reader.has("cores")) call.cores = integers<int>(reader, "cores", 0, kMostId);
  reader.refuse_unknown_keys();
  return call;
}

EncodeCall parse_encode_call(const Json& line, const std::string& where) {
  JsonReader reader = call_reader(line, where);
  EncodeCall call;
  call.texts = reader.texts("texts");
  reader.refuse_unknown_keys();
  return call;
}

RunCall parse_run_call(const Json& line, const std::string& where) {
  JsonReader reader = call_reader(line, where);
  RunCall call;
  call.prompt_id = reader.text("prompt_id");
  call.prompt = token_ids(reader, "prompt");
  call.temperature = reader.number("temperature", 0);
  call.seed = static_cast<std::uint64_t>(reader.integer("seed", 0));
  call.max_tokens = reader.integer("max_tokens", 0);
  if (reader.has("forced")) call.forced = token_ids(reader, "forced");
  if (reader.has("natural")) call.natural = reader.boolean("natural");
  if (reader.has("rounds")) {
    if (call.forced.empty()) throw reader.error("rounds", "stands without a forced text");
    call.rounds = forced::read_round_shapes(reader.array("rounds"), reader.place("rounds"), call.forced.size() - 1);
  }
  reader.refuse_unknown_keys();
  return call;
}

void expect_reply(const Json& line, const std::string& call, const std::string& where) {
  JsonReader reader(line, where);
  const std::string reply = reader.text("reply");
  if (reply == "error") {
    ErrorParts parts;
    const std::string kind = reader.text("kind");
    for (const auto& [text, value] : kErrorKinds)
      if (kind == text) parts.kind = value;
    parts.what = reader.text("what");
    if (reader.has("where")) parts.where = reader.text("where");
    if (reader.has("hint")) parts.hint = reader.text("hint");
    throw Error(parts).within(where);
  }
  if (reply != call) throw input_error(where, fmt::format("answered '{}' to the call '{}'", reply, call));
}

HelloReply parse_hello_reply(const Json& line, const std::string& where) {
  expect_reply(line, "hello", where);
  check_hello(line, where);
  JsonReader reader = reply_reader(line, where);
  HelloReply reply;
  reply.program = reader.text("program");
  reply.version = reader.text("version");
  reply.build = reader.has("build") ? reader.object("build").json() : Json::object();
  reply.options = reader.has("options") ? reader.array("options") : Json::array();
  return reply;
}

OpenReply parse_open_reply(const Json& line, const std::string& where) {
  expect_reply(line, "open", where);
  JsonReader reader = reply_reader(line, where);
  OpenReply reply;
  reply.checkpoint_digest = reader.text("checkpoint_digest");
  reply.tokenizer_digest = reader.has("tokenizer_digest") ? reader.text("tokenizer_digest") : "";
  reply.vocab_size = reader.integer("vocab_size", 1, kMostId);
  reply.options = reader.object("options").json();
  reply.description = reader.has("description") ? reader.object("description").json() : Json::object();
  reply.bytes_per_round = reader.has("bytes_per_round") ? reader.integer("bytes_per_round", 0) : 0;
  return reply;
}

EncodeReply parse_encode_reply(const Json& line, const std::string& where) {
  expect_reply(line, "encode", where);
  JsonReader reader = reply_reader(line, where);
  EncodeReply reply;
  for (const Json& list : reader.array("tokens")) {
    const Json wrapped = {{"tokens", list}};
    JsonReader inner(wrapped, fmt::format("{}.tokens[{}]", where, reply.tokens.size()));
    reply.tokens.push_back(token_ids(inner, "tokens"));
  }
  return reply;
}

RunReply parse_run_reply(const Json& line, const std::string& where) {
  expect_reply(line, "run", where);
  JsonReader reader = reply_reader(line, where);
  return read_run(reader, where);
}

ProfileReply parse_profile_reply(const Json& line, const std::string& where) {
  expect_reply(line, "profile", where);
  JsonReader reader = reply_reader(line, where);
  ProfileReply reply;
  JsonReader run = reader.object("run");
  reply.run = read_run(run, where);
  reply.source = reader.text("source");
  if (reply.source != "kernels" && reply.source != "ops") throw reader.error("source", "must be kernels or ops");
  reply.rounds = reader.integer("rounds", 1);
  reply.records = reader.integer("records", 1);
  if (reader.has("dropped")) reply.dropped = reader.integer("dropped", 0);
  if (reader.has("invalid")) reply.invalid = reader.integer("invalid", 0);
  reply.span_us = reader.number("span_us", 0);
  reply.idle_us = reader.number("idle_us", 0);
  if (reader.has("unmatched")) reply.unmatched = reader.text("unmatched");
  for (const Json& element : reader.array("rows")) {
    JsonReader row(element, fmt::format("{}.rows[{}]", where, reply.rows.size()));
    ProfileRow& next = reply.rows.emplace_back();
    next.kernel = row.text("kernel");
    if (row.has("launch")) next.launch = row.text("launch");
    if (row.has("part")) next.part = row.text("part");
    next.calls = row.number("calls", 0);
    next.us = row.number("us", 0);
    if (row.has("duration_us")) next.duration_us = row.number("duration_us", 0);
    if (row.has("bytes")) next.bytes = row.number("bytes", 0);
  }
  if (reader.has("round")) read_round(reader, where, reply);
  check_profile(reply, where);
  return reply;
}

}  // namespace tare::harness

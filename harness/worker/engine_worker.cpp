#include "harness/worker/engine_worker.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "engine/backend/backend.h"
#include "engine/backend/option_description.h"
#include "engine/backend/options.h"
#include "engine/backends/make_backend.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/decode/session.h"
#include "engine/tokenizer/tokenizer.h"
#include "harness/environment/build_info.h"
#include "harness/environment/environment.h"
#include "harness/worker/protocol.h"
#include "profiles/nvtx/nvtx.h"
#include "profiles/replay_profile.h"
#include "stats/stalls.h"

namespace tare::harness {
namespace {

class LineReader {
 public:
  explicit LineReader(int descriptor) : descriptor_(descriptor) {}

  // False at the end of input. An unfinished last line is dropped: the harness died while writing it.
  bool next(std::string& line) {
    while (true) {
      const std::size_t end = pending_.find('\n');
      if (end != std::string::npos) {
        line = pending_.substr(0, end);
        pending_.erase(0, end + 1);
        return true;
      }
      std::array<char, 65536> buffer;
      const ssize_t count = ::read(descriptor_, buffer.data(), buffer.size());
      if (count > 0) {
        pending_.append(buffer.data(), static_cast<std::size_t>(count));
      } else if (count == 0 || errno != EINTR) {
        return false;
      }
    }
  }

 private:
  int descriptor_;
  std::string pending_;
};

bool write_all(int descriptor, std::string text) {
  text += '\n';
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = ::write(descriptor, text.data() + written, text.size() - written);
    if (count > 0) {
      written += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

Json options_list() {
  Json list = Json::array();
  for (const engine::OptionDescription& option : engine::describe_options())
    list.push_back({{"path", option.path},
                    {"type", option.type},
                    {"words", option.words},
                    {"default", option.default_value},
                    {"meaning", option.meaning}});
  return list;
}

// Before any thread is made: threads inherit the mask.
void pin_to(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) {
    if (core >= CPU_SETSIZE)
      throw input_error("cores", "core " + std::to_string(core) + " is beyond what the system can name");
    CPU_SET(static_cast<std::size_t>(core), &set);
  }
  if (::sched_setaffinity(0, sizeof set, &set) != 0)
    throw Error(ErrorKind::kEnvironment, std::string("cannot pin to the given cores: ") + std::strerror(errno),
                "cores");
}

class EngineWorker {
 public:
  // The reply's line, or nothing after `close`.
  std::optional<std::string> answer(const std::string& text) {
    const std::string where = "call";
    const Json line = parse_json(text, where);
    const std::string call = call_name(line, where);
    if (call == "hello") return hello(line);
    if (call == "open") return to_line(open(parse_open_call(line, where)));
    if (call == "encode") return to_line(encode(parse_encode_call(line, where)));
    if (call == "run") return to_line(run(parse_run_call(line, where)));
    if (call == "profile") return to_line(profile(parse_run_call(line, where)));
    if (call == "close") return std::nullopt;
    throw input_error(where, "unknown call '" + call + "'", "known: hello, open, encode, run, profile, close");
  }

 private:
  std::unique_ptr<engine::Checkpoint> checkpoint_;
  std::unique_ptr<engine::Backend> backend_;  // moves into profiler_ with the first profile
  std::unique_ptr<profiles::ReplayProfiler> profiler_;
  std::optional<engine::Tokenizer> tokenizer_;
  std::unique_ptr<engine::PrefixCache> prefix_cache_;  // null unless option prefix_cache.bytes asks for one
  std::string prefix_identity_;

  [[nodiscard]] bool opened() const { return backend_ != nullptr || profiler_ != nullptr; }

  static std::string hello(const Json& line) {
    check_hello(line, "call");
    const BuildInfo build = build_info();
    return to_line(HelloReply{"tare", build.version, to_json(build), options_list()});
  }

  OpenReply open(const OpenCall& call) {
    if (opened()) throw input_error("call", "'open' came twice", "one launch opens one model");
    engine::EngineOptions options;
    engine::apply_options(options, call.options, "options");
    if (!call.cores.empty()) pin_to(call.cores);
    auto checkpoint = engine::open_checkpoint(call.model);
    backend_ = profiles::with_nvtx_ranges(engine::make_backend(*checkpoint, options));
    checkpoint_ = std::move(checkpoint);
    if (options.prefix_cache.bytes > 0) {
      prefix_cache_ = std::make_unique<engine::PrefixCache>(options.prefix_cache);
      prefix_identity_ = engine::prefix_identity(*checkpoint_, *backend_);
    }
    const std::filesystem::path tokenizer = std::filesystem::path(call.model) / "tokenizer.json";
    if (std::filesystem::exists(tokenizer)) tokenizer_ = engine::Tokenizer::from_file(tokenizer);
    OpenReply reply;
    reply.checkpoint_digest = checkpoint_->digest();
    reply.tokenizer_digest = tokenizer_ ? tokenizer_->digest() : "";
    reply.vocab_size = checkpoint_->config().vocab_size;
    reply.options = engine::to_json(backend_->options());
    reply.description = backend_->description();
    reply.bytes_per_round = static_cast<std::int64_t>(backend_->inventory(0, 1).bytes_per_round());
    return reply;
  }

  EncodeReply encode(const EncodeCall& call) const {
    if (!opened()) throw input_error("call", "'encode' before 'open'");
    if (!tokenizer_) throw input_error("model", "has no tokenizer.json", "give prompts or replay texts as token ids");
    EncodeReply reply;
    for (const std::string& text : call.texts) reply.tokens.push_back(tokenizer_->encode(text));
    return reply;
  }

  RunReply run(const RunCall& call) const {
    if (!opened()) throw input_error("call", "'run' before 'open'");
    if (profiler_) throw input_error("call", "'run' after 'profile'", "a launch that profiles is never timed");
    return replay(*backend_, call);
  }

  ProfileReply profile(const RunCall& call) {
    if (!opened()) throw input_error("call", "'profile' before 'open'");
    if (!profiler_)
      profiler_ = std::make_unique<profiles::ReplayProfiler>(std::move(backend_), profiles::make_collector_of);
    profiler_->begin();
    ProfileReply reply;
    reply.run = replay(profiler_->backend(), call);
    const profiles::ReplayProfile profile = profiler_->end(stats::stalled_rounds(reply.run.round_ns));
    reply.source = profile.of_ops ? "ops" : "kernels";
    reply.rounds = profile.rounds;
    reply.records = static_cast<std::int64_t>(profile.records);
    reply.dropped = static_cast<std::int64_t>(profile.dropped);
    reply.invalid = static_cast<std::int64_t>(profile.invalid);
    reply.span_us = profile.span_us;
    reply.idle_us = profile.idle_us;
    reply.unmatched = profile.unmatched;
    for (const profiles::RoundLaunch& launch : profile.round)
      reply.round.push_back({launch.row, launch.begin_us, launch.alone_us, launch.end_us});
    for (const profiles::KernelRow& row : profile.rows)
      reply.rows.push_back({row.kernel, row.launch, row.part, row.calls, row.us, row.duration_us, row.declared_bytes});
    return reply;
  }

  // What only rounds with drafts have.
  static void tell_drafts(const std::vector<engine::Round>& rounds, RunReply& reply) {
    const auto verifies_more = [](const engine::Round& round) { return round.drafted > 0 || round.nodes > 1; };
    if (std::none_of(rounds.begin(), rounds.end(), verifies_more)) return;
    for (const engine::Round& round : rounds) {
      reply.round_nodes.push_back(round.nodes);
      reply.round_drafted.push_back(round.drafted);
      reply.round_cut.push_back(round.cut ? 1 : 0);
      const auto times = round.phases.all_ns();
      for (std::size_t phase = 0; phase < times.size(); ++phase) reply.round_phase_ns[phase].push_back(times[phase]);
    }
  }

  RunReply replay(engine::Backend& backend, const RunCall& call) const {
    std::unique_ptr<engine::TokenPolicy> policy =
        call.temperature > 0 ? engine::make_sampled_policy(call.temperature, call.seed, call.prompt_id)
                             : engine::make_greedy_policy();
    const auto vocabulary = static_cast<std::int32_t>(backend.config().vocab_size);
    if (std::any_of(call.forced.begin(), call.forced.end(), [&](std::int32_t token) { return token >= vocabulary; }))
      throw input_error("forced", "holds a token outside the vocabulary of " + std::to_string(vocabulary));
    if (!call.forced.empty()) policy = engine::make_forced_policy(call.forced, std::move(policy));
    engine::GenerationLimits limits{call.max_tokens, backend.config().eos_token_ids};
    limits.recorded = call.rounds;
    limits.prefixes = {prefix_cache_.get(), prefix_identity_};
    const engine::Generation generation = engine::generate(backend, call.prompt, *policy, limits);

    RunReply reply;
    reply.outcome = engine::to_text(generation.outcome);
    reply.tokens = generation.tokens;
    if (call.natural) reply.natural = generation.natural;
    for (std::size_t i = 0; i < generation.tokens.size(); ++i)
      reply.agreed += generation.tokens[i] == generation.natural[i] ? 1 : 0;
    reply.prefill_ns = generation.prefill_ns;
    reply.first_token_ns = generation.first_token_ns;
    reply.decode_ns = generation.decode_ns;
    reply.total_ns = generation.total_ns;
    bool spun = false;
    for (const engine::Round& round : generation.rounds) {
      reply.round_ns.push_back(round.duration_ns);
      reply.round_tokens.push_back(round.tokens);
      reply.round_spun_ns.push_back(round.spun_ns);
      spun = spun || round.spun_ns > 0;
    }
    if (!spun) reply.round_spun_ns.clear();
    tell_drafts(generation.rounds, reply);
    reply.peak_memory_bytes = static_cast<std::int64_t>(peak_resident_bytes(::getpid()).value_or(0));
    return reply;
  }
};

}  // namespace

int serve_worker(int input, int output) {
  LineReader reader(input);
  EngineWorker worker;
  std::string line;
  int code = 0;
  while (reader.next(line)) {
    std::string reply;
    try {
      std::optional<std::string> answer = worker.answer(line);
      if (!answer) {
        (void)write_all(output, close_reply_line());
        return code;
      }
      reply = std::move(*answer);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInternal) code = exit_code(error.kind());
      reply = error_line(error);
    } catch (const std::bad_alloc&) {
      reply =
          error_line(Error(ErrorKind::kEnvironment, "memory is exhausted", "worker", "use a smaller model or context"));
    } catch (const std::exception& failure) {
      code = exit_code(ErrorKind::kInternal);
      reply = error_line(internal_error(failure.what()));
    }
    if (!write_all(output, std::move(reply))) return code;  // the harness is gone
  }
  return code;
}

}  // namespace tare::harness

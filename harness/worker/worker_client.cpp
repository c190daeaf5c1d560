#include "harness/worker/worker_client.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace tare::harness {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kDeathTime = std::chrono::seconds(2);  // a process that closed its output is given this long to end

std::chrono::nanoseconds seconds(double value) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(value));
}

std::string hint_of(ChildProcess& process) {
  const std::string words = process.last_words();
  return words.empty() ? "it said nothing on its standard error" : "its last words: " + words;
}

// Nobody of ours has sent it.
std::string hint_of_end(const ExitStatus& status) {
  return status.signalled && status.code == 128 + SIGKILL
             ? "signal 9 is what a kernel out of memory sends (dmesg says so, and a control group's memory.events); "
             : "";
}

}  // namespace

WorkerClient::WorkerClient(std::string name, std::vector<std::string> argv, WorkerLimits limits)
    : name_(std::move(name)), limits_(limits), process_(std::move(argv)), started_(Clock::now()) {
  const Answer answer = ask("hello", hello_line(), start_time_left());
  hello_ = parse_hello_reply(answer.json, where("hello"));
}

std::string WorkerClient::where(const std::string& call) const {
  return fmt::format("arm {}: {}", name_, call);
}

std::chrono::nanoseconds WorkerClient::start_time_left() const {
  return std::max(std::chrono::nanoseconds(0), seconds(limits_.start_s) - (Clock::now() - started_));
}

std::chrono::nanoseconds WorkerClient::call_time() const {
  return seconds(limits_.call_s);
}

WorkerClient::Answer WorkerClient::ask(const std::string& call, const std::string& line,
                                       std::chrono::nanoseconds timeout) {
  const Clock::time_point start = Clock::now();
  std::string text;
  ChildProcess::ReadResult result = ChildProcess::ReadResult::kEnd;
  const ChildProcess::WriteResult sent = process_.write_line(line, timeout);
  if (sent == ChildProcess::WriteResult::kTimeout) result = ChildProcess::ReadResult::kTimeout;
  if (sent == ChildProcess::WriteResult::kWritten) {
    const auto left = timeout - std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start);
    result = process_.read_line(text, std::max(std::chrono::nanoseconds(0), left));
  }
  const auto outer_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  switch (result) {
    case ChildProcess::ReadResult::kLine:
      break;
    case ChildProcess::ReadResult::kTimeout: {
      const ExitStatus status = process_.kill();
      throw Error(ErrorKind::kEnvironment,
                  fmt::format("the worker (pid {}) {} for {} and was stopped ({})", process_.pid(),
                              sent == ChildProcess::WriteResult::kTimeout ? "did not take the call" : "gave no answer",
                              human_seconds(std::chrono::duration<double>(timeout).count()), to_text(status)),
                  where(call), hint_of(process_));
    }
    case ChildProcess::ReadResult::kTooLong: {
      (void)process_.kill();
      throw Error(ErrorKind::kInput,
                  fmt::format("the worker (pid {}) wrote over {} without ending its line, and was stopped",
                              process_.pid(), human_bytes(kLongestLineBytes)),
                  where(call), hint_of(process_));
    }
    case ChildProcess::ReadResult::kEnd: {
      const std::optional<ExitStatus> status = process_.wait(kDeathTime);
      if (!status) {
        (void)process_.kill();
        throw Error(
            ErrorKind::kEnvironment,
            fmt::format("the worker (pid {}) closed its output without ending, and was stopped", process_.pid()),
            where(call), hint_of(process_));
      }
      throw Error(ErrorKind::kEnvironment,
                  fmt::format("the worker (pid {}) ended: {}", process_.pid(), to_text(*status)), where(call),
                  hint_of_end(*status) + hint_of(process_));
    }
  }
  try {
    return {parse_json(text, where(call)), outer_ns};
  } catch (const Error& error) {
    constexpr std::size_t kShown = 120;
    throw Error(ErrorKind::kInput, error.parts().what, error.parts().where,
                fmt::format("the worker wrote: {}", text.substr(0, kShown)));
  }
}

OpenReply WorkerClient::open(const OpenCall& call) {
  return parse_open_reply(ask("open", to_line(call), start_time_left()).json, where("open"));
}

EncodeReply WorkerClient::encode(const EncodeCall& call) {
  EncodeReply reply = parse_encode_reply(ask("encode", to_line(call), call_time()).json, where("encode"));
  if (reply.tokens.size() != call.texts.size())
    throw input_error(where("encode"),
                      fmt::format("{} lists of tokens for {} texts", reply.tokens.size(), call.texts.size()));
  return reply;
}

TimedRun WorkerClient::run(const RunCall& call) {
  const std::string place = where(fmt::format("prompt {}", call.prompt_id));
  Answer answer = ask(fmt::format("prompt {}", call.prompt_id), to_line(call), call_time());
  TimedRun timed{parse_run_reply(answer.json, place), answer.outer_ns};
  if (!call.forced.empty() && timed.reply.outcome == "forced_text" && timed.reply.tokens != call.forced)
    throw Error(ErrorKind::kInvalid, "the worker committed other tokens than it was forced onto", place);
  return timed;
}

ProfileReply WorkerClient::profile(const RunCall& call) {
  const std::string name = fmt::format("profile of prompt {}", call.prompt_id);
  ProfileReply reply = parse_profile_reply(ask(name, profile_line(call), call_time()).json, where(name));
  if (!call.forced.empty() && reply.run.outcome == "forced_text" && reply.run.tokens != call.forced)
    throw Error(ErrorKind::kInvalid, "the worker committed other tokens than it was forced onto", where(name));
  return reply;
}

ExitStatus WorkerClient::close() noexcept {
  try {
    const std::chrono::nanoseconds time = seconds(limits_.close_s);
    std::string line;
    if (process_.write_line(close_line(), time) == ChildProcess::WriteResult::kWritten)
      (void)process_.read_line(line, time);
    process_.close_input();
    if (const auto status = process_.wait(time)) return *status;
  } catch (...) {  // closing is best effort: what counts has been stored
  }
  return process_.kill();
}

}  // namespace tare::harness

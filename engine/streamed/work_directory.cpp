#include "engine/streamed/work_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_reader.h"
#include "base/text.h"

namespace tare::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kVersion = 1;
constexpr const char* kOtherHint = "write to another file, or remove that directory";

// An open file, closed on destruction.
class OpenFile {
 public:
  OpenFile(const fs::path& path, int flags) : path_(path.string()), descriptor_(::open(path.c_str(), flags, 0644)) {
    if (descriptor_ < 0) fail("cannot be opened");
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() { (void)::close(descriptor_); }

  void write(std::span<const std::byte> bytes, std::uint64_t offset) const {
    while (!bytes.empty()) {
      const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail("cannot be written");
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      offset += static_cast<std::uint64_t>(written);
    }
  }
  void read(std::span<std::byte> bytes, std::uint64_t offset) const {
    while (!bytes.empty()) {
      const ssize_t got = ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got == 0) throw input_error(path_, "ends before its last window", kOtherHint);
      if (got < 0) fail("cannot be read");
      bytes = bytes.subspan(static_cast<std::size_t>(got));
      offset += static_cast<std::uint64_t>(got);
    }
  }

 private:
  std::string path_;
  int descriptor_;

  [[noreturn]] void fail(const char* what) const {
    throw Error(ErrorKind::kEnvironment, fmt::format("{}: {}", what, std::strerror(errno)), path_);
  }
};

std::uint64_t window_bytes(const WorkIdentity& identity) {
  return sizeof(float) * static_cast<std::uint64_t>(identity.shape.window_tokens * identity.hidden_size);
}

Json to_json(const WorkIdentity& identity) {
  return {{"checkpoint", identity.digests.checkpoint},
          {"tokenizer", identity.digests.tokenizer},
          {"texts", identity.digests.texts},
          {"tokens", identity.digests.tokens},
          {"backend", identity.backend},
          {"windows", identity.shape.windows},
          {"window_tokens", identity.shape.window_tokens}};
}

}  // namespace

std::uint64_t WorkDirectory::bytes(const StreamedShape& shape, std::int64_t hidden_size) {
  return 2 * sizeof(float) * static_cast<std::uint64_t>(shape.positions() * hidden_size);
}

WorkDirectory::WorkDirectory(fs::path path, WorkIdentity identity)
    : path_(std::move(path)), identity_(std::move(identity)) {
  std::error_code failure;
  fs::create_directories(path_, failure);
  if (failure) throw Error(ErrorKind::kEnvironment, "cannot be made: " + failure.message(), path_.string());
  if (fs::exists(state_path())) {
    read_state();
    return;
  }
  const fs::space_info space = fs::space(path_, failure);
  const std::uint64_t wanted = bytes(identity_.shape, identity_.hidden_size);
  if (!failure && space.available < wanted)
    throw Error(
        ErrorKind::kEnvironment,
        fmt::format("activations need {}, the disk has {} left", human_bytes(wanted), human_bytes(space.available)),
        path_.string(), "write to another disk, or take fewer windows");
}

fs::path WorkDirectory::file(int index) const {
  return path_ / fmt::format("activations.{}", index);
}

void WorkDirectory::read_state() {
  const Json json = read_json_file(state_path());
  JsonReader reader(json, state_path().string());
  if (const std::int64_t version = reader.integer("tare_reference_work"); version != kVersion)
    throw reader.error("tare_reference_work", fmt::format("is {}, this program goes on from {}", version, kVersion),
                       kOtherHint);
  const Json& own = reader.any("of");
  const Json wanted = to_json(identity_);
  for (const auto& [key, value] : wanted.items())
    if (!own.contains(key) || own[key] != value)
      throw input_error(path_.string(),
                        fmt::format("is of another reference: its {} is {}, this one's is {}", key,
                                    own.contains(key) ? brief_json(own[key]) : "missing", brief_json(value)),
                        kOtherHint);
  layers_done_ = reader.integer("layers_done", 0);
  complete_file_ = static_cast<int>(reader.integer("file", 0, 1));
  complete_digest_ = reader.text("digest");
  reader.refuse_unknown_keys();
}

void WorkDirectory::verify() const {
  if (digest_file(file(complete_file_)) != complete_digest_)
    throw input_error(file(complete_file_).string(), "is damaged: it is not what state.json says it is",
                      "remove the directory and start again");
}

void WorkDirectory::read(std::int64_t window, std::span<float> rows) const {
  OpenFile(file(complete_file_), O_RDONLY)
      .read(std::as_writable_bytes(rows), static_cast<std::uint64_t>(window) * window_bytes(identity_));
}

void WorkDirectory::write(std::int64_t window, std::span<const float> rows) {
  OpenFile(file(1 - complete_file_), O_WRONLY | O_CREAT)
      .write(std::as_bytes(rows), static_cast<std::uint64_t>(window) * window_bytes(identity_));
}

void WorkDirectory::complete(std::int64_t layers_done) {
  const int completed = 1 - complete_file_;
  const std::string digest = digest_file(file(completed));
  const Json state = {{"tare_reference_work", kVersion},
                      {"of", to_json(identity_)},
                      {"layers_done", layers_done},
                      {"file", completed},
                      {"digest", digest}};
  write_file_atomically(state_path(), state.dump(2) + "\n");
  complete_file_ = completed;
  complete_digest_ = digest;
  layers_done_ = layers_done;
}

void WorkDirectory::remove() {
  std::error_code ignored;  // what is left is named by its directory, and goes on being of this reference
  for (const fs::path& path : {state_path(), file(0), file(1), path_}) fs::remove(path, ignored);
}

}  // namespace tare::engine

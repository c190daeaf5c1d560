#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/error.h"

namespace tare {

std::string read_text_file(const std::filesystem::path& path) {
  std::error_code status;
  if (std::filesystem::is_directory(path, status)) throw input_error(path.string(), "is a directory, not a file");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw input_error(path.string(), std::string("cannot be opened: ") + std::strerror(errno));
  std::ostringstream content;
  content << file.rdbuf();
  if (file.bad()) throw input_error(path.string(), "cannot be read to its end");
  return std::move(content).str();
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  write_file_atomically(path, std::span<const std::string_view>(&content, 1));
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::string_view> pieces) {
  const std::filesystem::path temporary = path.string() + ".tmp" + std::to_string(getpid());
  {
    errno = 0;
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    for (const std::string_view piece : pieces) file.write(piece.data(), static_cast<std::streamsize>(piece.size()));
    file.flush();
    if (!file) {
      const int reason = errno;
      std::error_code ignored;
      std::filesystem::remove(temporary, ignored);
      throw Error(ErrorKind::kEnvironment, std::string("cannot be written: ") + std::strerror(reason), path.string(),
                  "check the disk's space and permissions");
    }
  }
  std::error_code failure;
  std::filesystem::rename(temporary, path, failure);
  if (failure)
    throw Error(ErrorKind::kEnvironment, "cannot be renamed into place: " + failure.message(), path.string());
}

std::optional<std::string> environment_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw input_error(path.string(), std::string("cannot be opened: ") + std::strerror(errno));
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    throw input_error(path.string(), "is not a regular file");
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ > 0) {
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    const int reason = errno;
    ::close(descriptor);
    if (address == MAP_FAILED) {
      size_ = 0;
      throw Error(reason == ENOMEM ? ErrorKind::kEnvironment : ErrorKind::kInput,
                  std::string("cannot be mapped into memory: ") + std::strerror(reason), path.string());
    }
    data_ = static_cast<const std::byte*>(address);
  } else {
    ::close(descriptor);
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  // munmap takes a plain pointer; the mapping itself is read-only.
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace tare

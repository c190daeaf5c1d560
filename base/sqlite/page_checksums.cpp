#include "base/sqlite/page_checksums.h"

#include <sqlite3.h>
#include <xxhash.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "base/error.h"

namespace tare {
namespace {

constexpr const char* kName = "tare-checked";

// Of the database's header (https://www.sqlite.org/fileformat2.html).
constexpr int kHeaderBytes = 100;
constexpr char kMagic[] = "SQLite format 3";
constexpr std::size_t kPageSizeAt = 16;  // two bytes, big-endian; 1 means 65,536
constexpr std::size_t kReservedAt = 20;

constexpr int kUnknown = -1;   // an empty file: the first page that is written tells
constexpr int kUnchecked = 0;  // pages without checksums
constexpr int kSmallestPage = 512;

// What SQLite sees as the open database; the file of the default layer lies behind it.
struct CheckedFile {
  sqlite3_file seen;
  std::int64_t page_bytes;  // of pages with a checksum, or one of the two above
};

CheckedFile* checked(sqlite3_file* file) {
  return reinterpret_cast<CheckedFile*>(file);
}

sqlite3_file* real(sqlite3_file* file) {
  return reinterpret_cast<sqlite3_file*>(checked(file) + 1);
}

void learn_from_header(CheckedFile& file, const unsigned char* page, int bytes) {
  if (bytes < kHeaderBytes || std::memcmp(page, kMagic, sizeof kMagic) != 0) return;
  const int size = page[kPageSizeAt] << 8 | page[kPageSizeAt + 1];
  file.page_bytes = page[kReservedAt] != kPageChecksumBytes ? kUnchecked : size == 1 ? 65'536 : size;
}

bool is_checked_page(const CheckedFile& file, int bytes, sqlite3_int64 offset) {
  return file.page_bytes > 0 && bytes == file.page_bytes && offset % bytes == 0;
}

std::array<unsigned char, kPageChecksumBytes> checksum(const unsigned char* page, int bytes, sqlite3_int64 offset) {
  const auto number = static_cast<XXH64_hash_t>(offset / bytes + 1);
  const XXH64_hash_t sum = XXH3_64bits_withSeed(page, static_cast<std::size_t>(bytes - kPageChecksumBytes), number);
  std::array<unsigned char, kPageChecksumBytes> stored{};
  for (std::size_t i = 0; i < stored.size(); ++i) stored[i] = static_cast<unsigned char>(sum >> (8 * i));
  return stored;
}

int read(sqlite3_file* file, void* buffer, int bytes, sqlite3_int64 offset) {
  const int code = real(file)->pMethods->xRead(real(file), buffer, bytes, offset);
  if (code != SQLITE_OK) return code;  // a short read too: SQLite fills up with zeros and its own checks find it
  CheckedFile& self = *checked(file);
  const auto* page = static_cast<const unsigned char*>(buffer);
  if (offset == 0) learn_from_header(self, page, bytes);
  if (!is_checked_page(self, bytes, offset)) return SQLITE_OK;
  const auto sum = checksum(page, bytes, offset);
  if (std::memcmp(sum.data(), page + bytes - kPageChecksumBytes, sum.size()) == 0) return SQLITE_OK;
  return SQLITE_IOERR_DATA;
}

int write(sqlite3_file* file, const void* buffer, int bytes, sqlite3_int64 offset) {
  CheckedFile& self = *checked(file);
  // SQLite's own page, which it lets its layers change: what it keeps in memory, and copies into a journal, must have
  // the sum too, so that a rollback by a program without this layer restores a page that fits.
  auto* page = static_cast<unsigned char*>(const_cast<void*>(buffer));
  if (offset == 0) learn_from_header(self, page, bytes);
  if (self.page_bytes == kUnknown && bytes >= kSmallestPage) self.page_bytes = bytes;
  if (is_checked_page(self, bytes, offset)) {
    const auto sum = checksum(page, bytes, offset);
    std::memcpy(page + bytes - kPageChecksumBytes, sum.data(), sum.size());
  }
  return real(file)->pMethods->xWrite(real(file), buffer, bytes, offset);
}

// The rest goes through as it is. Version 2 of the methods: without memory mapping, which would pass by the checks.
sqlite3_io_methods make_methods() {
  sqlite3_io_methods methods{};
  methods.iVersion = 2;
  methods.xRead = &read;
  methods.xWrite = &write;
  methods.xClose = [](sqlite3_file* file) { return real(file)->pMethods->xClose(real(file)); };
  methods.xTruncate = [](sqlite3_file* file, sqlite3_int64 size) {
    return real(file)->pMethods->xTruncate(real(file), size);
  };
  methods.xSync = [](sqlite3_file* file, int flags) { return real(file)->pMethods->xSync(real(file), flags); };
  methods.xFileSize = [](sqlite3_file* file, sqlite3_int64* size) {
    return real(file)->pMethods->xFileSize(real(file), size);
  };
  methods.xLock = [](sqlite3_file* file, int level) { return real(file)->pMethods->xLock(real(file), level); };
  methods.xUnlock = [](sqlite3_file* file, int level) { return real(file)->pMethods->xUnlock(real(file), level); };
  methods.xCheckReservedLock = [](sqlite3_file* file, int* held) {
    return real(file)->pMethods->xCheckReservedLock(real(file), held);
  };
  methods.xFileControl = [](sqlite3_file* file, int what, void* value) {
    return real(file)->pMethods->xFileControl(real(file), what, value);
  };
  methods.xSectorSize = [](sqlite3_file* file) { return real(file)->pMethods->xSectorSize(real(file)); };
  methods.xDeviceCharacteristics = [](sqlite3_file* file) {
    return real(file)->pMethods->xDeviceCharacteristics(real(file));
  };
  methods.xShmMap = [](sqlite3_file* file, int page, int size, int extend, void volatile** memory) {
    return real(file)->pMethods->xShmMap(real(file), page, size, extend, memory);
  };
  methods.xShmLock = [](sqlite3_file* file, int offset, int count, int flags) {
    return real(file)->pMethods->xShmLock(real(file), offset, count, flags);
  };
  methods.xShmBarrier = [](sqlite3_file* file) { real(file)->pMethods->xShmBarrier(real(file)); };
  methods.xShmUnmap = [](sqlite3_file* file, int remove) {
    return real(file)->pMethods->xShmUnmap(real(file), remove);
  };
  return methods;
}

int open(sqlite3_vfs* layer, const char* name, sqlite3_file* file, int flags, int* flags_out) {
  static const sqlite3_io_methods methods = make_methods();
  auto* below = static_cast<sqlite3_vfs*>(layer->pAppData);
  // Journals and temporary files have no pages of the database's form.
  if ((flags & SQLITE_OPEN_MAIN_DB) == 0) return below->xOpen(below, name, file, flags, flags_out);
  const int code = below->xOpen(below, name, real(file), flags, flags_out);
  *checked(file) = {{real(file)->pMethods == nullptr ? nullptr : &methods}, kUnknown};
  return code;
}

sqlite3_vfs make_layer() {
  sqlite3_vfs* below = sqlite3_vfs_find(nullptr);
  if (below == nullptr) throw internal_error("SQLite has no default file system layer");
  // All but opening is the layer's below: those functions do not look at the layer they are called through.
  sqlite3_vfs layer = *below;
  layer.pNext = nullptr;
  layer.zName = kName;
  layer.szOsFile = static_cast<int>(sizeof(CheckedFile)) + below->szOsFile;
  layer.pAppData = below;
  layer.xOpen = &open;
  return layer;
}

}  // namespace

const char* checked_file_layer() {
  static sqlite3_vfs layer = make_layer();
  static const int code = sqlite3_vfs_register(&layer, 0);
  if (code != SQLITE_OK) throw internal_error("SQLite does not take a file system layer");
  return kName;
}

}  // namespace tare

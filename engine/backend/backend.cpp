#include "engine/backend/backend.h"

#include <numeric>
#include <vector>

#include "base/error.h"

namespace tare::engine {

DraftOutput Backend::draft(const DraftRequest&) {
  throw internal_error("a draft of a backend without a drafter");
}

std::vector<std::byte> Backend::export_rows(std::int64_t, std::int64_t) {
  throw internal_error("rows of a backend that keeps no prefixes");
}

SequenceCheckpoint Backend::export_checkpoint() {
  throw internal_error("a checkpoint of a backend that keeps no prefixes");
}

void Backend::import_rows(std::int64_t, std::int64_t, std::span<const std::byte>) {
  throw internal_error("rows for a backend that keeps no prefixes");
}

void Backend::import_checkpoint(const SequenceCheckpoint&) {
  throw internal_error("a checkpoint for a backend that keeps no prefixes");
}

void Backend::commit(int count) {
  if (count < 0) throw internal_error("commit of a negative number of tokens");
  std::vector<std::int32_t> path(static_cast<std::size_t>(count));
  std::iota(path.begin(), path.end(), 0);
  commit(path);
}

}  // namespace tare::engine

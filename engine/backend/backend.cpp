#include "engine/backend/backend.h"

#include <numeric>
#include <vector>

#include "base/error.h"

namespace tare::engine {

DraftOutput Backend::draft(const DraftRequest&) {
  throw internal_error("a draft of a backend without a drafter");
}

void Backend::commit(int count) {
  if (count < 0) throw internal_error("commit of a negative number of tokens");
  std::vector<std::int32_t> path(static_cast<std::size_t>(count));
  std::iota(path.begin(), path.end(), 0);
  commit(path);
}

}  // namespace tare::engine

#include "engine/tokenizer/byte_pair_encoding.h"

#include <functional>
#include <queue>

namespace tare::engine {
namespace {

constexpr std::uint32_t kNone = UINT32_MAX;

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) | static_cast<std::uint32_t>(right);
}

// A piece under work: a doubly linked list in an array; a joined symbol lives at its first byte's place.
struct Symbol {
  std::int32_t id;
  std::uint32_t previous;
  std::uint32_t next;
};

}  // namespace

BytePairEncoding::BytePairEncoding(const std::vector<Merge>& merges, const std::array<std::int32_t, 256>& byte_ids,
                                   std::unordered_map<std::string, std::int32_t> whole_pieces)
    : byte_ids_(byte_ids), whole_pieces_(std::move(whole_pieces)) {
  merges_.reserve(merges.size());
  for (std::uint32_t rank = 0; rank < merges.size(); ++rank)  // of a merge listed twice the last one counts
    merges_.insert_or_assign(pair_key(merges[rank].left, merges[rank].right), Ranked{rank, merges[rank].joined});
}

const BytePairEncoding::Ranked* BytePairEncoding::merge_of(std::int32_t left, std::int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BytePairEncoding::encode(std::string_view piece, std::vector<std::int32_t>& ids) const {
  if (!whole_pieces_.empty()) {
    if (const auto whole = whole_pieces_.find(std::string(piece)); whole != whole_pieces_.end()) {
      ids.push_back(whole->second);
      return;
    }
  }
  const auto count = static_cast<std::uint32_t>(piece.size());
  std::vector<Symbol> symbols(count);
  for (std::uint32_t i = 0; i < count; ++i)
    symbols[i] = {byte_ids_[static_cast<unsigned char>(piece[i])], i == 0 ? kNone : i - 1,
                  i + 1 == count ? kNone : i + 1};
  // (rank, place of the left symbol), smallest first. An entry whose neighbours have changed since is skipped: their
  // merge, if there is one, has another rank or was queued again.
  std::priority_queue<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::pair<std::uint32_t, std::uint32_t>>,
                      std::greater<>>
      queue;
  const auto enqueue = [&](std::uint32_t left) {
    if (left == kNone || symbols[left].next == kNone) return;
    if (const Ranked* merge = merge_of(symbols[left].id, symbols[symbols[left].next].id))
      queue.emplace(merge->rank, left);
  };
  for (std::uint32_t i = 0; i < count; ++i) enqueue(i);
  constexpr std::int32_t kDead = -1;
  while (!queue.empty()) {
    const auto [rank, left] = queue.top();
    queue.pop();
    Symbol& symbol = symbols[left];
    if (symbol.id == kDead || symbol.next == kNone) continue;
    Symbol& joining = symbols[symbol.next];
    const Ranked* merge = merge_of(symbol.id, joining.id);
    if (merge == nullptr || merge->rank != rank) continue;
    symbol.id = merge->joined;
    symbol.next = joining.next;
    joining.id = kDead;
    if (symbol.next != kNone) symbols[symbol.next].previous = left;
    enqueue(symbol.previous);
    enqueue(left);
  }
  for (std::uint32_t i = 0; i != kNone && count > 0; i = symbols[i].next) ids.push_back(symbols[i].id);
}

}  // namespace tare::engine

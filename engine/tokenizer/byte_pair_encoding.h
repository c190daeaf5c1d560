// Byte pair encoding of one piece of text: starts from single bytes and joins, again and again, the neighbours whose
// merge was learnt first (of equal merges the leftmost), until no neighbours can be joined.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tare::engine {

class BytePairEncoding {
 public:
  struct Merge {
    std::int32_t left, right, joined;
  };

  // `merges` in the order of learning; `byte_ids` the token of each byte; `whole_pieces` the tokens that stand for a
  // whole piece without merging (empty unless the file says ignore_merges).
  BytePairEncoding(const std::vector<Merge>& merges, const std::array<std::int32_t, 256>& byte_ids,
                   std::unordered_map<std::string, std::int32_t> whole_pieces);

  // Appends the ids of the piece. O(n log n) in its length.
  void encode(std::string_view piece, std::vector<std::int32_t>& ids) const;

 private:
  struct Ranked {
    std::uint32_t rank;
    std::int32_t joined;
  };

  std::unordered_map<std::uint64_t, Ranked> merges_;
  std::array<std::int32_t, 256> byte_ids_;
  std::unordered_map<std::string, std::int32_t> whole_pieces_;

  [[nodiscard]] const Ranked* merge_of(std::int32_t left, std::int32_t right) const;
};

}  // namespace tare::engine

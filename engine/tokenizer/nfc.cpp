#include "engine/tokenizer/nfc.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/tokenizer/nfc_table.h"
#include "engine/tokenizer/utf8.h"

namespace tare::engine {
namespace {

// Text below U+0300 is in NFC already: no combining marks, and every letter there is composed.
constexpr char32_t kFirstAffected = 0x300;

// Hangul syllables are composed by arithmetic (Unicode Standard, section 3.12).
constexpr char32_t kSyllables = 0xAC00;
constexpr char32_t kLeads = 0x1100;
constexpr char32_t kVowels = 0x1161;
constexpr char32_t kTrails = 0x11A7;  // one before the first trailing consonant
constexpr char32_t kLeadCount = 19;
constexpr char32_t kVowelCount = 21;
constexpr char32_t kTrailCount = 28;
constexpr char32_t kSyllableCount = kLeadCount * kVowelCount * kTrailCount;

bool is_affected(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_sequence_length(text, i);
    if (utf8_code_point(text, i, length) >= kFirstAffected) return true;
    i += length;
  }
  return false;
}

std::uint8_t combining_class(char32_t point) {
  const auto ranges = combining_ranges();
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), point,
                                      [](char32_t value, const CombiningRange& range) { return value < range.first; });
  if (after == ranges.begin()) return 0;
  const CombiningRange& range = *(after - 1);
  return point <= range.last ? range.combining_class : std::uint8_t{0};
}

template <typename Entry>
const Entry* entry_of(std::span<const Entry> table, char32_t point) {
  const auto found = std::lower_bound(table.begin(), table.end(), point,
                                      [](const Entry& entry, char32_t value) { return entry.composed < value; });
  return found != table.end() && found->composed == point ? &*found : nullptr;
}

struct Character {
  char32_t point;
  std::uint8_t combining_class;
};

void append_decomposed(std::vector<Character>& characters, char32_t point) {
  if (point >= kSyllables && point < kSyllables + kSyllableCount) {
    const char32_t index = point - kSyllables;
    characters.push_back({kLeads + index / (kVowelCount * kTrailCount), 0});
    characters.push_back({kVowels + index / kTrailCount % kVowelCount, 0});
    if (index % kTrailCount != 0) characters.push_back({kTrails + index % kTrailCount, 0});
  } else if (const CanonicalPair* pair = entry_of(canonical_pairs(), point)) {
    append_decomposed(characters, pair->first);
    append_decomposed(characters, pair->second);
  } else if (const CanonicalSingleton* singleton = entry_of(canonical_singletons(), point)) {
    append_decomposed(characters, singleton->only);
  } else {
    characters.push_back({point, combining_class(point)});
  }
}

// Each run of combining marks is sorted by class, equal classes stay in order.
void order_canonically(std::vector<Character>& characters) {
  auto begin = characters.begin();
  while (begin != characters.end()) {
    if (begin->combining_class == 0) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(begin, characters.end(),
                                  [](const Character& character) { return character.combining_class == 0; });
    std::stable_sort(begin, end,
                     [](const Character& a, const Character& b) { return a.combining_class < b.combining_class; });
    begin = end;
  }
}

// Pairs that compose, sorted by (first, second).
std::vector<CanonicalPair> make_compositions() {
  const auto excluded = composition_exclusions();
  std::vector<CanonicalPair> compositions;
  for (const CanonicalPair& pair : canonical_pairs())
    if (!std::binary_search(excluded.begin(), excluded.end(), pair.composed)) compositions.push_back(pair);
  std::sort(compositions.begin(), compositions.end(), [](const CanonicalPair& a, const CanonicalPair& b) {
    return std::pair(a.first, a.second) < std::pair(b.first, b.second);
  });
  return compositions;
}

// The character that the two compose into; 0 when they do not.
char32_t composed(char32_t first, char32_t second) {
  static const std::vector<CanonicalPair> compositions = make_compositions();
  if (first >= kLeads && first < kLeads + kLeadCount && second >= kVowels && second < kVowels + kVowelCount)
    return kSyllables + ((first - kLeads) * kVowelCount + (second - kVowels)) * kTrailCount;
  const bool open_syllable =
      first >= kSyllables && first < kSyllables + kSyllableCount && (first - kSyllables) % kTrailCount == 0;
  if (open_syllable && second > kTrails && second < kTrails + kTrailCount) return first + (second - kTrails);
  const auto found = std::lower_bound(compositions.begin(), compositions.end(), std::pair(first, second),
                                      [](const CanonicalPair& pair, const std::pair<char32_t, char32_t>& wanted) {
                                        return std::pair(pair.first, pair.second) < wanted;
                                      });
  const bool matches = found != compositions.end() && found->first == first && found->second == second;
  return matches ? found->composed : 0;
}

// A character joins the last starter before it unless something between blocks it: a character of class 0, or of a
// class that is not below its own.
void compose(std::vector<Character>& characters) {
  std::size_t kept = 0;
  std::size_t starter = characters.size();  // none yet
  for (std::size_t i = 0; i < characters.size(); ++i) {
    const Character next = characters[i];
    if (starter < kept) {
      const bool adjacent = starter + 1 == kept;
      const std::uint8_t between = characters[kept - 1].combining_class;
      const bool blocked = !adjacent && (between == 0 || between >= next.combining_class);
      const char32_t joined = blocked ? 0 : composed(characters[starter].point, next.point);
      if (joined != 0) {
        characters[starter].point = joined;
        continue;
      }
    }
    if (next.combining_class == 0) starter = kept;
    characters[kept++] = next;
  }
  characters.resize(kept);
}

}  // namespace

std::string normalize_nfc(std::string_view text) {
  if (!is_affected(text)) return std::string(text);
  std::vector<Character> characters;
  characters.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_sequence_length(text, i);
    append_decomposed(characters, utf8_code_point(text, i, length));
    i += length;
  }
  order_canonically(characters);
  compose(characters);
  std::string normalized;
  normalized.reserve(text.size());
  for (const Character& character : characters) append_utf8(normalized, character.point);
  return normalized;
}

}  // namespace tare::engine

#include "stats/schedule.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string_view>

#include "base/error.h"
#include "base/philox.h"

namespace tare::stats {
namespace {

// Stream numbers of the schedule's draws; kept apart from the bootstrap's by the high bits.
constexpr std::uint64_t kLetterStream = 0x5c4ed01e00000000;

constexpr int kSmallestPalindromeArms = 6;

// Shortest orders with equal counts, sums and sums of squares (exhaustive search; none shorter exists).
std::string_view searched_order(int arms) {
  switch (arms) {
    case 2:
      return "ABBABAAB";
    case 3:
      return "ABCABCCCBBAABAACCB";
    case 4:
      return "ABCDCDBDACABABDBCACDCDAB";
    case 5:
      return "ABCDDAEEBCEECCDBBDBAAAACDDEECB";
    default:
      return {};
  }
}

void require_arms(int arms) {
  if (arms < 2) throw input_error("arms", "an order needs at least two arms");
}

// Which arm each letter stands for: a permutation of 0..arms-1 drawn from (seed, number).
std::vector<int> draw_letters(int arms, std::uint64_t seed, std::uint64_t number) {
  std::vector<int> letters(static_cast<std::size_t>(arms));
  std::iota(letters.begin(), letters.end(), 0);
  Philox random(seed, kLetterStream + number);
  for (std::size_t i = letters.size() - 1; i > 0; --i) std::swap(letters[i], letters[random.below(i + 1)]);
  return letters;
}

// 0, 1, k-1, 2, k-2, ...: all differences of neighbours, modulo an even k, are different; an odd k needs the reversal
// too.
std::vector<std::size_t> williams_sequence(std::size_t arms) {
  std::vector<std::size_t> sequence = {0};
  for (std::size_t step = 1; sequence.size() < arms; ++step) {
    sequence.push_back(step);
    if (sequence.size() < arms) sequence.push_back(arms - step);
  }
  return sequence;
}

std::vector<int> rotated(std::vector<int> order, std::size_t places) {
  const auto middle = static_cast<std::ptrdiff_t>(places % order.size());
  std::rotate(order.begin(), order.begin() + middle, order.end());
  return order;
}

void append_block(Schedule& schedule, int block, const std::vector<int>& order) {
  int slot = 0;
  for (const int arm : order) schedule.slots.push_back({.block = block, .slot = slot++, .arm = arm});
}

void require_blocks(int blocks) {
  if (blocks < 1) throw input_error("blocks", "a schedule needs at least one block");
}

}  // namespace

int thue_morse_sign(std::uint64_t index) {
  return std::popcount(index) % 2 == 0 ? 1 : -1;
}

std::vector<int> block_order(int arms) {
  require_arms(arms);
  std::vector<int> order;
  if (arms >= kSmallestPalindromeArms) {
    order.resize(static_cast<std::size_t>(arms));
    std::iota(order.begin(), order.end(), 0);
    for (int arm = arms - 1; arm >= 0; --arm) order.push_back(arm);
    return order;
  }
  for (const char letter : searched_order(arms)) order.push_back(letter - 'A');
  return order;
}

Schedule make_schedule(int arms, int blocks, std::uint64_t seed) {
  require_arms(arms);
  require_blocks(blocks);
  Schedule schedule{.arms = arms, .blocks = blocks, .slots = {}};
  const std::vector<int> letters = draw_letters(arms, seed, 0);
  for (int block = 0; block < blocks; ++block) {
    std::vector<int> order = block_order(arms);
    const bool inverted = thue_morse_sign(static_cast<std::uint64_t>(block)) < 0;
    if (arms == 2) {
      for (int& letter : order) letter = inverted ? 1 - letter : letter;
    } else if (inverted) {
      std::reverse(order.begin(), order.end());
    }
    // A palindrome is its own reversal, so its blocks differ by fresh letters instead.
    const std::vector<int> block_letters =
        arms >= kSmallestPalindromeArms ? draw_letters(arms, seed, static_cast<std::uint64_t>(block)) : letters;
    for (int& letter : order) letter = block_letters[static_cast<std::size_t>(letter)];
    append_block(schedule, block, order);
  }
  return schedule;
}

Schedule make_resident_schedule(int arms, int blocks, std::uint64_t seed) {
  require_arms(arms);
  require_blocks(blocks);
  Schedule schedule{.arms = arms, .blocks = blocks, .slots = {}};
  const std::vector<int> letters = draw_letters(arms, seed, 0);
  for (int block = 0; block < blocks; ++block) {
    const std::size_t places = arms > 2 ? static_cast<std::size_t>(block / 2) : 0;
    std::vector<int> order = rotated(letters, places);
    if (block % 2 == 1) std::reverse(order.begin(), order.end());
    append_block(schedule, block, order);
  }
  return schedule;
}

std::vector<int> prompt_visit_order(int arms, std::size_t prompt, int block, std::uint64_t seed) {
  require_arms(arms);
  const std::vector<int> letters = draw_letters(arms, seed, 0);
  const std::size_t places = arms > 2 ? prompt / 2 : 0;
  std::vector<int> order;
  for (const std::size_t place : williams_sequence(letters.size()))
    order.push_back(letters[(place + places) % letters.size()]);
  if (thue_morse_sign(prompt) * thue_morse_sign(static_cast<std::uint64_t>(block)) < 0) {
    std::reverse(order.begin(), order.end());
  }
  return order;
}

std::vector<std::int64_t> power_sums(std::span<const int> order, int arm, int degree) {
  std::vector<std::int64_t> sums(static_cast<std::size_t>(degree) + 1, 0);
  for (std::size_t position = 0; position < order.size(); ++position) {
    if (order[position] != arm) continue;
    std::int64_t power = 1;
    for (auto& sum : sums) {
      sum += power;
      power *= static_cast<std::int64_t>(position);
    }
  }
  return sums;
}

int balanced_degree(std::span<const int> order, int arms, int limit) {
  const std::vector<std::int64_t> first = power_sums(order, 0, limit);
  int degree = limit;
  for (int arm = 1; arm < arms; ++arm) {
    const std::vector<std::int64_t> sums = power_sums(order, arm, limit);
    for (int k = 0; k <= degree; ++k) {
      if (sums[static_cast<std::size_t>(k)] != first[static_cast<std::size_t>(k)]) degree = k - 1;
    }
  }
  return degree;
}

std::vector<int> arm_sequence(const Schedule& schedule) {
  std::vector<int> sequence;
  sequence.reserve(schedule.slots.size());
  for (const Slot& slot : schedule.slots) sequence.push_back(slot.arm);
  return sequence;
}

}  // namespace tare::stats

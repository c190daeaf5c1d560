// Balanced orders: which arm runs in which slot, so that a drift of the machine weighs on all arms alike.
//
// Two arms: the Thue-Morse order A B B A B A A B, whose signs are orthogonal to 1, i, i^2 (Prouhet-Tarry-Escott). Block
// j is inverted when the j-th Thue-Morse sign is negative, so that the whole is the Thue-Morse sequence and no
// disturbance of period 8 survives. Three, four and five arms: the shortest orders with equal counts, equal sums of
// slots and equal sums of squared slots (exhaustive search); their inversion is the reversal. From six arms on: a
// palindrome a block (exact for linear drift only) with fresh letters from the seed in each block. Which arm is which
// letter comes from the seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tare::stats {

// One place in the order. Granularity `run`: a launch. Granularity `prompt`: an arm's launch within a block, `slot`
// being the position in which it was started.
struct Slot {
  int block = 0;
  int slot = 0;  // position within the block, from 0
  int arm = 0;   // 0 is the baseline

  friend bool operator==(const Slot&, const Slot&) = default;
};

struct Schedule {
  int arms = 0;
  int blocks = 0;
  std::vector<Slot> slots = {};  // in the order of execution

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// +1 or -1: (-1)^(number of set bits of index).
[[nodiscard]] int thue_morse_sign(std::uint64_t index);

// The order of one block as letters 0..arms-1: 8, 18, 24, 30 slots for 2, 3, 4, 5 arms, 2 * arms beyond.
// Throws Error (input) for arms < 2.
[[nodiscard]] std::vector<int> block_order(int arms);

// Granularity `run`: a launch per slot. Throws Error (input) for arms < 2 or blocks < 1.
[[nodiscard]] Schedule make_schedule(int arms, int blocks, std::uint64_t seed);

// Granularity `prompt`: each arm once per block, `slot` its place in the order of starting. Odd blocks start in the
// reversed order of the even block before; from three arms on the order also rotates by one every two blocks. Throws
// Error (input) for arms < 2 or blocks < 1.
[[nodiscard]] Schedule make_resident_schedule(int arms, int blocks, std::uint64_t seed);

// Granularity `prompt`: the order in which the resident arms take prompt number `prompt` (position within the prompt
// list) in `block`: a permutation of 0..arms-1. For two arms the visits of a block are one Thue-Morse sequence of 2 *
// prompts slots. For more a Williams sequence whose letters move on by one every two prompts, and its reversal: over 2
// * arms prompts every arm has every place and follows every other arm equally often (Williams 1949), so that what an
// arm leaves behind in the caches falls on all others alike.
[[nodiscard]] std::vector<int> prompt_visit_order(int arms, std::size_t prompt, int block, std::uint64_t seed);

// Sum of position^k over the positions that hold `arm`, for k = 0..degree. Exact in 64 bits for the orders above.
[[nodiscard]] std::vector<std::int64_t> power_sums(std::span<const int> order, int arm, int degree);

// The largest d <= limit such that all arms have equal sums of position^k for k = 0..d; -1 when even the counts differ.
// Polynomial drift up to degree d then cancels from every comparison of two arms' means.
[[nodiscard]] int balanced_degree(std::span<const int> order, int arms, int limit = 8);

// The arms in order of execution.
[[nodiscard]] std::vector<int> arm_sequence(const Schedule& schedule);

}  // namespace tare::stats

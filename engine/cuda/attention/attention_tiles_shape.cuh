// The instances of attention_tiles, their shared memory, and the ring that brings the cache.
#pragma once

#include "engine/cuda/attention/attention_layout.h"
#include "engine/cuda/device/ptx.cuh"

namespace tare::engine {

constexpr int kTilesWarps = 8;
constexpr int kTilesThreads = 32 * kTilesWarps;
constexpr int kPositionGroups = 4;                       // of 16 positions, in a tile
constexpr int kWarpDims = kTensorHeadDim / kTilesWarps;  // two operands A of 16 dims
constexpr int kMostSharedBytes = 232448;                 // of one block of an SM
// What two blocks of the launch before (attention_begin) take of an SM: where registers would let this one start beside
// them, shared memory must, too, or nothing is asked for ahead.
constexpr int kBesideBytes = 2 * 3584;
constexpr int kMostUnits = 12;
constexpr int kStagedRow = kTensorHeadDim + 4;  // floats; the 4 keep banks apart

// Of a column, in shared memory: found once, before the queries are there.
struct alignas(16) ColumnPlace {
  std::uint32_t seen = 0;  // bits of nodes in a round, else the last position
  int position = 0;        // -1: the column is no token's
  int part_size = 0;       // of its token
  int row = 0;             // of a part: token and head
};

template <CacheFormat kKeyFormat, CacheFormat kValueFormat, int kTiles, bool kInRound>
struct TilesShape {
  static constexpr CacheFormat kKey = kKeyFormat;
  static constexpr CacheFormat kValue = kValueFormat;
  static constexpr int kColumnTiles = kTiles;
  static constexpr int kColumns = 8 * kTiles;
  static constexpr int kHalfTiles = (kTiles + 1) / 2;  // of a warp, in S
  static constexpr bool kRound = kInRound;
  // Units of a tile, 64 positions x 256 dims, with their scales; a place of the ring holds either kind.
  static constexpr int kKeyUnits = element_bytes(kKey);
  static constexpr int kValueUnits = element_bytes(kValue);
  static constexpr int kTileUnits = kKeyUnits + kValueUnits;
  static constexpr int kKeyUnitBytes = kTilePositions * cache_row_bytes(kKey, kTensorHeadDim) / kKeyUnits;
  static constexpr int kValueUnitBytes = kTilePositions * cache_row_bytes(kValue, kTensorHeadDim) / kValueUnits;
  static constexpr int kUnitBytes = kKeyUnitBytes > kValueUnitBytes ? kKeyUnitBytes : kValueUnitBytes;
  // [ring][weights][queries][columns' places][largest: 4 columns][keep: columns][barriers]
  static constexpr int kQueryBytes = kTiles * kColumnTileElements * 2;
  static constexpr int kWeightBytes = kTiles * 8 * kTilePositions * 2;
  static constexpr int kOtherBytes = kWeightBytes + kQueryBytes +
                                     kColumns * (static_cast<int>(sizeof(ColumnPlace)) + 4 * (kPositionGroups + 1)) +
                                     8 * (kMostUnits + 1);
  // One block an SM: launched early, blocks that fit in pairs meet on the SMs that are free first while others stay
  // idle (T = 8 at 131,072: 220 us in pairs, 138 us so).
  static constexpr int kRoomBytes = kMostSharedBytes - (kTiles < kMostColumnTiles ? kBesideBytes : 0);
  static constexpr int kRoomForUnits = (kRoomBytes - kOtherBytes) / kUnitBytes;
  static constexpr int kUnits = kRoomForUnits < kMostUnits ? kRoomForUnits : kMostUnits;
  static constexpr int kRingBytes = kUnits * kUnitBytes;
  static constexpr int kSharedBytes = kRingBytes + kOtherBytes;
  static_assert(kUnits >= kTileUnits && kUnits <= kMostUnits);
  static_assert(kTiles == 1 || kTiles % 2 == 0, "both halves of the warps have the same number of column tiles");
  static_assert(kColumns * kStagedRow * 4 <= kRingBytes + kWeightBytes, "the result is staged in ring and weights");
};

// The ring as thread 0 fills it and all warps read it. Units are counted from the block's first.
template <class Shape>
struct UnitRing {
  std::uint32_t ring = 0;
  std::uint32_t barriers = 0;
  const std::byte* keys = nullptr;  // of the run's first tile
  const std::byte* values = nullptr;
  int base = 0;    // units of earlier runs
  int issued = 0;  // of this run

  __device__ __forceinline__ std::uint32_t unit(int index) const {
    return ring + static_cast<std::uint32_t>((base + index) % Shape::kUnits * Shape::kUnitBytes);
  }
  __device__ __forceinline__ void wait(int index) const {
    const int at = base + index;
    ptx::barrier_wait(barriers + static_cast<std::uint32_t>(8 * (at % Shape::kUnits)),
                      static_cast<std::uint32_t>(at / Shape::kUnits % 2));
  }
  __device__ __forceinline__ void issue_below(int limit) {
#pragma unroll 1
    for (; issued < limit; ++issued) {
      const int tile = issued / Shape::kTileUnits;
      const int within = issued % Shape::kTileUnits;
      const bool of_keys = within < Shape::kKeyUnits;
      const std::byte* source =
          of_keys ? keys + static_cast<std::int64_t>(tile * Shape::kKeyUnits + within) * Shape::kKeyUnitBytes
                  : values + static_cast<std::int64_t>(tile * Shape::kValueUnits + within - Shape::kKeyUnits) *
                                 Shape::kValueUnitBytes;
      const std::uint32_t bytes = of_keys ? Shape::kKeyUnitBytes : Shape::kValueUnitBytes;
      const std::uint32_t barrier = barriers + static_cast<std::uint32_t>(8 * ((base + issued) % Shape::kUnits));
      ptx::barrier_arrive_expect(barrier, bytes);
      ptx::bulk_copy(unit(issued), source, bytes, barrier);
    }
  }
};

}  // namespace tare::engine

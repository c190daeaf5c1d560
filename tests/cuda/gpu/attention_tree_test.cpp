// Trees through attention on the GPU: what a node sees, where it stands, and how a committed path is moved.
#include <algorithm>
#include <array>

#include "engine/backend/options.h"
#include "engine/cuda/attention/attention_kernels.h"
#include "tests/cuda/gpu/attention_cases.h"
#include "tests/cuda/gpu/random_tree.h"
#include "tests/cuda/gpu/sanitized.h"

namespace tare::engine::test {
namespace {

using AttentionTrees = GpuTest;

constexpr CudaAttentionShape k27b{.heads = 24, .kv_heads = 4, .head_dim = 256, .rotary_dim = 64, .eps = 1e-6F};
constexpr CudaAttentionShape kNarrow27b{.heads = 6, .kv_heads = 1, .head_dim = 256, .rotary_dim = 64, .eps = 1e-6F};
constexpr CudaAttentionShape kSmall{.heads = 4, .kv_heads = 2, .head_dim = 24, .rotary_dim = 6, .eps = 1e-6F};
struct Formats {
  CacheFormat key, value;
};
constexpr std::array<Formats, 9> kFormats = {{{CacheFormat::kFP32, CacheFormat::kFP32},
                                              {CacheFormat::kBF16, CacheFormat::kBF16},
                                              {CacheFormat::kFP8, CacheFormat::kFP8},
                                              {CacheFormat::kFP8, CacheFormat::kBF16},
                                              {CacheFormat::kInt8, CacheFormat::kInt8},
                                              {CacheFormat::kNVFP4, CacheFormat::kNVFP4},
                                              {CacheFormat::kInt8, CacheFormat::kNVFP4},
                                              {CacheFormat::kBF16, CacheFormat::kInt8},
                                              {CacheFormat::kNVFP4, CacheFormat::kBF16}}};
constexpr std::uint64_t kVocab = 1000;  // tokens of the trees say nothing here

bool on_tensor_cores(const AttentionCase& a_case) {
  return a_case.shape().head_dim == kTensorHeadDim &&
         has_tiles_kernel(a_case.cache().key_format, a_case.cache().value_format);
}
// As in attention_test.cpp.
double tolerance(const AttentionCase& a_case) {
  return on_tensor_cores(a_case) ? 2e-3 : 1e-5;
}

std::vector<float> expect_tree(AttentionCase& a_case, const TokenTree& tree, int frontier) {
  a_case.set_tree(tree);
  a_case.reset_cache(frontier);
  std::vector<float> got = a_case.round(frontier, tree.size());
  a_case.expect_cache(frontier, frontier + tree.size());
  const WorstToken worst = worst_token(got, a_case.oracle(frontier, tree.size()), a_case.columns());
  EXPECT_LT(worst.error, tolerance(a_case)) << a_case.name() << ": node " << worst.token << ", column " << worst.column
                                            << " at " << frontier << " of " << to_text(tree);
  return got;
}

TEST_F(AttentionTrees, EveryNodeSeesItsPathAlone) {
  for (const auto& [key, value] : kFormats) {
    AttentionCase a_case(kNarrow27b, key, value, 400);
    Philox random(20);
    for (const TreeKind kind : kTreeKinds) {
      for (const int nodes : some("sizes of trees", {3, 7, 16}, 1)) {
        for (const int frontier : some("frontiers", {0, 1, 63, 64, 121, 300, 55}, 1)) {
          expect_tree(a_case, random_tree(kind, nodes, kVocab, random), frontier);
        }
      }
    }
  }
}

// Several groups of columns, parts of more than a tile, and nodes on both sides of a change of the parts' length.
TEST_F(AttentionTrees, ModelsShapesAndLongContexts) {
  for (const auto& [key, value] : kFormats) {
    AttentionCase wide(k27b, key, value, 4400);
    Philox random(21);
    for (const int frontier : some("frontiers", {1000, 2100, 2111, 4218}, 1)) {
      for (const TreeKind kind : some("kinds of trees", {TreeKind::kDeep, TreeKind::kRandom}, 2, 1))
        expect_tree(wide, random_tree(kind, 16, kVocab, random), frontier);
    }
    AttentionCase small(kSmall, key, value, 200);
    expect_tree(small, random_tree(TreeKind::kRandom, 16, kVocab, random), 60);
  }
}

// A tree's last nodes lie beyond the context where its deepest one fits: the cache has slots for them.
TEST_F(AttentionTrees, NodesBesideTheLastPositionHaveSlots) {
  for (const auto& [key, value] : kFormats) {
    for (const int context : some("contexts", {65, 128, 130}, 3, 1)) {
      AttentionCase a_case(kNarrow27b, key, value, context + kMostTreeNodes - 1);
      Philox random(22);
      expect_tree(a_case, random_tree(TreeKind::kStar, 16, kVocab, random), context - 2);
    }
  }
}

// A node against its path alone as a chain at the same frontier: the same bits in FP32 arithmetic, and on tensor cores
// where its ancestors stand where a chain's tokens do.
TEST_F(AttentionTrees, ANodeHasTheNumbersOfItsPathAlone) {
  constexpr int kFrontier = 120;
  for (const CudaAttentionShape& shape : {kNarrow27b, kSmall}) {
    for (const auto& [key, value] : kFormats) {
      AttentionCase a_case(shape, key, value, 200);
      const auto columns = static_cast<std::ptrdiff_t>(a_case.columns());
      Philox random(23);
      for (const TreeKind kind : tree_kinds(2)) {
        const TokenTree tree = random_tree(kind, 16, kVocab, random);
        const std::vector<float> whole = expect_tree(a_case, tree, kFrontier);
        const int step = amount("nodes between two", 1, 8);
        for (int node = 0; node < tree.size(); node += step) {
          const std::vector<std::int32_t> path = tree.path_to(node);
          a_case.set_tree(std::nullopt);
          a_case.set_contents(path);
          a_case.reset_cache(kFrontier);
          const std::vector<float> alone = a_case.round(kFrontier, static_cast<int>(path.size()));
          a_case.set_contents({});
          const std::span<const float> of_tree(whole.data() + node * columns, static_cast<std::size_t>(columns));
          const std::span<const float> of_path(alone.data() + alone.size() - columns,
                                               static_cast<std::size_t>(columns));
          if (!on_tensor_cores(a_case) || path.back() + 1 == static_cast<int>(path.size())) {
            ASSERT_EQ(std::memcmp(of_tree.data(), of_path.data(), of_tree.size_bytes()), 0)
                << a_case.name() << ": node " << node << " of " << to_text(tree);
          } else {
            const std::vector<double> a(of_tree.begin(), of_tree.end());
            const std::vector<double> b(of_path.begin(), of_path.end());
            ASSERT_LE(relative_error(a, b), tolerance(a_case))
                << a_case.name() << ": node " << node << " of " << to_text(tree);
          }
        }
      }
    }
  }
}

// The control: a sibling that is seen, or a node that stands at its slot's position, shows.
TEST_F(AttentionTrees, AVisibleSiblingIsSeen) {
  TARE_SKIP_WHERE_RACECHECKED("EveryNodeSeesItsPathAlone");
  TokenTree tree(0);
  TokenTree wrong(0);
  for (const int parent : {0, 0, 1, 2}) tree.add(parent, 1);
  for (const int parent : {0, 1, 1, 2}) wrong.add(parent, 1);  // node 2 sees node 1
  for (const auto& [key, value] : kFormats) {
    AttentionCase a_case(kNarrow27b, key, value, 400);
    for (const int frontier : {3, 100}) {
      expect_tree(a_case, tree, frontier);
      const std::vector<double> wanted = a_case.oracle(frontier, tree.size());
      a_case.set_tree(wrong);
      a_case.reset_cache(frontier);
      EXPECT_GT(worst_token(a_case.round(frontier, wrong.size()), wanted, a_case.columns()).error,
                5 * tolerance(a_case))
          << a_case.name();
    }
  }
}

struct Bytes {
  std::vector<std::byte> keys, values;
};
Bytes bytes_of(const CudaKeyValueCache& cache) {
  const auto rows = static_cast<std::size_t>(cache_slots(cache.capacity) * cache.shape.kv_heads);
  const auto of = [&](CacheFormat format) {
    return std::vector<std::byte>(rows * static_cast<std::size_t>(cache_row_bytes(format, cache.shape.head_dim)));
  };
  Bytes bytes{of(cache.key_format), of(cache.value_format)};
  copy_to_host(bytes.keys, cache.keys());
  copy_to_host(bytes.values, cache.values());
  return bytes;
}
// Copies slot `from` of one to slot `to` of the other.
void copy_slot(const CudaKeyValueCache& cache, const Bytes& source, int from, Bytes& target, int to) {
  const CudaAttentionShape& shape = cache.shape;
  const auto copy = [&](const CacheRun& run, const std::vector<std::byte>& a, std::vector<std::byte>& b) {
    const std::vector<std::int64_t> sources = run.places(from);
    const std::vector<std::int64_t> targets = run.places(to);
    for (int head = 0; head < shape.kv_heads; ++head) {
      const std::int64_t begin = head * cache_slots(cache.capacity) * run.row_bytes();
      for (std::size_t i = 0; i < sources.size(); ++i)
        b[static_cast<std::size_t>(begin + targets[i])] = a[static_cast<std::size_t>(begin + sources[i])];
    }
  };
  copy({cache.key_format, false, shape.head_dim}, source.keys, target.keys);
  copy({cache.value_format, true, shape.head_dim}, source.values, target.values);
}

// Two layers at once; paths of every length, from every start; what does not belong to the path stays as it is.
TEST_F(AttentionTrees, ACommittedPathIsMovedAndNothingElse) {
  for (const CudaAttentionShape& shape : {k27b, kSmall}) {
    for (const auto& [key, value] : kFormats) {
      AttentionCase first(shape, key, value, 200);
      AttentionCase second(shape, key, value, 200);
      second.scale_projections(2);
      const std::array<const CudaKeyValueCache*, 2> caches = {&first.cache(), &second.cache()};
      const CudaKeyValueMove move(caches);
      Philox random(24);
      for (const TreeKind kind : tree_kinds(1)) {
        for (const int root : some("roots", {3, 56, 121}, 1)) {
          const TokenTree tree = random_tree(kind, 16, kVocab, random);
          const std::vector<std::int32_t> path = tree.path_to(static_cast<int>(random.below(16)));
          std::vector<Bytes> wanted;
          for (AttentionCase* a_case : {&first, &second}) {
            a_case->set_tree(tree);
            a_case->reset_cache(root);
            std::ignore = a_case->round(root, tree.size());
            const Bytes before = bytes_of(a_case->cache());
            Bytes after = before;
            for (std::size_t i = 0; i < path.size(); ++i)
              copy_slot(a_case->cache(), before, root + path[i], after, root + static_cast<int>(i));
            wanted.push_back(std::move(after));
          }
          RoundControl control;
          control.set_path(path);
          control.frontier = root + static_cast<int>(path.size());
          const DeviceBuffer memory = on_device(std::vector<RoundControl>{control});
          std::vector<LaunchRecord> records;
          move.launch(memory.as<RoundControl>(), {.records = &records});
          synchronize();
          EXPECT_EQ(records.size(), 1U);
          for (std::size_t i = 0; i < caches.size(); ++i) {
            const Bytes got = bytes_of(*caches[i]);
            EXPECT_TRUE(got.keys == wanted[i].keys) << first.name() << ", keys of layer " << i << ", " << to_text(tree);
            EXPECT_TRUE(got.values == wanted[i].values)
                << first.name() << ", values of layer " << i << ", " << to_text(tree);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tare::engine::test

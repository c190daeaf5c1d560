// Exports of Nsight Systems as its versions write them, with contents whose sums are known. No file of another's is
// kept: each is written here, table by table, when its first row comes, as nsys does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/sqlite/sqlite.h"

namespace tare::profiles {

// What differs between the schemas.
struct NsysSchema {
  std::string version;                     // EXPORT_SCHEMA_VERSION; empty: the table META_DATA_EXPORT is missing
  std::string nvtx_table = "NVTX_EVENTS";  // or NVTX_EVENTS_V2, _V3
  bool text_ids = true;                    // range names by id in StringIds; else as text, and no column textId
  bool demangled = true;                   // which columns of kernel names are there
  bool mangled = true;
  bool short_names = true;
  bool process = true;      // globalPid of kernels
  bool graph_nodes = true;  // graphNodeId of kernels, CUDA_GRAPH_NODE_EVENTS
  bool clusters = true;     // graphId, clusterX and others that nobody asks for
  bool nulls = true;        // missing values are NULL; else 0, or -1 for an end
};

// From 2019 to 2026.
[[nodiscard]] std::vector<NsysSchema> known_schemas();

struct FixtureKernel {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t correlation = 0;
  std::string signature = {};  // as the demangler of CUDA writes it
  std::string mangled = {};
  std::string short_name = {};
  std::int64_t node = 0;
  std::int64_t device = 0;
  std::int64_t stream = 7;
  std::int64_t pid = 0;  // 0: the capture's
};

class NsysWriter {
 public:
  static constexpr std::int64_t kPid = 4242;
  static constexpr std::int64_t kOtherPid = 5151;
  static constexpr std::int64_t kPushPop = 59;
  static constexpr std::int64_t kStartEnd = 60;
  static constexpr std::int64_t kOpen = -1;  // as a range's end

  NsysWriter(const std::filesystem::path& file, NsysSchema schema);
  NsysWriter(const NsysWriter&) = delete;
  NsysWriter& operator=(const NsysWriter&) = delete;
  ~NsysWriter();  // commits

  [[nodiscard]] const NsysSchema& schema() const { return schema_; }
  void kernel(const FixtureKernel& kernel);
  void call(std::int64_t start_ns, std::int64_t correlation, const std::string& name, std::int64_t thread = kPid,
            std::int64_t pid = kPid);
  void copy(std::int64_t start_ns, std::int64_t end_ns, std::int64_t correlation, std::int64_t kind,
            std::int64_t bytes);
  void fill(std::int64_t start_ns, std::int64_t end_ns, std::int64_t correlation, std::int64_t bytes);
  void range(std::int64_t start_ns, std::int64_t end_ns, const std::string& name, std::int64_t thread = kPid,
             std::int64_t type = kPushPop);
  void node(std::int64_t start_ns, std::int64_t node, std::int64_t original = 0);
  void graph_run(std::int64_t start_ns, std::int64_t end_ns, std::int64_t correlation);
  void diagnostic(std::int64_t severity, const std::string& text);
  void overhead(std::int64_t start_ns, std::int64_t end_ns);
  void execute(const std::string& sql) { connection_.execute(sql); }

 private:
  struct Column {
    std::string name;
    std::int64_t number = 0;
    std::string text = {};  // instead of the number, when is_text
    bool is_text = false;
    bool missing = false;  // NULL, or what the schema writes for it
  };

  Connection connection_;
  NsysSchema schema_;
  std::map<std::string, std::int64_t> strings_;
  std::map<std::string, Statement> inserts_;  // by table

  std::int64_t string_id(const std::string& text);
  void insert(const std::string& table, const std::vector<Column>& columns);
};

// Rounds of a decoder, each of 2 ms: a range "round" with "draft" (four launches of draft_step, 6 us each, 4 us apart)
// and "verify" (a graph of sixteen kernels that start 3 us before their predecessor ends and complete every 10 us, and
// a copy of 64 bytes, 2 us). Nodes were captured in ranges "attention" (product<16>) and "mlp" (norm), alternating.
// Around them: a prompt of three kernels, another thread's and another process's kernels, and more ranges.
// A round: 20 kernels, 1 copy, 342 us from first to last, 156 us of them idle.
struct DecodeCapture {
  int rounds = 5;
  int draft_kernels = 4;      // in the last round; four in the others
  bool whole_graphs = false;  // --cuda-graph-trace=graph
  std::string round_name = "round";
  std::int64_t round_type = NsysWriter::kPushPop;
  bool last_round_open = false;
};
constexpr std::int64_t kFirstRoundNs = 1'000'000'000;
constexpr std::int64_t kRoundNs = 2'000'000;

// `more` adds rows of its own.
void write_decode_capture(const std::filesystem::path& file, const NsysSchema& schema,
                          const DecodeCapture& capture = {}, const std::function<void(NsysWriter&)>& more = {});

}  // namespace tare::profiles

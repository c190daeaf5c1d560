#include "tests/profiles/nsys_fixture.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <utility>

#include "base/text.h"

namespace tare::profiles {
namespace {

constexpr int kThreadBits = 24;
constexpr std::int64_t kMachine = std::int64_t{1} << 56;  // what lies above the process

std::int64_t global_pid(std::int64_t pid) {
  return kMachine | pid << kThreadBits;
}

// An empty database as nsys makes it, without the checksums of a file that a Connection makes.
const std::filesystem::path& made_elsewhere(const std::filesystem::path& file) {
  sqlite3* handle = nullptr;
  if (sqlite3_open(file.c_str(), &handle) == SQLITE_OK)
    (void)sqlite3_exec(handle, "CREATE TABLE made (x); DROP TABLE made", nullptr, nullptr, nullptr);
  sqlite3_close(handle);
  return file;
}

}  // namespace

std::vector<NsysSchema> known_schemas() {
  return {
      // Before versions were written: texts in the events, one name, no graphs, no processes of kernels.
      {"", "NVTX_EVENTS", false, false, false, true, false, false, false, false},
      {"1.8.0", "NVTX_EVENTS", false, true, false, true, true, false, false, false},
      {"2.6.1", "NVTX_EVENTS", true, true, true, true, true, true, false, false},
      {"2.15.0", "NVTX_EVENTS_V2", true, true, true, true, true, true, false, true},
      {"3.1.7", "NVTX_EVENTS_V3", true, false, true, true, true, true, true, true},
      {"3.25.0", "NVTX_EVENTS", true, true, true, true, true, true, true, true},
  };
}

NsysWriter::NsysWriter(const std::filesystem::path& file, NsysSchema schema)
    : connection_(made_elsewhere(file), OpenMode::kCreate, ""), schema_(std::move(schema)) {
  connection_.execute("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF; BEGIN");
  if (!schema_.version.empty()) {
    insert("META_DATA_EXPORT", {{"name", 0, "EXPORT_SCHEMA_VERSION", true}, {"value", 0, schema_.version, true}});
    insert("META_DATA_EXPORT", {{"name", 0, "EXPORT_PRODUCT_VERSION", true}, {"value", 0, "2026.1.1", true}});
  }
  (void)string_id("[Unknown]");
}

NsysWriter::~NsysWriter() {
  inserts_.clear();
  connection_.execute("COMMIT");
}

void NsysWriter::insert(const std::string& table, const std::vector<Column>& columns) {
  auto statement = inserts_.find(table);
  if (statement == inserts_.end()) {
    std::vector<std::string> definitions;
    std::vector<std::string> parameters;
    for (const Column& column : columns) {
      const char* type = column.is_text ? "TEXT" : "INTEGER";
      definitions.push_back(fmt::format("\"{}\" {}{}", column.name, type, schema_.nulls ? "" : " NOT NULL"));
      parameters.emplace_back("?");
    }
    connection_.execute(fmt::format("CREATE TABLE \"{}\" ({})", table, join(definitions, ", ")));
    statement = inserts_
                    .emplace(table, Statement(connection_, fmt::format("INSERT INTO \"{}\" VALUES ({})", table,
                                                                       join(parameters, ", "))))
                    .first;
  }
  Statement& row = statement->second;
  for (const Column& column : columns) {
    if (column.missing && schema_.nulls) {
      row.bind_null();
    } else if (column.is_text) {
      row.bind(column.text);
    } else {
      row.bind(column.number);
    }
  }
  row.run();
}

std::int64_t NsysWriter::string_id(const std::string& text) {
  const auto [entry, fresh] = strings_.try_emplace(text, static_cast<std::int64_t>(strings_.size()) + 1);
  if (fresh) insert("StringIds", {{"id", entry->second}, {"value", 0, text, true}});
  return entry->second;
}

void NsysWriter::kernel(const FixtureKernel& kernel) {
  std::vector<Column> columns = {{"start", kernel.start_ns},  {"end", kernel.end_ns},
                                 {"deviceId", kernel.device}, {"contextId", 1},
                                 {"streamId", kernel.stream}, {"correlationId", kernel.correlation}};
  if (schema_.process) columns.push_back({"globalPid", global_pid(kernel.pid == 0 ? kPid : kernel.pid)});
  if (schema_.demangled) columns.push_back({"demangledName", string_id(kernel.signature)});
  if (schema_.short_names) columns.push_back({"shortName", string_id(kernel.short_name)});
  if (schema_.mangled) columns.push_back({"mangledName", string_id(kernel.mangled)});
  columns.push_back({"registersPerThread", 32});
  columns.push_back({"gridX", 132});
  if (schema_.graph_nodes) columns.push_back({"graphNodeId", kernel.node, "", false, kernel.node == 0});
  if (schema_.clusters) columns.push_back({"clusterX", 0, "", false, true});
  insert("CUPTI_ACTIVITY_KIND_KERNEL", columns);
}

void NsysWriter::call(std::int64_t start_ns, std::int64_t correlation, const std::string& name, std::int64_t thread,
                      std::int64_t pid) {
  insert("CUPTI_ACTIVITY_KIND_RUNTIME", {{"start", start_ns},
                                         {"end", start_ns + 3'000},
                                         {"eventClass", 0},
                                         {"globalTid", global_pid(pid) | thread},
                                         {"correlationId", correlation},
                                         {"nameId", string_id(name)},
                                         {"returnValue", 0}});
}

void NsysWriter::copy(std::int64_t start_ns, std::int64_t end_ns, std::int64_t correlation, std::int64_t kind,
                      std::int64_t bytes) {
  std::vector<Column> columns = {
      {"start", start_ns}, {"end", end_ns},   {"deviceId", 0}, {"streamId", 7}, {"correlationId", correlation},
      {"bytes", bytes},    {"copyKind", kind}};
  if (schema_.process) columns.push_back({"globalPid", global_pid(kPid)});
  insert("CUPTI_ACTIVITY_KIND_MEMCPY", columns);
}

void NsysWriter::fill(std::int64_t start_ns, std::int64_t end_ns, std::int64_t correlation, std::int64_t bytes) {
  std::vector<Column> columns = {
      {"start", start_ns}, {"end", end_ns}, {"deviceId", 0}, {"streamId", 7}, {"correlationId", correlation},
      {"value", 0},        {"bytes", bytes}};
  if (schema_.process) columns.push_back({"globalPid", global_pid(kPid)});
  insert("CUPTI_ACTIVITY_KIND_MEMSET", columns);
}

void NsysWriter::range(std::int64_t start_ns, std::int64_t end_ns, const std::string& name, std::int64_t thread,
                       std::int64_t type) {
  std::vector<Column> columns = {{"start", start_ns},
                                 {"end", end_ns, "", false, end_ns == kOpen},
                                 {"eventType", type},
                                 {"globalTid", global_pid(kPid) | thread},
                                 {"text", 0, schema_.text_ids ? "" : name, true, schema_.text_ids}};
  if (schema_.text_ids) columns.push_back({"textId", string_id(name)});
  insert(schema_.nvtx_table, columns);
}

void NsysWriter::node(std::int64_t start_ns, std::int64_t node, std::int64_t original) {
  insert("CUDA_GRAPH_NODE_EVENTS", {{"start", start_ns},
                                    {"end", start_ns},
                                    {"globalTid", global_pid(kPid) | kPid},
                                    {"graphNodeId", node},
                                    {"originalGraphNodeId", original, "", false, original == 0}});
}

void NsysWriter::graph_run(std::int64_t start_ns, std::int64_t end_ns, std::int64_t correlation) {
  insert("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", {{"start", start_ns},
                                             {"end", end_ns},
                                             {"deviceId", 0},
                                             {"streamId", 7},
                                             {"correlationId", correlation},
                                             {"globalPid", global_pid(kPid)},
                                             {"graphId", 3}});
}

void NsysWriter::diagnostic(std::int64_t severity, const std::string& text) {
  insert("DIAGNOSTIC_EVENT", {{"timestamp", 5}, {"severity", severity}, {"source", 1}, {"text", 0, text, true}});
}

void NsysWriter::overhead(std::int64_t start_ns, std::int64_t end_ns) {
  insert("PROFILER_OVERHEAD", {{"start", start_ns}, {"end", end_ns}, {"overheadType", 1 << 16}, {"nameId", 1}});
}

void write_decode_capture(const std::filesystem::path& file, const NsysSchema& schema, const DecodeCapture& capture,
                          const std::function<void(NsysWriter&)>& more) {
  constexpr int kNodes = 16;
  constexpr std::int64_t kCloned = 1000;  // added to a node's id when the graph is instantiated
  const FixtureKernel step{
      .signature = "draft_step(float *)", .mangled = "_Z10draft_stepPf", .short_name = "draft_step"};
  const FixtureKernel product{.signature = "void tare::<unnamed>::product<(int)16>(const tare::Operand &)",
                              .mangled = "_ZN4tare12_GLOBAL__N_17productILi16EEEvRKNS_7OperandE",
                              .short_name = "product"};
  const FixtureKernel norm{.signature = "tare::norm(float *)", .mangled = "_ZN4tare4normEPf", .short_name = "norm"};
  NsysWriter out(file, schema);
  std::int64_t correlation = 10;
  const auto launch = [&](std::int64_t call_ns, FixtureKernel kernel, std::int64_t start_ns, std::int64_t ns) {
    out.call(call_ns, ++correlation, "cudaLaunchKernel_v7000");
    kernel.start_ns = start_ns;
    kernel.end_ns = start_ns + ns;
    kernel.correlation = correlation;
    out.kernel(kernel);
  };

  // The graph is captured long before it runs, and cloned when it is instantiated, outside of those ranges.
  if (schema.graph_nodes)
    for (int i = 0; i < kNodes; ++i) {
      const std::int64_t at = 400'000'000 + i * 10'000;
      out.range(at, at + 5'000, i % 2 == 0 ? "attention" : "mlp");
      out.node(at + 1'000, i + 1);
      out.node(500'000'000 + i, kCloned + i + 1, i + 1);
    }
  out.range(600'000'000, 700'000'000, "prefill");
  for (int i = 0; i < 3; ++i) launch(610'000'000 + i * 1'000, product, 620'000'000 + i * 100'000, 90'000);

  for (int round = 0; round < capture.rounds; ++round) {
    const std::int64_t base = kFirstRoundNs + round * kRoundNs;
    const bool last = round + 1 == capture.rounds;
    out.range(base, last && capture.last_round_open ? NsysWriter::kOpen : base + 900'000, capture.round_name,
              NsysWriter::kPid, capture.round_type);
    out.range(base + 1'000, base + 100'000, "draft");
    out.range(base + 100'000, base + 800'000, "verify");
    for (int i = 0; i < (last ? capture.draft_kernels : 4); ++i)
      launch(base + 2'000 + i * 10'000, step, base + 20'000 + i * 10'000, 6'000);
    const std::int64_t graph = ++correlation;
    out.call(base + 110'000, graph, "cudaGraphLaunch_v10000");
    if (capture.whole_graphs) {
      out.graph_run(base + 200'000, base + 360'000, graph);
    } else {
      for (int i = 0; i < kNodes; ++i) {
        FixtureKernel kernel = i % 2 == 0 ? product : norm;
        kernel.start_ns = base + 200'000 + i * 10'000 - (i > 0 ? 3'000 : 0);
        kernel.end_ns = base + 200'000 + (i + 1) * 10'000;
        kernel.correlation = graph;
        kernel.node = kCloned + i + 1;
        out.kernel(kernel);
      }
    }
    out.call(base + 150'000, ++correlation, "cudaMemcpyAsync_v3020");
    out.copy(base + 360'000, base + 362'000, correlation, 2, 64);
    // Meanwhile another thread of the process, and another process with the same correlation ids.
    out.range(base, base + 900'000, "detokenize", NsysWriter::kPid + 1);
    out.call(base + 50'000, ++correlation, "cudaLaunchKernel_v7000", NsysWriter::kPid + 1);
    FixtureKernel other = norm;
    other.start_ns = base + 1'000'000;
    other.end_ns = base + 1'050'000;
    other.correlation = correlation;
    out.kernel(other);
    if (schema.process) {
      out.call(base + 50'000, graph, "cudaLaunchKernel_v7000", NsysWriter::kOtherPid, NsysWriter::kOtherPid);
      other.correlation = graph;
      other.pid = NsysWriter::kOtherPid;
      other.start_ns += 100'000;
      other.end_ns += 100'000;
      out.kernel(other);
    }
  }
  if (more) more(out);
}

}  // namespace tare::profiles

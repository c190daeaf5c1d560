#include "harness/cli/kernel_table.h"

#include <fmt/format.h>

namespace tare::harness {
namespace {

constexpr double kPercent = 100;
constexpr double kBytesPerUsToGb = 1e-3;
constexpr double kBytesPerMb = 1e6;

double rate_gbps(const profiles::KernelRow& row) {
  return row.us > 0 ? row.declared_bytes / row.us * kBytesPerUsToGb : 0;
}

// The launch tells more than the kernel's name, where it is known.
std::string name_of(const profiles::KernelRow& row) {
  const std::string& name = row.launch.empty() ? row.kernel : row.launch;
  return row.part.empty() ? name : fmt::format("{}  {}", name, row.part);
}

}  // namespace

Json kernel_rows_json(const profiles::RoundTable& table) {
  Json rows = Json::array();
  for (const profiles::KernelRow& row : table.rows)
    rows.push_back({{"kernel", row.kernel},
                    {"launch", row.launch},
                    {"part", row.part},
                    {"calls_per_round", row.calls},
                    {"us_per_round", row.us},
                    {"duration_us_per_round", row.duration_us},
                    {"declared_bytes_per_round", row.declared_bytes},
                    {"gb_per_s", rate_gbps(row)},
                    {"share_of_span", row.us / table.span_us}});
  return rows;
}

void print_kernel_table(const profiles::RoundTable& table, const std::string& span_words,
                        const std::string& idle_words) {
  fmt::print("{:>10} {:>7} {:>10} {:>8} {:>7}  {}\n", "us/round", "calls", "MB/round", "GB/s", "share", "what");
  for (const profiles::KernelRow& row : table.rows) {
    const bool known = row.declared_bytes > 0;
    fmt::print("{:10.2f} {:7.1f} {:>10} {:>8} {:6.1f}%  {}\n", row.us, row.calls,
               known ? fmt::format("{:.2f}", row.declared_bytes / kBytesPerMb) : "-",
               known ? fmt::format("{:.0f}", rate_gbps(row)) : "-", row.us / table.span_us * kPercent, name_of(row));
  }
  fmt::print("{:10.2f} {:>7} {:>10} {:>8} {:6.1f}%  {}\n", table.idle_us, "", "", "",
             table.idle_us / table.span_us * kPercent, idle_words);
  fmt::print("{:10.2f} {:7.1f} {:>10} {:>8} {:>7}  {}\n", table.span_us, table.kernels, "", "", "", span_words);
}

}  // namespace tare::harness

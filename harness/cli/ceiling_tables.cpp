#include "harness/cli/ceiling_tables.h"

#include <fmt/format.h>

#include "base/text.h"
#include "reports/figure_roofline.h"
#include "reports/report.h"

namespace tare::harness {
namespace {

constexpr double kGiga = 1e9;
constexpr double kPercent = 100;
constexpr double kUsPerS = 1e6;
constexpr double kMsPerS = 1e3;

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::string micros(double seconds) {
  return fmt::format("{:.2f}", seconds * kUsPerS);
}

}  // namespace

void print_phases(const std::vector<profiles::FloorPhase>& phases, const profiles::PrefillFloor& prefill) {
  double seconds = 0;
  for (const profiles::FloorPhase& phase : phases) seconds += phase.seconds;
  fmt::print("\nfloor by part of the pass\n");
  for (const profiles::FloorPhase& phase : phases)
    fmt::print("{:>12} {:>12} us {:5.1f} %  {}\n", human_bytes(phase.bytes), micros(phase.seconds),
               phase.seconds / seconds * kPercent, phase.name);
  fmt::print("prefill of {} tokens in {} of {}: at least {:.3f} ms ({} read", prefill.tokens,
             prefill.chunks == 1 ? "one chunk" : fmt::format("{} chunks", prefill.chunks), prefill.chunk,
             prefill.seconds() * kMsPerS, human_bytes(prefill.bytes));
  if (prefill.compute_s) fmt::print(", {:.3f} ms of arithmetic", *prefill.compute_s * kMsPerS);
  fmt::print(")\n");
}

Json phases_json(const std::vector<profiles::FloorPhase>& phases) {
  Json list = Json::array();
  for (const profiles::FloorPhase& phase : phases)
    list.push_back({{"phase", phase.name}, {"bytes_per_round", phase.bytes}, {"floor_s", phase.seconds}});
  return list;
}

Json prefill_json(const profiles::PrefillFloor& prefill) {
  return {{"tokens", prefill.tokens},
          {"chunk", prefill.chunk},
          {"chunks", prefill.chunks},
          {"bytes", prefill.bytes},
          {"read_s", prefill.read_s},
          {"operations", prefill.operations},
          {"compute_s", or_null(prefill.compute_s)},
          {"floor_s", prefill.seconds()}};
}

void print_roofline(const profiles::Roofline& roofline) {
  fmt::print("\nroofline of a round of {} token{}: operations a byte, and at most so many 10^9 a second\n",
             roofline.width, roofline.width == 1 ? "" : "s");
  const bool measured = roofline.profiled_s > 0;
  fmt::print("{:>12} {:>8} {:>10} {:>11}{}  {}\n", "bytes/round", "op/byte", "attainable", "floor us",
             measured ? fmt::format(" {:>11} {:>10} {:>7}", "measured us", "does", "share") : "", "class");
  for (const profiles::RooflineRow& row : roofline.rows) {
    std::string found;
    if (measured)
      found = row.measured_s ? fmt::format(" {:>11} {:10.1f} {:5.1f} %", micros(*row.measured_s),
                                           row.operations / *row.measured_s / kGiga, *row.share * kPercent)
                             : fmt::format(" {:>11} {:>10} {:>7}", "-", "-", "-");
    fmt::print("{:>12} {:8.2f} {:10.1f} {:>11}{}  {}\n", human_bytes(row.bytes), row.intensity, row.attainable / kGiga,
               micros(row.floor_s), found, profiles::to_text(row.kind));
  }
  if (measured)
    fmt::print("{} of {} us of the profile are of none of these\n", micros(roofline.other_s),
               micros(roofline.profiled_s));
}

Json roofline_json(const profiles::Roofline& roofline) {
  Json rows = Json::array();
  for (const profiles::RooflineRow& row : roofline.rows)
    rows.push_back({{"class", profiles::to_text(row.kind)},
                    {"bytes_per_round", row.bytes},
                    {"operations", row.operations},
                    {"operations_per_byte", row.intensity},
                    {"attainable_per_s", row.attainable},
                    {"floor_s", row.floor_s},
                    {"measured_s", or_null(row.measured_s)},
                    {"share", or_null(row.share)}});
  return {{"read_gb_per_s", roofline.read_bytes_per_s / kGiga},
          {"compute_per_s", or_null(roofline.compute_per_s)},
          {"rows", rows},
          {"profiled_s", roofline.profiled_s},
          {"other_s", roofline.other_s}};
}

void write_roofline_figure(const profiles::Roofline& roofline, const std::filesystem::path& file) {
  reports::RooflineFigure figure;
  figure.heading = fmt::format("Roofline of a round of {} token{}, {} in the caches", roofline.width,
                               roofline.width == 1 ? "" : "s", roofline.context);
  figure.read_gb_per_s = roofline.read_bytes_per_s / kGiga;
  if (roofline.compute_per_s) figure.compute_gops = *roofline.compute_per_s / kGiga;
  for (const profiles::RooflineRow& row : roofline.rows)
    figure.points.push_back({profiles::to_text(row.kind), row.intensity, row.attainable / kGiga,
                             row.measured_s ? row.operations / *row.measured_s / kGiga : reports::kMissing});
  reports::write_figure(reports::roofline_plot(figure), file);
}

void print_capacity(const profiles::Capacity& capacity) {
  fmt::print("\ncapacity: {} ({}), caches for {} tokens planned now\n", human_bytes(capacity.memory_bytes),
             capacity.memory, capacity.context);
  for (const profiles::CapacityPart& part : capacity.parts)
    fmt::print("{:>12}  {}{}\n", human_bytes(part.planned), part.name, part.held ? " (held as planned)" : "");
  if (capacity.beside_held)
    fmt::print("{:>12}  used beside weights, state and caches, as the device says; planned {}{}\n",
               human_bytes(*capacity.beside_held), human_bytes(capacity.beside_planned),
               *capacity.beside_held > capacity.beside_planned ? ": MORE THAN WAS PLANNED" : "");
  fmt::print("{:>12}  left for keys and values\n", human_bytes(capacity.left_bytes));
  fmt::print("{:>12} {:>12}  {}\n", "bytes/token", "tokens", "keys and values in");
  for (const profiles::CapacityRow& row : capacity.rows)
    fmt::print("{:>12} {:>12}  {}{}{}\n", row.bytes_a_token, row.tokens, profiles::to_text(row.formats),
               row.now ? ", as now" : "",
               capacity.model_tokens > 0 && row.tokens > capacity.model_tokens
                   ? fmt::format(" (the model knows {} positions)", capacity.model_tokens)
                   : "");
}

Json capacity_json(const profiles::Capacity& capacity) {
  Json parts = Json::array();
  for (const profiles::CapacityPart& part : capacity.parts)
    parts.push_back({{"part", part.name}, {"planned_bytes", part.planned}, {"held_bytes", or_null(part.held)}});
  Json rows = Json::array();
  for (const profiles::CapacityRow& row : capacity.rows)
    rows.push_back({{"key", engine::to_text(row.formats.key)},
                    {"value", engine::to_text(row.formats.value)},
                    {"now", row.now},
                    {"bytes_per_token", row.bytes_a_token},
                    {"tokens", row.tokens},
                    {"cache_bytes", row.cache_bytes}});
  return {{"memory_bytes", capacity.memory_bytes},
          {"memory", capacity.memory},
          {"context", capacity.context},
          {"planned_bytes", capacity.planned_bytes()},
          {"parts", parts},
          {"beside_planned_bytes", capacity.beside_planned},
          {"beside_held_bytes", or_null(capacity.beside_held)},
          {"left_bytes", capacity.left_bytes},
          {"model_tokens", capacity.model_tokens},
          {"formats", rows}};
}

}  // namespace tare::harness

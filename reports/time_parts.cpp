#include "reports/time_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "reports/escape.h"
#include "reports/numbers.h"

namespace tare::reports {
namespace {

constexpr int kMicrosDecimals = 2;
constexpr double kGigaPerMicro = 1e-3;  // bytes a microsecond are megabytes a second times this

const std::string& key_of(const std::string& what, const std::string& part) {
  return part.empty() ? what : part;
}

double largest(const TimePart& part) {
  double most = 0;
  for (const double us : part.us)
    if (std::isfinite(us)) most = std::max(most, us);
  return most;
}

void add(double& sum, double value) {
  if (std::isnan(value)) return;
  sum = std::isnan(sum) ? value : sum + value;
}

TimePart empty_part(const std::vector<bool>& profiled) {
  TimePart part;
  for (const bool known : profiled) part.us.push_back(known ? 0 : kMissing);
  part.bytes.assign(profiled.size(), kMissing);
  part.bytes_us.assign(profiled.size(), kMissing);
  return part;
}

}  // namespace

bool TimeParts::any() const {
  return std::find(profiled.begin(), profiled.end(), true) != profiled.end();
}

std::size_t TimeParts::index_of(const std::string& what, const std::string& part) const {
  return static_cast<std::size_t>(std::find(keys.begin(), keys.end(), key_of(what, part)) - keys.begin());
}

TimeParts time_parts(const Times& times, std::size_t most) {
  TimeParts result;
  for (const ArmTimes& arm : times.arms) result.profiled.push_back(!arm.rows.empty());
  std::map<std::string, TimePart> parts;
  std::map<std::string, std::set<std::string>> words;
  for (std::size_t i = 0; i < times.arms.size(); ++i) {
    for (const ArmTimeRow& row : times.arms[i].rows) {
      const std::string& key = key_of(row.what, row.part);
      TimePart& part = parts.try_emplace(key, empty_part(result.profiled)).first->second;
      words[key].insert(row.what);
      add(part.us[i], row.us);
      add(part.bytes[i], row.bytes);
      if (!std::isnan(row.bytes)) add(part.bytes_us[i], row.us);
    }
  }
  std::vector<std::string> keys;
  for (auto& [key, part] : parts) {
    part.name = visible_text(words[key].size() == 1 ? *words[key].begin() : key);
    keys.push_back(key);
  }
  std::stable_sort(keys.begin(), keys.end(), [&](const std::string& a, const std::string& b) {
    return largest(parts.at(a)) > largest(parts.at(b));
  });
  const std::size_t kept = std::min(keys.size(), most);
  result.summed = keys.size() - kept;
  result.others = empty_part(result.profiled);
  result.others.name = result.summed == 1 ? "1 other" : fmt::format("{} others", count_text(result.summed));
  for (std::size_t k = 0; k < keys.size(); ++k) {
    const TimePart& part = parts.at(keys[k]);
    if (k < kept) {
      result.parts.push_back(part);
      result.keys.push_back(keys[k]);
      continue;
    }
    for (std::size_t i = 0; i < times.arms.size(); ++i) {
      if (result.profiled[i]) add(result.others.us[i], part.us[i]);
      add(result.others.bytes[i], part.bytes[i]);
      add(result.others.bytes_us[i], part.bytes_us[i]);
    }
  }
  return result;
}

std::string micros_text(double us) {
  return std::isnan(us) ? kNotAvailable : fixed(us, kMicrosDecimals);
}

double gb_per_s(double bytes, double us) {
  return us > 0 ? bytes / us * kGigaPerMicro : kMissing;
}

std::string rate_text(double gb_per_s) {
  return std::isnan(gb_per_s) ? kNotAvailable : fixed(gb_per_s, gb_per_s < 100 ? 1 : 0);
}

}  // namespace tare::reports

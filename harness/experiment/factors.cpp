#include "harness/experiment/factors.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/text.h"

namespace tare::harness {
namespace {

constexpr std::size_t kFewestLevels = 2;
constexpr std::size_t kMostCombinations = 4096;  // before exclusions; stops a mistyped list from filling memory
constexpr std::string_view kBaselineName = "baseline";

std::vector<std::string> names_of(const std::vector<Factor>& factors) {
  std::vector<std::string> names;
  for (const Factor& factor : factors) names.push_back(factor.name);
  return names;
}

std::vector<std::string> names_of(const Factor& factor) {
  std::vector<std::string> names;
  for (const FactorLevel& level : factor.levels) names.push_back(level.name);
  return names;
}

void check_name(const std::string& name, const std::string& where) {
  if (!is_plain_name(name)) throw input_error(where, fmt::format("'{}' is not a name", name), "use A-Z a-z 0-9 . _ -");
}

Factor read_factor(const std::string& name, const Json& levels, const std::string& where) {
  check_name(name, where);
  if (!levels.is_array()) throw input_error(where, "must be a list of levels, the baseline's first");
  Factor factor{.name = name, .levels = {}};
  for (const Json& element : levels) {
    JsonReader reader(element, fmt::format("{}[{}]", where, factor.levels.size()));
    FactorLevel level;
    level.name = reader.text("name");
    check_name(level.name, reader.place("name"));
    if (reader.has("options")) level.options = reader.object("options").json();
    reader.refuse_unknown_keys();
    const std::vector<std::string> known = names_of(factor);
    if (std::find(known.begin(), known.end(), level.name) != known.end())
      throw reader.error("name", fmt::format("'{}' is the name of another level too", level.name));
    factor.levels.push_back(std::move(level));
  }
  if (factor.levels.size() < kFewestLevels)
    throw input_error(where, fmt::format("needs at least two levels; has {}", factor.levels.size()));
  return factor;
}

// "weights.format", "cpu.threads": what a patch sets.
void add_paths(const Json& patch, const std::string& prefix, std::set<std::string>& paths) {
  for (const auto& [key, value] : patch.items()) {
    const std::string path = prefix.empty() ? key : prefix + "." + key;
    if (value.is_object() && !value.empty()) {
      add_paths(value, path, paths);
    } else {
      paths.insert(path);
    }
  }
}

std::set<std::string> paths_of(const Factor& factor) {
  std::set<std::string> paths;
  for (const FactorLevel& level : factor.levels) add_paths(level.options, "", paths);
  return paths;
}

// Which of two patches wins would depend on the order of the factors, and neither would be varied by itself.
void refuse_shared_options(const std::vector<Factor>& factors, const std::string& where) {
  for (std::size_t a = 0; a < factors.size(); ++a) {
    for (std::size_t b = a + 1; b < factors.size(); ++b) {
      for (const std::string& path : paths_of(factors[a]))
        for (const std::string& other : paths_of(factors[b]))
          if (path == other || path.starts_with(other + ".") || other.starts_with(path + "."))
            throw input_error(where, fmt::format("'{}' and '{}' both set {}", factors[a].name, factors[b].name, path),
                              "an option belongs to one factor");
    }
  }
}

std::size_t factor_index(const std::vector<Factor>& factors, const std::string& name, const std::string& where) {
  const std::vector<std::string> names = names_of(factors);
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) throw input_error(where, fmt::format("'{}' is not a factor", name), name_hint(name, names));
  return static_cast<std::size_t>(found - names.begin());
}

std::size_t level_index(const Factor& factor, const Json& level, const std::string& where) {
  if (!level.is_string()) throw input_error(where, "must be the name of a level");
  const std::vector<std::string> names = names_of(factor);
  const auto found = std::find(names.begin(), names.end(), level.get<std::string>());
  if (found == names.end())
    throw input_error(where, fmt::format("'{}' is not a level of '{}'", level.get<std::string>(), factor.name),
                      name_hint(level.get<std::string>(), names));
  return static_cast<std::size_t>(found - names.begin());
}

// One entry a factor; empty where the factor is not named.
std::vector<std::optional<std::size_t>> partial_levels(const std::vector<Factor>& factors, const Json& written,
                                                       const std::string& where) {
  if (!written.is_object()) throw input_error(where, "must name levels by factor");
  std::vector<std::optional<std::size_t>> levels(factors.size());
  for (const auto& [name, level] : written.items()) {
    const std::size_t factor = factor_index(factors, name, where);
    levels[factor] = level_index(factors[factor], level, where + "." + name);
  }
  return levels;
}

bool matches(const LevelIndices& levels, const std::vector<std::optional<std::size_t>>& pattern) {
  for (std::size_t f = 0; f < levels.size(); ++f)
    if (pattern[f] && *pattern[f] != levels[f]) return false;
  return true;
}

std::string text_of(const Matrix& matrix, const LevelIndices& levels) {
  std::vector<std::string> parts;
  for (std::size_t f = 0; f < levels.size(); ++f)
    parts.push_back(matrix.factors[f].name + " " + matrix.factors[f].levels[levels[f]].name);
  return join(parts, ", ");
}

std::vector<LevelIndices> one_at_a_time(const Matrix& matrix) {
  std::vector<LevelIndices> result = {LevelIndices(matrix.factors.size(), 0)};
  for (std::size_t f = 0; f < matrix.factors.size(); ++f) {
    for (std::size_t level = 1; level < matrix.factors[f].levels.size(); ++level) {
      result.push_back(result.front());
      result.back()[f] = level;
    }
  }
  return result;
}

std::vector<LevelIndices> full(const Matrix& matrix) {
  std::vector<LevelIndices> result = {{}};
  for (const Factor& factor : matrix.factors) {
    std::vector<LevelIndices> longer;
    for (const LevelIndices& begun : result) {
      for (std::size_t level = 0; level < factor.levels.size(); ++level) {
        longer.push_back(begun);
        longer.back().push_back(level);
      }
    }
    if (longer.size() > kMostCombinations)
      throw input_error("factors", fmt::format("have more than {} combinations", kMostCombinations));
    result = std::move(longer);
  }
  return result;
}

std::vector<LevelIndices> listed(const Matrix& matrix) {
  std::vector<LevelIndices> result;
  for (const Json& written : matrix.combinations) {
    const std::string where = fmt::format("design.combinations[{}]", result.size());
    LevelIndices levels;
    for (const auto& level : partial_levels(matrix.factors, written, where)) levels.push_back(level.value_or(0));
    if (std::find(result.begin(), result.end(), levels) != result.end())
      throw input_error(where, fmt::format("{} is listed twice", text_of(matrix, levels)));
    result.push_back(std::move(levels));
  }
  return result;
}

void take_out_excluded(const Matrix& matrix, std::vector<LevelIndices>& combinations) {
  const LevelIndices baseline = combinations.front();
  for (std::size_t i = 0; i < matrix.exclude.size(); ++i) {
    const std::string where = fmt::format("design.exclude[{}]", i);
    const auto pattern = partial_levels(matrix.factors, matrix.exclude[i], where);
    if (std::none_of(pattern.begin(), pattern.end(), [](const auto& level) { return level.has_value(); }))
      throw input_error(where, "names no level");
    if (matches(baseline, pattern))
      throw input_error(where, fmt::format("takes the baseline away ({})", text_of(matrix, baseline)),
                        "the first level of each factor is the baseline's; put another first");
    // Exclusions may overlap; each must match something of the whole design.
    const auto whole = matrix.design == DesignKind::kFull ? full(matrix) : combinations;
    if (std::none_of(whole.begin(), whole.end(), [&](const auto& levels) { return matches(levels, pattern); }))
      throw input_error(where, "matches no combination of the design");
    std::erase_if(combinations, [&](const LevelIndices& levels) { return matches(levels, pattern); });
  }
}

void refuse_unused_levels(const Matrix& matrix, const std::vector<LevelIndices>& combinations) {
  for (std::size_t f = 0; f < matrix.factors.size(); ++f) {
    for (std::size_t level = 0; level < matrix.factors[f].levels.size(); ++level) {
      const bool used = std::any_of(combinations.begin(), combinations.end(),
                                    [&](const LevelIndices& levels) { return levels[f] == level; });
      if (!used)
        throw input_error(
            fmt::format("factors.{}[{}]", matrix.factors[f].name, level),
            fmt::format("no arm has level '{}': the design leaves it out", matrix.factors[f].levels[level].name));
    }
  }
}

}  // namespace

bool is_plain_name(const std::string& name) {
  constexpr const char* kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !name.empty() && name.find_first_not_of(kAllowed) == std::string::npos;
}

std::vector<Factor> read_factors(const JsonReader& reader) {
  std::vector<Factor> factors;
  for (const auto& [name, levels] : reader.json().items())
    factors.push_back(read_factor(name, levels, reader.place(name)));
  if (factors.empty()) throw input_error(reader.where(), "names no factor");
  refuse_shared_options(factors, reader.where());
  return factors;
}

Matrix read_design(JsonReader reader, std::vector<Factor> factors) {
  Matrix matrix;
  matrix.factors = std::move(factors);
  const std::string kind = reader.word("kind", {"one_at_a_time", "full", "listed"});
  matrix.design = kind == "full" ? DesignKind::kFull : kind == "listed" ? DesignKind::kListed : DesignKind::kOneAtATime;
  if (reader.has("exclude")) {
    const Json& written = reader.array("exclude");
    matrix.exclude.assign(written.begin(), written.end());
  }
  if (matrix.design == DesignKind::kListed) {
    const Json& written = reader.array("combinations");
    matrix.combinations.assign(written.begin(), written.end());
    if (matrix.combinations.empty()) throw reader.error("combinations", "lists none");
  } else if (reader.has("combinations")) {
    throw reader.error("combinations", fmt::format("has no meaning with design '{}'", kind),
                       "it is used with design listed");
  }
  reader.refuse_unknown_keys();
  return matrix;
}

std::vector<LevelIndices> combinations_of(const Matrix& matrix, std::size_t most_arms) {
  std::vector<LevelIndices> combinations;
  switch (matrix.design) {
    case DesignKind::kNone:
      throw internal_error("combinations of a matrix without a design");
    case DesignKind::kOneAtATime:
      combinations = one_at_a_time(matrix);
      break;
    case DesignKind::kFull:
      combinations = full(matrix);
      break;
    case DesignKind::kListed:
      combinations = listed(matrix);
      break;
  }
  take_out_excluded(matrix, combinations);
  if (combinations.size() < 2)
    throw input_error("design", "leaves the baseline alone: there is nothing to compare it with");
  if (combinations.size() > most_arms)
    throw input_error("design",
                      fmt::format("makes {} arms, at most {} can be compared", combinations.size(), most_arms),
                      "exclude combinations, list those that matter, or vary one factor at a time");
  refuse_unused_levels(matrix, combinations);
  return combinations;
}

std::string arm_name_of(const Matrix& matrix, const LevelIndices& levels) {
  std::vector<std::string> parts;
  if (matrix.design == DesignKind::kOneAtATime) {
    for (std::size_t f = 0; f < levels.size(); ++f)
      if (levels[f] != 0) parts = {matrix.factors[f].name, matrix.factors[f].levels[levels[f]].name};
    if (parts.empty()) parts.emplace_back(kBaselineName);
  } else {
    for (std::size_t f = 0; f < levels.size(); ++f) parts.push_back(matrix.factors[f].levels[levels[f]].name);
  }
  return join(parts, "_");
}

Json levels_json(const Matrix& matrix, const LevelIndices& levels) {
  Json json = Json::object();
  for (std::size_t f = 0; f < levels.size(); ++f)
    json[matrix.factors[f].name] = matrix.factors[f].levels[levels[f]].name;
  return json;
}

LevelIndices read_levels(const Matrix& matrix, const Json& levels, const std::string& where) {
  LevelIndices result;
  const auto named = partial_levels(matrix.factors, levels, where);
  for (std::size_t f = 0; f < named.size(); ++f) {
    if (!named[f]) throw input_error(where, fmt::format("has no level of factor '{}'", matrix.factors[f].name));
    result.push_back(*named[f]);
  }
  return result;
}

Json factors_json(const Matrix& matrix) {
  Json json = Json::object();
  for (const Factor& factor : matrix.factors) {
    Json levels = Json::array();
    for (const FactorLevel& level : factor.levels) levels.push_back({{"name", level.name}, {"options", level.options}});
    json[factor.name] = std::move(levels);
  }
  return json;
}

Json design_json(const Matrix& matrix) {
  Json json = {{"kind", to_text(matrix.design)}};
  if (!matrix.exclude.empty()) json["exclude"] = matrix.exclude;
  if (!matrix.combinations.empty()) json["combinations"] = matrix.combinations;
  return json;
}

std::string to_text(DesignKind design) {
  switch (design) {
    case DesignKind::kNone:
      return "none";
    case DesignKind::kOneAtATime:
      return "one_at_a_time";
    case DesignKind::kFull:
      return "full";
    case DesignKind::kListed:
      return "listed";
  }
  throw internal_error("a design has no name");
}

}  // namespace tare::harness

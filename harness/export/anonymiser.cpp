#include "harness/export/anonymiser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace tare::harness {
namespace {

// Ids as NVML writes them; 'x' stands for a hexadecimal digit. A PCI id's domain has four or eight digits, and both
// name the same device.
struct IdForm {
  const char* kind;
  std::string_view form;
};
constexpr std::array<IdForm, 4> kIdForms = {{{"gpu", "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"},
                                             {"gpu", "MIG-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"},
                                             {"pci", "xxxxxxxx:xx:xx.x"},
                                             {"pci", "xxxx:xx:xx.x"}}};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// An id of that form as a whole word at `at`.
bool has_form(std::string_view text, std::size_t at, std::string_view form) {
  if (text.size() - at < form.size() || (at > 0 && is_word(text[at - 1]))) return false;
  for (std::size_t i = 0; i < form.size(); ++i) {
    const char c = text[at + i];
    const bool fits = form[i] == 'x' ? std::isxdigit(static_cast<unsigned char>(c)) != 0 : c == form[i];
    if (!fits) return false;
  }
  return at + form.size() == text.size() || !is_word(text[at + form.size()]);
}

// Ends a path that stands in running text.
bool ends_path(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("\"'`,;:()[]{}<>|=&*?!").find(c) != std::string_view::npos;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// "0000:1b:00.0" for "00000000:1B:00.0".
std::string common_pci(const std::string& id) {
  constexpr std::size_t kShortDomain = 4;
  std::string common = lower(id);
  const std::size_t domain = common.find(':');
  if (domain != std::string::npos && domain > kShortDomain) common.erase(0, domain - kShortDomain);
  return common;
}

const Json* cell(const LedgerTable& table, const std::vector<Json>& row, const std::string& column) {
  const auto found = std::find(table.columns.begin(), table.columns.end(), column);
  if (found == table.columns.end()) return nullptr;
  const Json& value = row[static_cast<std::size_t>(found - table.columns.begin())];
  return value.is_null() ? nullptr : &value;
}

std::string text_in(const Json* json, const char* key) {
  const bool there = json != nullptr && json->is_object() && json->contains(key) && (*json)[key].is_string();
  const std::string value = there ? (*json)[key].get<std::string>() : std::string();
  return value == "unsupported" ? std::string() : value;  // not a name: it could not be read
}

// "6.1.0-18-amd64" of "Linux 6.1.0-18-amd64 x86_64".
std::string release_of(const std::string& kernel) {
  const std::size_t first = kernel.find(' ');
  if (first == std::string::npos) return kernel;
  return kernel.substr(first + 1, kernel.find(' ', first + 1) - first - 1);
}

// User names in home directories anywhere in the value.
void find_users(const Json& value, std::vector<std::string>& users) {
  if (value.is_structured()) {
    for (const Json& element : value) find_users(element, users);
    return;
  }
  if (!value.is_string()) return;
  const std::string& text = value.get_ref<const std::string&>();
  for (const std::string_view homes : {"/home/", "/Users/"}) {
    for (std::size_t at = text.find(homes); at != std::string::npos; at = text.find(homes, at + 1)) {
      const std::size_t begin = at + homes.size();
      std::size_t end = begin;
      while (end < text.size() && text[end] != '/' && !ends_path(text[end])) ++end;
      if (end > begin) users.push_back(text.substr(begin, end - begin));
    }
  }
}

}  // namespace

Anonymiser::Anonymiser(const std::vector<LedgerTable>& tables, const std::vector<std::string>& more_users) {
  std::vector<std::string> users = more_users;
  for (const LedgerTable& table : tables) {
    for (const std::vector<Json>& row : table.rows) {
      for (const Json& value : row) find_users(value, users);
      if (table.name == "sittings") {
        const Json* machine = cell(table, row, "machine");
        learn("host", text_in(machine, "hostname"));
        learn("kernel", release_of(text_in(machine, "kernel")));
      }
      if (table.name == "gpus") {
        if (const Json* uuid = cell(table, row, "uuid")) learn("gpu", uuid->get<std::string>());
      }
    }
  }
  for (const std::string& user : users)
    if (user != "root") learn("user", user);  // names nobody
}

void Anonymiser::learn(const std::string& kind, const std::string& name) {
  if (!name.empty()) (void)replacement(kind, name);
}

std::string Anonymiser::replacement(const std::string& kind, const std::string& name) {
  const auto known = words_.find(name);
  if (known != words_.end()) return known->second;
  const std::string word = fmt::format("{}-{}", kind, ++given_[kind]);
  words_.emplace(name, word);
  return word;
}

// Whole words only: a host called "a" is no letter of another name. The longest first: a host's short name is part of
// its long one.
std::string Anonymiser::without_words(std::string text) const {
  std::vector<std::pair<std::string, std::string>> ordered;
  for (const auto& [name, word] : words_)
    if (!name.starts_with('/')) ordered.emplace_back(name, word);
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  for (const auto& [name, word] : ordered) {
    for (std::size_t at = text.find(name); at != std::string::npos;) {
      const std::size_t end = at + name.size();
      const bool whole = (at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]));
      if (whole) text.replace(at, name.size(), word);
      at = text.find(name, at + (whole ? word.size() : 1));
    }
  }
  return text;
}

std::string Anonymiser::without_ids(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto found =
        std::find_if(kIdForms.begin(), kIdForms.end(), [&](const IdForm& id) { return has_form(text, at, id.form); });
    if (found == kIdForms.end()) {
      out.push_back(text[at++]);
      continue;
    }
    const std::string id(text.substr(at, found->form.size()));
    out += replacement(found->kind, std::string_view(found->kind) == "pci" ? common_pci(id) : id);
    at += found->form.size();
  }
  return out;
}

// The last name is kept: it says which model or program it was.
std::string Anonymiser::without_path(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  const std::string folder(path.substr(0, slash + 1));
  const std::string name(path.substr(slash + 1));
  return replacement("dir", folder) + (name.empty() ? "" : "/" + name);
}

std::string Anonymiser::without_paths(std::string_view text) {
  // A text that is one path may hold spaces.
  const bool is_path = text.size() > 1 && text.front() == '/' && text.find('\n') == std::string_view::npos &&
                       text.find(" /") == std::string_view::npos && text.find(": ") == std::string_view::npos;
  if (is_path) return without_path(text);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const bool begins = text[at] == '/' && at + 1 < text.size() && !ends_path(text[at + 1]) && text[at + 1] != '/' &&
                        (at == 0 || ends_path(text[at - 1]));
    if (!begins) {
      out.push_back(text[at++]);
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && !ends_path(text[end])) ++end;
    out += without_path(text.substr(at, end - at));
    at = end;
  }
  return out;
}

std::string Anonymiser::text(std::string_view text) {
  return without_words(without_paths(without_ids(text)));
}

std::map<std::string, std::size_t> Anonymiser::counts() const {
  return given_;
}

}  // namespace tare::harness

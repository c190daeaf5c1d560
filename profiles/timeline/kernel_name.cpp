#include "profiles/timeline/kernel_name.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <cctype>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

namespace tare::profiles {
namespace {

bool is_name_character(char character) {
  return std::isalnum(static_cast<unsigned char>(character)) != 0 || character == '_';
}

bool is_digit(char character) {
  return std::isdigit(static_cast<unsigned char>(character)) != 0;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// "(anonymous namespace)" holds a space and parentheses that later steps would take for something else; Nsight Systems
// calls the same namespace "<unnamed>".
std::string without_anonymous(std::string name) {
  for (const std::string_view anonymous : {"(anonymous namespace)::", "<unnamed>::"}) replace_all(name, anonymous, "");
  return name;
}

// Where the parameter list begins: the first '(' outside of template arguments; npos: none, so no signature.
std::size_t parameters_begin(const std::string& name) {
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (name[i] == '(' && depth == 0) return i;
  }
  return std::string::npos;
}

// Function templates are demangled with their return type in front.
std::string without_return_type(const std::string& name) {
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (name[i] == ' ' && depth == 0) begin = i + 1;
  }
  return name.substr(begin);
}

// "(int)16" and "16u" are 16, "(bool)1" is true; other casts tell an enumeration's type and stay.
std::string with_plain_numbers(std::string name) {
  replace_all(name, "(bool)1", "true");
  replace_all(name, "(bool)0", "false");
  for (const std::string_view cast :
       {"(int)", "(unsigned int)", "(long)", "(unsigned long)", "(long long)", "(unsigned long long)", "(short)",
        "(unsigned short)", "(char)", "(signed char)", "(unsigned char)"})
    replace_all(name, cast, "");
  std::string result;
  for (std::size_t i = 0; i < name.size(); ++i) {
    result.push_back(name[i]);
    const bool number_begins = is_digit(name[i]) && (i == 0 || !is_name_character(name[i - 1]));
    if (!number_begins) continue;
    while (i + 1 < name.size() && is_digit(name[i + 1])) result.push_back(name[++i]);
    std::size_t end = i + 1;
    while (end < name.size() && (name[end] == 'u' || name[end] == 'l')) ++end;
    if (end == name.size() || !is_name_character(name[end])) i = end - 1;
  }
  return result;
}

// The two demanglers differ in their spaces: "Tile<4> >" and "Tile<4>>", "char*" and "char *".
std::string without_odd_spaces(std::string name) {
  replace_all(name, "> >", ">>");
  replace_all(name, "> >", ">>");  // of "> > >" the first pass leaves one
  replace_all(name, " *", "*");
  replace_all(name, " &", "&");
  return name;
}

// Drops a trailing "name" or "name<arguments>".
void drop_last_name(std::string& text) {
  if (!text.empty() && text.back() == '>') {
    int depth = 0;
    do {
      if (text.back() == '>') ++depth;
      if (text.back() == '<') --depth;
      text.pop_back();
    } while (depth > 0 && !text.empty());
  }
  while (!text.empty() && is_name_character(text.back())) text.pop_back();
}

// Every "name::" goes, also in template arguments.
std::string without_namespaces(const std::string& name) {
  std::string result;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == ':' && i + 1 < name.size() && name[i + 1] == ':') {
      drop_last_name(result);
      ++i;
    } else {
      result.push_back(name[i]);
    }
  }
  return result;
}

// Empty when the name is not mangled. Without the prefix the demangler would read a kernel called f as the type float.
std::string demangled(const std::string& name) {
  if (!name.starts_with("_Z")) return {};
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 && text ? std::string(text.get()) : std::string();
}

}  // namespace

std::string short_kernel_name(const std::string& name) {
  std::string signature = demangled(name);
  if (signature.empty()) signature = name;
  signature = without_odd_spaces(without_anonymous(std::move(signature)));
  const std::size_t end = parameters_begin(signature);
  if (end == std::string::npos) return name;
  return without_namespaces(with_plain_numbers(without_return_type(signature.substr(0, end))));
}

std::string copy_name(int copy_kind) {
  switch (copy_kind) {  // CUpti_ActivityMemcpyKind
    case 1:
      return "[memcpy HtoD]";
    case 2:
      return "[memcpy DtoH]";
    case 8:
      return "[memcpy DtoD]";
    case 9:
      return "[memcpy HtoH]";
    case 10:
      return "[memcpy PtoP]";
    default:
      return fmt::format("[memcpy kind {}]", copy_kind);
  }
}

}  // namespace tare::profiles

#include "profiles/timeline/kernel_name.h"

#include <cxxabi.h>

#include <cctype>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace tare::profiles {
namespace {

bool is_name_character(char character) {
  return std::isalnum(static_cast<unsigned char>(character)) != 0 || character == '_';
}

// "(anonymous namespace)" holds a space and parentheses that later steps would take for something else.
std::string without_anonymous(std::string name) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  for (std::size_t at = name.find(kAnonymous); at != std::string::npos; at = name.find(kAnonymous, at))
    name.erase(at, kAnonymous.size());
  return name;
}

// Up to the parameter list: the first '(' outside of template arguments.
std::string without_parameters(const std::string& name) {
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (name[i] == '(' && depth == 0) return name.substr(0, i);
  }
  return name;
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

// Casts to int in front of template arguments: "(int)16" is 16; other casts tell an enumeration's type and stay.
std::string without_integer_casts(std::string name) {
  for (const std::string_view cast : {"(int)", "(bool)", "(unsigned int)", "(long)", "(unsigned long)"})
    for (std::size_t at = name.find(cast); at != std::string::npos; at = name.find(cast, at))
      name.erase(at, cast.size());
  return name;
}

// Every "name::" goes, also in template arguments.
std::string without_namespaces(const std::string& name) {
  std::string result;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == ':' && i + 1 < name.size() && name[i + 1] == ':') {
      while (!result.empty() && is_name_character(result.back())) result.pop_back();
      ++i;
    } else {
      result.push_back(name[i]);
    }
  }
  return result;
}

}  // namespace

std::string short_kernel_name(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                              &std::free);
  if (status != 0 || !demangled) return mangled;
  const std::string name = without_parameters(without_anonymous(demangled.get()));
  return without_namespaces(without_integer_casts(without_return_type(name)));
}

}  // namespace tare::profiles

// Kernel names, shortened in one way everywhere.
#pragma once

#include <string>

namespace tare::profiles {

// Of a mangled name, or of a signature as Nsight Systems writes it, drops the return type, the parameter list and every
// namespace and enclosing class; template arguments stay, written in one way: "_ZN4tare6engine9q4_streamILi16EEEvPKh"
// and "void tare::engine::q4_stream<(int)16>(const unsigned char *)" both become "q4_stream<16>". A name that is
// neither stays as it is.
[[nodiscard]] std::string short_kernel_name(const std::string& name);

// What copies are called: "[memcpy HtoD]" of CUPTI's copy kind (which Nsight Systems stores too), and memory that is
// filled.
[[nodiscard]] std::string copy_name(int copy_kind);
constexpr const char* kFillName = "[memset]";

}  // namespace tare::profiles

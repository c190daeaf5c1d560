// Kernel names, shortened in one way everywhere.
#pragma once

#include <string>

namespace tare::profiles {

// Demangles, then drops the return type, the parameter list and every namespace; template arguments stay:
// "_ZN4tare6engine9q4_streamILi16EEEvPKh" becomes "q4_stream<16>". A name that is not mangled stays as it is.
[[nodiscard]] std::string short_kernel_name(const char* mangled);

}  // namespace tare::profiles

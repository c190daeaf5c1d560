// Running gnuplot on a script.
#pragma once

#include <filesystem>
#include <string>

namespace tare::reports {

// Runs `program` (a path, or a name looked up in PATH) in `directory` on `script`, a file name there, with gnuplot's
// defaults and not the user's; `before` are commands run first ("kind='pdf'"). Throws Error (environment): the program
// is not there (names the Debian package), ends with a fault (with its last words), or takes longer than `limit_s`.
void run_gnuplot(const std::string& program, const std::filesystem::path& directory, const std::string& script,
                 double limit_s = 60.0, const std::string& before = {});

}  // namespace tare::reports

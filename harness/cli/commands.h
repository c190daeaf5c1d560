// The commands of the program. Each adds itself to the command line; its action runs when it was chosen.
#pragma once

#include <string>

#include "harness/cli/command_line.h"

namespace tare::harness {

void add_run_command(CommandLine& line);
void add_reconcile_command(CommandLine& line);
void add_gate_command(CommandLine& line);
void add_compare_command(CommandLine& line);
void add_plan_command(CommandLine& line);
void add_calibrate_command(CommandLine& line);
void add_report_command(CommandLine& line);
void add_export_command(CommandLine& line);
void add_init_command(CommandLine& line);
void add_generate_command(CommandLine& line);
void add_logits_command(CommandLine& line);
void add_reference_command(CommandLine& line);
void add_ceiling_command(CommandLine& line);
void add_doctor_command(CommandLine& line);
void add_profile_command(CommandLine& line);
void add_nsys_command(CommandLine& line);
void add_quantize_command(CommandLine& line);
void add_rollouts_command(CommandLine& line);
void add_trees_command(CommandLine& line);
void add_worker_command(CommandLine& line);
void add_fidelity_command(CommandLine& line);

// This program's own path, to start itself as a worker.
[[nodiscard]] std::string own_program();

}  // namespace tare::harness

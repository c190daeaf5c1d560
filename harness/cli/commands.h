// The commands of the program. Each adds itself to the command line; its work is done when it was chosen.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace tare::harness {

// What the chosen command does; returns the exit code. Set by the command's parser, called by main.
struct Chosen {
  std::function<int()> action;
};

void add_run_command(CLI::App& app, Chosen& chosen);
void add_reconcile_command(CLI::App& app, Chosen& chosen);
void add_gate_command(CLI::App& app, Chosen& chosen);
void add_compare_command(CLI::App& app, Chosen& chosen);
void add_plan_command(CLI::App& app, Chosen& chosen);
void add_calibrate_command(CLI::App& app, Chosen& chosen);
void add_report_command(CLI::App& app, Chosen& chosen);
void add_export_command(CLI::App& app, Chosen& chosen);
void add_init_command(CLI::App& app, Chosen& chosen);
void add_generate_command(CLI::App& app, Chosen& chosen);
void add_logits_command(CLI::App& app, Chosen& chosen);
void add_reference_command(CLI::App& app, Chosen& chosen);
void add_ceiling_command(CLI::App& app, Chosen& chosen);
void add_doctor_command(CLI::App& app, Chosen& chosen);
void add_profile_command(CLI::App& app, Chosen& chosen);
void add_nsys_command(CLI::App& app, Chosen& chosen);
void add_quantize_command(CLI::App& app, Chosen& chosen);
void add_rollouts_command(CLI::App& app, Chosen& chosen);
void add_trees_command(CLI::App& app, Chosen& chosen);
void add_worker_command(CLI::App& app, Chosen& chosen);
void add_fidelity_command(CLI::App& app, Chosen& chosen);

// This program's own path, to start itself as a worker.
[[nodiscard]] std::string own_program();

}  // namespace tare::harness

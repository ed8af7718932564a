#pragma once
// The options that plan, estimate, simulate and check share, and the request they come to.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "integrations/cli/options.h"
#include "planner/estimate/argument_table.h"
#include "planner/planner.h"

namespace tidemark::cli {

class Console;

struct JobOptions {
  std::filesystem::path model;
  std::filesystem::path megatron_args;  ///< in place of `model`; empty: not given
  int world_size = 0;                   ///< devices of that job; 0: as its file says
  std::string accelerator;              ///< of that job; empty: as --device or its file says
  bool strict = false;  ///< an argument not understood, or text that may hold some and was left out, is an error
  std::string device;   ///< empty: the model file's
  std::string policy = "optimal";
  Imbalance imbalance;
  bool any_layout = false;    ///< the job's own layout is not the one that is planned: it does not limit loads
  bool places_layers = true;  ///< of `placement: auto`: false where nothing depends on it
  std::filesystem::path imbalance_from;
  std::optional<Bytes> budget_bytes;
  std::optional<Bytes> host_budget_bytes;
  std::vector<std::int32_t> ranks;
  std::optional<double> op_time_scale;
  std::optional<double> layer_ms;
  std::filesystem::path calibration;  ///< measured corrections; empty: none
  int threads = 0;
  Format format = Format::text;
};

/// The positional MODEL, --megatron-args in its place, and every option of JobOptions. What `options` holds are the
/// defaults shown in the help.
void add_job_options(CLI::App& app, JobOptions& options);
/// All of them but the positional: for a verb whose file may be something else.
void add_what_if_options(CLI::App& app, JobOptions& options);

/// --megatron-args, --world-size, --accelerator and --strict, for a verb that takes them beside a positional of its
/// own.
void add_argument_options(CLI::App& app, JobOptions& options);
/// What --accelerator and the key of a budget file may say.
[[nodiscard]] const std::vector<std::string>& accelerator_names();
/// --world-size and --accelerator alone, for a verb whose own file may be a framework's.
void add_script_options(CLI::App& app, JobOptions& options);

/// Reads the model, the device and the measured counts. With --megatron-args, what is left out is noted on `console`.
/// Errors (bad_input): one line.
[[nodiscard]] Result<plan::PlanRequest> read_request(const JobOptions& options, const Console* console = nullptr);

/// The device of --device. `subject`: the file beside which it is looked for as well. Errors (bad_input): one line.
[[nodiscard]] Result<Machine> read_device(const std::string& device, const std::filesystem::path& subject);

/// A framework's job as it was read, and what it was read from: a change of it is imported anew.
struct TrainingJob {
  estimate::ImportedRun imported;
  estimate::ArgumentSet set;  ///< empty of a configuration file
  estimate::RunHints hints;
  std::vector<std::filesystem::path> sourced;  ///< scripts that a launch script read, each once
};

/// The job of --megatron-args: a launch script, arguments as YAML or JSON, or a configuration file of Megatron-Bridge,
/// torchtitan or MindFormers, told apart by the text. The device (--device, else what the file's framework runs on)
/// decides the accelerator. `notes` of the result hold what the file left open. Errors (bad_input): one line; with
/// --strict every argument that is not understood, with its place.
[[nodiscard]] Result<TrainingJob> read_training_job(const JobOptions& options);

/// The chip that prices the job's steps: that of --device, else the usual one of its accelerator. Errors (bad_input):
/// a file cannot be read, or is wrong.
[[nodiscard]] Result<Chip> chip_of(const JobOptions& options, estimate::Accelerator accelerator);

/// The scripts that a launch script reads with `source`, each once, whether or not they are followed. Empty: it reads
/// none, or is no launch script that can be read, which read_training_job reports.
[[nodiscard]] std::vector<std::filesystem::path> sourced_by(const std::filesystem::path& script);

/// That job as a plan's, for the device of --device; `left_out` takes a line for each thing no plan says. Errors
/// (bad_input): what a plan cannot describe.
[[nodiscard]] Result<graph_build::JobSpec> job_of(const estimate::ImportedRun& imported, const JobOptions& options,
                                                  std::vector<std::string>& left_out);

/// What of the input was not understood, a line each, `file:line: what`.
[[nodiscard]] std::vector<std::string> doubts_of(const estimate::ImportedRun& imported);

/// A line for each argument not understood (with a near miss) and each assumption.
[[nodiscard]] std::vector<std::string> import_remarks(const estimate::ImportedRun& imported);

/// The file that names the job in messages.
[[nodiscard]] const std::filesystem::path& subject_of(const JobOptions& options);

/// Options that would be read and then count for nothing. Errors (bad_input): the first that was given, `why`, to be
/// dropped.
[[nodiscard]] Status refuse_given(const CLI::App& app, const std::vector<std::string>& options, std::string_view why);

/// The files named by the options and those that a launch script among them reads, so that no output replaces an input.
[[nodiscard]] std::vector<std::filesystem::path> inputs_of(const JobOptions& options);

/// plan_step with a progress bar where there is a terminal, and the wall time it took.
struct Planned {
  plan::PlanOutcome outcome;
  double seconds = 0;
};
/// `input`: the file to name. Errors: those of plan_step; and bad_input where totals leave what a plan holds, since a
/// number of the job or the device is far off.
[[nodiscard]] Result<Planned> plan_with_progress(const plan::PlanRequest& request, const std::filesystem::path& input,
                                                 const Console& console);

}  // namespace tidemark::cli

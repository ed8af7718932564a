#include "integrations/cli/argument_job.h"

#include <fmt/format.h>

#include <utility>

#include "integrations/cli/calibration_option.h"
#include "integrations/cli/locations.h"
#include "integrations/formats/file.h"
#include "integrations/formats/import_yaml.h"
#include "planner/graph_build/static_memory.h"

namespace tidemark::cli {
namespace {

using estimate::Calibration;

void apply(const Calibration& calibration, const std::string& file, ArgumentJob& job) {
  if (!calibration.memory) {
    job.notes.push_back(fmt::format("{}: corrects no memory", file));
    return;
  }
  const std::string model = estimate::model_text(job.imported.run);
  if (calibration.memory->model != model) {
    job.notes.push_back(fmt::format("{}: memory is not corrected: it was measured with another model ({}; this is {})",
                                    file, calibration.memory->model, model));
    return;
  }
  job.knobs = estimate::corrected(job.knobs, *calibration.memory);
  for (const std::string& line : estimate::describe({.memory = calibration.memory}))
    job.notes.push_back(fmt::format("calibrated by {}: {}", file, line));
}

}  // namespace

Result<ArgumentJob> read_argument_job(const JobOptions& options) {
  Result<estimate::ImportedRun> imported = read_training_run(options);
  if (!imported) return imported.error();
  ArgumentJob job{.imported = std::move(imported).value()};
  const Result<std::optional<Calibration>> calibration = read_calibration_option(options);
  if (!calibration) return calibration.error();
  if (calibration.value()) apply(*calibration.value(), options.calibration.string(), job);
  return job;
}

Result<Bytes> allocator_budget(const JobOptions& options) {
  if (options.budget_bytes) return *options.budget_bytes;
  if (options.device.empty())
    return bad_input("--budget: needed with --megatron-args, the memory the framework may fill; or name a --device");
  const Result<std::filesystem::path> device = find_device(options.device, options.megatron_args);
  if (!device) return bad_input("--device: " + device.error().message);
  const Result<std::string> text = formats::read_file(device.value(), formats::kMostDescriptionBytes);
  if (!text) return text.error();
  const Result<Machine> machine = formats::read_machine(text.value(), device.value().string());
  if (!machine) return machine.error();
  const graph_build::ReserveMemory reserve = graph_build::reserve_memory(machine.value(), graph_build::ParallelSpec{});
  return machine.value().visible_bytes - reserve.total();
}

}  // namespace tidemark::cli

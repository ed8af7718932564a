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
  const std::string model = estimate::model_text(job.training.imported.run);
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
  Result<TrainingJob> training = read_training_job(options);
  if (!training) return training.error();
  ArgumentJob job{.training = std::move(training).value(), .knobs = {}, .notes = {}};
  const Result<std::optional<Calibration>> calibration = read_calibration_option(options);
  if (!calibration) return calibration.error();
  if (calibration.value()) apply(*calibration.value(), options.calibration.string(), job);
  return job;
}

Result<std::optional<DeviceRoom>> device_room(const JobOptions& options) {
  if (options.device.empty()) return std::optional<DeviceRoom>();
  const Result<Machine> machine = read_device(options.device, subject_of(options));
  if (!machine) return machine.error();
  const graph_build::ReserveMemory reserve = graph_build::reserve_memory(machine.value(), graph_build::ParallelSpec{});
  return std::optional<DeviceRoom>({.visible_bytes = machine.value().visible_bytes, .reserve_bytes = reserve.total()});
}

}  // namespace tidemark::cli

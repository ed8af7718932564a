#include "integrations/cli/calibration_option.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "integrations/cli/console.h"
#include "integrations/formats/calibration_file.h"
#include "integrations/formats/file.h"

namespace tidemark::cli {

using framework::Calibration;

void add_calibration(CLI::App& app, JobOptions& options) {
  app.add_option("--calibration", options.calibration,
                 "corrections from a measured run of your own (tidemark calibrate)")
      ->type_name("FILE");
}

Result<std::optional<Calibration>> read_calibration_option(const JobOptions& options) {
  if (options.calibration.empty()) return std::optional<Calibration>();
  const Result<std::string> text = read_file(options.calibration);
  if (!text) return text.error();
  Result<Calibration> calibration = read_calibration(text.value(), options.calibration.string());
  if (!calibration) return calibration.error();
  return std::optional(std::move(calibration).value());
}

Status apply_calibration(const JobOptions& options, PlanRequest& request, const Console* console) {
  const Result<std::optional<Calibration>> read = read_calibration_option(options);
  if (!read) return read.error();
  if (!read.value()) return {};
  const Calibration& calibration = *read.value();
  request.machine = framework::corrected(request.machine, calibration);
  const bool own_scale = options.op_time_scale || options.layer_ms;
  if (calibration.op_time_scale && !own_scale) request.time_scale = *calibration.op_time_scale;
  if (console == nullptr) return {};
  for (const std::string& line : framework::describe(calibration))
    console->note(fmt::format("calibrated by {}: {}", options.calibration.string(), line));
  return {};
}

}  // namespace tidemark::cli

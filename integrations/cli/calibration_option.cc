#include "integrations/cli/calibration_option.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <utility>

#include "core/bytes.h"
#include "integrations/cli/console.h"
#include "integrations/formats/calibration_file.h"
#include "integrations/formats/file.h"

namespace tidemark::cli {

using estimate::Calibration;

void add_calibration(CLI::App& app, JobOptions& options) {
  app.add_option("--calibration", options.calibration,
                 "corrections from a measured run of your own (tidemark calibrate)")
      ->type_name("FILE");
}

Result<std::optional<Calibration>> read_calibration_option(const JobOptions& options) {
  if (options.calibration.empty()) return std::optional<Calibration>();
  const Result<std::string> text = formats::read_file(options.calibration, formats::kMostDescriptionBytes);
  if (!text) return text.error();
  Result<Calibration> calibration = formats::read_calibration(text.value(), options.calibration.string());
  if (!calibration) return calibration.error();
  return std::optional(std::move(calibration).value());
}

namespace {

/// A correction of memory names its model by layers and width among others.
bool is_of(const estimate::MemoryCorrection& memory, const graph_build::ModelSpec& model) {
  return memory.model.find(fmt::format(", {} layers, hidden {}, ", model.layers.size(), model.hidden)) !=
         std::string::npos;
}

/// What a plan takes of the corrections, one line each.
std::vector<std::string> used_by_a_plan(Calibration calibration, bool own_scale, bool same_model) {
  std::vector<std::string> lines;
  if (calibration.memory && !same_model) {
    lines.push_back(
        fmt::format("memory is not corrected: it was measured with another model ({})", calibration.memory->model));
  } else if (calibration.memory) {
    lines.push_back(fmt::format("{} more workspace; a plan's state and activations are not corrected ({})",
                                format_bytes(static_cast<Bytes>(calibration.memory->static_offset_bytes)),
                                calibration.memory->model));
  }
  if (calibration.op_time_scale && own_scale) {
    lines.emplace_back("compute times are not corrected: --op-time-scale or --layer-ms counts");
    calibration.op_time_scale.reset();
  }
  calibration.memory.reset();
  for (std::string& line : estimate::describe(calibration)) lines.push_back(std::move(line));
  if (lines.empty()) lines.emplace_back("it corrects nothing");
  return lines;
}

}  // namespace

Status apply_calibration(const JobOptions& options, plan::PlanRequest& request, const Console* console) {
  const Result<std::optional<Calibration>> read = read_calibration_option(options);
  if (!read) return read.error();
  if (!read.value()) return {};
  const Calibration& calibration = *read.value();
  const bool same_model = calibration.memory && is_of(*calibration.memory, request.job.model);
  Calibration of_this_model = calibration;
  if (!same_model) of_this_model.memory.reset();
  request.machine = estimate::corrected(request.machine, of_this_model);
  const bool own_scale = options.op_time_scale || options.layer_ms;
  if (calibration.op_time_scale && !own_scale) request.time_scale = *calibration.op_time_scale;
  if (console == nullptr) return {};
  for (const std::string& line : used_by_a_plan(calibration, own_scale, same_model))
    console->note(fmt::format("calibrated by {}: {}", options.calibration.string(), line));
  return {};
}

}  // namespace tidemark::cli

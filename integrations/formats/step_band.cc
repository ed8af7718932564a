#include "integrations/formats/step_band.h"

#include <fmt/format.h>

namespace tidemark::formats {
namespace {

double band_percent(const plan::PlanRequest& request) {
  if (request.step) return 0;
  const StepBands& bands = request.machine.chip.bands;
  return request.job.model.has_experts() ? bands.experts_percent : bands.dense_percent;
}

}  // namespace

std::string band_text(const plan::PlanRequest& request) {
  const double percent = band_percent(request);
  if (percent <= 0) return {};
  return fmt::format(
      "band {:.1f} %: four of five measured steps of {} models on chips of this kind were that close to what was "
      "predicted from their arguments",
      percent, request.job.model.has_experts() ? "MoE" : "dense");
}

nlohmann::ordered_json band_json(const plan::PlanRequest& request) {
  const double percent = band_percent(request);
  return percent > 0 ? nlohmann::ordered_json(percent) : nlohmann::ordered_json(nullptr);
}

}  // namespace tidemark::formats

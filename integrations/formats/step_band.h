#pragma once
// How far off the modelled seconds of a step may be, for people and for programs.

#include <nlohmann/json.hpp>
#include <string>

#include "planner/planner.h"

namespace tidemark::formats {

/// `band 12.3 %: four of five measured steps of dense models on chips of this kind were that close to ...`. Empty: of a
/// captured step, or of a chip that no measured step is known of.
[[nodiscard]] std::string band_text(const plan::PlanRequest& request);

/// Half width in percent. Null where the text is empty.
[[nodiscard]] nlohmann::ordered_json band_json(const plan::PlanRequest& request);

}  // namespace tidemark::formats

#include "integrations/cli/plan_input.h"

#include "integrations/formats/file.h"

namespace tidemark::cli {

Result<formats::PlanFile> read_plan(const std::filesystem::path& path) {
  const Result<std::string> text = formats::read_file(path, formats::kMostPlanFileBytes);
  if (!text) return text.error();
  return formats::read_plan_file(text.value(), path.string());
}

}  // namespace tidemark::cli

#include "integrations/cli/plan_input.h"

#include "integrations/formats/file.h"

namespace tidemark::cli {

Result<PlanFile> read_plan(const std::filesystem::path& path) {
  const Result<std::string> text = read_file(path, kMostPlanFileBytes);
  if (!text) return text.error();
  return read_plan_file(text.value(), path.string());
}

}  // namespace tidemark::cli

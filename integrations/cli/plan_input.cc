#include "integrations/cli/plan_input.h"

#include "integrations/formats/file.h"
#include "integrations/formats/file_kind.h"

namespace tidemark::cli {

Result<formats::PlanFile> read_plan(const std::filesystem::path& path) {
  const Result<std::string> text = formats::read_file(path, formats::kMostPlanFileBytes);
  if (!text) return text.error();
  Result<formats::PlanFile> file = formats::read_plan_file(text.value(), path.string());
  if (!file) return formats::explain_kind(file.error(), path, formats::FileKind::plan);
  return file;
}

}  // namespace tidemark::cli

#include "integrations/formats/import_captured_step.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "integrations/formats/captured_step_json.h"
#include "integrations/formats/captured_step_text.h"

namespace tidemark::formats {

Result<CapturedStep> read_captured_step(std::string_view text, std::string_view file_name, StepObjective objective) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') return read_captured_step_json(text, file_name, objective);
  if (nlohmann::json::accept(text))
    return bad_input(fmt::format("{}: neither a JSON object nor a .graph or .swapgraph", file_name));
  return read_captured_step_text(text, file_name, objective);
}

}  // namespace tidemark::formats

#include "integrations/formats/import_op_list.h"

#include "integrations/formats/op_list_json.h"
#include "integrations/formats/op_list_text.h"

namespace tidemark {

Result<OpList> read_op_list(std::string_view text, std::string_view file_name, StepObjective objective) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') return read_op_list_json(text, file_name, objective);
  return read_op_list_text(text, file_name, objective);
}

}  // namespace tidemark

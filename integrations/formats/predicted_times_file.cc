#include "integrations/formats/predicted_times_file.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "integrations/formats/yaml_fields.h"

namespace tidemark::formats {
namespace {

constexpr double kLeastSeconds = 1e-9, kMostSeconds = 1e9;

void read_row(YamlDocument& document, const YamlNode& node, PredictedTimesById& times) {
  YamlMap fields(document, node, "rows", node.line);
  std::string id;
  double seconds = 0;
  fields.text("id", id, Need::required);
  fields.real("predicted_s", seconds, Need::required);
  if (fields.has("predicted_s") && document.clean() && !(seconds >= kLeastSeconds && seconds <= kMostSeconds))
    fields.wrong("predicted_s", fmt::format("predicted_s is {}; it is {} to {} seconds of a step", seconds,
                                            kLeastSeconds, kMostSeconds));
  fields.finish();
  if (!times.emplace(id, seconds).second)
    document.wrong(node.line, fmt::format("the row {} is there twice; keep one of the two", shown(id)));
}

}  // namespace

Result<PredictedTimesById> read_predicted_times(std::string_view text, std::string_view file_name) {
  YamlDocument document(file_name);
  const Result<std::shared_ptr<const YamlNode>> tree = document.parse(text);
  if (!tree) return tree.error();
  YamlMap root(document, *tree.value(), "", 1);
  PredictedTimesById times;
  if (const YamlNode* list = root.list("rows", R"([{"id": "gpt/tp2", "predicted_s": 1.25}])", Need::required))
    for (const YamlNode::Item& item : list->items) read_row(document, *item.value, times);
  root.finish();
  if (!document.clean()) return document.first_error();
  return times;
}

}  // namespace tidemark::formats

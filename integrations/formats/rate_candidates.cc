#include "integrations/formats/rate_candidates.h"

#include <fmt/format.h>

#include <cassert>
#include <nlohmann/json.hpp>
#include <utility>

#include "integrations/formats/time_constants.h"
#include "integrations/formats/yaml_fields.h"
#include "planner/step_time/run_terms.h"

namespace tidemark::formats {
namespace {

FittedRates read_candidate(YamlDocument& document, const YamlNode& node) {
  FittedRates rates;
  YamlMap fields(document, node, "candidates", node.line);
  for (const TimeConstant& constant : kTimeConstants) read_time_constant(fields, constant, rates, Need::required);
  fields.finish();
  return rates;
}

using Json = nlohmann::ordered_json;

Json number_or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

Result<RateCandidates> read_rate_candidates(std::string_view text, std::string_view file_name) {
  YamlDocument document(file_name);
  const Result<std::shared_ptr<const YamlNode>> tree = document.parse(text);
  if (!tree) return tree.error();
  YamlMap root(document, *tree.value(), "", 1);
  RateCandidates candidates;
  root.text("constants", candidates.constants, Need::required);
  if (const YamlNode* list = root.list("candidates", "[{matmul: 0.81, ...}]", Need::required)) {
    const std::size_t count = list->items.size();
    if (count < 1 || count > kMostCandidates)
      root.wrong("candidates", fmt::format("candidates has {} entries; write 1 to {}", count, kMostCandidates));
    else
      for (const YamlNode::Item& item : list->items) candidates.rates.push_back(read_candidate(document, *item.value));
  }
  root.finish();
  if (!document.clean()) return document.first_error();
  return candidates;
}

std::string candidates_json(std::span<const step_time::TimeRow> rows, std::span<const std::string> constants,
                            std::span<const std::vector<std::optional<double>>> seconds) {
  assert(constants.size() == rows.size());
  Json json = {{"rows", Json::array()}, {"candidates", Json::array()}};
  for (std::size_t i = 0; i < rows.size(); ++i)
    json["rows"].push_back({{"id", rows[i].id},
                            {"split_key", rows[i].split_key},
                            {"software", rows[i].software},
                            {"constants", constants[i]},
                            {"measured_s", number_or_null(rows[i].measured_s)},
                            {"terms", step_time::terms_of(rows[i].run).names()},
                            {"scored", rows[i].is_scored}});
  for (const std::vector<std::optional<double>>& of_candidate : seconds) {
    assert(of_candidate.size() == rows.size());
    Json list = Json::array();
    for (const std::optional<double>& value : of_candidate) list.push_back(number_or_null(value));
    json["candidates"].push_back(std::move(list));
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tidemark::formats

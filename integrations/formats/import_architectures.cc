#include "integrations/formats/import_architectures.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "integrations/formats/quantity.h"
#include "integrations/formats/yaml_fields.h"
#include "planner/search/placement.h"

namespace tidemark::formats {
namespace {

constexpr std::int64_t kMostWidth = 1'000'000;
constexpr std::int64_t kMostLayers = search::kMostPlacedLayers;
constexpr std::int64_t kMostCount = 100'000;  ///< of heads, experts
constexpr std::int64_t kMostDegree = 1 << 20;
constexpr std::size_t kMostValues = 1000;
constexpr std::size_t kMostLayouts = 4096;

/// A list of numbers of one key under way.
class ValueList {
 public:
  ValueList(YamlDocument& document, std::string_view key, std::int64_t least, std::int64_t most)
      : document_(document), key_(key), least_(least), most_(most) {}

  void read(const YamlNode& node) {
    if (node.is_scalar()) {
      add(node);
    } else if (node.is_list()) {
      for (const YamlNode::Item& item : node.items) add(*item.value);
    } else {
      read_range(node);
    }
  }

  [[nodiscard]] const std::vector<std::int64_t>& values() const { return values_; }

 private:
  void add(const YamlNode& node) {
    const auto value = node.is_scalar() ? integer_in(node.text) : std::nullopt;
    if (!value)
      document_.wrong(node.line, fmt::format("a value of {} is {}; write whole numbers like [48, 61], or {{from: 48, "
                                             "to: 64, step: 4}}",
                                             key_, described(node)));
    else
      add(*value, node.line);
  }

  void add(std::int64_t value, int line) {
    if (value < least_ || value > most_)
      return document_.wrong(line, fmt::format("{} is {}; it must be {} to {}", key_, value, least_, most_));
    const auto at = std::ranges::lower_bound(values_, value);
    if (at != values_.end() && *at == value)
      return document_.wrong(line, fmt::format("{} lists {} twice; list each value once", key_, value));
    if (values_.size() == kMostValues)
      return document_.wrong(line, fmt::format("{} lists more than {} values; list fewer", key_, kMostValues));
    values_.insert(at, value);
  }

  void read_range(const YamlNode& node) {
    YamlMap range(document_, node, std::string(key_), node.line);
    std::int64_t from = 0, to = 0, step = 0;
    range.integer("from", from, Need::required);
    range.integer("to", to, Need::required);
    range.integer("step", step, Need::required);
    range.finish();
    if (!document_.clean()) return;
    if (step < 1 || step > most_ || from < least_ || to < from || to > most_)
      return document_.wrong(node.line,
                             fmt::format("{} goes from {} to {} by {}; it must go up from {} or more, by 1 or "
                                         "more, to {} at most",
                                         key_, from, to, step, least_, most_));
    if ((to - from) / step >= static_cast<std::int64_t>(kMostValues))
      return document_.wrong(node.line, fmt::format("{} lists more than {} values; list fewer", key_, kMostValues));
    for (std::int64_t value = from; value <= to; value += step) add(value, node.line);
  }

  YamlDocument& document_;
  std::string_view key_;
  std::int64_t least_, most_;
  std::vector<std::int64_t> values_;
};

template <class T>
void read_list(YamlDocument& document, YamlMap& fields, std::string_view key, std::int64_t least, std::int64_t most,
               std::vector<T>& out) {
  const YamlNode* node = fields.any(key, "[48, 61]", Need::optional);
  if (node == nullptr) return;
  ValueList list(document, key, least, most);
  list.read(*node);
  if (list.values().empty() && document.clean())
    fields.wrong(key, fmt::format("{} is empty; list a value, or drop it", key));
  for (const std::int64_t value : list.values()) out.push_back(static_cast<T>(value));
}

void read_vary(YamlDocument& document, YamlMap fields, search::ArchitectureRanges& ranges) {
  read_list(document, fields, "layers", 1, kMostLayers, ranges.layers);
  read_list(document, fields, "dense_layers", 0, kMostLayers, ranges.dense_layers);
  read_list(document, fields, "hidden", 1, kMostWidth, ranges.hidden);
  read_list(document, fields, "heads", 1, kMostCount, ranges.heads);
  read_list(document, fields, "dense_width", 1, kMostWidth, ranges.dense_width);
  read_list(document, fields, "experts", 1, kMostCount, ranges.experts);
  read_list(document, fields, "top_k", 1, kMostCount, ranges.top_k);
  read_list(document, fields, "expert_width", 1, kMostWidth, ranges.expert_width);
  read_list(document, fields, "shared_experts", 0, kMostCount, ranges.shared_experts);
  read_list(document, fields, "mtp_layers", 0, graph_build::kMostMtpLayers, ranges.mtp_layers);
  fields.finish();
  const std::int64_t combinations = search::combinations_of(ranges);
  if (combinations > search::kMostArchitectures)
    document.wrong(fields.line(), fmt::format("vary has {} combinations; it must have {} at most: list fewer values",
                                              combinations, search::kMostArchitectures));
}

/// `{least: 600B, most: 800B}`; `least` null: there is only a most.
void read_bound(YamlMap& bounds, std::string_view key, Result<double> (*parse)(std::string_view),
                std::string_view example, std::optional<double>* least, std::optional<double>& most) {
  auto fields = bounds.section(key, Need::optional);
  if (!fields) return;
  if (least != nullptr && fields->has("least"))
    fields->quantity("least", least->emplace(), parse, example, Need::optional);
  if (fields->has("most")) fields->quantity("most", most.emplace(), parse, example, Need::optional);
  if (least != nullptr) fields->accept("least");
  fields->accept("most");
  fields->finish();
  if (least != nullptr && *least && most && **least > *most)
    bounds.wrong(key, fmt::format("{} has a least above its most; swap them", key));
}

void read_bounds(YamlMap fields, search::ArchitectureBounds& bounds) {
  read_bound(fields, "parameters", parse_parameters, "718B", &bounds.least_parameters, bounds.most_parameters);
  read_bound(fields, "active_parameters", parse_parameters, "39B", &bounds.least_active, bounds.most_active);
  std::optional<double> most_ns;
  read_bound(fields, "step", parse_duration_ns, "40s", nullptr, most_ns);
  if (most_ns) bounds.most_step_s = *most_ns * 1e-9;
  fields.finish();
}

void read_layouts(YamlDocument& document, YamlMap fields, search::LayoutRanges& ranges) {
  read_list(document, fields, "tensor", 1, kMostDegree, ranges.tensor);
  read_list(document, fields, "context", 1, kMostDegree, ranges.context);
  read_list(document, fields, "pipeline", 1, kMostDegree, ranges.pipeline);
  read_list(document, fields, "virtual_pipeline", 1, kMostDegree, ranges.virtual_pipeline);
  read_list(document, fields, "expert", 1, kMostDegree, ranges.expert);
  read_list(document, fields, "micro_batch", 1, kMostDegree, ranges.micro_batch);
  fields.finish();
  std::size_t layouts = 1;  // of six lists of at most kMostValues: no overflow
  for (const std::size_t size : {ranges.tensor.size(), ranges.context.size(), ranges.pipeline.size(),
                                 ranges.virtual_pipeline.size(), ranges.expert.size(), ranges.micro_batch.size()})
    layouts *= std::max<std::size_t>(size, 1);
  if (layouts > kMostLayouts)
    document.wrong(fields.line(), fmt::format("layouts has {} combinations; it must have {} at most: list fewer values",
                                              layouts, kMostLayouts));
}

}  // namespace

Result<ArchitectureQuery> read_architectures(std::string_view yaml_text, std::string_view file_name) {
  YamlDocument document(file_name, "models/spaces/");
  const Result<std::shared_ptr<const YamlNode>> root = document.parse(yaml_text);
  if (!root) return root.error();
  YamlMap fields(document, *root.value(), "", 1);
  ArchitectureQuery query;
  if (auto vary = fields.section("vary", Need::required)) read_vary(document, *vary, query.ranges);
  if (auto bounds = fields.section("bounds", Need::optional)) read_bounds(*bounds, query.bounds);
  if (auto layouts = fields.section("layouts", Need::optional)) read_layouts(document, *layouts, query.layouts);
  fields.finish();
  if (!document.clean()) return document.first_error();
  return query;
}

}  // namespace tidemark::formats

#include "integrations/formats/time_device_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <optional>
#include <utility>

#include "integrations/formats/field_ranges.h"
#include "integrations/formats/quantity.h"
#include "integrations/formats/time_constants.h"
#include "integrations/formats/yaml_fields.h"

namespace tidemark::formats {
namespace {

constexpr std::array<std::pair<std::string_view, Precision>, kPrecisionCount> kPrecisions = {{
    {"bf16", Precision::bf16},
    {"fp16", Precision::fp16},
    {"tf32", Precision::tf32},
    {"fp8", Precision::fp8},
    {"mxfp8", Precision::mxfp8},
    {"nvfp4", Precision::nvfp4},
}};
constexpr std::string_view kTilesExample = "[[256, 128, 1.0], [128, 128, 0.93]]";

constexpr std::int64_t kMostNodeDevices = 1024;
constexpr double kLeastFactor = 0.1, kMostFactor = 10;

// ---- sheet --------------------------------------------------------------------------------------------------------

void read_rate(YamlMap& fields, std::string_view key, double& out, double least, std::string_view example,
               Result<double> (*parse)(std::string_view), Need need = Need::required) {
  double value = least;  // so that a mistake already reported is not reported again as out of range
  fields.quantity(key, value, parse, example, need);
  if (!fields.has(key)) return;
  out = value;
  if (!(value >= least && value <= kMostRate))
    fields.wrong(key,
                 fmt::format("{} must be from {:.0e} to {:.0e} a second, like {}", key, least, kMostRate, example));
}

void read_count(YamlMap& fields, std::string_view key, std::int64_t& out, std::int64_t most) {
  out = 1;
  fields.integer(key, out, Need::required);
  if (out < 1 || out > most) fields.wrong(key, fmt::format("{} is {}; it must be 1 to {}", key, out, most));
}

void read_peaks(YamlMap fields, DeviceSheet& sheet) {
  for (const auto& [name, precision] : kPrecisions)
    read_rate(fields, name, sheet.flops_per_s[static_cast<std::size_t>(precision)], kLeastFlopsPerS, "312TFLOPS",
              parse_flops_per_s, precision == Precision::bf16 ? Need::required : Need::optional);
  fields.finish();
}

std::optional<double> real_in(std::string_view text) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

/// `[rows, columns, relative rate]`.
std::optional<MatmulTile> tile_in(const YamlNode& node) {
  if (!node.is_list() || node.items.size() != 3) return std::nullopt;
  if (!std::ranges::all_of(node.items, [](const YamlNode::Item& item) { return item.value->is_scalar(); }))
    return std::nullopt;
  const std::optional<std::int64_t> rows = integer_in(node.items[0].value->text);
  const std::optional<std::int64_t> columns = integer_in(node.items[1].value->text);
  const std::optional<double> rate = real_in(node.items[2].value->text);
  const auto is_side = [](const std::optional<std::int64_t>& side) {
    return side && *side >= 1 && *side <= kMostTileSide;
  };
  if (!is_side(rows) || !is_side(columns) || !rate || !(*rate > 0 && *rate <= 1)) return std::nullopt;
  return MatmulTile{.rows = *rows, .columns = *columns, .relative_rate = *rate};
}

void read_tiles(YamlDocument& document, YamlMap& fields, std::vector<MatmulTile>& tiles) {
  const YamlNode* list = fields.list("tiles", kTilesExample, Need::required);
  if (list == nullptr) return;
  if (list->items.empty() || list->items.size() > kMostTiles)
    return fields.wrong("tiles", fmt::format("tiles has {} tiles; write 1 to {}, like {}", list->items.size(),
                                             kMostTiles, kTilesExample));
  for (const YamlNode::Item& item : list->items) {
    const std::optional<MatmulTile> tile = tile_in(*item.value);
    if (tile)
      tiles.push_back(*tile);
    else
      document.wrong(item.value->line,
                     fmt::format("a tile is {}; write rows and columns of 1 to {} and a rate above 0 and at most 1 "
                                 "beside the best, like [128, 128, 0.93]",
                                 described(*item.value), kMostTileSide));
  }
}

void read_sheet(YamlDocument& document, YamlMap fields, DeviceSheet& sheet) {
  if (auto peaks = fields.section("peak_flops", Need::required)) read_peaks(*peaks, sheet);
  read_rate(fields, "memory_bandwidth", sheet.memory_bytes_per_s, kLeastBytesPerS, "2039GB/s", parse_bytes_per_s);
  read_count(fields, "cores", sheet.cores, kMostCores);
  read_tiles(document, fields, sheet.tiles);
  read_rate(fields, "intra_node", sheet.intra_bytes_per_s, kLeastBytesPerS, "300GB/s", parse_bytes_per_s);
  read_rate(fields, "inter_node", sheet.inter_bytes_per_s, kLeastBytesPerS, "25GB/s", parse_bytes_per_s);
  read_rate(fields, "host_link", sheet.host_bytes_per_s, kLeastBytesPerS, "31.5GB/s", parse_bytes_per_s);
  read_count(fields, "devices_per_node", sheet.devices_per_node, kMostNodeDevices);
  fields.boolean("hopper_or_later", sheet.is_hopper_or_later, Need::optional);
  fields.finish();
}

// ---- constants ----------------------------------------------------------------------------------------------------

/// Each constant stands once, under `fitted` or under `assumed`.
void read_constants(YamlDocument& document, YamlMap& root, TimeDeviceFile& file) {
  std::optional<YamlMap> fitted = root.section("fitted", Need::optional);
  std::optional<YamlMap> assumed = root.section("assumed", Need::optional);
  for (const TimeConstant& constant : kTimeConstants) {
    const std::string name(constant.name);
    if (assumed) read_time_constant(*assumed, constant, file.device.rates);
    if (fitted) read_time_constant(*fitted, constant, file.device.rates);
    const bool is_fitted = fitted && fitted->has(name), is_assumed = assumed && assumed->has(name);
    if (is_fitted) file.fitted.push_back(name);
    if (is_fitted && is_assumed)
      assumed->wrong(name, fmt::format("{} is both fitted and assumed; keep one of the two", name));
    if (!is_fitted && !is_assumed)
      document.missing(1, fmt::format("the file lacks the constant '{}'; add it under `fitted:` if it was fitted to "
                                      "measured step times, else under `assumed:`",
                                      name));
  }
  if (file.fitted.size() > kMostFittedConstants)
    root.wrong("fitted", fmt::format("{} constants are fitted; at most {} may be, so move the others to `assumed:`",
                                     file.fitted.size(), kMostFittedConstants));
  if (fitted) fitted->finish();
  if (assumed) assumed->finish();
}

void read_factor(YamlDocument& document, YamlMap& fields, const YamlNode& key, std::map<std::string, double>& factors) {
  const std::string& name = key.text;
  if (!key.is_scalar()) return;  // YamlMap has said so
  fields.accept(name);
  if (!is_plain_name(name))
    return document.wrong(key.line, fmt::format("{} is no name of a software; write lower-case letters, digits and "
                                                "dashes, like megatron-core",
                                                described(key)));
  double factor = 1;
  fields.real(name, factor, Need::required);
  if (factor >= kLeastFactor && factor <= kMostFactor)
    factors.emplace(name, factor);
  else
    fields.wrong(name, fmt::format("{} is {}; a factor of seconds must be {} to {}, 1.00 of the base source", name,
                                   factor, kLeastFactor, kMostFactor));
}

void read_measured(YamlDocument& document, YamlMap& root, TimeTerms& measured) {
  const YamlNode* list = root.list("measured", "[tensor_parallel, pipeline]", Need::optional);
  if (list == nullptr) return;
  for (const YamlNode::Item& item : list->items) {
    const std::optional<TimeTerm> term =
        item.value->is_scalar() ? time_term_of(item.value->text) : std::optional<TimeTerm>();
    if (term && measured.has(*term))
      document.wrong(item.value->line, fmt::format("{} stands twice; drop one", item.value->text));
    else if (term)
      measured.add(*term);
    else
      document.wrong(item.value->line, fmt::format("{} is no term of step time; scripts/fit_device writes them, like "
                                                   "tensor_parallel",
                                                   described(*item.value)));
  }
}

void read_band(YamlMap& fields, std::string_view key, double& percent) {
  constexpr double kMostPercent = 1000;
  fields.real(key, percent, Need::optional);
  if (fields.has(key) && !(percent > 0 && percent <= kMostPercent))
    fields.wrong(key, fmt::format("{} is {}; a band is above 0 and at most {} percent", key, percent, kMostPercent));
}

void read_bands(YamlMap& root, StepBands& bands) {
  std::optional<YamlMap> fields = root.section("bands", Need::optional);
  if (!fields) return;
  read_band(*fields, "dense", bands.dense_percent);
  read_band(*fields, "experts", bands.experts_percent);
  fields->finish();
}

void read_sources(YamlDocument& document, YamlMap& root, TimeDeviceFile& file) {
  const YamlNode* node = root.any("sources", "", Need::optional);
  if (node == nullptr) return root.forbid("base_source", "no source has a factor; add `sources:`");
  root.text("base_source", file.base_source, Need::required);
  YamlMap fields(document, *node, "sources", root.line_of("sources"));
  if (!node->is_map()) return;
  for (const YamlNode::Item& item : node->items) read_factor(document, fields, *item.key, file.factors);
  fields.finish();
  const auto base = file.factors.find(file.base_source);
  if (!file.base_source.empty() && document.clean() && (base == file.factors.end() || base->second != 1))
    root.wrong("base_source", fmt::format("base_source names no source with the factor 1.00; add `{}: 1.00` to "
                                          "`sources:`, or name one that has it",
                                          shown(file.base_source)));
}

void forbid_own_constants(YamlMap& root, const std::string& constants) {
  const std::string why = fmt::format("`constants: {}` takes them from that device; drop one of the two", constants);
  for (const char* key : {"fitted", "assumed", "sources", "base_source", "measured", "bands"}) root.forbid(key, why);
}

}  // namespace

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  });
}

Result<TimeDeviceFile> read_time_device(std::string_view text, std::string_view file_name) {
  YamlDocument document(file_name, "devices/chips/");
  const Result<std::shared_ptr<const YamlNode>> tree = document.parse(text);
  if (!tree) return tree.error();
  YamlMap root(document, *tree.value(), "", 1);
  TimeDeviceFile file;
  root.text("name", file.name, Need::required);
  if (!file.name.empty() && !is_plain_name(file.name))
    root.wrong("name", fmt::format("name is {}; write lower-case letters, digits, dashes and dots, like h100-500w",
                                   shown(file.name)));
  if (auto sheet = root.section("sheet", Need::required)) read_sheet(document, *sheet, file.device.sheet);
  file.constants = file.name;
  root.text("constants", file.constants, Need::optional);
  if (root.has("constants") && !is_plain_name(file.constants))
    root.wrong("constants", fmt::format("constants is {}; write the name of a file in devices/chips/, without .yaml",
                                        shown(file.constants)));
  else if (root.has("constants") && file.constants == file.name)
    root.wrong("constants", "constants names this file; drop the line, or name the device whose constants these are");
  else if (root.has("constants"))
    forbid_own_constants(root, file.constants);
  else {
    read_constants(document, root, file);
    read_sources(document, root, file);
    read_measured(document, root, file.device.measured);
    read_bands(root, file.device.bands);
  }
  root.finish();
  if (!document.clean()) return document.first_error();
  return file;
}

Status share_constants(TimeDeviceFile& file, const TimeDeviceFile& owner) {
  assert(owner.name == file.constants);
  if (shares_constants(owner))
    return bad_input(fmt::format("{} takes its constants from {}, which takes them from {}; name the last of them",
                                 file.name, owner.name, owner.constants));
  file.device.rates = owner.device.rates;
  file.device.measured = owner.device.measured;
  file.device.bands = owner.device.bands;
  file.fitted = owner.fitted;
  file.base_source = owner.base_source;
  file.factors = owner.factors;
  return {};
}

}  // namespace tidemark::formats

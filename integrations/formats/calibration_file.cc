#include "integrations/formats/calibration_file.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "integrations/formats/json_node.h"

namespace tidemark::formats {
namespace {

using estimate::Calibration;
using estimate::MemoryCorrection;
using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "tidemark.calibration";
constexpr std::int64_t kVersion = 1;
constexpr double kMostBytes = static_cast<double>(kMostPlanBytes);
constexpr double kMostScale = 1000;
constexpr RealRange kOffset = {.least = 0, .most = kMostBytes};
constexpr RealRange kShare = {.least = 1 / estimate::kMostSteadyFactor, .most = 1};
constexpr RealRange kFactor = {.least = estimate::kLeastActivationFactor, .most = estimate::kMostActivationFactor};
constexpr RealRange kScale = {.least = 0, .most = kMostScale, .open = true};

template <class T>
Json json_of(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::optional<double> number_of(const JsonNode& root, std::string_view key, const RealRange& range) {
  if (!root.has(key) || root.at(key).is_null()) return std::nullopt;
  return root.at(key).number(range);
}

std::optional<MemoryCorrection> read_memory(const JsonNode& root) {
  if (!root.has("memory") || root.at("memory").is_null()) return std::nullopt;
  const JsonNode memory = root.at("memory");
  memory.expect_members({"model", "static_offset_bytes", "static_factor", "activation_factor"});
  return MemoryCorrection{.model = memory.at("model").text(),
                          .static_offset_bytes = memory.at("static_offset_bytes").number(kOffset),
                          .static_factor = memory.at("static_factor").number(kShare),
                          .activation_factor = number_of(memory, "activation_factor", kFactor)};
}

}  // namespace

std::string write_calibration(const Calibration& calibration) {
  Json json = {{"format", kFormat}, {"version", kVersion}, {"sources", calibration.sources}, {"memory", nullptr}};
  if (calibration.memory)
    json["memory"] = {{"model", calibration.memory->model},
                      {"static_offset_bytes", calibration.memory->static_offset_bytes},
                      {"static_factor", calibration.memory->static_factor},
                      {"activation_factor", json_of(calibration.memory->activation_factor)}};
  json["op_time_scale"] = json_of(calibration.op_time_scale);
  json["d2h_bytes_per_s"] = json_of(calibration.d2h_bytes_per_s);
  json["h2d_bytes_per_s"] = json_of(calibration.h2d_bytes_per_s);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Calibration> read_calibration(std::string_view text, std::string_view file_name) {
  const Result<nlohmann::json> document = parse_json(text, file_name, "the calibration");
  if (!document) return document.error();
  JsonNode::Mistake mistake;
  const JsonNode root(document.value(), mistake);
  constexpr std::array<std::string_view, 1> kFormats = {kFormat};
  (void)root.at("format").word(kFormats);
  (void)root.at("version").integer(kVersion, kVersion);
  root.expect_members(
      {"format", "version", "sources", "memory", "op_time_scale", "d2h_bytes_per_s", "h2d_bytes_per_s"});
  Calibration calibration;
  if (root.has("sources")) {
    const JsonNode sources = root.at("sources");
    for (std::size_t i = 0; i < sources.size(); ++i) calibration.sources.push_back(sources.item(i).text());
  }
  calibration.memory = read_memory(root);
  calibration.op_time_scale = number_of(root, "op_time_scale", kScale);
  calibration.d2h_bytes_per_s = number_of(root, "d2h_bytes_per_s", real_range_of("bytes_per_s"));
  calibration.h2d_bytes_per_s = number_of(root, "h2d_bytes_per_s", real_range_of("bytes_per_s"));
  if (!mistake.empty()) return bad_input(fmt::format("{}: {}", file_name, mistake));
  return calibration;
}

}  // namespace tidemark::formats

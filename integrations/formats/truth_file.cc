#include "integrations/formats/truth_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/bytes.h"
#include "integrations/formats/json_node.h"

namespace tidemark::formats {
namespace {

using estimate::Accelerator;
using estimate::Argument;
using estimate::Framework;
using estimate::MeasuredRank;
using estimate::MeasuredRun;
using estimate::Platform;

constexpr double kMostBytes = 1e15;
constexpr RealRange kMeasured = {.least = 0, .most = kMostBytes};
constexpr std::int64_t kMostDevices = 1 << 24;
constexpr std::size_t kMostRows = 50'000;  // a run with its arguments each
constexpr std::int64_t kMostIterations = std::int64_t{1} << 40;

bool is_given(const JsonNode& row, std::string_view key) {
  return row.has(key) && !row.at(key).is_null();
}

std::string text_or_empty(const JsonNode& row, std::string_view key) {
  return is_given(row, key) ? row.at(key).text() : "";
}

/// 0 stands for what was not measured.
std::optional<double> bytes_of(const JsonNode& row, std::string_view key, double unit) {
  if (!is_given(row, key)) return std::nullopt;
  const double value = row.at(key).number(kMeasured);
  return value > 0 ? std::optional(value * unit) : std::nullopt;
}

/// A whole number, also where a tool wrote it as 8.0.
std::int64_t whole(const JsonNode& node, std::int64_t least, std::int64_t most) {
  const nlohmann::json& value = node.json();
  const bool is_float = value.is_number_float() && std::abs(value.get<double>()) < 1e15 &&
                        value.get<double>() == std::floor(value.get<double>());
  if (!is_float) return node.integer(least, most);
  const auto number = static_cast<std::int64_t>(value.get<double>());
  if (number >= least && number <= most) return number;
  node.wrong(fmt::format("must be a whole number from {} to {}", least, most));
  return std::max<std::int64_t>(least, 0);
}

/// A text, a number or a truth as a command line would have it.
std::string scalar_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  return value.dump();
}

std::optional<std::string> value_text(const JsonNode& node) {
  const nlohmann::json& value = node.json();
  if (!value.is_array()) {
    if (value.is_primitive()) return scalar_text(value);
  } else if (std::ranges::all_of(value, [](const auto& item) { return item.is_primitive(); })) {
    std::string joined;
    for (const auto& item : value) joined += (joined.empty() ? "" : " ") + scalar_text(item);
    return joined;
  }
  node.wrong("must be a text, a number, true, false or a list of those");
  return std::nullopt;
}

/// True stands for a switch, false and null for an argument that is not given.
std::vector<Argument> read_arguments(const JsonNode& object) {
  std::vector<Argument> arguments;
  for (const std::string& key : object.keys()) {
    const JsonNode node = object.at(key);
    const nlohmann::json& value = node.json();
    if (value.is_null() || (value.is_boolean() && !value.get<bool>())) continue;
    Argument argument{.name = key, .place = node.pointer()};
    std::ranges::replace(argument.name, '_', '-');
    argument.is_switch = value.is_boolean();
    if (!argument.is_switch) {
      std::optional<std::string> text = value_text(node);
      if (!text) return arguments;
      argument.value = *std::move(text);
    }
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

std::vector<Argument> read_environment(const JsonNode& object) {
  std::vector<Argument> variables;
  for (const std::string& key : object.keys()) {
    const JsonNode node = object.at(key);
    if (node.is_null()) continue;
    std::optional<std::string> text = value_text(node);
    if (!text) return variables;
    variables.push_back({.name = key, .value = *std::move(text), .place = node.pointer()});
  }
  return variables;
}

/// What the name of a hardware and software line says.
Platform platform_of(std::string_view variant) {
  const auto names = [variant](std::string_view word) { return variant.find(word) != std::string_view::npos; };
  Platform platform{.framework = Framework::megatron_lm, .accelerator = Accelerator::a100};
  if (names("h100")) platform.accelerator = Accelerator::h100;
  if (names("gb200")) platform.accelerator = Accelerator::gb200;
  platform.lts = names("lts");
  platform.legacy_attention = names("dracooci");
  platform.resumed = names("_2nd");
  return platform;
}

/// From the series of peaks, whose members are iterations, where no member says it.
std::optional<std::int64_t> iterations_of(const JsonNode& row) {
  if (is_given(row, "iters")) return whole(row.at("iters"), 0, kMostIterations);
  if (!is_given(row, "mem_peak_series")) return std::nullopt;
  std::optional<std::int64_t> most;
  for (const std::string& key : row.at("mem_peak_series").keys()) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
    if (error == std::errc{} && end == key.data() + key.size()) most = std::max(most.value_or(0), number);
  }
  return most;
}

std::int64_t devices_of(const JsonNode& row, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys)
    if (is_given(row, key)) return whole(row.at(key), 1, kMostDevices);
  return 0;
}

void read_megatron(const JsonNode& row, MeasuredRun& run) {
  run.suite = text_or_empty(row, "suite");
  run.hints.platform = platform_of(run.variant);
  run.hints.platform.devices = devices_of(row, {"gpus", "gpus_inferred"});
  run.hints.bert = run.suite == "bert";
  run.hints.recorded = true;
  run.iterations = iterations_of(row);
  run.ranks.push_back({.steady_bytes = bytes_of(row, "mem_allocated_end_bytes", 1),
                       .peak_bytes = bytes_of(row, "mem_peak_bytes_final", 1)});
}

/// The folder a baseline lies in, less the one that says it is a baseline: rows of this format name no suite.
std::string suite_of(std::string_view path) {
  const std::size_t at = path.find("/baseline");
  if (at == std::string_view::npos) return "";
  path = path.substr(0, at);
  return std::string(path.substr(path.rfind('/') + 1));
}

void read_mindspeed(const JsonNode& row, MeasuredRun& run) {
  run.suite = text_or_empty(row, "suite");
  if (run.suite.empty()) run.suite = suite_of(text_or_empty(row, "baseline_path"));
  run.hints.platform = {.framework = Framework::mindspeed_llm, .accelerator = Accelerator::ascend};
  run.hints.platform.devices = devices_of(row, {"npus"});
  run.hints.recorded = true;
  const JsonNode ranks = row.at("ranks");
  std::set<std::int64_t> before;
  for (std::size_t i = 0; i < ranks.size() && ranks.clean(); ++i) {
    const JsonNode at = ranks.item(i);
    if (!at.json().is_object()) at.wrong("must be an object with rank, allocated_mib and max_allocated_mib");
    MeasuredRank rank{.steady_bytes = bytes_of(at, "allocated_mib", kMiB),
                      .peak_bytes = bytes_of(at, "max_allocated_mib", kMiB)};
    if (is_given(at, "rank"))
      rank.rank = whole(at.at("rank"), 0, kMostDevices);
    else
      run.unusable = "a rank has no number";
    if (rank.rank && !before.insert(*rank.rank).second)
      at.at("rank").wrong(fmt::format("rank {} is there twice; one figure per rank is needed", *rank.rank));
    run.ranks.push_back(rank);
  }
  if (run.ranks.empty()) run.ranks.emplace_back();
}

MeasuredRun read_row(const JsonNode& row) {
  if (!row.json().is_object()) row.wrong("must be an object, a row of measured memory and its arguments");
  MeasuredRun run{.name = text_or_empty(row, "case"), .variant = text_or_empty(row, "variant")};
  if (is_given(row, "ranks"))
    read_mindspeed(row, run);
  else
    read_megatron(row, run);
  if (is_given(row, "args")) run.arguments.arguments = read_arguments(row.at("args"));
  if (is_given(row, "env")) run.arguments.environment = read_environment(row.at("env"));
  for (const MeasuredRank& rank : run.ranks)
    if (rank.steady_bytes && rank.peak_bytes && *rank.peak_bytes < *rank.steady_bytes)
      run.unusable = "its peak is below what is measured between steps";
  if (run.arguments.arguments.empty()) run.unusable = "no arguments are stored";
  return run;
}

}  // namespace

Result<std::vector<MeasuredRun>> read_truth(std::string_view text, std::string_view file_name) {
  const Result<nlohmann::json> document = parse_json(text, file_name, "the rows");
  if (!document) return document.error();
  JsonNode::Mistake mistake;
  const JsonNode rows = JsonNode(document.value(), mistake).at("rows");
  if (rows.size() > kMostRows) rows.wrong(fmt::format("holds more than {} rows; give fewer", kMostRows));
  std::vector<MeasuredRun> runs;
  for (std::size_t i = 0; i < rows.size() && rows.clean(); ++i) runs.push_back(read_row(rows.item(i)));
  if (!mistake.empty()) return bad_input(fmt::format("{}: {}", file_name, mistake));
  if (runs.empty()) return bad_input(fmt::format("{}: /rows: holds no row", file_name));
  return runs;
}

}  // namespace tidemark::formats

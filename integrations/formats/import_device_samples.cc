#include "integrations/formats/import_device_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "integrations/formats/json_node.h"
#include "integrations/formats/shown.h"

namespace tidemark::formats {
namespace {

constexpr std::size_t kMostSamples = 1'000'000;
constexpr Bytes kMostSampleBytes = std::int64_t{1} << 60;
constexpr std::int64_t kMostRank = (std::int64_t{1} << 31) - 1;

struct Figure {
  std::string_view name;
  std::optional<Bytes> DeviceSample::*member;
};
constexpr auto kFigures =
    std::to_array<Figure>({{"device_total_bytes", &DeviceSample::device_total_bytes},
                           {"device_used_bytes", &DeviceSample::device_used_bytes},
                           {"allocator_reserved_bytes", &DeviceSample::allocator_reserved_bytes},
                           {"allocator_allocated_bytes", &DeviceSample::allocator_allocated_bytes},
                           {"allocator_reserved_peak_bytes", &DeviceSample::allocator_reserved_peak_bytes},
                           {"allocator_allocated_peak_bytes", &DeviceSample::allocator_allocated_peak_bytes},
                           {"host_peak_bytes", &DeviceSample::host_peak_bytes},
                           {"host_pinned_bytes", &DeviceSample::host_pinned_bytes}});

/// What is wrong with the sample as a whole; empty: nothing.
std::string contradiction_of(const DeviceSample& sample) {
  const auto is_told = [&](const Figure& figure) { return (sample.*figure.member).has_value(); };
  if (std::ranges::none_of(kFigures, is_told)) return "the line holds no figure, as device_used_bytes";
  if (sample.device_total_bytes && sample.device_used_bytes && *sample.device_used_bytes > *sample.device_total_bytes)
    return fmt::format("device_used_bytes is {}, more than device_total_bytes, {}", *sample.device_used_bytes,
                       *sample.device_total_bytes);
  return "";
}

void read_members(const JsonNode& node, DeviceSample& sample) {
  (void)node.at(kDeviceSampleKey).integer(kDeviceSampleVersion, kDeviceSampleVersion);
  node.expect_members({kDeviceSampleKey, "rank", "device", "label", kFigures[0].name, kFigures[1].name,
                       kFigures[2].name, kFigures[3].name, kFigures[4].name, kFigures[5].name, kFigures[6].name,
                       kFigures[7].name});
  if (!node.clean()) return;
  if (node.has("rank")) sample.rank = node.at("rank").integer(0, kMostRank);
  if (node.has("label")) sample.label = printable(node.at("label").text());
  if (node.has("device")) (void)node.at("device").text();
  for (const Figure& figure : kFigures)
    if (node.has(figure.name)) sample.*figure.member = node.at(figure.name).integer(0, kMostSampleBytes);
}

Result<DeviceSample> read_line(std::string_view text, int line, std::string_view file) {
  const std::string place = fmt::format("{}:{}", file, line);
  const Result<nlohmann::json> json = parse_json(text, place, "the sample");
  if (!json) {
    // What is no JSON needs no column: a line is one sample.
    if (json.error().message.ends_with(" twice")) return json.error();
    return bad_input(place + ": the line is no JSON object; right would be what tidemark.device_sample() writes");
  }
  JsonNode::Mistake mistake;
  DeviceSample sample{.line = line};
  read_members(JsonNode(json.value(), mistake), sample);
  if (mistake.empty()) mistake = contradiction_of(sample);
  if (!mistake.empty()) return bad_input(fmt::format("{}: {}", place, mistake));
  return sample;
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace

Result<std::vector<DeviceSample>> read_device_samples(std::string_view text, std::string_view file_name) {
  std::vector<DeviceSample> samples;
  std::optional<std::int64_t> rank;
  int line = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line;
    if (is_blank(one)) continue;
    Result<DeviceSample> sample = read_line(one, line, file_name);
    if (!sample) return sample.error();
    if (rank && sample.value().rank && *sample.value().rank != *rank)
      return bad_input(fmt::format("{}:{}: the sample is of rank {}, those before of rank {}; a file is of one rank",
                                   file_name, line, *sample.value().rank, *rank));
    if (sample.value().rank) rank = sample.value().rank;
    samples.push_back(std::move(sample).value());
    if (samples.size() > kMostSamples)
      return bad_input(fmt::format("{}:{}: there are more than {} samples", file_name, line, kMostSamples));
  }
  if (samples.empty()) return bad_input(fmt::format("{}:1: the file holds no sample", file_name));
  return samples;
}

}  // namespace tidemark::formats

#include "integrations/measured/measured_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <vector>

#include "integrations/formats/import_device_samples.h"

namespace tidemark::measured {
namespace {

bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

char lowered(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), lowered);
  return lower;
}

bool is_measured_ending(std::string_view ending) {
  constexpr std::array<std::string_view, 6> kEndings = {"pickle", "pkl", "csv", "json", "jsonl", "ndjson"};
  return std::ranges::find(kEndings, ending) != kEndings.end();
}

/// Of what was packed, cut off or put aside: `gz`, `part`, the number of a log that was rotated.
bool is_packed_ending(std::string_view ending) {
  constexpr std::array<std::string_view, 14> kEndings = {"gz",  "zst",  "xz",      "bz2", "lz4", "zip", "tar",
                                                         "tgz", "part", "partial", "tmp", "bak", "old", "swp"};
  return std::ranges::find(kEndings, ending) != kEndings.end() ||
         (!ending.empty() && std::ranges::all_of(ending, [](char c) { return c >= '0' && c <= '9'; }));
}

/// The parts of a name between dots.
std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    parts.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// The digits a text begins with.
std::optional<std::int64_t> leading_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end == text.data() || text.front() == '-' || number > kMostRankNumber) return {};
  return number;
}

}  // namespace

NameEnding ending_of(std::string_view file_name) {
  std::string name = lower_case(file_name);
  if (name.ends_with('~')) name.back() = '.', name += "bak";
  std::vector<std::string_view> parts = parts_of(name);
  if (std::ranges::find(parts, "trace") != parts.end()) return NameEnding::other;  // of kernels, not of memory
  if (parts.size() > 1 && is_measured_ending(parts.back())) return NameEnding::measurement;
  if (std::any_of(parts.begin() + 1, parts.end(), is_measured_ending)) return NameEnding::packed;
  const std::size_t all = parts.size();
  while (parts.size() > 1 && is_packed_ending(parts.back())) parts.pop_back();
  // Logs and marks have no ending either.
  if (parts.size() > 1 || !parts.front().starts_with("rank")) return NameEnding::other;
  return all == 1 ? NameEnding::measurement : NameEnding::packed;
}

std::optional<MeasuredKind> kind_by_name(std::string_view given_name) {
  const std::string file_name = lower_case(given_name);
  if (file_name.ends_with(".pickle") || file_name.ends_with(".pkl")) return MeasuredKind::snapshot;
  if (holds(file_name, "device_sample")) return MeasuredKind::device_samples;
  if (!file_name.ends_with(".csv")) return std::nullopt;
  if (holds(file_name, "operator_memory")) return MeasuredKind::operator_memory;
  if (holds(file_name, "memory_record")) return MeasuredKind::memory_record;
  if (holds(file_name, "npu_module_mem")) return MeasuredKind::module_memory;
  return std::nullopt;
}

std::optional<MeasuredKind> kind_by_content(std::string_view head) {
  if (head.starts_with('\x80') || head.starts_with("(d") || head.starts_with("}")) return MeasuredKind::snapshot;
  const std::string_view line = head.substr(0, head.find('\n'));
  if (line.starts_with('{') && holds(line, formats::kDeviceSampleKey)) return MeasuredKind::device_samples;
  if (holds(line, "Allocation Time(us)") && holds(line, "Size(KB)")) return MeasuredKind::operator_memory;
  if (!holds(line, "Component") || !holds(line, "Total Reserved(")) return std::nullopt;
  return holds(line, "Total Allocated(") ? MeasuredKind::memory_record : MeasuredKind::module_memory;
}

std::optional<std::int64_t> rank_in_name(std::string_view name) {
  constexpr std::string_view kWord = "rank";
  const std::string text = lower_case(name);
  for (std::size_t at = text.find(kWord); at != std::string::npos; at = text.find(kWord, at + 1)) {
    if (at > 0 && text[at - 1] >= 'a' && text[at - 1] <= 'z') continue;  // frank3
    std::string_view rest = std::string_view(text).substr(at + kWord.size());
    if (!rest.empty() && (rest.front() == '_' || rest.front() == '-' || rest.front() == '=')) rest.remove_prefix(1);
    if (const auto rank = leading_number(rest)) return rank;
  }
  return std::nullopt;
}

std::optional<std::int64_t> rank_of_profiler_info(std::string_view name) {
  constexpr std::string_view kBefore = "profiler_info_", kBehind = ".json";
  if (!name.starts_with(kBefore) || !name.ends_with(kBehind)) return std::nullopt;
  name.remove_prefix(kBefore.size());
  name.remove_suffix(std::min(name.size(), kBehind.size()));
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return std::ranges::all_of(name, is_digit) ? leading_number(name) : std::nullopt;
}

}  // namespace tidemark::measured

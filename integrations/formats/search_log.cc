#include "integrations/formats/search_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "integrations/formats/program_file.h"

namespace tidemark::formats {
namespace {

constexpr std::string_view kTitle = "tidemark-search 1 ";
constexpr std::size_t kFields = 10;

/// FNV-1a.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325U;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return value;
}

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (std::size_t begin = 0;;) {
    const std::size_t end = line.find('\t', begin);
    fields.push_back(line.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return fields;
    begin = end + 1;
  }
}

/// The numbers of a line, in the order they are written.
std::array<std::int64_t*, kFields - 3> numbers_of(search::LayoutFigures& f) {
  return {&f.peak_bytes, &f.step_ns, &f.compute_ns, &f.memory_ns, &f.communication_ns, &f.imbalance_ns, &f.bubble_ns};
}

/// Without the end that an editor or a transfer gave it.
std::string_view stripped(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool read_line(std::string_view line, SearchLog& log) {
  const std::vector<std::string_view> fields = fields_of(line);
  if (fields.size() != kFields || fields[0].empty() || (fields[1] != "fits" && fields[1] != "over")) return false;
  search::LayoutFigures figures{.fits = fields[1] == "fits", .reason = std::string(fields.back())};
  const auto numbers = numbers_of(figures);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::string_view field = fields[i + 2];
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), *numbers[i]);
    if (error != std::errc{} || end != field.data() + field.size() || *numbers[i] < 0) return false;
  }
  log.known.insert_or_assign(std::string(fields[0]), std::move(figures));
  return true;
}

}  // namespace

std::string search_header(const plan::PlanRequest& request, std::string_view version) {
  const std::string text = write_plan_file(request, plan::PlanOutcome{}) + std::string(version);
  return fmt::format("{}{:016x}\n", kTitle, hash(text));
}

std::string search_line(const search::SearchLayout& layout, const search::LayoutFigures& figures) {
  search::LayoutFigures copy = figures;
  std::ranges::replace_if(
      copy.reason, [](char c) { return c == '\t' || c == '\n'; }, ' ');
  std::string line = search::layout_text(layout) + (figures.fits ? "\tfits" : "\tover");
  for (const std::int64_t* number : numbers_of(copy)) line += fmt::format("\t{}", *number);
  return line + "\t" + copy.reason + "\n";
}

Result<SearchLog> read_search_log(std::string_view text, std::string_view file_name, std::string_view header) {
  SearchLog log;
  if (text.empty()) return log;
  if (text.size() < header.size() && header.starts_with(text)) return log;  // cut off while it was begun
  if (!text.starts_with(kTitle))
    return bad_input(
        fmt::format("{}:1: not the file of a search; give a file that --resume wrote, or a new name", file_name));
  const std::size_t first = std::min(text.find('\n'), text.size());
  if (stripped(text.substr(0, first)) != header.substr(0, header.size() - 1))
    return bad_input(
        fmt::format("{}:1: written by a search of another job, device, budget or version; give a new name", file_name));
  if (first == text.size()) return log;
  log.whole_bytes = first + 1;
  for (int number = 2;; ++number) {
    const std::size_t end = text.find('\n', log.whole_bytes);
    if (end == std::string_view::npos) return log;
    if (!read_line(stripped(text.substr(log.whole_bytes, end - log.whole_bytes)), log))
      return bad_input(
          fmt::format("{}:{}: not a layout with its figures; drop this line and what follows it", file_name, number));
    log.whole_bytes = end + 1;
  }
}

}  // namespace tidemark::formats

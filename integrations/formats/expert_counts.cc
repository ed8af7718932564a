#include "integrations/formats/expert_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

#include "integrations/formats/shown.h"

namespace tidemark::formats {
namespace {

constexpr std::string_view kStep = "step,";
constexpr std::string_view kHeader = kExpertCountHeader.substr(kStep.size());
constexpr std::string_view kHeaderOfExperts = kCountHeaderOfExperts.substr(kStep.size());
constexpr std::array<std::string_view, 5> kNames = {"step", "layer", "micro_batch", "device", "rows"};
constexpr std::int64_t kMostRows = std::int64_t{1} << 40;  // of one line: sums stay exact in a double
constexpr std::int64_t kMostIndex = 1'000'000'000;

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

}  // namespace

ExpertCountReader::ExpertCountReader(std::istream& in, std::string file) : in_(in), file_(std::move(file)) {}

Error ExpertCountReader::wrong(int line, const std::string& what) const {
  return bad_input(fmt::format("{}:{}: {}", file_, line, what));
}

Error ExpertCountReader::lacks(const CountedStep& step, const CountPlace& place, std::string_view rule) {
  const auto behind = std::ranges::find_if(step.counts, [&](const ExpertCount& c) { return place_of(c) > place; });
  const bool ends = behind == step.counts.end() || !std::ranges::is_sorted(step.counts, {}, place_of);
  const int line = ends ? step.counts.back().line : behind->line;
  return unless_out_of_order(wrong(line, fmt::format("step {} {} layer {}, micro-batch {}, {} {}; {}", step.step,
                                                     ends ? "ends here without" : "goes on here without", place.layer,
                                                     place.micro_batch, holder(), place.device, rule)));
}

Error ExpertCountReader::has(int line, const std::string& what) {
  return unless_out_of_order(wrong(line, what));
}

Error ExpertCountReader::unless_out_of_order(Error error) {
  for (;;) {
    const Result<std::optional<CountedStep>> step = next();
    if (!step) return is_out_of_order_ ? step.error() : error;
    if (!step.value()) return error;
  }
}

/// Byte order marks, which some programs put in front of a table.
Status ExpertCountReader::skip_mark() {
  if (text_.starts_with("\xff\xfe") || text_.starts_with("\xfe\xff"))
    return wrong(1, "the file is UTF-16, where a table is UTF-8 or ASCII; save it as UTF-8");
  if (text_.starts_with("\xef\xbb\xbf")) text_.erase(0, 3);
  return {};
}

Status ExpertCountReader::read_header() {
  while (fields_ == 0 && std::getline(in_, text_)) {
    if (++number_ == 1)
      if (Status status = skip_mark(); !status) return status;
    const std::string_view line = trimmed(text_);
    if (line.empty() || line.front() == '#') continue;
    is_by_expert_ = line == kHeaderOfExperts || line == kCountHeaderOfExperts;
    if (line == kHeader || line == kHeaderOfExperts)
      fields_ = 4;
    else if (line == kExpertCountHeader || line == kCountHeaderOfExperts)
      fields_ = 5;
    else
      return wrong(number_,
                   fmt::format("the first line is {}, not {} or {}", shown(line), kHeader, kExpertCountHeader));
  }
  if (fields_ > 0) return {};
  return wrong(1, fmt::format("the file is empty; its first line is {} or {}", kHeader, kExpertCountHeader));
}

std::string_view ExpertCountReader::header() const {
  if (is_by_expert_) return fields_ == 5 ? kCountHeaderOfExperts : kHeaderOfExperts;
  return fields_ == 5 ? kExpertCountHeader : kHeader;
}

/// As many whole numbers as the header has names, each within its limits.
Result<ExpertCountReader::Line> ExpertCountReader::parse(std::string_view text) const {
  std::array<std::int64_t, 5> numbers{};
  if (std::ranges::count(text, ',') != static_cast<std::ptrdiff_t>(fields_) - 1)
    return wrong(number_,
                 fmt::format("{} has not {} fields; write {}", shown(text), fields_ == 5 ? "five" : "four", header()));
  for (std::size_t i = 5 - fields_; i < 5; ++i) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view field = trimmed(text.substr(0, comma));
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), numbers[i]);
    const std::int64_t most = i == 4 ? kMostRows : kMostIndex;
    if (error != std::errc{} || end != field.data() + field.size() || numbers[i] < 0 || numbers[i] > most)
      return wrong(number_, fmt::format("{} is {}; it must be a whole number from 0 to {}",
                                        i == 3 ? holder() : kNames[i], shown(field), most));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return Line{
      .step = numbers[0],
      .count = {
          .line = number_, .layer = numbers[1], .micro_batch = numbers[2], .device = numbers[3], .rows = numbers[4]}};
}

Result<std::optional<ExpertCountReader::Line>> ExpertCountReader::read_line() {
  while (std::getline(in_, text_)) {
    ++number_;
    const std::string_view line = trimmed(text_);
    if (line.empty() || line.front() == '#') continue;
    Result<Line> parsed = parse(line);
    if (!parsed) return parsed.error();
    return std::optional<Line>(parsed.value());
  }
  if (in_.bad()) return wrong(number_ + 1, "the file cannot be read on");
  return std::optional<Line>();
}

Result<std::optional<CountedStep>> ExpertCountReader::next() {
  if (fields_ == 0) {
    if (Status status = read_header(); !status) return status.error();
    Result<std::optional<Line>> first = read_line();
    if (!first) return first.error();
    ahead_ = first.value();
    if (!ahead_) return wrong(number_, "no line follows the header");
  }
  if (!ahead_) return std::optional<CountedStep>();
  CountedStep step{.step = ahead_->step};
  while (ahead_ && ahead_->step == step.step) {
    step.counts.push_back(ahead_->count);
    Result<std::optional<Line>> line = read_line();
    if (!line) return line.error();
    ahead_ = line.value();
  }
  is_out_of_order_ = ahead_ && ahead_->step < step.step;
  if (is_out_of_order_)
    return wrong(ahead_->count.line, fmt::format("step {} stands behind step {}; steps ascend, and the lines of one "
                                                 "stand together",
                                                 ahead_->step, step.step));
  return std::optional<CountedStep>(std::move(step));
}

Result<CountedStep> by_device(const CountedStep& step, ExpertCountReader& reader, std::int64_t experts,
                              std::int64_t devices) {
  if (!reader.is_by_expert()) return step;
  const std::int64_t own = experts / devices;
  struct Seen {
    ExpertCount sum;
    std::vector<char> experts;  ///< of the device, named
  };
  std::map<CountPlace, Seen> places;
  for (const ExpertCount& count : step.counts) {
    if (count.device >= experts)
      return reader.has(count.line, fmt::format("expert {}: the job has experts 0 to {}", count.device, experts - 1));
    const std::int64_t device = count.device / own;
    Seen& seen =
        places
            .try_emplace({.layer = count.layer, .micro_batch = count.micro_batch, .device = device},
                         Seen{.sum = {.layer = count.layer, .micro_batch = count.micro_batch, .device = device},
                              .experts = std::vector<char>(static_cast<std::size_t>(own), 0)})
            .first->second;
    char& is_named = seen.experts[static_cast<std::size_t>(count.device % own)];
    if (is_named != 0)
      return reader.wrong(count.line, fmt::format("layer {}, micro-batch {} names expert {} twice", count.layer,
                                                  count.micro_batch, count.device));
    is_named = 1;
    seen.sum.line = count.line;
    seen.sum.rows += count.rows;
  }
  CountedStep folded{.step = step.step};
  for (const auto& [place, seen] : places) {
    if (const auto missing = std::ranges::find(seen.experts, 0); missing != seen.experts.end())
      return reader.lacks(step,
                          {.layer = place.layer,
                           .micro_batch = place.micro_batch,
                           .device = place.device * own + (missing - seen.experts.begin())},
                          "a step names every expert of every (layer, micro-batch)");
    folded.counts.push_back(seen.sum);
  }
  return folded;
}

}  // namespace tidemark::formats

#include "integrations/formats/pack_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/picture.h"
#include "integrations/formats/shown.h"

namespace tidemark::formats {
namespace {

constexpr int kColumns = 120, kRows = 32;
constexpr std::size_t kMostLettered = 1000;

/// The clock of the table where the picture's is wide enough for it, or else its order.
bool clock_fits(const IntervalProblem& problem) {
  return problem.times.empty() || problem.times.back() <= std::numeric_limits<std::int32_t>::max();
}

/// As many cells as show every step of a short axis equally wide.
int cells_for(std::int64_t length, int most) {
  return length > 0 && length < most ? static_cast<int>(most / length * length) : most;
}

std::string lettered(const IntervalTable& table, const IntervalProblem& problem, const layout::Packing& packing) {
  const layout::PackProblem& p = problem.problem;
  const bool clock = clock_fits(problem);
  const auto time = [&](std::int32_t rank) {
    return clock ? static_cast<std::int32_t>(problem.times[static_cast<std::size_t>(rank)]) : rank;
  };
  std::vector<PictureItem> items;
  for (std::size_t i = 0; i < p.items.size(); ++i) {
    const std::int32_t row = problem.row_of[i];
    const std::int32_t group = table.rows[static_cast<std::size_t>(row)].group;
    items.push_back({.begin = time(p.items[i].begin),
                     .end = time(p.items[i].end),
                     .offset = packing.offsets[i],
                     .bytes = p.items[i].bytes,
                     .letter = row,
                     .owner = group < 0 ? row : static_cast<std::int32_t>(table.rows.size()) + group});
  }
  const std::int64_t length = problem.times.empty() ? 1 : clock ? problem.times.back() : std::ssize(problem.times) - 1;
  std::string text =
      fmt::format("time{} x addresses\n", clock ? "" : " (its order)") +
      picture(items, cells_for(length, kColumns), static_cast<int>(std::min<Bytes>(kRows, packing.height_bytes)));
  if (table.rows.size() > picture_letters().size()) return text;
  for (std::size_t r = 0; r < table.rows.size(); ++r)
    text += fmt::format("{}{} {}",
                        r == 0       ? ""
                        : r % 8 == 0 ? "\n"
                                     : "  ",
                        picture_letters()[r], shown(table.rows[r].id));
  return text + "\n";
}

/// How much of every row of addresses is in use at one moment, from 0 to 1.
std::vector<double> filled_at(const IntervalProblem& problem, const layout::Packing& packing, std::int32_t moment) {
  struct Span {
    Bytes begin = 0, end = 0;
  };
  std::vector<Span> spans;
  const auto& items = problem.problem.items;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (items[i].begin <= moment && moment < items[i].end)
      spans.push_back({packing.offsets[i], packing.offsets[i] + items[i].bytes});
  std::ranges::sort(spans, {}, &Span::begin);
  std::vector<double> filled(kRows, 0);
  const double row_bytes = static_cast<double>(packing.height_bytes) / kRows;
  Bytes done = 0;  // bytes of a group that live together count once
  for (const Span& span : spans) {
    const auto begin = static_cast<double>(std::max(span.begin, done)), end = static_cast<double>(span.end);
    done = std::max(done, span.end);
    for (int row = static_cast<int>(begin / row_bytes); row < kRows && begin < end; ++row) {
      const double low = std::max(begin, row * row_bytes), high = std::min(end, (row + 1) * row_bytes);
      if (high <= low) break;
      filled[static_cast<std::size_t>(row)] += (high - low) / row_bytes;
    }
  }
  return filled;
}

char tenths(double filled) {
  if (filled <= 0) return '.';
  if (filled > 0.9999) return '#';
  return static_cast<char>('0' + std::clamp(static_cast<int>(std::lround(filled * 10)), 1, 9));
}

std::string shaded(const IntervalProblem& problem, const layout::Packing& packing) {
  const std::int64_t first = problem.times.front(), last = problem.times.back();
  std::vector<std::string> rows(kRows);
  for (int column = 0; column < kColumns; ++column) {
    const auto time = first + static_cast<std::int64_t>(static_cast<double>(last - first) * (column + 0.5) / kColumns);
    const auto later = std::ranges::upper_bound(problem.times, time);
    const std::vector<double> filled =
        filled_at(problem, packing, static_cast<std::int32_t>(later - problem.times.begin()) - 1);
    for (std::size_t row = 0; row < kRows; ++row) rows[row] += tenths(filled[row]);
  }
  std::string text = "time x addresses: tenths of a cell in use, # all of it\n";
  for (int row = kRows - 1; row >= 0; --row)
    text += fmt::format("{:>12} |{}\n",
                        format_bytes(static_cast<Bytes>(static_cast<double>(packing.height_bytes) * row / kRows)),
                        rows[static_cast<std::size_t>(row)]);
  const std::string from = std::to_string(first);
  return text + fmt::format("{:>12} +{}\n{:>12}  {}{:>{}}\n", "", std::string(kColumns, '-'), "", from, last,
                            kColumns - static_cast<int>(from.size()));
}

}  // namespace

std::string pack_picture(const IntervalTable& table, const IntervalProblem& problem, const layout::Packing& packing) {
  if (packing.height_bytes == 0) return "time x addresses: nothing is there\n";
  return problem.problem.items.size() <= kMostLettered ? lettered(table, problem, packing) : shaded(problem, packing);
}

}  // namespace tidemark::formats

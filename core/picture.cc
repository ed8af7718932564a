#include "core/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tidemark {
namespace {

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
constexpr char kFree = '.';
constexpr char kShared = '#';
constexpr char kConflict = '!';

bool overlap(const PictureItem& a, const PictureItem& b) {
  if (a.owner >= 0 && a.owner == b.owner) return false;
  return a.begin < b.end && b.begin < a.end && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

class Canvas {
 public:
  Canvas(std::span<const PictureItem> items, int columns, int rows)
      : items_(items), columns_(columns), rows_(rows), cells_(static_cast<std::size_t>(columns * rows)) {
    for (const PictureItem& item : items) {
      clock_ = std::max(clock_, item.end);
      height_ = std::max(height_, item.offset + item.bytes);
    }
    for (std::size_t i = 0; i < items.size(); ++i) draw(i);
  }

  [[nodiscard]] std::string text() const {
    std::string out;
    for (int r = rows_ - 1; r >= 0; --r) {
      out += fmt::format("{:>12} |", format_bytes(row_begin(r)));
      for (int c = 0; c < columns_; ++c) out += letter(cell(c, r));
      out += '\n';
    }
    out += fmt::format("{:>12} +{}\n{:>12}  0{:>{}}\n", "", std::string(static_cast<std::size_t>(columns_), '-'), "",
                       clock_, std::max(columns_ - 1, 1));
    return out;
  }

 private:
  struct Cell {
    std::vector<std::size_t> items;
  };

  [[nodiscard]] const Cell& cell(int c, int r) const { return cells_[static_cast<std::size_t>(r * columns_ + c)]; }
  [[nodiscard]] Bytes row_begin(int r) const { return static_cast<Bytes>(static_cast<double>(height_) * r / rows_); }
  // First and last cell of [begin, end) on an axis of `length` cut into `cells`.
  template <class Number>
  static std::pair<int, int> span_of(Number begin, Number end, Number length, int cells) {
    const double scale = static_cast<double>(cells) / static_cast<double>(length);
    const int first = std::clamp(static_cast<int>(static_cast<double>(begin) * scale), 0, cells - 1);
    // The cell of the last moment, or a later one that the end still reaches into: a step may be wider than a cell.
    const double end_cell = std::ceil(static_cast<double>(end) * scale - 1e-9) - 1;
    const double last_cell = std::max(std::floor(static_cast<double>(end - 1) * scale), end_cell);
    const int last = std::clamp(static_cast<int>(last_cell), first, cells - 1);
    return {first, last};
  }

  void draw(std::size_t i) {
    const PictureItem& item = items_[i];
    if (item.bytes <= 0 || item.begin >= item.end || item.begin < 0 || item.offset < 0) return;
    const auto [c0, c1] = span_of(item.begin, item.end, clock_, columns_);
    const auto [r0, r1] = span_of(item.offset, item.offset + item.bytes, height_, rows_);
    for (int r = r0; r <= r1; ++r) {
      for (int c = c0; c <= c1; ++c) cells_[static_cast<std::size_t>(r * columns_ + c)].items.push_back(i);
    }
  }

  [[nodiscard]] char letter(const Cell& cell) const {
    if (cell.items.empty()) return kFree;
    const char first = letter_of(cell.items.front());
    bool alike = true;
    for (std::size_t a = 0; a < cell.items.size(); ++a) {
      alike = alike && is_of(cell.items[a], cell.items.front()) && letter_of(cell.items[a]) == first;
      for (std::size_t b = 0; b < a; ++b) {
        if (overlap(items_[cell.items[a]], items_[cell.items[b]])) return kConflict;
      }
    }
    return alike ? first : kShared;
  }

  [[nodiscard]] char letter_of(std::size_t i) const {
    const std::int32_t named = items_[i].letter;
    return kLetters[(named < 0 ? i : static_cast<std::size_t>(named)) % kLetters.size()];
  }
  /// The same item, or two of one owner.
  [[nodiscard]] bool is_of(std::size_t a, std::size_t b) const {
    return a == b || (items_[a].owner >= 0 && items_[a].owner == items_[b].owner);
  }

  std::span<const PictureItem> items_;
  int columns_;
  int rows_;
  std::int32_t clock_ = 1;
  Bytes height_ = 1;
  std::vector<Cell> cells_;
};

}  // namespace

std::string_view picture_letters() {
  return kLetters;
}

std::string picture(std::span<const PictureItem> items, int columns, int rows) {
  return Canvas(items, columns, rows).text();
}

std::string picture(const Schedule& schedule, const Layout& layout, int columns, int rows) {
  std::vector<PictureItem> items;
  for (std::size_t r = 0; r < schedule.residencies.size(); ++r) {
    const Residency& residency = schedule.residencies[r];
    if (residency.space != MemorySpace::device) continue;
    items.push_back({residency.acquire, residency.release, layout.offset_of[r], residency.bytes});
  }
  return picture(items, columns, rows);
}

}  // namespace tidemark

#pragma once
// Columns of text: right-aligned figures, left-aligned last column where asked.

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace tidemark::formats {

class TextTable {
 public:
  /// `left`: numbers of the columns that are aligned to the left.
  explicit TextTable(std::vector<std::string> head, std::vector<std::size_t> left = {}) : left_(std::move(left)) {
    rows_.push_back(std::move(head));
  }

  /// REQUIRES: as many cells as the head has.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  /// Rows of equal columns, two blanks apart, each ended by a newline and indented by `indent`.
  [[nodiscard]] std::string text(std::size_t indent = 0) const {
    std::vector<std::size_t> widths(rows_.front().size(), 0);
    for (const auto& cells : rows_) {
      for (std::size_t c = 0; c < cells.size(); ++c) widths[c] = std::max(widths[c], cells[c].size());
    }
    std::string result;
    for (const auto& cells : rows_) {
      std::string line(indent, ' ');
      for (std::size_t c = 0; c < cells.size(); ++c) {
        const std::string fill(widths[c] - cells[c].size(), ' ');
        const bool is_left = std::find(left_.begin(), left_.end(), c) != left_.end();
        line += (c == 0 ? "" : "  ") + (is_left ? cells[c] + fill : fill + cells[c]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      result += line + "\n";
    }
    return result;
  }

 private:
  std::vector<std::size_t> left_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tidemark::formats

#include "integrations/formats/packed_column.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

namespace tidemark::formats {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr char kRepeat = '*';
constexpr std::uint64_t kMore = 32;  // of a digit: another follows

/// A number's sign in its lowest bit, so that small ones of either sign are short.
std::uint64_t folded_sign(std::int64_t word) {
  return (static_cast<std::uint64_t>(word) << 1) ^ static_cast<std::uint64_t>(word >> 63);
}

std::size_t digits_of(std::int64_t word) {
  std::size_t digits = 1;
  for (std::uint64_t rest = folded_sign(word) >> 5; rest != 0; rest >>= 5) ++digits;
  return digits;
}

void append_number(std::string& out, std::int64_t word) {
  std::uint64_t rest = folded_sign(word);
  do {
    const std::uint64_t digit = rest & (kMore - 1);
    rest >>= 5;
    out += kDigits[static_cast<std::size_t>(digit | (rest != 0 ? kMore : 0))];
  } while (rest != 0);
}

std::int64_t common_factor(std::span<const std::int64_t> values) {
  std::int64_t factor = 0;
  for (const std::int64_t value : values) factor = std::gcd(factor, value);
  return std::max<std::int64_t>(factor, 1);
}

/// Greedy: of the repeats that may begin at a word, the one that saves most text. Candidates are the last places of the
/// same few words, the word before, and the distance of the repeat before, which one changed word in a long period
/// leaves valid.
class Folder {
 public:
  explicit Folder(std::span<const std::int64_t> words)
      : words_(words), newest_(kTableSize, kNowhere), older_(words.size(), kNowhere) {
    text_before_.reserve(words.size() + 1);
    text_before_.push_back(0);
    for (const std::int64_t word : words) text_before_.push_back(text_before_.back() + digits_of(word));
  }

  void run(std::string& out) {
    for (std::size_t at = 0; at < words_.size();) {
      const Repeat repeat = best_repeat(at);
      if (repeat.length == 0) {
        append_number(out, words_[at]);
        enter(at++);
        continue;
      }
      out += kRepeat;
      append_number(out, static_cast<std::int64_t>(repeat.distance));
      append_number(out, static_cast<std::int64_t>(repeat.length));
      last_distance_ = repeat.distance;
      for (const std::size_t end = at + repeat.length; at < end; ++at) enter(at);
    }
  }

 private:
  static constexpr std::size_t kHashed = 3;
  static constexpr std::size_t kTableSize = std::size_t{1} << 14;
  static constexpr int kMostCandidates = 24;
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
  struct Repeat {
    std::size_t distance = 0, length = 0, saved = 0;
  };

  [[nodiscard]] std::size_t slot(std::size_t at) const {
    std::uint64_t h = 0;
    for (std::size_t k = 0; k < kHashed; ++k)
      h = (h ^ static_cast<std::uint64_t>(words_[at + k])) * 0x9E3779B97F4A7C15ULL;
    return static_cast<std::size_t>(h >> 50);
  }
  void enter(std::size_t at) {
    if (at + kHashed <= words_.size()) older_[at] = std::exchange(newest_[slot(at)], at);
  }
  void consider(std::size_t at, std::size_t distance, Repeat& best) const {
    if (distance == 0 || distance > at) return;
    const auto begin = words_.begin() + static_cast<std::ptrdiff_t>(at);
    const auto end = std::mismatch(begin, words_.end(), begin - static_cast<std::ptrdiff_t>(distance)).first;
    const auto length = static_cast<std::size_t>(end - begin);
    const std::size_t plain = text_before_[at + length] - text_before_[at];
    const std::size_t folded =
        1 + digits_of(static_cast<std::int64_t>(distance)) + digits_of(static_cast<std::int64_t>(length));
    if (plain > folded && plain - folded > best.saved) best = {distance, length, plain - folded};
  }
  [[nodiscard]] Repeat best_repeat(std::size_t at) const {
    Repeat best;
    consider(at, last_distance_, best);
    consider(at, 1, best);
    if (at + kHashed > words_.size()) return best;
    int left = kMostCandidates;
    for (std::size_t seen = newest_[slot(at)]; seen != kNowhere && left-- > 0; seen = older_[seen])
      consider(at, at - seen, best);
    return best;
  }

  std::span<const std::int64_t> words_;
  std::vector<std::size_t> text_before_;  ///< letters of the words before, written plainly
  std::vector<std::size_t> newest_, older_;
  std::size_t last_distance_ = 0;
};

}  // namespace

std::string packed_column(std::span<const std::int64_t> values, Packing packing) {
  const std::int64_t scale = common_factor(values);
  std::vector<std::int64_t> words(values.begin(), values.end());
  for (std::int64_t& word : words) word /= scale;
  if (packing == Packing::delta) std::adjacent_difference(words.begin(), words.end(), words.begin());
  std::string text;
  append_number(text, scale);
  Folder(words).run(text);
  return text;
}

}  // namespace tidemark::formats

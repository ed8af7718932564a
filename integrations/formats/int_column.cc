#include "integrations/formats/int_column.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>

namespace tidemark::formats {
namespace {

using Word = std::int64_t;

constexpr std::size_t kLongestColumn = 50'000'000;  // rows; a damaged file must not ask for all memory
constexpr std::int64_t kMostScale = std::int64_t{1} << 40;
constexpr std::array<std::string_view, 3> kCodingNames = {"plain", "delta", "recall"};

/// 1 where the factor is more than a reader takes.
std::int64_t common_factor(std::span<const std::int64_t> values) {
  std::int64_t factor = 0;
  for (const std::int64_t value : values) {
    factor = std::gcd(factor, value);
    if (factor == 1) return 1;
  }
  return factor > kMostScale ? 1 : std::max<std::int64_t>(factor, 1);
}

// Value to the place it was last seen, open addressing.
class LastSeen {
 public:
  explicit LastSeen(std::size_t count) {
    std::size_t size = 64;
    while (size < 2 * count) size *= 2;
    slots_.resize(size);
  }
  /// Where `value` stood last (-1: nowhere), and notes that it now stands at `place`.
  std::int64_t exchange(std::int64_t value, std::int64_t place) {
    std::size_t at = (static_cast<std::size_t>(value) * 0x9E3779B97F4A7C15ULL) >> 20 & (slots_.size() - 1);
    while (slots_[at].place >= 0 && slots_[at].value != value) at = (at + 1) & (slots_.size() - 1);
    return std::exchange(slots_[at], {value, place}).place;
  }

 private:
  struct Slot {
    std::int64_t value = 0;
    std::int64_t place = -1;
  };
  std::vector<Slot> slots_;
};

void to_recall(std::vector<Word>& words) {
  LastSeen seen(words.size());
  std::int64_t largest = -1;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::int64_t value = words[i];
    const std::int64_t last = seen.exchange(value, static_cast<std::int64_t>(i));
    if (last >= 0) {
      words[i] = static_cast<std::int64_t>(i) - last;
    } else {
      words[i] = value == largest + 1 ? 0 : -value - 1;
    }
    largest = std::max(largest, value);
  }
}

// Differences wrap, as the sums of a reader do.
void to_delta(std::vector<Word>& words) {
  std::uint64_t last = 0;
  for (Word& word : words) {
    const auto value = static_cast<std::uint64_t>(word);
    word = static_cast<Word>(value - std::exchange(last, value));
  }
}

// Greedy folding. Two places are tried as the start of a repeat: the one a hash of the next words points at, and the
// same distance back as the repeat before, which a single changed word in a long period leaves valid.
class Folder {
 public:
  Folder(std::string& out, std::span<const Word> words) : out_(out), words_(words), table_(kTableSize, -1) {}

  void run() {
    std::size_t at = 0;
    while (at < words_.size()) {
      const auto [distance, length] = longest_repeat(at);
      if (length < kShortest) {
        append(words_[at]);
        enter(at++);
        continue;
      }
      out_ += '[';
      append(static_cast<Word>(distance));
      append(static_cast<Word>(length));
      out_.back() = ']';
      out_ += ',';
      last_distance_ = distance;
      enter(at);
      enter(at + length / 2);
      if (length > 2) enter(at + length - 2);
      at += length;
    }
    if (!words_.empty()) out_.pop_back();
  }

 private:
  static constexpr std::size_t kShortest = 4;
  static constexpr std::size_t kHashed = 3;
  static constexpr std::size_t kTableSize = std::size_t{1} << 14;
  struct Repeat {
    std::size_t distance = 0;
    std::size_t length = 0;
  };

  void append(Word word) {
    const fmt::format_int text(word);
    out_.append(text.data(), text.size());
    out_ += ',';
  }
  [[nodiscard]] std::size_t hash(std::size_t at) const {
    std::uint64_t h = 0;
    for (std::size_t k = 0; k < kHashed; ++k)
      h = (h ^ static_cast<std::uint64_t>(words_[at + k])) * 0x9E3779B97F4A7C15ULL;
    return static_cast<std::size_t>(h >> 50);
  }
  void enter(std::size_t at) {
    if (at + kHashed <= words_.size()) table_[hash(at)] = static_cast<std::int64_t>(at);
  }
  [[nodiscard]] std::size_t length_at(std::size_t at, std::size_t distance) const {
    const auto end = std::mismatch(words_.begin() + static_cast<std::ptrdiff_t>(at), words_.end(),
                                   words_.begin() + static_cast<std::ptrdiff_t>(at - distance));
    return static_cast<std::size_t>(end.first - words_.begin()) - at;
  }
  [[nodiscard]] Repeat longest_repeat(std::size_t at) const {
    Repeat best;
    const auto consider = [&](std::size_t distance) {
      if (distance == 0 || distance > at) return;
      const std::size_t length = length_at(at, distance);
      if (length > best.length) best = {distance, length};
    };
    consider(last_distance_);
    consider(1);
    if (at + kHashed <= words_.size()) {
      const std::int64_t seen = table_[hash(at)];
      if (seen >= 0) consider(at - static_cast<std::size_t>(seen));
    }
    return best;
  }

  std::string& out_;
  std::span<const Word> words_;
  std::vector<std::int64_t> table_;
  std::size_t last_distance_ = 0;
};

Error unreadable(std::string what) {
  return bad_input("column: " + std::move(what));
}

using Json = nlohmann::json;

// One entry of `data` onto `words`. An empty text: fine.
std::string unfold(const Json& entry, std::size_t count, std::vector<Word>& words) {
  if (entry.is_number_integer()) {
    words.push_back(entry.get<std::int64_t>());
    return words.size() <= count ? "" : fmt::format("more than {} values", count);
  }
  if (!entry.is_array() || entry.size() != 2 || !entry[0].is_number_integer() || !entry[1].is_number_integer()) {
    return "an entry is neither a whole number nor [distance, length]";
  }
  const auto distance = entry[0].get<std::int64_t>();
  const auto length = entry[1].get<std::int64_t>();
  if (distance < 1 || distance > static_cast<std::int64_t>(words.size()) || length < 1) {
    return fmt::format("[{}, {}] after {} values repeats nothing", distance, length, words.size());
  }
  if (length > static_cast<std::int64_t>(count - words.size())) return fmt::format("more than {} values", count);
  for (std::int64_t i = 0; i < length; ++i) words.push_back(words[words.size() - static_cast<std::size_t>(distance)]);
  return {};
}

// Words to values in place. Wraps where a damaged file overflows; ids and sizes are checked by who uses them.
std::string decode(Coding coding, std::vector<Word>& words) {
  std::uint64_t sum = 0;
  std::int64_t largest = -1;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const Word word = words[i];
    if (coding == Coding::delta) {
      sum += static_cast<std::uint64_t>(word);
      words[i] = static_cast<Word>(sum);
    } else if (coding == Coding::recall) {
      if (word > static_cast<std::int64_t>(i)) return fmt::format("value {} recalls {} places back", i, word);
      words[i] = word > 0 ? words[i - static_cast<std::size_t>(word)] : word == 0 ? largest + 1 : -(word + 1);
      if (words[i] == std::numeric_limits<std::int64_t>::max()) return fmt::format("value {} is too large", i);
      largest = std::max(largest, words[i]);
    }
  }
  return {};
}

Result<Coding> coding_of(const Json& column) {
  const auto found = column.find("coding");
  if (found == column.end()) return Coding::plain;
  const auto name = found->is_string() ? std::find(kCodingNames.begin(), kCodingNames.end(), found->get<std::string>())
                                       : kCodingNames.end();
  if (name == kCodingNames.end()) return unreadable("`coding` must be plain, delta or recall");
  return static_cast<Coding>(name - kCodingNames.begin());
}

Result<std::int64_t> whole_number(const Json& column, const char* key, std::int64_t least, std::int64_t most,
                                  std::int64_t otherwise) {
  const auto found = column.find(key);
  if (found == column.end() && otherwise >= least) return otherwise;
  if (found != column.end() && found->is_number_integer()) {
    const auto value = found->get<std::int64_t>();
    if (value >= least && value <= most) return value;
  }
  return unreadable(fmt::format("`{}` must be a whole number from {} to {}", key, least, most));
}

}  // namespace

void append_column(std::string& out, std::span<const std::int64_t> values, Coding coding, bool scaled) {
  std::vector<Word> words(values.begin(), values.end());
  const std::int64_t scale = scaled ? common_factor(values) : 1;
  fmt::format_to(std::back_inserter(out), "{{\"count\":{},", values.size());
  if (coding != Coding::plain) {
    fmt::format_to(std::back_inserter(out), "\"coding\":\"{}\",", kCodingNames[static_cast<std::size_t>(coding)]);
  }
  if (scale > 1) {
    fmt::format_to(std::back_inserter(out), "\"scale\":{},", scale);
    for (Word& word : words) word /= scale;
  }
  if (coding == Coding::delta) to_delta(words);
  if (coding == Coding::recall) to_recall(words);
  out += "\"data\":[";
  Folder(out, words).run();
  out += "]}";
}

Result<std::vector<std::int64_t>> read_column(const Json& column) {
  if (!column.is_object()) return unreadable("must be an object with `count` and `data`");
  const auto count = whole_number(column, "count", 0, kLongestColumn, -1);
  if (!count) return count.error();
  const auto scale = whole_number(column, "scale", 1, kMostScale, 1);
  if (!scale) return scale.error();
  const auto coding = coding_of(column);
  if (!coding) return coding.error();
  const auto data = column.find("data");
  if (data == column.end() || !data->is_array()) return unreadable("`data` must be a list");

  std::vector<Word> words;
  const auto rows = static_cast<std::size_t>(count.value());
  for (const Json& entry : *data) {
    if (std::string wrong = unfold(entry, rows, words); !wrong.empty()) return unreadable(wrong);
  }
  if (words.size() != rows) return unreadable(fmt::format("{} values, `count` says {}", words.size(), rows));
  if (std::string wrong = decode(coding.value(), words); !wrong.empty()) return unreadable(wrong);
  if (scale.value() != 1) {
    for (Word& word : words) {
      if (__builtin_mul_overflow(word, scale.value(), &word)) return unreadable("a value times `scale` overflows");
    }
  }
  return words;
}

}  // namespace tidemark::formats

#pragma once
// Small inputs, damaged at random but the same way every time: what a fuzzer needs where there is no libFuzzer.

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark::testing {

/// Where inputs are hurt.
enum class Wounds : std::uint8_t {
  any,
  numbers,  ///< one to three numbers become others: the form stays, and what lies behind the form is tried
};

class Mutator {
 public:
  /// `seeds` are valid inputs; `words` mean something in the format.
  Mutator(std::vector<std::string> seeds, std::vector<std::string> words, std::uint64_t seed,
          Wounds wounds = Wounds::any)
      : seeds_(std::move(seeds)), words_(std::move(words)), random_(seed), wounds_(wounds) {}

  /// A seed with one to six wounds, at most twice as long and 4 KiB more.
  [[nodiscard]] std::string next() {
    std::string text = pick(seeds_);
    if (wounds_ == Wounds::numbers) {
      for (std::uint64_t wounds = 1 + below(3); wounds > 0; --wounds) wound_number(text);
      return text;
    }
    const std::size_t most = 2 * text.size() + 4096;
    for (std::uint64_t wounds = 1 + below(6); wounds > 0; --wounds) wound(text);
    text.resize(std::min(text.size(), most));
    return text;
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return limit == 0 ? 0 : random_() % limit; }
  const std::string& pick(const std::vector<std::string>& from) { return from[below(from.size())]; }
  std::size_t place(const std::string& text) { return below(text.size() + 1); }

  void wound(std::string& text) {
    const std::size_t at = place(text);
    const std::size_t length = std::min<std::size_t>(text.size() - at, below(9) == 0 ? below(200) : below(8));
    switch (below(10)) {
      case 9:
        wound_number(text);
        break;
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(random_());
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ 1 << below(8));
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(at, text.substr(at, length));
        break;
      case 4:
        text.insert(place(text), text.substr(at, length));
        break;
      case 5:
        text.insert(at, pick(words_));
        break;
      case 6:
        text.replace(at, length, pick(words_));
        break;
      case 7:
        text.resize(at);
        break;
      default: {
        const std::string& other = pick(seeds_);
        text = text.substr(0, at) + other.substr(place(other));
      }
    }
  }

  /// The first whole number at or behind a random place becomes another one.
  void wound_number(std::string& text) {
    constexpr std::string_view kDigits = "0123456789";
    const std::size_t begin = text.find_first_of(kDigits, place(text));
    if (begin == std::string::npos) return;
    const std::size_t end = std::min(text.find_first_not_of(kDigits, begin), text.size());
    constexpr std::size_t kMostDigits = 17;
    if (end - begin > kMostDigits) return;
    text.replace(begin, end - begin, std::to_string(other_number(std::stoll(text.substr(begin, end - begin)))));
  }
  std::int64_t other_number(std::int64_t number) {
    switch (below(8)) {
      case 0:
        return number + 1;
      case 1:
        return std::max<std::int64_t>(0, number - 1);
      case 2:
        return 2 * number;
      case 3:
        return number / 2;
      case 4:
        return 0;
      case 5:
        return number + static_cast<std::int64_t>(512 * below(64));
      case 6:
        return static_cast<std::int64_t>(below(64));
      default:
        return static_cast<std::int64_t>(random_() >> (1 + below(63)));
    }
  }

  std::vector<std::string> seeds_, words_;
  std::mt19937_64 random_;
  Wounds wounds_;
};

}  // namespace tidemark::testing

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

class Mutator {
 public:
  /// `seeds` are valid inputs; `words` mean something in the format.
  Mutator(std::vector<std::string> seeds, std::vector<std::string> words, std::uint64_t seed)
      : seeds_(std::move(seeds)), words_(std::move(words)), random_(seed) {}

  /// A seed with one to six wounds, at most twice as long and 4 KiB more.
  [[nodiscard]] std::string next() {
    std::string text = pick(seeds_);
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
    switch (below(9)) {
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

  std::vector<std::string> seeds_, words_;
  std::mt19937_64 random_;
};

}  // namespace tidemark::testing

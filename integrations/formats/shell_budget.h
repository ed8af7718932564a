#pragma once
// The work a script may ask of its reader: counted, so that the same script is read or refused on every machine. A
// launch script takes a few thousandths of it; one that needs more is made to, or doubles a variable by mistake.
// Private to formats.

#include <algorithm>
#include <cstddef>

namespace tidemark::formats {

/// What the words of a script may come to with their variables replaced. Each character takes five bytes, in up to
/// three places.
inline constexpr std::size_t kMostShellCharacters = std::size_t{1} << 20;
/// A word counts at least this many: it takes as much memory, however short it is.
inline constexpr std::size_t kShellCharactersOfWord = 32;
/// Characters looked at without becoming part of a word: ends of quotations that are searched for, values of variables
/// in arithmetic, blocks a command stands in.
inline constexpr std::size_t kMostShellSteps = std::size_t{1} << 22;

class ShellBudget {
 public:
  /// `at`: offset in the script of what asks for it.
  void spend_characters(std::size_t count, std::size_t at) {
    if (characters_ < kMostShellCharacters && characters_ + count >= kMostShellCharacters) note(at);
    characters_ += std::min(count, kMostShellCharacters);
  }
  void spend_steps(std::size_t count, std::size_t at) {
    if (steps_ < kMostShellSteps && steps_ + count >= kMostShellSteps) note(at);
    steps_ += std::min(count, kMostShellSteps);
  }

  [[nodiscard]] bool is_spent() const { return characters_ >= kMostShellCharacters || steps_ >= kMostShellSteps; }
  /// Where it ran out. REQUIRES: is_spent().
  [[nodiscard]] std::size_t spent_at() const { return spent_at_; }
  [[nodiscard]] std::size_t characters() const { return characters_; }
  [[nodiscard]] std::size_t steps() const { return steps_; }

 private:
  void note(std::size_t at) {
    if (!is_spent()) spent_at_ = at;
  }

  std::size_t characters_ = 0;
  std::size_t steps_ = 0;
  std::size_t spent_at_ = 0;
};

}  // namespace tidemark::formats

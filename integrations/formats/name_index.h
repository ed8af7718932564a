#pragma once
// Names and their numbers, in the order in which they came: for tables of millions of them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace tidemark::formats {

/// Names are borrowed: they must outlive the index. Fewer than 2^31 of them.
class NameIndex {
 public:
  /// The number of a name, which is new if it was not there.
  struct Added {
    std::int32_t number = 0;
    bool is_new = false;
  };
  Added add(std::string_view name) {
    if (2 * (names_.size() + 1) > slots_.size()) grow();
    const std::uint32_t hash = hash_of(name);
    Slot& slot = slots_[find_slot(name, hash)];
    if (slot.number >= 0) return {.number = slot.number};
    slot = {.hash = hash, .number = static_cast<std::int32_t>(names_.size())};
    names_.push_back(name);
    return {.number = slot.number, .is_new = true};
  }

  [[nodiscard]] std::optional<std::int32_t> find(std::string_view name) const {
    if (slots_.empty()) return std::nullopt;
    const Slot& slot = slots_[find_slot(name, hash_of(name))];
    return slot.number < 0 ? std::nullopt : std::optional(slot.number);
  }

  [[nodiscard]] const std::vector<std::string_view>& names() const { return names_; }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t number = -1;
  };

  static std::uint32_t hash_of(std::string_view name) {
    const std::uint64_t hash = std::hash<std::string_view>()(name);
    return static_cast<std::uint32_t>(hash ^ (hash >> 32));
  }

  /// Where the name is, or the free slot where it would be.
  [[nodiscard]] std::size_t find_slot(std::string_view name, std::uint32_t hash) const {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
      const Slot& slot = slots_[at];
      if (slot.number < 0) return at;
      if (slot.hash == hash && names_[static_cast<std::size_t>(slot.number)] == name) return at;
    }
  }

  void grow() {
    std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots_.empty() ? 64 : 4 * slots_.size()));
    const std::size_t mask = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.number < 0) continue;
      std::size_t at = slot.hash & mask;
      while (slots_[at].number >= 0) at = (at + 1) & mask;
      slots_[at] = slot;
    }
  }

  std::vector<std::string_view> names_;
  std::vector<Slot> slots_;  ///< at most half of them are taken
};

}  // namespace tidemark::formats

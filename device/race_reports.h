#pragma once
// What the race checker tells: names, frees that are remembered for the texts, and the reports themselves.
// Threads: the caller serialises.

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/race_checker.h"
#include "device/race_shadow.h"

namespace tidemark {

class RaceReports {
 public:
  /// The access at hand, as far as a report tells of it.
  struct Later {
    RaceTouch touch;
    RaceRange range;
    RaceAccess access = RaceAccess::read;
  };

  /// Keeps the text of the first `limit` reports; all are counted.
  explicit RaceReports(std::size_t limit) : limit_(limit) {}

  [[nodiscard]] std::uint16_t intern(std::string_view name);
  void name_actor(std::size_t actor, std::string name);
  /// Of bytes that `by` gave back, by address, not by memory.
  void remember_free(const RaceRange& range, const RaceTouch& by);

  /// Conflicts are told once per earlier side from here on.
  void begin_access() {
    told_.clear();
    told_unwritten_ = false;
  }
  /// `earlier`, which did `how`, and `later` are unordered over [begin, end).
  void conflict(const Later& later, const RaceTouch& earlier, RaceAccess how, Address begin, Address end);
  /// Nothing has written [begin, end); told once an access.
  void unwritten(const Later& later, Address begin, Address end);
  /// [begin, end) is not allocated.
  void gap(const Later& later, Address begin, Address end);

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] const std::vector<RaceReport>& all() const { return reports_; }
  void clear();

 private:
  struct Freed {
    Address begin = 0, end = 0;
    RaceTouch by;
  };
  [[nodiscard]] RaceSide side_of(const RaceTouch& touch, RaceAccess access, Address begin, Bytes bytes) const;
  [[nodiscard]] RaceSide side_of(const Later& later) const;
  [[nodiscard]] std::string edge(const RaceSide& earlier, const Later& later) const;

  const std::size_t limit_;
  std::vector<std::string> names_{""};
  std::vector<std::string> actors_;
  std::deque<Freed> freed_;
  std::int64_t count_ = 0;
  std::vector<RaceReport> reports_;
  std::vector<std::pair<std::int16_t, std::uint32_t>> told_;  ///< earlier sides reported for the access at hand
  bool told_unwritten_ = false;
};

}  // namespace tidemark

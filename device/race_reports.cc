#include "device/race_reports.h"

#include <fmt/format.h>

#include <algorithm>

namespace tidemark {
namespace {

constexpr std::size_t kRememberedFrees = 64;

std::string name_of_work(const RaceSide& side) {
  return side.id < 0 ? side.what : fmt::format("{} {}", side.what, side.id);
}

}  // namespace

const char* name_of(RaceAccess access) {
  switch (access) {
    case RaceAccess::read:
      return "reads";
    case RaceAccess::write:
      return "writes";
    case RaceAccess::free:
      return "frees";
  }
  return "touches";
}

std::uint16_t RaceReports::intern(std::string_view name) {
  const auto index = static_cast<std::size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
  if (index == names_.size()) names_.emplace_back(name);
  return static_cast<std::uint16_t>(index);
}

void RaceReports::name_actor(std::size_t actor, std::string name) {
  if (actors_.size() <= actor) actors_.resize(actor + 1);
  actors_[actor] = std::move(name);
}

RaceSide RaceReports::side_of(const RaceTouch& touch, RaceAccess access, Address begin, Bytes bytes) const {
  return {.what = names_[touch.what],
          .id = touch.id,
          .actor = actors_[static_cast<std::size_t>(touch.actor)],
          .access = access,
          .begin = begin + static_cast<Address>(touch.view),
          .bytes = bytes};
}

RaceSide RaceReports::side_of(const Later& later) const {
  return side_of(later.touch, later.access, later.range.begin, later.range.bytes);
}

std::string RaceReports::edge(const RaceSide& earlier, const Later& later) const {
  const std::string event = fmt::format("an event recorded on {} after {}", earlier.actor, name_of_work(earlier));
  if (later.touch.actor != 0)
    return fmt::format("{} must wait for {}", actors_[static_cast<std::size_t>(later.touch.actor)], event);
  return fmt::format("the host must synchronise with {} before {}", event, names_[later.touch.what]);
}

void RaceReports::conflict(const Later& later, const RaceTouch& earlier, RaceAccess how, Address begin, Address end) {
  const std::pair key{earlier.actor, earlier.clock};
  if (std::find(told_.begin(), told_.end(), key) != told_.end()) return;
  told_.push_back(key);
  ++count_;
  if (reports_.size() >= limit_) return;
  const auto bytes = static_cast<Bytes>(end - begin);
  RaceReport report{.kind = RaceReport::Kind::conflict,
                    .earlier = side_of(earlier, how, begin, bytes),
                    .later = side_of(later),
                    .begin = begin + static_cast<Address>(later.range.view),
                    .bytes = bytes};
  report.missing_edge = edge(report.earlier, later);
  reports_.push_back(std::move(report));
}

void RaceReports::unwritten(const Later& later, Address begin, Address end) {
  if (told_unwritten_) return;
  told_unwritten_ = true;
  ++count_;
  if (reports_.size() >= limit_) return;
  reports_.push_back({.kind = RaceReport::Kind::unwritten,
                      .later = side_of(later),
                      .begin = begin + static_cast<Address>(later.range.view),
                      .bytes = static_cast<Bytes>(end - begin),
                      .missing_edge = "a write of these bytes must come first"});
}

void RaceReports::gap(const Later& later, Address begin, Address end) {
  ++count_;
  if (reports_.size() >= limit_) return;
  const auto bytes = static_cast<Bytes>(end - begin);
  RaceReport report{.kind = RaceReport::Kind::not_allocated,
                    .later = side_of(later),
                    .begin = begin + static_cast<Address>(later.range.view),
                    .bytes = bytes};
  report.missing_edge = "these bytes were never allocated";
  for (auto past = freed_.rbegin(); past != freed_.rend(); ++past) {
    if (past->end <= report.begin || past->begin >= report.begin + static_cast<Address>(bytes)) continue;
    report.earlier = side_of(past->by, RaceAccess::free, past->begin - static_cast<Address>(past->by.view),
                             static_cast<Bytes>(past->end - past->begin));
    report.missing_edge =
        fmt::format("{} must come after {} has completed", report.earlier.what, name_of_work(report.later));
    break;
  }
  reports_.push_back(std::move(report));
}

void RaceReports::remember_free(const RaceRange& range, const RaceTouch& by) {
  if (freed_.size() == kRememberedFrees) freed_.pop_front();
  const Address begin = range.begin + static_cast<Address>(range.view);
  freed_.push_back({begin, begin + static_cast<Address>(range.bytes), by});
}

void RaceReports::clear() {
  count_ = 0;
  reports_.clear();
}

std::string to_string(const RaceReport& report) {
  const auto side = [](const RaceSide& s) {
    return fmt::format("{} on {} {} {} at {:#x}", name_of_work(s), s.actor, name_of(s.access), format_bytes(s.bytes),
                       s.begin);
  };
  const std::string bytes = fmt::format("{} at {:#x}", format_bytes(report.bytes), report.begin);
  if (report.kind == RaceReport::Kind::conflict)
    return fmt::format("race over {}: {}; {}, unordered with it; missing: {}", bytes, side(report.earlier),
                       side(report.later), report.missing_edge);
  if (report.kind == RaceReport::Kind::unwritten)
    return fmt::format("{}, of which {} were never written; missing: {}", side(report.later), bytes,
                       report.missing_edge);
  if (report.earlier.what.empty())
    return fmt::format("{}, of which {} are not allocated: {}", side(report.later), bytes, report.missing_edge);
  return fmt::format("{}, of which {} are given back already by {}; missing: {}", side(report.later), bytes,
                     name_of_work(report.earlier), report.missing_edge);
}

}  // namespace tidemark

#include "device/race_checker.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include "device/race_reports.h"
#include "device/race_shadow.h"

namespace tidemark {
namespace {

using Clock = std::vector<std::uint32_t>;  ///< by actor; missing components are 0

void join(Clock& into, const Clock& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

struct Actor {
  Clock clock;
  std::uint64_t host_version = 0;  ///< of the host's clock joined last
  bool alive = true;
};

struct EventClock {
  Clock clock;
  std::int16_t stream = 0;
  std::uint32_t epoch = 0;  ///< 0: never recorded
};

}  // namespace

struct RaceChecker::State {
  State(std::size_t report_limit, Unwritten u) : unwritten(u), reports(report_limit) {}

  const Unwritten unwritten;

  std::vector<Actor> actors;
  std::vector<std::int16_t> dead_actors;
  std::uint64_t host_version = 1;
  std::vector<EventClock> events;
  std::vector<std::int32_t> dead_events;
  RaceShadow shadow;
  RaceReports reports;

  [[nodiscard]] Actor& host() { return actors[0]; }
  [[nodiscard]] Actor& of(RaceActor actor) { return actors[static_cast<std::size_t>(actor)]; }
  [[nodiscard]] static bool knows(const Actor& actor, const RaceTouch& touch) {
    const auto component = static_cast<std::size_t>(touch.actor);
    return touch.clock == 0 || (component < actor.clock.size() && actor.clock[component] >= touch.clock);
  }
  void learn_host(Actor& actor) {
    if (actor.host_version == host_version) return;
    join(actor.clock, host().clock);
    actor.host_version = host_version;
  }
  void tick_host() {
    ++host().clock[0];
    ++host_version;
  }
  [[nodiscard]] RaceTouch touch_of(RaceActor actor, const RaceRange& range, RaceLabel label) {
    const auto component = static_cast<std::int16_t>(actor);
    return {.id = label.id,
            .view = range.view,
            .clock = of(actor).clock[static_cast<std::size_t>(component)],
            .actor = component,
            .what = label.what};
  }

  // What one access is checked with: what it is, and what its actor knows.
  struct Later : RaceReports::Later {
    const Actor& actor;
  };
  [[nodiscard]] Later later_of(RaceActor actor, const RaceRange& range, RaceAccess access, RaceLabel label) {
    return {{.touch = touch_of(actor, range, label), .range = range, .access = access}, of(actor)};
  }
  void check(const Later& later, const RaceTouch& earlier, RaceAccess how, Address begin, Address end);
  void check_all(const Later& later, const RaceSegment& segment, Address begin);

  void check_read(const Later& later, const RaceSegment& segment, Address begin);
  void read(const Later& later, RaceSegment& segment);
  template <class Visit>
  void walk(const Later& later, const Visit& visit);
};

inline void RaceChecker::State::check(const Later& later, const RaceTouch& earlier, RaceAccess how, Address begin,
                                      Address end) {
  if (!knows(later.actor, earlier)) reports.conflict(later, earlier, how, begin, end);
}

void RaceChecker::State::check_all(const Later& later, const RaceSegment& segment, Address begin) {
  check(later, segment.write, RaceAccess::write, begin, segment.end);
  for (std::size_t i = 0; i < segment.reads.size(); ++i)
    check(later, segment.reads[i], RaceAccess::read, begin, segment.end);
}

void RaceChecker::State::check_read(const Later& later, const RaceSegment& segment, Address begin) {
  if (segment.write.clock == 0 && unwritten == Unwritten::is_reported) reports.unwritten(later, begin, segment.end);
  check(later, segment.write, RaceAccess::write, begin, segment.end);
}

// A read ordered before this one is implied by it, unless it went through another view that may be taken away.
void RaceChecker::State::read(const Later& later, RaceSegment& segment) {
  segment.reads.drop_if([&](const RaceTouch& touch) {
    return knows(later.actor, touch) && (touch.view == later.touch.view || knows(actors[0], touch));
  });
  segment.reads.push(later.touch);
}

// Visits the allocated pieces of the range, cut to it, in order; visit(segment) gives the segment to go on with.
// What is not allocated is reported.
template <class Visit>
void RaceChecker::State::walk(const Later& later, const Visit& visit) {
  reports.begin_access();
  const Address end = later.range.begin + static_cast<Address>(later.range.bytes);
  Address cursor = later.range.begin;
  for (RaceShadow::Iterator segment = shadow.find(cursor); cursor < end;) {
    const bool gap = segment == shadow.end() || segment->first > cursor;
    if (gap) {
      const Address until = segment == shadow.end() ? end : std::min(end, segment->first);
      reports.gap(later, cursor, until);
      cursor = until;
      continue;
    }
    if (segment->first < cursor) segment = shadow.split(segment, cursor);
    if (segment->second.end > end) shadow.split(segment, end);
    cursor = segment->second.end;
    segment = visit(segment);
  }
}

RaceChecker::RaceChecker(std::size_t report_limit, Unwritten unwritten)
    : state_(std::make_unique<State>(report_limit, unwritten)) {
  state_->actors.push_back({.clock = {1}});
  state_->reports.name_actor(0, "host");
}
RaceChecker::~RaceChecker() = default;

std::uint16_t RaceChecker::intern(std::string_view name) {
  return state_->reports.intern(name);
}

RaceActor RaceChecker::add_stream(std::string name) {
  State& s = *state_;
  std::size_t slot = s.actors.size();
  if (s.dead_actors.empty()) {
    s.actors.push_back({});
  } else {
    slot = static_cast<std::size_t>(s.dead_actors.back());
    s.dead_actors.pop_back();
  }
  Actor& actor = s.actors[slot];
  s.reports.name_actor(slot, std::move(name));
  actor.alive = true;
  if (actor.clock.size() <= slot) actor.clock.resize(slot + 1);  // its own component never goes back
  return static_cast<RaceActor>(static_cast<std::int32_t>(slot));
}

void RaceChecker::remove_stream(RaceActor stream) {
  host_knows_stream(stream);
  state_->of(stream).alive = false;
  state_->dead_actors.push_back(static_cast<std::int16_t>(stream));
}

std::int32_t RaceChecker::add_event() {
  State& s = *state_;
  if (s.dead_events.empty()) {
    s.events.emplace_back();
    return static_cast<std::int32_t>(s.events.size()) - 1;
  }
  const std::int32_t event = s.dead_events.back();
  s.dead_events.pop_back();
  return event;
}

void RaceChecker::remove_event(std::int32_t event) {
  state_->events[static_cast<std::size_t>(event)].epoch = 0;
  state_->dead_events.push_back(event);
}

void RaceChecker::begin_work(RaceActor stream) {
  Actor& actor = state_->of(stream);
  state_->learn_host(actor);
  ++actor.clock[static_cast<std::size_t>(stream)];
}

void RaceChecker::access(RaceActor actor, RaceRange range, RaceAccess access, RaceLabel label) {
  State& s = *state_;
  if (actor == RaceActor::host) s.tick_host();
  const State::Later later = s.later_of(actor, range, access, label);
  if (access == RaceAccess::read) {
    s.walk(later, [&](RaceShadow::Iterator segment) {
      s.check_read(later, segment->second, segment->first);
      s.read(later, segment->second);
      return std::next(segment);
    });
    return;
  }
  // A write unites the pieces it covers, so the shadow stays as fine as the ranges in use.
  RaceShadow::Iterator united = s.shadow.end();
  s.walk(later, [&](RaceShadow::Iterator segment) {
    RaceSegment& here = segment->second;
    s.check_all(later, here, segment->first);
    const auto known_or_same_view = [&](const RaceTouch& touch) {
      return touch.view == later.touch.view || State::knows(s.host(), touch);
    };
    here.reads.drop_if(known_or_same_view);
    if (!known_or_same_view(here.write)) here.reads.push(here.write);
    here.write = later.touch;
    const bool joins = united != s.shadow.end() && united->second.end == segment->first &&
                       united->second.reads.size() == 0 && here.reads.size() == 0;
    if (!joins) {
      united = segment;
      return std::next(segment);
    }
    united->second.end = here.end;
    return s.shadow.erase(segment);
  });
}

void RaceChecker::access_nothing(RaceActor actor, RaceRange range, RaceAccess access, RaceLabel label) {
  State& s = *state_;
  if (actor == RaceActor::host) s.tick_host();
  const State::Later later = s.later_of(actor, range, access, label);
  s.reports.gap(later, range.begin, range.begin + static_cast<Address>(range.bytes));
}

void RaceChecker::record(std::int32_t event, RaceActor stream) {
  Actor& actor = state_->of(stream);
  state_->learn_host(actor);
  EventClock& to = state_->events[static_cast<std::size_t>(event)];
  to.stream = static_cast<std::int16_t>(stream);
  to.epoch = ++actor.clock[static_cast<std::size_t>(stream)];
  to.clock = actor.clock;
}

void RaceChecker::wait(RaceActor stream, std::int32_t event) {
  const EventClock& from = state_->events[static_cast<std::size_t>(event)];
  if (from.epoch == 0) return;
  Actor& actor = state_->of(stream);
  const auto component = static_cast<std::size_t>(from.stream);
  if (component < actor.clock.size() && actor.clock[component] >= from.epoch) return;  // nothing new
  join(actor.clock, from.clock);
}

void RaceChecker::host_knows_event(std::int32_t event) {
  const EventClock& from = state_->events[static_cast<std::size_t>(event)];
  Clock& host = state_->host().clock;
  const auto component = static_cast<std::size_t>(from.stream);
  if (from.epoch == 0 || (component < host.size() && host[component] >= from.epoch)) return;
  join(host, from.clock);
  ++state_->host_version;
}

void RaceChecker::host_knows_stream(RaceActor stream) {
  Actor& actor = state_->of(stream);
  ++actor.clock[static_cast<std::size_t>(stream)];  // so that "knows up to here" has a name of its own
  join(state_->host().clock, actor.clock);
  ++state_->host_version;
}

std::int32_t RaceChecker::snapshot_stream(RaceActor stream) {
  const std::int32_t event = add_event();
  record(event, stream);
  return event;
}

std::int32_t RaceChecker::snapshot_event(std::int32_t event) {
  const std::int32_t copy = add_event();
  state_->events[static_cast<std::size_t>(copy)] = state_->events[static_cast<std::size_t>(event)];
  return copy;
}

void RaceChecker::allocate(RaceRange range) {
  assert(range.bytes > 0);
  const Address end = range.begin + static_cast<Address>(range.bytes);
  [[maybe_unused]] const auto behind = state_->shadow.find(range.begin);
  assert((behind == state_->shadow.end() || behind->first >= end) && "allocated already");
  state_->shadow.insert(range.begin, {.end = end});
}

void RaceChecker::free(RaceRange range, RaceLabel label) {
  State& s = *state_;
  s.tick_host();
  const State::Later later = s.later_of(RaceActor::host, range, RaceAccess::free, label);
  s.walk(later, [&](RaceShadow::Iterator segment) {
    s.check_all(later, segment->second, segment->first);
    return s.shadow.erase(segment);
  });
  s.reports.remember_free(range, later.touch);
}

void RaceChecker::retire_view(RaceRange range, RaceLabel label) {
  State& s = *state_;
  s.tick_host();
  const State::Later later = s.later_of(RaceActor::host, range, RaceAccess::free, label);
  s.walk(later, [&](RaceShadow::Iterator segment) {
    RaceSegment& here = segment->second;
    const auto check = [&](const RaceTouch& touch, RaceAccess how) {
      if (touch.view == range.view) s.check(later, touch, how, segment->first, here.end);
    };
    check(here.write, RaceAccess::write);
    for (std::size_t i = 0; i < here.reads.size(); ++i) check(here.reads[i], RaceAccess::read);
    return std::next(segment);
  });
  s.reports.remember_free(range, later.touch);
}

std::int64_t RaceChecker::count() const {
  return state_->reports.count();
}
const std::vector<RaceReport>& RaceChecker::reports() const {
  return state_->reports.all();
}
std::int64_t RaceChecker::segment_count() const {
  return static_cast<std::int64_t>(state_->shadow.size());
}
void RaceChecker::clear_reports() {
  state_->reports.clear();
}

}  // namespace tidemark

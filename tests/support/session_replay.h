#pragma once
// The log of a session, replayed: the same calls on another device, where the framework is asynchronous whatever it was
// when the log was made. Blocks lie to each other as they did: bytes that were used again are used again. Every byte
// that the framework reads of them is checked (Work::verify).
//
//   log        op 7      | take 3 in block 5 | use 0 -> block 9 | ...                | room for 3: block 9 | release 5
//   compute    reads     | writes block 5    | reads block 9    | reads it once more | wrote block 9       | writes it
//
// Of the framework's own tensors the log knows nothing. The worst is assumed: what the session releases is written by
// the very next kernel, and room that it is given was written by the last one (Options::reuses_at_once).

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/graph.h"
#include "device/device.h"
#include "planner/planner.h"
#include "swap/session.h"
#include "swap/session_log.h"

namespace tidemark::testing {

class SessionReplay {
 public:
  struct Options {
    bool reuses_at_once = true;
    bool verify = true;
  };

  SessionReplay(const plan::RankPlan& plan, const swap::SessionLog& log, Device& device, Options options)
      : plan_(plan), log_(log), device_(device), options_(options) {
    place_blocks();
    StreamHandle stream{};
    EXPECT_EQ(device_.create_stream(StreamRole::compute, stream), DeviceCode::ok);
    compute_ = stream;
  }
  ~SessionReplay() {
    saved_.clear();
    session_.reset();
    EXPECT_EQ(device_.destroy_stream(*compute_), DeviceCode::ok);
    EXPECT_EQ(device_.free_plain(base_), DeviceCode::ok);
  }
  SessionReplay(const SessionReplay&) = delete;
  SessionReplay& operator=(const SessionReplay&) = delete;

  /// The whole log. What went otherwise than when it was made, or was read wrongly; empty: nothing.
  [[nodiscard]] std::string play() {
    auto opened = swap::Session::open(plan_.program, device_, options(), calls());
    if (!opened) return opened.error().message;
    session_ = std::move(opened).value();
    while (next_ < log_.events.size() && fault_.empty()) call(log_.events[next_++]);
    saved_.clear();
    session_.reset();
    EXPECT_EQ(device_.synchronize_device(), DeviceCode::ok);
    Mismatch first;
    if (device_.mismatches(first) > 0) fail("line " + std::to_string(first.work_id) + " read other bytes");
    if (fault_.empty()) compare();
    return fault_;
  }

  [[nodiscard]] std::int64_t launches() const { return launches_; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  using Event = swap::SessionEvent;
  using Kind = Event::Kind;
  using Note = Event::Note;
  using Content = std::pair<std::int64_t, StorageId>;  ///< of a step

  struct Block {
    Address address = 0;
    Bytes bytes = 0;
    std::int32_t held = 0;  ///< references of the session's
  };
  struct Saved {
    swap::SavedStorage saved;
    Content content;
    OpId op = kNone<OpId>;
  };
  struct Read {
    Address address = 0;
    Bytes bytes = 0;
    std::uint64_t seed = 0;
  };

  // Places

  /// Ranges of the log that touch are one range here; all of them lie in one allocation.
  void place_blocks() {
    constexpr Bytes kApart = 512;
    std::map<Address, Bytes> ranges;
    for (const Event& e : log_.events)
      if (e.address != 0 && e.bytes > 0) ranges[e.address] = std::max(ranges[e.address], e.bytes);
    Address end = 0;
    for (const auto& [address, bytes] : ranges) {
      if (places_.empty() || address > end) {
        bytes_ = round_up(bytes_, kApart);
        places_.emplace(address, bytes_);
        end = address;
      }
      const Address stop = std::max(end, address + static_cast<Address>(bytes));
      bytes_ += static_cast<Bytes>(stop - end);
      end = stop;
    }
    EXPECT_EQ(device_.allocate_plain(round_up(std::max(bytes_, Bytes{1}), kApart), base_), DeviceCode::ok);
  }
  [[nodiscard]] Address place(Address recorded) const {
    if (recorded == 0) return 0;
    const auto& [begin, offset] = *std::prev(places_.upper_bound(recorded));
    return base_ + static_cast<Address>(offset) + (recorded - begin);
  }

  // The framework's calls

  void call(const Event& e) {
    switch (e.kind) {
      case Kind::begin_step:
        settle_reads(kNone<OpId>);
        ++step_;
        return session_->begin_step(compute_);
      case Kind::op:
        settle_reads(e.op);
        end(session_->tell(e.op, compute_));
        return run(e.op);
      case Kind::take:
        static_cast<void>(add(e));
        here_[{step_, e.storage}] = e.block;
        write(e.block);
        return session_->take(e.storage, block_of(e), compute_);
      case Kind::adopt:
        return adopt(e);
      case Kind::keep:
        return session_->keep(e.op);
      case Kind::save:
        saved_[e.saved] = {.saved = session_->save(e.storage, {.op = e.op, .until = e.until}),
                           .content = {step_, e.storage},
                           .op = e.op};
        return;
      case Kind::use:
        return use(e);
      case Kind::free:
        settle_reads(kNone<OpId>);
        swap::Session::free(saved_[e.saved].saved);
        saved_.erase(e.saved);
        return;
      case Kind::change:
        return change(e);
      case Kind::make_room:
        return make_room(e);
      case Kind::end_step:
        settle_reads(kNone<OpId>);
        return session_->end_step(compute_);
      case Kind::close:
        settle_reads(kNone<OpId>);
        return session_.reset();
      default:
        return copied(e) ? void() : fail("the session did not do what it did then");
    }
  }

  /// What the block holds the session may have already, by another number or the same.
  void adopt(const Event& e) {
    static_cast<void>(add(e));
    const Content content{step_, e.storage};
    const auto held =
        std::ranges::find_if(here_, [&](const auto& one) { return one.second == e.block && one.first != content; });
    if (held != here_.end()) {
      seeds_[content] = seed(held->first);
      here_[content] = e.block;
    } else if (here_.try_emplace(content, e.block).second) {
      write(e.block);
    }
    if (session_->adopt(block_of(e), compute_) != e.storage) fail("an adopted block has another number");
  }

  void use(const Event& e) {
    Saved& saved = saved_[e.saved];
    settle_reads(saved.op);
    const auto used = swap::Session::use(saved.saved, e.note == Note::again, compute_);
    const Event* const then = next_of(used ? Kind::used : Kind::failed);
    if (then == nullptr || !used || then->block == Event::kNoNumber) return;
    if (used.value().block.handle != handle_of(then->block)) return fail("something else was used");
    const Block block = blocks_[then->block];
    if (row(saved.content.second) >= plan_.graph.storages.size()) here_[saved.content] = then->block;
    const Read read{.address = block.address, .bytes = block.bytes, .seed = seed(saved.content)};
    launch({read});
    late_reads_.push_back(read);
    late_for_ = saved.op;
    if (then->note == Note::handed_over && drop(then->block)) late_frees_.push_back(block);
  }

  void change(const Event& e) {
    settle_reads(kNone<OpId>);
    end(session_->change(handle_of(e.block), e.note == Note::planned, compute_));
    write(e.block);
  }

  void make_room(const Event& e) {
    settle_reads(kNone<OpId>);  // what the framework is yet to read it holds, and that is not given up
    const auto given_up = session_->make_room(e.bytes, compute_);
    if (!given_up) static_cast<void>(next_of(Kind::failed));
  }
  /// Where the framework's allocator was at its end within its work for the session.
  void make_room_within() {
    while (is_next(Kind::make_room)) make_room(log_.events[next_++]);
  }
  /// The framework held what was not released.
  [[nodiscard]] bool is_idle(void* handle) const {
    for (std::size_t i = next_; i < log_.events.size(); ++i) {
      const Event& e = log_.events[i];
      if (e.kind != Kind::release && !copied(e)) return false;
      if (e.kind == Kind::release && handle_of(e.block) == handle) return true;
    }
    return false;
  }

  /// What is used is there until the session is told of another op, so it may be read until then. What was handed over
  /// is the framework's to free behind that.
  void settle_reads(OpId told) {
    if (late_reads_.empty() || (told != kNone<OpId> && told == late_for_)) return;
    launch(std::exchange(late_reads_, {}));
    for (const Block& block : std::exchange(late_frees_, {})) reuse(block);
  }

  /// The op's kernel; what it writes is written when the session is told where.
  void run(OpId op) {
    std::vector<Read> reads;
    for (const Access& access : plan_.graph.accesses_of(op)) {
      const auto found = here_.find({step_, access.storage});
      if (access.kind != AccessKind::read || found == here_.end()) continue;
      const Block& block = blocks_[found->second];
      reads.push_back({.address = block.address, .bytes = block.bytes, .seed = seed(found->first)});
    }
    if (!reads.empty()) launch(reads);
  }

  void end(const Status& status) {
    if (!status) static_cast<void>(next_of(Kind::failed));
  }

  // Its work for the session

  [[nodiscard]] swap::FrameworkCalls calls() {
    return {
        .rebuild = [this](const swap::Rebuild& again) { return rebuild(again); },
        .take_block = [this](StorageId storage, Bytes bytes, swap::FrameworkStream) { return room(storage, bytes); },
        .release =
            [this](swap::FrameworkBlock block, swap::FrameworkStream) {
              const Event* const e = next_of(Kind::release);
              if (e == nullptr) return;
              if (handle_of(e->block) != block.handle) return fail("another block is released");
              if (drop(e->block)) reuse(blocks_[e->block]);
            },
        .is_idle = [this](void* handle) { return is_idle(handle); }};
  }

  swap::FrameworkBlock room(StorageId storage, Bytes bytes) {
    make_room_within();
    const Event* const e = next_of(Kind::room);
    if (e == nullptr || e->block == Event::kNoNumber) return {};
    if (e->storage != storage || e->bytes != bytes) fail("room is asked for something else");
    reuse(add(*e));
    return block_of(*e);
  }

  Status rebuild(const swap::Rebuild& again) {
    const Event* e = next_of(Kind::rebuild);
    if (e == nullptr) return internal_fault("off the log");
    if (e->op != again.op || e->step != again.step) fail("another op is to run again");
    std::vector<Read> reads;
    for (const swap::Rebuild::Source& source : again.sources) {
      e = next_of(Kind::source);
      if (e == nullptr) return internal_fault("off the log");
      if (handle_of(e->block) != source.block.handle) fail("an op is to run again on something else");
      const Block& block = blocks_[e->block];
      reads.push_back({.address = block.address, .bytes = block.bytes, .seed = seed({again.step, source.storage})});
    }
    if (!reads.empty()) launch(reads);
    make_room_within();
    for (std::size_t i = 0; i < again.made.size() && is_next(Kind::made); ++i) {
      e = next_of(Kind::made);
      const Content content{again.step, e->storage};
      write_as(add(*e), seed(content));
      here_[content] = e->block;
      again.made[i] = block_of(*e);
    }
    if (!is_next(Kind::failed)) return {};
    static_cast<void>(next_of(Kind::failed));
    return internal_fault("it failed when the log was made");
  }

  // The log

  [[nodiscard]] static bool copied(const Event& e) { return e.kind == Kind::copy_out || e.kind == Kind::copy_in; }
  [[nodiscard]] bool is_next(Kind kind) {
    while (next_ < log_.events.size() && copied(log_.events[next_])) ++next_;
    return next_ < log_.events.size() && log_.events[next_].kind == kind;
  }
  [[nodiscard]] const Event* next_of(Kind kind) {
    if (is_next(kind)) return &log_.events[next_++];
    fail("the session does something else");
    return nullptr;
  }
  [[nodiscard]] swap::SessionOptions options() {
    return {
        .loop = log_.loop, .host_bytes = log_.host_bytes, .log = [this](const Event& e) { replayed_.push_back(e); }};
  }
  /// Line by line: all but where the framework's stream and its memory are.
  void compare() {
    const auto plain = [](Event e) {
      e.stream = Event::kNoNumber;
      return e;
    };
    if (replayed_.size() != log_.events.size())
      return fail(std::to_string(replayed_.size()) + " lines are " + std::to_string(log_.events.size()));
    for (next_ = 0; next_ < replayed_.size(); ++next_) {
      Event then = log_.events[next_];
      then.address = place(then.address);
      if (plain(then) != plain(replayed_[next_])) return fail("the session did something else");
    }
  }
  /// Lines of the text are counted from 1, with those in front of the events.
  [[nodiscard]] std::int64_t line() const {
    return static_cast<std::int64_t>(next_ + 1 + log_.loop.part_of_op.size() + log_.loop.may_spill.size());
  }
  void fail(const std::string& what) {
    if (fault_.empty()) fault_ = "line " + std::to_string(line()) + ": " + what;
  }

  // Blocks

  [[nodiscard]] static void* handle_of(std::int32_t block) { return reinterpret_cast<void*>(std::intptr_t{block} + 1); }
  [[nodiscard]] swap::FrameworkBlock block_of(const Event& e) const {
    return {.handle = handle_of(e.block), .address = place(e.address), .bytes = e.bytes};
  }
  const Block& add(const Event& e) {
    Block& block = blocks_[e.block];
    if (block.held++ > 0) return block;
    block = {.address = place(e.address), .bytes = e.bytes, .held = 1};
    const auto behind = live_.lower_bound(block.address);
    const bool meets_behind = behind != live_.end() && behind->first < block.address + static_cast<Address>(e.bytes);
    const bool meets_before = behind != live_.begin() && std::prev(behind)->second > block.address;
    if (meets_behind || meets_before) fail("two blocks of the session share bytes");
    live_[block.address] = block.address + static_cast<Address>(e.bytes);
    return block;
  }
  /// The session has one reference fewer. Whether that was the last: the bytes are the framework's.
  bool drop(std::int32_t number) {
    Block& block = blocks_[number];
    if (--block.held > 0) return false;
    live_.erase(block.address);
    std::erase_if(here_, [&](const auto& one) { return one.second == number; });
    return true;
  }

  // Kernels

  [[nodiscard]] std::uint64_t seed(Content content) const {
    const auto found = seeds_.find(content);
    return found == seeds_.end() ? 0 : found->second;
  }
  /// Something new, in all that the block holds.
  void write(std::int32_t block) {
    ++written_;
    bool holds_any = false;
    for (const auto& [content, number] : here_) {
      if (number != block) continue;
      seeds_[content] = written_ << 32;
      holds_any = true;
    }
    if (holds_any) write_as(blocks_[block], written_ << 32);
  }
  void write_as(const Block& block, std::uint64_t seed) {
    submit({{.address = block.address, .bytes = block.bytes, .kind = AccessKind::write, .seed = seed}});
  }
  /// A tensor of the framework's own, there for a moment.
  void reuse(const Block& block) {
    if (options_.reuses_at_once) write_as(block, ~static_cast<std::uint64_t>(launches_));
  }
  void launch(const std::vector<Read>& reads) {
    std::vector<Touch> touches;
    for (const Read& read : reads)
      touches.push_back({.address = read.address, .bytes = read.bytes, .kind = AccessKind::read, .seed = read.seed});
    submit(touches);
  }
  void submit(const std::vector<Touch>& touches) {
    constexpr std::int64_t kShort = 5'000;  // copies take as long
    ++launches_;
    EXPECT_EQ(
        device_.launch(*compute_, {.id = line(), .estimate_ns = kShort, .touches = touches, .verify = options_.verify}),
        DeviceCode::ok);
  }

  const plan::RankPlan& plan_;
  const swap::SessionLog& log_;
  Device& device_;
  const Options options_;
  swap::FrameworkStream compute_;
  Address base_ = 0;
  Bytes bytes_ = 0;
  std::map<Address, Bytes> places_;  ///< beginnings of ranges of the log, and their offsets here
  std::unique_ptr<swap::Session> session_;
  std::size_t next_ = 0;
  std::int64_t step_ = 0, launches_ = 0;
  std::map<std::int32_t, Block> blocks_;
  std::map<Address, Address> live_;       ///< beginnings and ends of what the session has
  std::map<Content, std::int32_t> here_;  ///< blocks that hold what a kernel made, in order for the next
  std::map<Content, std::uint64_t> seeds_;
  std::uint64_t written_ = 0;
  std::map<std::int32_t, Saved> saved_;
  std::vector<Read> late_reads_;
  std::vector<Block> late_frees_;
  OpId late_for_ = kNone<OpId>;
  std::vector<Event> replayed_;
  std::string fault_;
};

}  // namespace tidemark::testing

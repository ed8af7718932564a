#pragma once
// The log of a session: what a framework told it, and what it had the framework do for that, in order. Replayed on
// another device it shows whether the session's own events and waits suffice there
// (tests/support/session_replay.h).

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/ids.h"
#include "device/device.h"
#include "swap/followed_program.h"

namespace tidemark::swap {

/// One line of a log. Numbers that a kind has no use for keep their defaults.
struct SessionEvent {
  enum class Kind : std::uint8_t {
    // Calls of the framework, as they begin. What they lead to stands behind.
    begin_step,
    op,
    take,
    adopt,
    keep,
    save,
    use,
    free,
    change,
    make_room,
    end_step,
    close,
    // How a call ended, where that is not clear.
    used,
    failed,  ///< also of rebuild
    // Work of the framework for the session.
    rebuild,  ///< begins; its sources, what was made, or that it failed, stand behind
    source,
    made,
    room,  ///< a block to copy in to, as answered
    release,
    // Copies of the session, as submitted; a storage may go in pieces.
    copy_out,
    copy_in,
  };
  enum class Note : std::uint8_t {
    none,
    again,        ///< use: it may be asked for once more
    planned,      ///< change
    last,         ///< rebuild
    handed_over,  ///< used
  };
  static constexpr std::int32_t kNoNumber = -1;

  Kind kind = Kind::op;
  std::int64_t step = 0;  ///< rebuild: of the session's, counted from 1
  OpId op = kNone<OpId>;
  OpId until = kNone<OpId>;  ///< save
  StorageId storage = kNone<StorageId>;
  std::int32_t saved = kNoNumber;   ///< counted from 0 by save
  std::int32_t block = kNoNumber;   ///< counted from 0 as they come; one handle has one number while the session has it
  Address address = 0;              ///< of the block, or of the device's side of a copy
  Bytes bytes = 0;                  ///< of content, or of a copy
  std::int32_t stream = kNoNumber;  ///< counted from 0 as they come; kNoNumber: the calling thread, or none was named
  Note note = Note::none;

  friend bool operator==(const SessionEvent&, const SessionEvent&) = default;
};

using SessionSink = std::function<void(const SessionEvent&)>;

struct SessionLog {
  Bytes host_bytes = 0;  ///< these two as given to the session
  FollowedLoop loop;
  std::vector<SessionEvent> events;
};

}  // namespace tidemark::swap

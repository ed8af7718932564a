// Blocks that go back to an allocator while somebody still uses them: what went wrong in shipped allocators and in
// programs that forgot to tell them. Reuse "in order of the allocating stream" is written as that stream's next kernel
// taking the same bytes.

#include <array>

#include "tests/regression/protocol.h"

namespace tidemark {
namespace {

constexpr int kRounds = 4;

// diffusers#14657, torchrec#4231: a block of the compute stream is read by a communication stream, freed without
// record_stream, and taken again on the compute stream at once.
void reuse_after_side_use(Stage& s, bool recorded) {
  for (int round = 0; round < kRounds; ++round) {
    const auto seed = static_cast<std::uint64_t>(20 + round);
    s.write(s.compute(), s.block(0), seed);
    s.order(s.compute(), s.comm());
    s.read(s.comm(), s.block(0), seed);
    if (recorded) s.order(s.comm(), s.compute());
  }
  s.finish();
}
void record_stream_missing_broken(Stage& s) {
  reuse_after_side_use(s, false);
}
void record_stream_missing_right(Stage& s) {
  reuse_after_side_use(s, true);
}

// record_stream called for the stream that is current where the free is written, not for the one that uses the block.
void record_use_of(Stage& s, StreamHandle recorded) {
  for (int round = 0; round < kRounds; ++round) {
    const auto seed = static_cast<std::uint64_t>(40 + round);
    s.write(s.compute(), s.block(1), seed);
    s.order(s.compute(), s.side());
    s.order(s.compute(), s.comm());
    s.read(s.side(), s.block(1), seed);
    s.order(recorded, s.compute());
  }
  s.finish();
}
void record_stream_of_the_wrong_stream_broken(Stage& s) {
  record_use_of(s, s.comm());
}
void record_stream_of_the_wrong_stream_right(Stage& s) {
  record_use_of(s, s.side());
}

// The event that guards a freed block is recorded before its last use is submitted.
void guard_block(Stage& s, bool after_last_use) {
  for (int round = 0; round < kRounds; ++round) {
    const auto seed = static_cast<std::uint64_t>(60 + round);
    s.write(s.compute(), s.block(2), seed);
    s.order(s.compute(), s.comm());
    const EventHandle early = s.mark(s.comm());
    s.read(s.comm(), s.block(2), seed);
    const EventHandle late = s.mark(s.comm());
    s.wait(s.compute(), after_last_use ? late : early);
    EXPECT_EQ(s.device().destroy_event(early), DeviceCode::ok);
    EXPECT_EQ(s.device().destroy_event(late), DeviceCode::ok);
  }
  s.finish();
}
void event_before_last_use_broken(Stage& s) {
  guard_block(s, false);
}
void event_before_last_use_right(Stage& s) {
  guard_block(s, true);
}

// vllm-ascend#13894 and ACL in general: giving memory back is immediate, so a buffer of asynchronous work must outlive
// it. On CUDA the same program only stalls.
void free_in_flight(Stage& s, bool waits) {
  Address buffer = 0;
  EXPECT_EQ(s.device().allocate_plain(kBlock, buffer), DeviceCode::ok);
  s.write(s.compute(), buffer, 5);
  s.order(s.compute(), s.d2h());
  s.copy_out(s.host(0), buffer);
  if (waits) {
    const EventHandle done = s.mark(s.d2h());
    s.host_waits_for(done);
    EXPECT_EQ(s.device().destroy_event(done), DeviceCode::ok);
  }
  EXPECT_EQ(s.device().free_plain(buffer), DeviceCode::ok);
  s.finish();
}
void free_is_immediate_broken(Stage& s) {
  free_in_flight(s, false);
}
void free_is_immediate_right(Stage& s) {
  free_in_flight(s, true);
}

// The same on the host's side: pinned memory unpinned under a copy in.
void unpin_in_flight(Stage& s, bool waits) {
  Address pinned = 0;
  EXPECT_EQ(s.device().allocate_pinned(kBlock, pinned), DeviceCode::ok);
  s.write(s.compute(), s.block(3), 9);
  s.order(s.compute(), s.d2h());
  s.copy_out(pinned, s.block(3));
  s.order(s.d2h(), s.h2d());
  s.copy_in(s.block(4), pinned);
  if (waits) {
    EXPECT_EQ(s.device().synchronize_stream(s.h2d()), DeviceCode::ok);
  }
  EXPECT_EQ(s.device().free_pinned(pinned), DeviceCode::ok);
  s.finish();
}
void unpinned_under_a_copy_broken(Stage& s) {
  unpin_in_flight(s, false);
}
void unpinned_under_a_copy_right(Stage& s) {
  unpin_in_flight(s, true);
}

// The host reads a pinned buffer (to send or to check it) when the copy out is issued, not when it is done.
void host_reads(Stage& s, bool waits) {
  s.write(s.compute(), s.block(5), 11);
  s.order(s.compute(), s.d2h());
  s.copy_out(s.host(6), s.block(5));
  if (waits) {
    EXPECT_EQ(s.device().synchronize_stream(s.d2h()), DeviceCode::ok);
  }
  s.device().host_access(s.host(6), kBlock, AccessKind::read, "host read");
  s.finish();
}
void host_reads_too_early_broken(Stage& s) {
  host_reads(s, false);
}
void host_reads_too_early_right(Stage& s) {
  host_reads(s, true);
}

constexpr Protocol kProtocols[] = {
    {"RecordStreamMissing", "diffusers#14657, torchrec#4231", record_stream_missing_broken, record_stream_missing_right,
     "intra_comm", "compute", "compute must wait for an event recorded on intra_comm after launch"},
    {"RecordStreamOfTheWrongStream", "PyTorch record_stream misuse", record_stream_of_the_wrong_stream_broken,
     record_stream_of_the_wrong_stream_right, "compute#2", "compute",
     "compute must wait for an event recorded on compute#2 after launch"},
    {"EventRecordedBeforeTheLastUse", "the general case", event_before_last_use_broken, event_before_last_use_right,
     "intra_comm", "compute", "compute must wait for an event recorded on intra_comm after launch"},
    {"FreeIsImmediate", "vllm-ascend#13894, ACL free", free_is_immediate_broken, free_is_immediate_right, "d2h", "host",
     "host must", false},
    {"UnpinnedUnderACopy", "ACL freeHost", unpinned_under_a_copy_broken, unpinned_under_a_copy_right, "h2d", "host",
     "host must", false},
    {"HostReadsBeforeTheCopyOutIsDone", "the general case", host_reads_too_early_broken, host_reads_too_early_right,
     "d2h", "host", "host must", false},
};

}  // namespace

std::span<const Protocol> allocator_protocols() {
  return kProtocols;
}

}  // namespace tidemark

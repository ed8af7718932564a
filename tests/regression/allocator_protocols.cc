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
void reuse_after_side_use(Stage& s, bool right) {
  for (int round = 0; round < kRounds; ++round) {
    const auto seed = static_cast<std::uint64_t>(20 + round);
    s.write(s.compute(), s.block(0), seed);
    s.order(s.compute(), s.comm());
    s.read(s.comm(), s.block(0), seed);
    if (right) s.order(s.comm(), s.compute());
  }
  s.finish();
}

// record_stream called for the stream that is current where the free is written, not for the one that uses the block.
void record_use_of(Stage& s, bool right) {
  const StreamHandle recorded = right ? s.side() : s.comm();
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

// The event that guards a freed block is recorded before its last use is submitted.
void guard_block(Stage& s, bool right) {
  for (int round = 0; round < kRounds; ++round) {
    const auto seed = static_cast<std::uint64_t>(60 + round);
    s.write(s.compute(), s.block(2), seed);
    s.order(s.compute(), s.comm());
    const EventHandle early = s.mark(s.comm());
    s.read(s.comm(), s.block(2), seed);
    const EventHandle late = s.mark(s.comm());
    s.wait(s.compute(), right ? late : early);
    EXPECT_EQ(s.device().destroy_event(early), DeviceCode::ok);
    EXPECT_EQ(s.device().destroy_event(late), DeviceCode::ok);
  }
  s.finish();
}

// vllm-ascend#13894 and ACL in general: giving memory back is immediate, so a buffer of asynchronous work must outlive
// it. On CUDA the same program only stalls.
void free_in_flight(Stage& s, bool right) {
  Address buffer = 0;
  EXPECT_EQ(s.device().allocate_plain(kBlock, buffer), DeviceCode::ok);
  s.write(s.compute(), buffer, 5);
  s.order(s.compute(), s.d2h());
  s.copy_out(s.host(0), buffer);
  if (right) {
    const EventHandle done = s.mark(s.d2h());
    s.host_waits_for(done);
    EXPECT_EQ(s.device().destroy_event(done), DeviceCode::ok);
  }
  EXPECT_EQ(s.device().free_plain(buffer), DeviceCode::ok);
  s.finish();
}

// The same on the host's side: pinned memory unpinned under a copy in.
void unpin_in_flight(Stage& s, bool right) {
  Address pinned = 0;
  EXPECT_EQ(s.device().allocate_pinned(kBlock, pinned), DeviceCode::ok);
  s.write(s.compute(), s.block(3), 9);
  s.order(s.compute(), s.d2h());
  s.copy_out(pinned, s.block(3));
  s.order(s.d2h(), s.h2d());
  s.copy_in(s.block(4), pinned);
  if (right) {
    EXPECT_EQ(s.device().synchronize_stream(s.h2d()), DeviceCode::ok);
  }
  EXPECT_EQ(s.device().free_pinned(pinned), DeviceCode::ok);
  s.finish();
}

// The host reads a pinned buffer (to send or to check it) when the copy out is issued, not when it is done.
void host_reads(Stage& s, bool right) {
  s.write(s.compute(), s.block(5), 11);
  s.order(s.compute(), s.d2h());
  s.copy_out(s.host(6), s.block(5));
  if (right) {
    EXPECT_EQ(s.device().synchronize_stream(s.d2h()), DeviceCode::ok);
  }
  s.device().host_access(s.host(6), kBlock, AccessKind::read, "host read");
  s.finish();
}

constexpr Protocol kProtocols[] = {
    {"RecordStreamMissing", "diffusers#14657, torchrec#4231", reuse_after_side_use, "intra_comm", "compute",
     "compute must wait for an event recorded on intra_comm after launch"},
    {"RecordStreamOfTheWrongStream", "PyTorch record_stream misuse", record_use_of, "compute#2", "compute",
     "compute must wait for an event recorded on compute#2 after launch"},
    {"EventRecordedBeforeTheLastUse", "the general case", guard_block, "intra_comm", "compute",
     "compute must wait for an event recorded on intra_comm after launch"},
    {"FreeIsImmediate", "vllm-ascend#13894, ACL free", free_in_flight, "d2h", "host", "host must", false},
    {"UnpinnedUnderACopy", "ACL freeHost", unpin_in_flight, "h2d", "host", "host must", false},
    {"HostReadsBeforeTheCopyOutIsDone", "the general case", host_reads, "d2h", "host", "host must", false},
};

}  // namespace

std::span<const Protocol> allocator_protocols() {
  return kProtocols;
}

}  // namespace tidemark

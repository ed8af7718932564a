#include "tests/regression/protocol.h"

namespace tidemark {
namespace {

constexpr std::int64_t kKernelNs = 40'000;  // about as long as a copy of a block
constexpr int kBlocks = 16;

}  // namespace

Stage::Stage(std::uint64_t seed) : rig_({}, {.seed = seed, .stall_ns = 500'000}) {
  side_ = rig_.stream(StreamRole::compute);
  comm_ = rig_.stream(StreamRole::intra_comm);
  arena_ = rig_.mapped(kBlocks * kBlock);
  pinned_ = rig_.pinned(kBlocks * kBlock);
}

void Stage::write(StreamHandle on, Address at, std::uint64_t seed, Bytes bytes) {
  rig_.work(on, next_id_++, kKernelNs, {writes(at, bytes, seed)}, true);
}

void Stage::read(StreamHandle on, Address at, std::uint64_t seed, Bytes bytes) {
  rig_.work(on, next_id_++, kKernelNs, {reads(at, bytes, seed)}, true);
}

void Stage::clone(StreamHandle on, Address from, Address to, std::uint64_t seed) {
  rig_.work(on, next_id_++, kKernelNs, {reads(from, kBlock, seed), writes(to, kBlock, seed)}, true);
}

void Stage::copy_out(Address host, Address from, Bytes bytes) {
  rig_.copy_out(rig_.d2h, host, from, bytes, next_id_++);
}

void Stage::copy_in(Address to, Address host, Bytes bytes) {
  rig_.copy_in(rig_.h2d, to, host, bytes, next_id_++);
}

EventHandle Stage::mark(StreamHandle on) {
  return rig_.mark(on);
}

}  // namespace tidemark

// Activations that leave for the host and come back: what went wrong in shipped offload runtimes.

#include <array>

#include "tests/regression/protocol.h"

namespace tidemark {
namespace {

constexpr int kLayers = 4;

std::uint64_t seed_of(int layer) {
  return 100 + static_cast<std::uint64_t>(layer);
}

// Backward: every layer comes back into a block of its own and is used.
void reload_all(Stage& s, int first_block) {
  for (int layer = kLayers - 1; layer >= 0; --layer) {
    s.copy_in(s.block(first_block + layer), s.host(layer));
    s.order(s.h2d(), s.compute());
    s.read(s.compute(), s.block(first_block + layer), seed_of(layer));
  }
  s.finish();
}

// torchtune#1867: the last reference goes when the copy is issued, so the next layer takes the bytes while they are
// still being copied out.
void drop_before_copy_out(Stage& s, bool right) {
  for (int layer = 0; layer < kLayers; ++layer) {
    s.write(s.compute(), s.block(0), seed_of(layer));
    s.order(s.compute(), s.d2h());
    s.copy_out(s.host(layer), s.block(0));
    if (right) s.order(s.d2h(), s.compute());
  }
  s.finish();
  reload_all(s, 4);
}

// TRL#7195, first race: the offloader remembered a compute stream when it was made; the model runs on another.
void offload_after(Stage& s, bool right) {
  const StreamHandle waited_for = right ? s.side() : s.compute();
  for (int layer = 0; layer < kLayers; ++layer) {
    s.write(s.side(), s.block(layer), seed_of(layer));
    s.order(waited_for, s.d2h());
    s.copy_out(s.host(layer), s.block(layer));
  }
  s.finish();
  reload_all(s, 4);
}

// TRL#7195, second race: a view is cloned for the copy, after the copy stream was told to wait.
void clone_for_the_copy(Stage& s, bool right) {
  for (int layer = 0; layer < kLayers; ++layer) {
    s.write(s.compute(), s.block(layer), seed_of(layer));
    if (!right) s.order(s.compute(), s.d2h());
    s.clone(s.compute(), s.block(layer), s.block(8 + layer), seed_of(layer));
    if (right) s.order(s.compute(), s.d2h());
    s.copy_out(s.host(layer), s.block(8 + layer));
  }
  s.finish();
  reload_all(s, 4);
}

// Megatron#7398: in warm-up a layer is reloaded right after it was offloaded, on the other stream.
void reload_after_own_copy_out(Stage& s, bool right) {
  for (int layer = 0; layer < kLayers; ++layer) {
    s.write(s.compute(), s.block(layer), seed_of(layer));
    s.order(s.compute(), s.d2h());
    s.copy_out(s.host(layer), s.block(layer));
    if (right) s.order(s.d2h(), s.h2d());
    s.copy_in(s.block(8 + layer), s.host(layer));
    s.order(s.h2d(), s.compute());
    s.read(s.compute(), s.block(8 + layer), seed_of(layer));
  }
  s.finish();
}

// Megatron, fine-grained offload: the pinned buffer goes back to its pool when the copy in is issued; the next copy out
// takes it while it is still being read.
void recycle_pinned_after_copy_in(Stage& s, bool right) {
  s.write(s.compute(), s.block(0), seed_of(0));
  s.order(s.compute(), s.d2h());
  s.copy_out(s.host(0), s.block(0));
  for (int layer = 1; layer < kLayers; ++layer) {
    s.order(s.d2h(), s.h2d());
    s.copy_in(s.block(8 + layer), s.host(0));
    s.write(s.compute(), s.block(layer), seed_of(layer));
    s.order(s.compute(), s.d2h());
    if (right) s.order(s.h2d(), s.d2h());
    s.copy_out(s.host(0), s.block(layer));
    s.order(s.h2d(), s.compute());
    s.read(s.compute(), s.block(8 + layer), seed_of(layer - 1));
  }
  s.finish();
}

// All layers on the host, for the protocols about coming back.
void offload_all(Stage& s) {
  for (int layer = 0; layer < kLayers; ++layer) {
    s.write(s.compute(), s.block(layer), seed_of(layer));
    s.order(s.compute(), s.d2h());
    s.copy_out(s.host(layer), s.block(layer));
  }
  s.finish();
}

// TransformerEngine#2341, PR#1695: two reload buffers in turn; the third reload overwrites the first while in use.
void double_buffer(Stage& s, bool right) {
  offload_all(s);
  for (int layer = 0; layer < kLayers; ++layer) {
    const Address buffer = s.block(8 + layer % 2);
    if (right) s.order(s.compute(), s.h2d());
    s.copy_in(buffer, s.host(layer));
    s.order(s.h2d(), s.compute());
    s.read(s.compute(), buffer, seed_of(layer));
  }
  s.finish();
}

// TransformerEngine#1959: the group index is off by one, so the bytes are given up on the event of the group before.
void group_events(Stage& s, bool right) {
  const std::size_t off_by = right ? 0 : 1;
  std::array<EventHandle, kLayers + 1> offloaded{};
  offloaded[0] = s.mark(s.d2h());
  for (int layer = 0; layer < kLayers; ++layer) {
    const auto group = static_cast<std::size_t>(layer + 1);
    s.write(s.compute(), s.block(0), seed_of(layer));
    s.order(s.compute(), s.d2h());
    s.copy_out(s.host(layer), s.block(0));
    offloaded[group] = s.mark(s.d2h());
    s.wait(s.compute(), offloaded[group - off_by]);
  }
  s.finish();
  reload_all(s, 4);
}

// NeMo#14670: the two buffers are as large as the first layer; a larger one runs over into the buffer in use.
void unequal_shapes(Stage& s, bool right) {
  offload_all(s);
  std::array<EventHandle, 2> used{};
  const Bytes buffer_bytes = right ? kBlock : kBlock / 2;  // of the largest layer, or of the first
  for (int layer = 0; layer < kLayers; ++layer) {
    const auto parity = static_cast<std::size_t>(layer % 2);
    const Bytes bytes = layer == 2 ? kBlock : kBlock / 2;
    const Address buffer = s.block(8) + parity * static_cast<Address>(buffer_bytes);
    if (layer >= 2) s.wait(s.h2d(), used[parity]);
    s.copy_in(buffer, s.host(layer), bytes);
    s.order(s.h2d(), s.compute());
    s.read(s.compute(), buffer, seed_of(layer), bytes);
    used[parity] = s.mark(s.compute());
  }
  s.finish();
}

// vLLM#45704, #46278: blocks are stored to the host without waiting for the step that fills them.
void store(Stage& s, bool right) {
  for (int layer = 0; layer < kLayers; ++layer) {
    s.write(s.compute(), s.block(layer), seed_of(layer));
    if (right) s.order(s.compute(), s.d2h());
    s.copy_out(s.host(layer), s.block(layer));
  }
  s.finish();
  reload_all(s, 4);
}

// vLLM#47282: blocks are loaded while the step before still reads what they held.
void load_over(Stage& s, bool right) {
  offload_all(s);
  for (int layer = 0; layer < kLayers; ++layer) {
    s.read(s.compute(), s.block(layer), seed_of(layer));
    if (right) s.order(s.compute(), s.h2d());
    s.copy_in(s.block(layer), s.host((layer + 1) % kLayers));
  }
  s.finish();
}

// torchtitan#2581: the current stream is asked for inside the context that made the copy stream current, so the copy
// stream waits for itself.
void ask_for_the_current_stream(Stage& s, bool right) {
  for (int layer = 0; layer < kLayers; ++layer) {
    s.write(s.compute(), s.block(layer), seed_of(layer));
    const StreamHandle current = right ? s.compute() : s.d2h();  // before entering the context, or inside it
    s.order(current, s.d2h());
    s.copy_out(s.host(layer), s.block(layer));
  }
  s.finish();
  reload_all(s, 4);
}

// The plainest one: a prefetched tensor is used before its copy in has ended.
void use_prefetched(Stage& s, bool right) {
  offload_all(s);
  for (int layer = kLayers - 1; layer >= 0; --layer) {
    s.copy_in(s.block(8 + layer), s.host(layer));
    if (right) s.order(s.h2d(), s.compute());
    s.read(s.compute(), s.block(8 + layer), seed_of(layer));
  }
  s.finish();
}

// The reload buffer is allocated on the compute stream, where its bytes were just freed, and filled on another.
void reload_into_fresh_block(Stage& s, bool right) {
  offload_all(s);
  for (int layer = kLayers - 1; layer >= 0; --layer) {
    s.write(s.compute(), s.block(8), 7);  // a temporary, freed when its kernel is issued
    s.read(s.compute(), s.block(8), 7);
    if (right) s.order(s.compute(), s.h2d());
    s.copy_in(s.block(8), s.host(layer));
    s.order(s.h2d(), s.compute());
    s.read(s.compute(), s.block(8), seed_of(layer));
  }
  s.finish();
}

// DeepSpeed#8186, first race: optimizer states leave for the host on a stream that does not wait for the optimizer.
void offload_states_after_the_optimizer(Stage& s, bool right) {
  for (int part = 0; part < kLayers; ++part) s.write(s.compute(), s.block(part), 50);
  if (!right) s.order(s.compute(), s.d2h());  // behind backward, in front of the optimizer
  for (int part = 0; part < kLayers; ++part) s.write(s.compute(), s.block(part), seed_of(part));
  if (right) s.order(s.compute(), s.d2h());
  for (int part = 0; part < kLayers; ++part) s.copy_out(s.host(part), s.block(part));
  s.finish();
  reload_all(s, 4);
}

// DeepSpeed#8186, second race: a reload buffer of the compute stream's pool is dropped while the copy stream still
// fills it (no record_stream), and the next kernel's temporary takes its bytes.
void drop_a_reload_buffer(Stage& s, bool right) {
  offload_all(s);
  for (int part = 0; part < kLayers; ++part) {
    s.order(s.compute(), s.h2d());
    s.copy_in(s.block(8), s.host(part));
    if (right) s.order(s.h2d(), s.compute());  // what record_stream has the allocator wait for
    s.write(s.compute(), s.block(8), 30);
    s.read(s.compute(), s.block(8), 30);
  }
  s.finish();
}

// DeepSpeed#8186, third race: states are reloaded in the middle of backward, into bytes that the host has freed but
// whose last reader, a backward kernel, has not run yet.
void reload_during_backward(Stage& s, bool right) {
  offload_all(s);
  for (int layer = 0; layer < kLayers; ++layer) s.write(s.compute(), s.block(8 + layer), 40);
  s.order(s.compute(), s.h2d());  // at the end of forward
  for (int layer = kLayers - 1; layer >= 0; --layer) {
    s.read(s.compute(), s.block(8 + layer), 40);
    if (right) s.order(s.compute(), s.h2d());
    s.copy_in(s.block(8 + layer), s.host(layer));
  }
  s.order(s.h2d(), s.compute());
  for (int layer = 0; layer < kLayers; ++layer) s.read(s.compute(), s.block(8 + layer), seed_of(layer));
  s.finish();
}

constexpr Protocol kProtocols[] = {
    {"ReferenceDroppedBeforeCopyOut", "torchtune#1867", drop_before_copy_out, "d2h", "compute",
     "compute must wait for an event recorded on d2h after copy"},
    {"StaleComputeStream", "TRL#7195", offload_after, "compute#2", "d2h",
     "d2h must wait for an event recorded on compute#2 after launch"},
    {"CloneIssuedAfterTheWait", "TRL#7195", clone_for_the_copy, "compute", "d2h",
     "d2h must wait for an event recorded on compute after launch"},
    {"ReloadRacesItsOwnCopyOut", "Megatron#7398", reload_after_own_copy_out, "d2h", "h2d",
     "h2d must wait for an event recorded on d2h after copy"},
    {"PinnedBufferFreedAfterAsyncCopyIn", "Megatron offload pool", recycle_pinned_after_copy_in, "h2d", "d2h",
     "d2h must wait for an event recorded on h2d after copy"},
    {"DoubleBufferOverwritten", "TransformerEngine#2341, PR#1695", double_buffer, "compute", "h2d",
     "h2d must wait for an event recorded on compute after launch"},
    {"GroupIndexOffByOne", "TransformerEngine#1959", group_events, "d2h", "compute",
     "compute must wait for an event recorded on d2h after copy"},
    {"DoubleBufferOfUnequalShapes", "NeMo#14670", unequal_shapes, "compute", "h2d",
     "h2d must wait for an event recorded on compute after launch"},
    {"StoreBeforeTheStepHasWritten", "vLLM#45704, #46278", store, "compute", "d2h",
     "d2h must wait for an event recorded on compute after launch"},
    {"LoadOverBlocksStillRead", "vLLM#47282", load_over, "compute", "h2d",
     "h2d must wait for an event recorded on compute after launch"},
    {"CurrentStreamReadInsideTheContext", "torchtitan#2581", ask_for_the_current_stream, "compute", "d2h",
     "d2h must wait for an event recorded on compute after launch"},
    {"UseBeforeCopyIn", "the general case", use_prefetched, "h2d", "compute",
     "compute must wait for an event recorded on h2d after copy"},
    {"ReloadBufferAllocatedOnAnotherStream", "TransformerEngine cpu_offload", reload_into_fresh_block, "compute", "h2d",
     "h2d must wait for an event recorded on compute after launch"},
    {"StatesCopiedOutBeforeTheOptimizerHasWritten", "DeepSpeed#8186", offload_states_after_the_optimizer, "compute",
     "d2h", "d2h must wait for an event recorded on compute after launch"},
    {"ReloadBufferReusedUnderItsCopyIn", "DeepSpeed#8186", drop_a_reload_buffer, "h2d", "compute",
     "compute must wait for an event recorded on h2d after copy"},
    {"ReloadOverALiveActivation", "DeepSpeed#8186", reload_during_backward, "compute", "h2d",
     "h2d must wait for an event recorded on compute after launch"},
};

}  // namespace

std::span<const Protocol> offload_protocols() {
  return kProtocols;
}

}  // namespace tidemark

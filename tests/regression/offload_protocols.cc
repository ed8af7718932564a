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
void drop_before_copy_out(Stage& s, bool waits) {
  for (int layer = 0; layer < kLayers; ++layer) {
    s.write(s.compute(), s.block(0), seed_of(layer));
    s.order(s.compute(), s.d2h());
    s.copy_out(s.host(layer), s.block(0));
    if (waits) s.order(s.d2h(), s.compute());
  }
  s.finish();
  reload_all(s, 4);
}
void torchtune_1867_broken(Stage& s) {
  drop_before_copy_out(s, false);
}
void torchtune_1867_right(Stage& s) {
  drop_before_copy_out(s, true);
}

// TRL#7195, first race: the offloader remembered a compute stream when it was made; the model runs on another.
void offload_after(Stage& s, StreamHandle waited_for) {
  for (int layer = 0; layer < kLayers; ++layer) {
    s.write(s.side(), s.block(layer), seed_of(layer));
    s.order(waited_for, s.d2h());
    s.copy_out(s.host(layer), s.block(layer));
  }
  s.finish();
  reload_all(s, 4);
}
void trl_7195_stale_stream_broken(Stage& s) {
  offload_after(s, s.compute());
}
void trl_7195_stale_stream_right(Stage& s) {
  offload_after(s, s.side());
}

// TRL#7195, second race: a view is cloned for the copy, after the copy stream was told to wait.
void trl_7195_clone_broken(Stage& s) {
  for (int layer = 0; layer < kLayers; ++layer) {
    s.write(s.compute(), s.block(layer), seed_of(layer));
    s.order(s.compute(), s.d2h());
    s.clone(s.compute(), s.block(layer), s.block(8 + layer), seed_of(layer));
    s.copy_out(s.host(layer), s.block(8 + layer));
  }
  s.finish();
  reload_all(s, 4);
}
void trl_7195_clone_right(Stage& s) {
  for (int layer = 0; layer < kLayers; ++layer) {
    s.write(s.compute(), s.block(layer), seed_of(layer));
    s.clone(s.compute(), s.block(layer), s.block(8 + layer), seed_of(layer));
    s.order(s.compute(), s.d2h());
    s.copy_out(s.host(layer), s.block(8 + layer));
  }
  s.finish();
  reload_all(s, 4);
}

// Megatron#7398: in warm-up a layer is reloaded right after it was offloaded, on the other stream.
void reload_after_own_copy_out(Stage& s, bool waits) {
  for (int layer = 0; layer < kLayers; ++layer) {
    s.write(s.compute(), s.block(layer), seed_of(layer));
    s.order(s.compute(), s.d2h());
    s.copy_out(s.host(layer), s.block(layer));
    if (waits) s.order(s.d2h(), s.h2d());
    s.copy_in(s.block(8 + layer), s.host(layer));
    s.order(s.h2d(), s.compute());
    s.read(s.compute(), s.block(8 + layer), seed_of(layer));
  }
  s.finish();
}
void megatron_7398_broken(Stage& s) {
  reload_after_own_copy_out(s, false);
}
void megatron_7398_right(Stage& s) {
  reload_after_own_copy_out(s, true);
}

// Megatron, fine-grained offload: the pinned buffer goes back to its pool when the copy in is issued; the next copy out
// takes it while it is still being read.
void recycle_pinned_after_copy_in(Stage& s, bool waits) {
  s.write(s.compute(), s.block(0), seed_of(0));
  s.order(s.compute(), s.d2h());
  s.copy_out(s.host(0), s.block(0));
  for (int layer = 1; layer < kLayers; ++layer) {
    s.order(s.d2h(), s.h2d());
    s.copy_in(s.block(8 + layer), s.host(0));
    s.write(s.compute(), s.block(layer), seed_of(layer));
    s.order(s.compute(), s.d2h());
    if (waits) s.order(s.h2d(), s.d2h());
    s.copy_out(s.host(0), s.block(layer));
    s.order(s.h2d(), s.compute());
    s.read(s.compute(), s.block(8 + layer), seed_of(layer - 1));
  }
  s.finish();
}
void megatron_pool_free_broken(Stage& s) {
  recycle_pinned_after_copy_in(s, false);
}
void megatron_pool_free_right(Stage& s) {
  recycle_pinned_after_copy_in(s, true);
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
void double_buffer(Stage& s, bool waits) {
  offload_all(s);
  for (int layer = 0; layer < kLayers; ++layer) {
    const Address buffer = s.block(8 + layer % 2);
    if (waits) s.order(s.compute(), s.h2d());
    s.copy_in(buffer, s.host(layer));
    s.order(s.h2d(), s.compute());
    s.read(s.compute(), buffer, seed_of(layer));
  }
  s.finish();
}
void te_double_buffer_broken(Stage& s) {
  double_buffer(s, false);
}
void te_double_buffer_right(Stage& s) {
  double_buffer(s, true);
}

// TransformerEngine#1959: the group index is off by one, so the bytes are given up on the event of the group before.
void group_events(Stage& s, int off_by) {
  std::array<EventHandle, kLayers + 1> offloaded{};
  offloaded[0] = s.mark(s.d2h());
  for (int layer = 0; layer < kLayers; ++layer) {
    const auto group = static_cast<std::size_t>(layer + 1);
    s.write(s.compute(), s.block(0), seed_of(layer));
    s.order(s.compute(), s.d2h());
    s.copy_out(s.host(layer), s.block(0));
    offloaded[group] = s.mark(s.d2h());
    s.wait(s.compute(), offloaded[group - static_cast<std::size_t>(off_by)]);
  }
  s.finish();
  reload_all(s, 4);
}
void te_1959_broken(Stage& s) {
  group_events(s, 1);
}
void te_1959_right(Stage& s) {
  group_events(s, 0);
}

// NeMo#14670: the two buffers are as large as the first layer; a larger one runs over into the buffer in use.
void unequal_shapes(Stage& s, Bytes buffer_bytes) {
  const auto bytes_of = [](int layer) { return layer % 2 == 0 ? kBlock : kBlock / 2; };
  offload_all(s);
  std::array<EventHandle, 2> used{};
  for (int layer = 0; layer < kLayers; ++layer) {
    const auto parity = static_cast<std::size_t>((layer + 1) % 2);  // a small layer is loaded beside a large one in use
    const Address buffer = s.block(8) + parity * static_cast<Address>(buffer_bytes);
    if (layer >= 2) s.wait(s.h2d(), used[parity]);
    s.copy_in(buffer, s.host(layer), bytes_of(layer));
    s.order(s.h2d(), s.compute());
    s.read(s.compute(), buffer, seed_of(layer), bytes_of(layer));
    used[parity] = s.mark(s.compute());
  }
  s.finish();
}
void nemo_14670_broken(Stage& s) {
  // The large layers sit in the upper buffer; let them run down instead: swap the roles of the two.
  offload_all(s);
  std::array<EventHandle, 2> used{};
  const Bytes buffer_bytes = kBlock / 2;  // of the first layer
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
void nemo_14670_right(Stage& s) {
  unequal_shapes(s, kBlock);
}

// vLLM#45704, #46278: blocks are stored to the host without waiting for the step that fills them.
void store(Stage& s, bool waits) {
  for (int layer = 0; layer < kLayers; ++layer) {
    s.write(s.compute(), s.block(layer), seed_of(layer));
    if (waits) s.order(s.compute(), s.d2h());
    s.copy_out(s.host(layer), s.block(layer));
  }
  s.finish();
  reload_all(s, 4);
}
void vllm_store_broken(Stage& s) {
  store(s, false);
}
void vllm_store_right(Stage& s) {
  store(s, true);
}

// vLLM#47282: blocks are loaded while the step before still reads what they held.
void load_over(Stage& s, bool waits) {
  offload_all(s);
  for (int layer = 0; layer < kLayers; ++layer) {
    s.read(s.compute(), s.block(layer), seed_of(layer));
    if (waits) s.order(s.compute(), s.h2d());
    s.copy_in(s.block(layer), s.host((layer + 1) % kLayers));
  }
  s.finish();
}
void vllm_47282_broken(Stage& s) {
  load_over(s, false);
}
void vllm_47282_right(Stage& s) {
  load_over(s, true);
}

// torchtitan#2581: the current stream is asked for inside the context that made the copy stream current, so the copy
// stream waits for itself.
void torchtitan_2581_broken(Stage& s) {
  for (int layer = 0; layer < kLayers; ++layer) {
    s.write(s.compute(), s.block(layer), seed_of(layer));
    const StreamHandle current = s.d2h();  // inside the context
    s.order(current, s.d2h());
    s.copy_out(s.host(layer), s.block(layer));
  }
  s.finish();
  reload_all(s, 4);
}
void torchtitan_2581_right(Stage& s) {
  for (int layer = 0; layer < kLayers; ++layer) {
    s.write(s.compute(), s.block(layer), seed_of(layer));
    const StreamHandle current = s.compute();  // before entering it
    s.order(current, s.d2h());
    s.copy_out(s.host(layer), s.block(layer));
  }
  s.finish();
  reload_all(s, 4);
}

// The plainest one: a prefetched tensor is used before its copy in has ended.
void use_prefetched(Stage& s, bool waits) {
  offload_all(s);
  for (int layer = kLayers - 1; layer >= 0; --layer) {
    s.copy_in(s.block(8 + layer), s.host(layer));
    if (waits) s.order(s.h2d(), s.compute());
    s.read(s.compute(), s.block(8 + layer), seed_of(layer));
  }
  s.finish();
}
void use_before_copy_in_broken(Stage& s) {
  use_prefetched(s, false);
}
void use_before_copy_in_right(Stage& s) {
  use_prefetched(s, true);
}

// The reload buffer is allocated on the compute stream, where its bytes were just freed, and filled on another.
void reload_into_fresh_block(Stage& s, bool waits) {
  offload_all(s);
  for (int layer = kLayers - 1; layer >= 0; --layer) {
    s.write(s.compute(), s.block(8), 7);  // a temporary, freed when its kernel is issued
    s.read(s.compute(), s.block(8), 7);
    if (waits) s.order(s.compute(), s.h2d());
    s.copy_in(s.block(8), s.host(layer));
    s.order(s.h2d(), s.compute());
    s.read(s.compute(), s.block(8), seed_of(layer));
  }
  s.finish();
}
void reload_allocated_elsewhere_broken(Stage& s) {
  reload_into_fresh_block(s, false);
}
void reload_allocated_elsewhere_right(Stage& s) {
  reload_into_fresh_block(s, true);
}

constexpr Protocol kProtocols[] = {
    {"ReferenceDroppedBeforeCopyOut", "torchtune#1867", torchtune_1867_broken, torchtune_1867_right, "d2h", "compute",
     "compute must wait for an event recorded on d2h after copy"},
    {"StaleComputeStream", "TRL#7195", trl_7195_stale_stream_broken, trl_7195_stale_stream_right, "compute#2", "d2h",
     "d2h must wait for an event recorded on compute#2 after launch"},
    {"CloneIssuedAfterTheWait", "TRL#7195", trl_7195_clone_broken, trl_7195_clone_right, "compute", "d2h",
     "d2h must wait for an event recorded on compute after launch"},
    {"ReloadRacesItsOwnCopyOut", "Megatron#7398", megatron_7398_broken, megatron_7398_right, "d2h", "h2d",
     "h2d must wait for an event recorded on d2h after copy"},
    {"PinnedBufferFreedAfterAsyncCopyIn", "Megatron offload pool", megatron_pool_free_broken, megatron_pool_free_right,
     "h2d", "d2h", "d2h must wait for an event recorded on h2d after copy"},
    {"DoubleBufferOverwritten", "TransformerEngine#2341, PR#1695", te_double_buffer_broken, te_double_buffer_right,
     "compute", "h2d", "h2d must wait for an event recorded on compute after launch"},
    {"GroupIndexOffByOne", "TransformerEngine#1959", te_1959_broken, te_1959_right, "d2h", "compute",
     "compute must wait for an event recorded on d2h after copy"},
    {"DoubleBufferOfUnequalShapes", "NeMo#14670", nemo_14670_broken, nemo_14670_right, "compute", "h2d",
     "h2d must wait for an event recorded on compute after launch"},
    {"StoreBeforeTheStepHasWritten", "vLLM#45704, #46278", vllm_store_broken, vllm_store_right, "compute", "d2h",
     "d2h must wait for an event recorded on compute after launch"},
    {"LoadOverBlocksStillRead", "vLLM#47282", vllm_47282_broken, vllm_47282_right, "compute", "h2d",
     "h2d must wait for an event recorded on compute after launch"},
    {"CurrentStreamReadInsideTheContext", "torchtitan#2581", torchtitan_2581_broken, torchtitan_2581_right, "compute",
     "d2h", "d2h must wait for an event recorded on compute after launch"},
    {"UseBeforeCopyIn", "the general case", use_before_copy_in_broken, use_before_copy_in_right, "h2d", "compute",
     "compute must wait for an event recorded on h2d after copy"},
    {"ReloadBufferAllocatedOnAnotherStream", "TransformerEngine cpu_offload", reload_allocated_elsewhere_broken,
     reload_allocated_elsewhere_right, "compute", "h2d", "h2d must wait for an event recorded on compute after launch"},
};

}  // namespace

std::span<const Protocol> offload_protocols() {
  return kProtocols;
}

}  // namespace tidemark

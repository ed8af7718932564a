#pragma once
// What one chunk of a rank runs for a micro-batch, in order, and how its pieces are connected.
//
//   embedding -> layer -> ... -> layer -> | MTP module -> ... and head, which both read the trunk's output |
//
// Each connection is one activation (owned by the block that reads it) and one gradient (owned by the block whose
// result it is the gradient of). Where a chunk meets another rank, a send buffer or a receive takes the place of a
// neighbour. A head in front of the last stage reads what is sent on, and adds to the gradient that comes back.

#include <array>
#include <cstdint>
#include <vector>

#include "core/graph.h"
#include "planner/graph_build/step_block.h"

namespace tidemark::graph_build {

struct Element {
  enum class Kind : std::uint8_t { embedding, layer, mtp, head };
  Kind kind = Kind::layer;
  std::int32_t layer = -1;  ///< model layer; layers + n for MTP module n; -1 for the ends
  const StepBlock* block = nullptr;
  StorageId parameters = kNone<StorageId>;            ///< first static storage of its parameter site
  StorageId embedding_parameters = kNone<StorageId>;  ///< of this rank
  StorageId head_parameters = kNone<StorageId>;       ///< of this rank
};

/// One op of a pass: op `op` of the program of element `element`, or the send that ends the pass (element -1).
struct PassStep {
  std::int32_t element = 0;
  std::int32_t op = 0;
};

struct ChunkLine {
  std::vector<Element> elements;
  std::int32_t trunk_end = 0;  ///< elements before this one form the trunk; MTP modules and head follow
  std::vector<PassStep> forward, backward;

  bool sends_head_input = false;  ///< the next stage gets what the head reads: no buffer of its own
  // Sites and storages of one micro-batch are contiguous: elements, then the send buffers.
  SiteId first_site = kNone<SiteId>;
  StorageId first_storage = kNone<StorageId>;
  std::int32_t sites_per_micro_batch = 0;
  std::int32_t storages_per_micro_batch = 0;
  std::vector<std::int32_t> storage_offset;  ///< per element
  std::int32_t activation_buffer = -1;       ///< offsets of the send buffers; -1: none
  std::int32_t gradient_buffer = -1;

  [[nodiscard]] bool sends_activation() const { return activation_buffer >= 0 || sends_head_input; }
  /// Where what is sent forward lies. REQUIRES: sends_activation().
  [[nodiscard]] StorageId sent_activation(std::int32_t micro_batch) const;
  /// Writes that make up the gradient of the trunk's output: by a first MTP module, by the head, by a receive.
  [[nodiscard]] std::int32_t trunk_gradient_writes() const;
  [[nodiscard]] StorageId storage(std::int32_t micro_batch, std::int32_t offset) const {
    return static_cast<StorageId>(static_cast<std::int32_t>(first_storage) + micro_batch * storages_per_micro_batch +
                                  offset);
  }
  [[nodiscard]] SiteId site(std::int32_t micro_batch, std::int32_t position) const {
    return static_cast<SiteId>(static_cast<std::int32_t>(first_site) + micro_batch * sites_per_micro_batch + position);
  }
};

/// Where the scopes of one element lead for one micro-batch.
struct Binding {
  std::array<std::int32_t, kScopeCount> base{};  ///< storage of local 0 per scope; -1: unused
  std::int32_t final_version = 1;                ///< of the output gradient
  SiteId site = kNone<SiteId>;
};

/// The chunks of one rank, connected.
class ChunkLines {
 public:
  /// `alone`: the pipeline has one rank, so chunks feed each other directly.
  ChunkLines(std::vector<ChunkLine> chunks, bool alone) : chunks_(std::move(chunks)), alone_(alone) {}

  [[nodiscard]] const ChunkLine& at(std::int32_t chunk) const { return chunks_[static_cast<std::size_t>(chunk)]; }
  [[nodiscard]] std::int32_t count() const { return static_cast<std::int32_t>(chunks_.size()); }

  /// Where the activation that enters a chunk is written, and the gradient of what leaves it.
  [[nodiscard]] StorageId entry_activation(std::int32_t chunk, std::int32_t micro_batch) const;
  [[nodiscard]] StorageId exit_gradient(std::int32_t chunk, std::int32_t micro_batch) const;
  /// Writes that make up the gradient of what enters a chunk.
  [[nodiscard]] std::int32_t gradient_writes(std::int32_t chunk) const;

  /// One binding per element. Reuses the vector's memory.
  void bind(std::int32_t chunk, std::int32_t micro_batch, std::vector<Binding>& bindings) const;

 private:
  [[nodiscard]] std::int32_t exit_activation(std::int32_t chunk, std::int32_t micro_batch) const;
  [[nodiscard]] std::int32_t entry_gradient(std::int32_t chunk, std::int32_t micro_batch) const;
  void bind_trunk(std::int32_t chunk, std::int32_t micro_batch, std::vector<Binding>& bindings) const;
  void bind_tail(std::int32_t chunk, std::int32_t micro_batch, std::vector<Binding>& bindings) const;

  std::vector<ChunkLine> chunks_;
  bool alone_;
};

}  // namespace tidemark::graph_build

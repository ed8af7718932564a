#pragma once
// One rank's training step: ops in program order over lanes, and the storages they touch. Says nothing of addresses or
// times.
//
// Repeats fold by id. A *block* is a template (an MoE layer, the head, the parameters): its storage templates, op
// templates and recipes are stored once. A *site* is one instance of a block: (chunk, layer, micro-batch). The storages
// of a site are contiguous: the storage of site s with local number k is `first_storage(s) + k`, and k is the position
// of its template within the block. An imported graph is one block with one site.
//
// Invariant: all sites of one block run their ops in the same relative order, forward and backward (a schedule may
// interleave sites, never reorder one), so a decision can be evaluated once for a (block, chunk, layer) class.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/chip.h"
#include "core/ids.h"
#include "core/site_load.h"

namespace tidemark {

/// Work of one lane runs in FIFO order; lanes run beside each other and are ordered only by data. Messages between
/// pipeline ranks have a lane each way: a receive that stood in line behind sends could make two ranks wait for each
/// other.
enum class Lane : std::uint8_t { compute, intra_comm, inter_comm, send, receive, d2h, h2d };
inline constexpr std::size_t kLaneCount = 7;

enum class StorageRole : std::uint8_t { parameter, gradient, optimizer_state, activation, temporary, communication };
inline constexpr std::size_t kStorageRoleCount = 6;

enum class OpPhase : std::uint8_t {
  forward,
  backward,         ///< gradient of inputs (dX), or of both where they are not split
  weight_gradient,  ///< dW alone
  receive,          ///< an activation or gradient arrives from another pipeline rank; costs no lane time itself
  send,
  gradient_reduction,
  optimizer,
};

enum class WorkKind : std::uint8_t { none, matmul, grouped_matmul, attention, vector, transfer, given };

/// `count` products [rows, inner] x [inner, columns]. Tokens or their copies are the rows, so that the expert load and
/// the share of a chunk scale them; of the gradient of a weight they are the inner dimension.
struct ProductShape {
  double rows = 0, inner = 0, columns = 0;
  double count = 1;
  Precision precision = Precision::bf16;
  bool has_inner_tokens = false;
};

/// Fused attention of one device and micro-batch, causal.
struct AttentionShape {
  double tokens = 0;  ///< of queries
  double length = 0;  ///< keys a query could attend to
  double heads = 0, qk_dim = 0, v_dim = 0;
  bool is_backward = false;
};

/// Ranks that a transfer runs over, and how.
struct GroupShape {
  enum class Pattern : std::uint8_t { send, ring, exchange };
  std::int64_t ranks = 2;
  std::int64_t per_node = 1;  ///< of them in one node
  Pattern pattern = Pattern::send;
};

/// What an op costs, before any machine is known: work and its shape, or a given number. planner/cost makes times of
/// it.
struct OpCost {
  WorkKind kind = WorkKind::none;
  double flops = 0;          ///< floating-point operations
  double memory_bytes = 0;   ///< device memory read and written; of products and attention, beside their operands
  double link_bytes = 0;     ///< bytes this device sends over the lane's link
  double given = 0;          ///< kind == given: a whole number of quanta of Graph::given_costs
  double launches = 0;       ///< kernels that the framework's host issues for it
  ProductShape product;      ///< matmul, grouped_matmul
  AttentionShape attention;  ///< attention
  GroupShape group;          ///< transfer
};

/// What given costs count. One quantum is played as one nanosecond, whatever its unit.
struct GivenCosts {
  enum class Unit : std::uint8_t { ns, joule, one };
  Unit unit = Unit::ns;
  double quantum = 1;  ///< of these units; > 0
  [[nodiscard]] double to_units(std::int64_t quanta) const { return static_cast<double>(quanta) * quantum; }
  friend bool operator==(const GivenCosts&, const GivenCosts&) = default;
};

/// What copying a storage to host memory and back costs, in quanta of Graph::given_costs, where the source of the graph
/// says so. Otherwise the machine's links and rates do (planner/cost/copy_cost.h).
struct GivenCopies {
  struct OneWay {
    std::int64_t link = 0;     ///< occupation of the copy lane
    std::int64_t compute = 0;  ///< taken from the compute lane
    friend bool operator==(const OneWay&, const OneWay&) = default;
  };
  OneWay out, in;
  friend bool operator==(const GivenCopies&, const GivenCopies&) = default;
};

struct OpTemplate {
  std::string name;  ///< e.g. "attention.q_up_projection"
  Lane lane = Lane::compute;
  OpPhase phase = OpPhase::forward;
  OpCost cost;          ///< at expert load 1
  bool routed = false;  ///< cost grows in proportion to the expert load f of its site
  bool collective = false;
  bool ends_rows = false;  ///< sums rows up for their tokens: where a layer can run in chunks
  /// A framework that follows the plan tells of the op before it issues it. Ops run again right before such ones only.
  bool told = true;
};

/// A tensor is a view of a storage; the storage is what lives (invariant 2).
struct TensorView {
  std::string name;
  Bytes offset_bytes = 0;
  std::vector<std::int64_t> shape;
  int element_bytes = 0;
};

struct StorageTemplate {
  std::string name;         ///< e.g. "fc1_in"
  std::string module_path;  ///< e.g. "mlp.experts"
  StorageRole role = StorageRole::activation;
  Bytes fixed_bytes = 0;         ///< size that does not depend on expert load
  std::int64_t routed_rows = 0;  ///< rows at load 1 (0: not routed); rows at load f = ceil(f * routed_rows)
  Bytes routed_row_bytes = 0;
  RowsOf rows_of = RowsOf::received;  ///< f is the site's load of these rows
  bool saved_for_backward = false;
  bool swappable = true;
  bool initial = false;  ///< holds version 0 before the step
  bool lasting = false;  ///< its last version is in memory when the step is over
  std::optional<GivenCopies> given_copies;
  std::vector<TensorView> tensors;

  /// Parameters, gradients and optimizer state: content that one step hands on to the next.
  [[nodiscard]] bool persists() const { return initial && lasting; }
};

/// Bytes of a storage at a load: fixed_bytes + ceil(f * routed_rows) * routed_row_bytes, with f = load.of(rows_of).
[[nodiscard]] Bytes storage_bytes(const StorageTemplate& storage, const SiteLoad& load);

enum class AccessKind : std::uint8_t { read, write };

/// A read names the version it needs; every write makes a new version (in place: write of version n+1 after reads of
/// n).
struct Access {
  StorageId storage = kNone<StorageId>;
  std::int32_t version = 0;
  AccessKind kind = AccessKind::read;
};

/// How a set of storages of one block is rebuilt together by running ops of the block again. All ids are positions
/// local to the block, so a recipe serves every site.
struct Recipe {
  std::string name;                      ///< e.g. "kv_up_projection"
  std::vector<std::int32_t> outputs;     ///< local storages restored (all come back together)
  std::vector<std::int32_t> sources;     ///< local storages that must be resident while it runs
  std::vector<std::int32_t> transients;  ///< local storages that live only while it runs
  struct Step {
    OpTemplateId op = kNone<OpTemplateId>;
    std::vector<std::int32_t> reads, writes;  ///< local storages; decides the life of transients and the waits
  };
  std::vector<Step> steps;
  bool pure = true;                 ///< same inputs give the same bits; false: never chosen
  bool needs_random_state = false;  ///< needs the saved random state restored
  bool replays_routing = false;     ///< reads recorded routing instead of deciding it again
  bool collective = false;          ///< contains communication: every rank of the group must run it too
};

struct Block {
  std::string name;
  StorageTemplateId first_storage_template = kNone<StorageTemplateId>;
  std::int32_t storage_count = 0;
  RecipeId first_recipe = kNone<RecipeId>;
  std::int32_t recipe_count = 0;
  OpTemplateId first_op_template = kNone<OpTemplateId>;  ///< of those that only its sites run
  std::int32_t op_template_count = 0;
};

struct Site {
  BlockId block = kNone<BlockId>;
  std::int32_t chunk = 0;         ///< virtual stage on this rank
  std::int32_t layer = -1;        ///< model layer, -1 outside layers
  std::int32_t micro_batch = -1;  ///< -1 for what is not per micro-batch
  float load = 1.0F;              ///< expert load f planned for this site
  float sent_load = 1.0F;         ///< SiteLoad::sent planned for it
  float fullest_load = 1.0F;      ///< load of the fullest device of the expert group, which ops take the time of
  StorageId first_storage = kNone<StorageId>;
  [[nodiscard]] SiteLoad loads() const { return {static_cast<double>(load), static_cast<double>(sent_load)}; }
  friend bool operator==(const Site&, const Site&) = default;
};

struct Storage {
  StorageTemplateId storage_template = kNone<StorageTemplateId>;
  SiteId site = kNone<SiteId>;
  Bytes expected_bytes = 0;  ///< at load 1
  Bytes bytes = 0;           ///< planned bound, at the site's load: what every later stage uses
  /// A framework holds the bytes until that op has run, whoever reads them: no gap begins before (kNone: no hold).
  OpId held_until = kNone<OpId>;
};

struct Op {
  OpTemplateId op_template = kNone<OpTemplateId>;
  SiteId site = kNone<SiteId>;
  std::int32_t first_access = 0;  ///< accesses are [first_access, next op's first_access)
};

/// Pairs a send on one rank with a receive on another: equal tags match.
struct Message {
  OpId op = kNone<OpId>;
  std::int32_t peer_rank = 0;
  std::int64_t tag = 0;
  bool is_send = false;
  Bytes bytes = 0;
};

struct Graph {
  std::int32_t rank = 0;  ///< pipeline rank
  GivenCosts given_costs;

  std::vector<StorageTemplate> storage_templates;
  std::vector<OpTemplate> op_templates;
  std::vector<Recipe> recipes;
  std::vector<Block> blocks;

  std::vector<Site> sites;
  std::vector<Storage> storages;
  std::vector<Op> ops;
  std::vector<Access> accesses;
  std::vector<Message> messages;  ///< in op order

  [[nodiscard]] std::span<const Access> accesses_of(OpId op) const;
  [[nodiscard]] const OpTemplate& template_of(OpId op) const { return op_templates[row(ops[row(op)].op_template)]; }
  [[nodiscard]] const StorageTemplate& template_of(StorageId storage) const {
    return storage_templates[row(storages[row(storage)].storage_template)];
  }
  [[nodiscard]] const Site& site_of(StorageId storage) const { return sites[row(storages[row(storage)].site)]; }
  [[nodiscard]] const Block& block_of(SiteId site) const { return blocks[row(sites[row(site)].block)]; }
  /// Position of a storage within its site.
  [[nodiscard]] std::int32_t local_of(StorageId storage) const {
    return static_cast<std::int32_t>(storage) - static_cast<std::int32_t>(site_of(storage).first_storage);
  }
  [[nodiscard]] StorageId storage_at(SiteId site, std::int32_t local) const {
    return static_cast<StorageId>(static_cast<std::int32_t>(sites[row(site)].first_storage) + local);
  }
  [[nodiscard]] std::span<const Recipe> recipes_of(BlockId block) const;
};

}  // namespace tidemark

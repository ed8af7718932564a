#pragma once
// Small literal graphs for tests: a builder that keeps the columns of a Graph consistent, a training step of a chain of
// layers (recipe, transient, several sites, optionally a collective on its own lane), and random graphs for property
// tests.
//
// Versions: version 0 of a storage is what it holds when the step begins; its n-th write makes version n.

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/graph.h"

namespace tidemark::testing {

class GraphBuilder {
 public:
  explicit GraphBuilder(std::int32_t rank = 0) { graph_.rank = rank; }

  BlockId block(std::string name, std::vector<StorageTemplate> storages, std::vector<Recipe> recipes = {}) {
    Block block{.name = std::move(name),
                .first_storage_template = id_of<StorageTemplateId>(graph_.storage_templates.size()),
                .storage_count = static_cast<std::int32_t>(storages.size()),
                .first_recipe = id_of<RecipeId>(graph_.recipes.size()),
                .recipe_count = static_cast<std::int32_t>(recipes.size())};
    for (StorageTemplate& storage : storages) graph_.storage_templates.push_back(std::move(storage));
    for (Recipe& recipe : recipes) graph_.recipes.push_back(std::move(recipe));
    graph_.blocks.push_back(std::move(block));
    return id_of<BlockId>(graph_.blocks.size() - 1);
  }

  OpTemplateId op_template(OpTemplate op) {
    graph_.op_templates.push_back(std::move(op));
    return id_of<OpTemplateId>(graph_.op_templates.size() - 1);
  }

  /// An op that takes `ns` on `lane`.
  OpTemplateId timed_op(std::string name, double ns, Lane lane = Lane::compute, OpPhase phase = OpPhase::forward) {
    return op_template({.name = std::move(name),
                        .lane = lane,
                        .phase = phase,
                        .cost = {.kind = WorkKind::given, .given = ns},
                        .collective = lane == Lane::intra_comm || lane == Lane::inter_comm});
  }

  /// An instance of a block; `where` gives chunk, layer, micro-batch and load.
  SiteId site(BlockId block, Site where = {}) {
    where.block = block;
    where.first_storage = id_of<StorageId>(graph_.storages.size());
    const Block& b = graph_.blocks[row(block)];
    const SiteId id = id_of<SiteId>(graph_.sites.size());
    for (std::int32_t local = 0; local < b.storage_count; ++local) {
      const auto storage_template =
          static_cast<StorageTemplateId>(static_cast<std::int32_t>(b.first_storage_template) + local);
      const StorageTemplate& t = graph_.storage_templates[row(storage_template)];
      graph_.storages.push_back({.storage_template = storage_template,
                                 .site = id,
                                 .expected_bytes = storage_bytes(t, 1.0),
                                 .bytes = storage_bytes(t, where.loads())});
    }
    graph_.sites.push_back(where);
    writes_.resize(graph_.storages.size(), 0);
    return id;
  }

  [[nodiscard]] StorageId at(SiteId site, std::int32_t local) const { return graph_.storage_at(site, local); }

  /// Appends an op; reads name the current version, writes make the next one.
  OpId run(OpTemplateId op, SiteId site, const std::vector<StorageId>& reads, const std::vector<StorageId>& writes) {
    graph_.ops.push_back(
        {.op_template = op, .site = site, .first_access = static_cast<std::int32_t>(graph_.accesses.size())});
    for (StorageId s : reads)
      graph_.accesses.push_back({.storage = s, .version = writes_[row(s)], .kind = AccessKind::read});
    for (StorageId s : writes) {
      graph_.accesses.push_back({.storage = s, .version = ++writes_[row(s)], .kind = AccessKind::write});
    }
    return id_of<OpId>(graph_.ops.size() - 1);
  }

  /// The op just appended sends to, or receives from, another rank.
  void message(std::int32_t peer_rank, std::int64_t tag, bool is_send, Bytes bytes = 0) {
    graph_.messages.push_back({.op = id_of<OpId>(graph_.ops.size() - 1),
                               .peer_rank = peer_rank,
                               .tag = tag,
                               .is_send = is_send,
                               .bytes = bytes});
  }

  [[nodiscard]] Graph finish() && { return std::move(graph_); }

 private:
  Graph graph_;
  std::vector<std::int32_t> writes_;  ///< per storage: versions made so far
};

/// Which pass runs next on the rank: forward or backward of one micro-batch.
struct TinyPass {
  bool forward = true;
  std::int32_t micro_batch = 0;
};

/// One rank's training step over a chain of equal layers.
///
///   per layer and micro-batch   forward   up: in -> tmp · key: tmp -> key · value: tmp -> value · out: key,value ->
///   next in
///                               backward  d_out: key,value,next grad -> grad_kv · d_in: in,grad_kv -> grad
///   per micro-batch             embed: -> in of layer 0 · loss: in of head -> grad of head
///   once                        optimizer: gradients -> parameters, state
///
/// `key` and `value` come back together by a recipe (up, key, value) with `tmp` as its transient.
struct ChainShape {
  std::int32_t layers = 3;
  std::int32_t micro_batches = 1;
  std::int32_t warm_up = 0;  ///< forward passes ahead of the first backward, less one; then one forward, one backward
  std::int32_t chunks = 1;   ///< layers are dealt to chunks in equal runs; passes still go through all of them
  Bytes in_bytes = 4096;
  Bytes key_bytes = 2048;
  Bytes value_bytes = 1024;
  Bytes temporary_bytes = 512;
  Bytes parameter_bytes = 8192;
  double op_ns = 1000;
  bool communication = false;  ///< `value` is gathered on the intra-node lane, so its recipe is a collective
  bool swappable = true;
};

/// Local storages of a layer site of chain_graph.
enum ChainLocal : std::int32_t {
  kChainIn = 0,
  kChainKey = 1,
  kChainValue = 2,
  kChainTmp = 3,
  kChainGradKv = 4,
  kChainGrad = 5
};

[[nodiscard]] inline std::vector<TinyPass> tiny_passes(std::int32_t micro_batches, std::int32_t warm_up) {
  std::vector<TinyPass> passes;
  const std::int32_t ahead = std::min(warm_up, micro_batches);
  for (std::int32_t i = 0; i < ahead; ++i) passes.push_back({true, i});
  for (std::int32_t i = 0; i < micro_batches; ++i) {
    if (i + ahead < micro_batches) passes.push_back({true, i + ahead});
    passes.push_back({false, i});
  }
  return passes;
}

class ChainBuilder {
 public:
  explicit ChainBuilder(const ChainShape& shape) : shape_(shape) {
    add_op_templates();
    add_blocks();
    add_sites();
  }

  [[nodiscard]] Graph build() && {
    for (const TinyPass& pass : tiny_passes(shape_.micro_batches, shape_.warm_up)) {
      if (pass.forward) {
        forward(pass.micro_batch);
      } else {
        backward(pass.micro_batch);
      }
    }
    b_.run(optimizer_, statics_, {b_.at(statics_, 1)}, {b_.at(statics_, 0), b_.at(statics_, 2)});
    return std::move(b_).finish();
  }

 private:
  void add_op_templates() {
    const double ns = shape_.op_ns;
    embed_ = b_.timed_op("embed", ns);
    up_ = b_.timed_op("attention.up", ns);
    key_ = b_.timed_op("attention.key", ns);
    value_ = b_.timed_op("attention.value", ns, shape_.communication ? Lane::intra_comm : Lane::compute);
    out_ = b_.timed_op("attention.out", ns);
    loss_ = b_.timed_op("head.loss", ns);
    d_out_ = b_.timed_op("attention.d_out", ns, Lane::compute, OpPhase::backward);
    d_in_ = b_.timed_op("attention.d_in", ns, Lane::compute, OpPhase::backward);
    optimizer_ = b_.timed_op("optimizer", ns, Lane::compute, OpPhase::optimizer);
  }

  void add_blocks() {
    const auto activation = [&](std::string name, Bytes bytes, bool saved) {
      return StorageTemplate{.name = std::move(name),
                             .module_path = "attention",
                             .role = saved ? StorageRole::activation : StorageRole::temporary,
                             .fixed_bytes = bytes,
                             .saved_for_backward = saved,
                             .swappable = saved && shape_.swappable};
    };
    const Recipe recipe{.name = "key_value",
                        .outputs = {kChainKey, kChainValue},
                        .sources = {kChainIn},
                        .transients = {kChainTmp},
                        .steps = {{.op = up_, .reads = {kChainIn}, .writes = {kChainTmp}},
                                  {.op = key_, .reads = {kChainTmp}, .writes = {kChainKey}},
                                  {.op = value_, .reads = {kChainTmp}, .writes = {kChainValue}}},
                        .collective = shape_.communication};
    layer_ = b_.block("layer",
                      {activation("in", shape_.in_bytes, true), activation("key", shape_.key_bytes, true),
                       activation("value", shape_.value_bytes, true), activation("tmp", shape_.temporary_bytes, false),
                       activation("grad_kv", shape_.key_bytes + shape_.value_bytes, false),
                       activation("grad", shape_.in_bytes, false)},
                      {recipe});
    head_ = b_.block("head", {activation("in", shape_.in_bytes, true), activation("grad", shape_.in_bytes, false)});
    const auto fixed = [&](std::string name, StorageRole role, Bytes bytes) {
      return StorageTemplate{.name = std::move(name),
                             .module_path = "model",
                             .role = role,
                             .fixed_bytes = bytes,
                             .swappable = false,
                             .initial = true,
                             .lasting = true};
    };
    static_block_ = b_.block("statics", {fixed("parameters", StorageRole::parameter, shape_.parameter_bytes),
                                         fixed("gradients", StorageRole::gradient, 2 * shape_.parameter_bytes),
                                         fixed("moments", StorageRole::optimizer_state, 4 * shape_.parameter_bytes)});
  }

  void add_sites() {
    statics_ = b_.site(static_block_);
    for (std::int32_t mb = 0; mb < shape_.micro_batches; ++mb) {
      for (std::int32_t layer = 0; layer < shape_.layers; ++layer) {
        sites_.push_back(
            b_.site(layer_, {.chunk = layer * shape_.chunks / shape_.layers, .layer = layer, .micro_batch = mb}));
      }
      sites_.push_back(b_.site(head_, {.chunk = shape_.chunks - 1, .micro_batch = mb}));
    }
  }

  /// Site of a layer; layer == layers: the head.
  [[nodiscard]] SiteId at(std::int32_t mb, std::int32_t layer) const {
    return sites_[static_cast<std::size_t>(mb * (shape_.layers + 1) + layer)];
  }
  [[nodiscard]] StorageId grad_of(std::int32_t mb, std::int32_t layer) const {
    return b_.at(at(mb, layer), layer == shape_.layers ? 1 : kChainGrad);
  }

  void forward(std::int32_t mb) {
    const StorageId weights = b_.at(statics_, 0);
    b_.run(embed_, at(mb, 0), {weights}, {b_.at(at(mb, 0), kChainIn)});
    for (std::int32_t layer = 0; layer < shape_.layers; ++layer) {
      const SiteId site = at(mb, layer);
      const auto local = [&](std::int32_t n) { return b_.at(site, n); };
      b_.run(up_, site, {local(kChainIn), weights}, {local(kChainTmp)});
      b_.run(value_, site, {local(kChainTmp)}, {local(kChainValue)});
      b_.run(key_, site, {local(kChainTmp)}, {local(kChainKey)});
      b_.run(out_, site, {local(kChainKey), local(kChainValue)}, {b_.at(at(mb, layer + 1), 0)});
    }
  }

  void backward(std::int32_t mb) {
    const StorageId gradients = b_.at(statics_, 1);
    b_.run(loss_, at(mb, shape_.layers), {b_.at(at(mb, shape_.layers), 0)}, {grad_of(mb, shape_.layers)});
    for (std::int32_t layer = shape_.layers - 1; layer >= 0; --layer) {
      const SiteId site = at(mb, layer);
      const auto local = [&](std::int32_t n) { return b_.at(site, n); };
      b_.run(d_out_, site, {local(kChainKey), local(kChainValue), grad_of(mb, layer + 1)}, {local(kChainGradKv)});
      b_.run(d_in_, site, {local(kChainIn), local(kChainGradKv), gradients}, {local(kChainGrad), gradients});
    }
  }

  ChainShape shape_;
  GraphBuilder b_;
  OpTemplateId embed_{}, up_{}, key_{}, value_{}, out_{}, loss_{}, d_out_{}, d_in_{}, optimizer_{};
  BlockId layer_{}, head_{}, static_block_{};
  SiteId statics_{};
  std::vector<SiteId> sites_;
};

[[nodiscard]] inline Graph chain_graph(const ChainShape& shape = {}) {
  return ChainBuilder(shape).build();
}

struct RandomShape {
  std::uint32_t seed = 1;
  std::int32_t ops = 60;
  std::int32_t storages = 25;
  std::int32_t lanes = 3;  ///< compute, intra_comm, inter_comm, send in this order; at most 4
  std::int32_t max_accesses = 4;
};

/// One block, one site; sizes, roles, lanes and accesses at random. A storage outside the static roles is written
/// before it is read. Same seed, same graph on every platform (only mt19937 output is used).
[[nodiscard]] inline Graph random_graph(const RandomShape& shape) {
  std::mt19937 random(shape.seed);
  const auto below = [&](std::int32_t n) {
    return static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(n));
  };
  GraphBuilder b;
  std::vector<StorageTemplate> storages;
  for (std::int32_t i = 0; i < shape.storages; ++i) {
    const bool fixed = below(8) == 0;
    storages.push_back({.name = "s" + std::to_string(i),
                        .role = fixed ? static_cast<StorageRole>(below(3)) : StorageRole::activation,
                        .fixed_bytes = 1 + below(1000),
                        .swappable = !fixed && below(2) == 0,
                        .initial = fixed,
                        .lasting = fixed});
  }
  std::vector<bool> written;
  for (const StorageTemplate& s : storages) written.push_back(s.role < StorageRole::activation);
  std::vector<OpTemplateId> ops;
  for (std::int32_t lane = 0; lane < shape.lanes; ++lane) {
    ops.push_back(b.timed_op("op" + std::to_string(lane), 10 * (lane + 1), static_cast<Lane>(lane)));
  }
  const SiteId site = b.site(b.block("random", std::move(storages)));
  for (std::int32_t i = 0; i < shape.ops; ++i) {
    std::vector<StorageId> reads, writes;
    const std::int32_t count = below(shape.max_accesses + 1);
    for (std::int32_t k = 0; k < count; ++k) {
      const std::int32_t s = below(shape.storages);
      const auto slot = static_cast<std::size_t>(s);
      std::vector<StorageId>& list = written[slot] && below(2) == 0 ? reads : writes;
      if (std::find(list.begin(), list.end(), b.at(site, s)) == list.end()) list.push_back(b.at(site, s));
    }
    for (StorageId s : writes) written[row(s)] = true;
    b.run(ops[static_cast<std::size_t>(below(shape.lanes))], site, reads, writes);
  }
  return std::move(b).finish();
}

}  // namespace tidemark::testing

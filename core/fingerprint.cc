#include "core/fingerprint.h"

#include <bit>
#include <concepts>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark {
namespace {

// Multiply and fold, one 64-bit word at a time; a final mix spreads the last words.
class Mixer {
 public:
  template <class Value>
  requires std::integral<Value> || std::is_enum_v<Value>
  void add(Value value) { word(static_cast<std::uint64_t>(value)); }
  void add(double value) { word(std::bit_cast<std::uint64_t>(value == 0 ? 0.0 : value)); }  // -0 is 0
  void add(float value) { add(static_cast<double>(value)); }
  void add(std::string_view text) {
    add(text.size());
    for (const char c : text) add(static_cast<unsigned char>(c));
  }
  void add(const std::string& text) { add(std::string_view(text)); }
  void add(const Link& link) { all(link.bytes_per_s, link.latency_ns); }
  void add(const MatmulTile& t) { all(t.rows, t.columns, t.relative_rate); }
  void add(const Chip& a) {
    const DeviceSheet& s = a.sheet;
    for (const double flops : s.flops_per_s) add(flops);
    all(s.memory_bytes_per_s, s.cores, s.tiles, s.intra_bytes_per_s, s.inter_bytes_per_s, s.host_bytes_per_s,
        s.devices_per_node, s.is_hopper_or_later);
    const FittedRates& r = a.rates;
    all(r.matmul, r.tile_start, r.memory, r.launch_s, r.intra_link, r.inter_link, r.hop_s, r.attention,
        r.grouped_matmul, r.fp8, a.measured.bits(), a.bands.dense_percent, a.bands.experts_percent);
  }
  void add(const ProductShape& s) { all(s.rows, s.inner, s.columns, s.count, s.precision, s.has_inner_tokens); }
  void add(const AttentionShape& s) { all(s.tokens, s.length, s.heads, s.qk_dim, s.v_dim, s.is_backward); }
  void add(const GroupShape& s) { all(s.ranks, s.per_node, s.pattern); }
  void add(const OpCost& c) {
    all(c.kind, c.flops, c.memory_bytes, c.link_bytes, c.given, c.product, c.attention, c.group);
    if (c.launches != 0) add(c.launches);
  }
  void add(const GivenCosts& c) { all(c.unit, c.quantum); }
  void add(const GivenCopies& c) { all(c.out.link, c.out.compute, c.in.link, c.in.compute); }
  void add(const OpTemplate& t) {
    all(t.name, t.lane, t.phase, t.cost, t.routed, t.collective);
    if (!t.told) add(t.told);
    if (t.ends_rows) add(t.ends_rows);
  }
  void add(const TensorView& v) { all(v.name, v.offset_bytes, v.shape, v.element_bytes); }
  void add(const StorageTemplate& t) {
    all(t.name, t.module_path, t.role, t.fixed_bytes, t.routed_rows, t.routed_row_bytes, t.saved_for_backward,
        t.swappable, t.initial, t.lasting, t.given_copies.has_value(), t.given_copies.value_or(GivenCopies{}),
        t.tensors);
    if (t.rows_of != RowsOf::received) add(t.rows_of);
  }
  void add(const Recipe::Step& s) { all(s.op, s.reads, s.writes); }
  void add(const Recipe& r) {
    all(r.name, r.outputs, r.sources, r.transients, r.steps, r.pure, r.needs_random_state, r.replays_routing,
        r.collective);
  }
  void add(const Block& b) {
    all(b.name, b.first_storage_template, b.storage_count, b.first_recipe, b.recipe_count);
    if (b.op_template_count != 0) all(b.first_op_template, b.op_template_count);
  }
  void add(const Site& s) {
    all(s.block, s.chunk, s.layer, s.micro_batch, s.load, s.first_storage);
    if (s.sent_load != 1) add(s.sent_load);
    if (s.fullest_load != s.load) add(s.fullest_load);
  }
  void add(const Storage& s) { all(s.storage_template, s.site, s.expected_bytes, s.bytes, s.held_until); }
  void add(const Op& o) { all(o.op_template, o.site, o.first_access); }
  void add(const Access& a) { all(a.storage, a.version, a.kind); }
  void add(const Task& t) { all(t.kind, t.lane, t.op_template, t.site, t.op, t.storage, t.first_wait, t.first_touch); }
  void add(const Residency& r) {
    all(r.storage, r.space, r.bytes, r.first_task, r.last_task, r.acquire, r.release, r.full_before, r.full_behind);
  }
  void add(const Schedule::Touch& t) { all(t.residency, t.kind); }
  void add(const Message& m) { all(m.op, m.peer_rank, m.tag, m.is_send, m.bytes); }
  template <class Value>
  void add(const std::vector<Value>& values) {
    add(values.size());
    for (const Value& value : values) add(value);
  }

  template <class... Values>
  void all(const Values&... values) {
    (add(values), ...);
  }

  [[nodiscard]] std::uint64_t finish() const {
    std::uint64_t h = state_;
    for (const int shift : {32, 29, 31}) h = (h ^ (h >> shift)) * 0x9E3779B97F4A7C15ULL;
    return h ^ (h >> 32);
  }

 private:
  void word(std::uint64_t value) { state_ = std::rotl((state_ ^ value) * 0xD6E8FEB86659FD93ULL, 27); }
  std::uint64_t state_ = 0x7469646D61726BULL;
};

}  // namespace

std::uint64_t fingerprint(const Graph& g) {
  Mixer mixer;
  mixer.all(g.rank, g.given_costs, g.storage_templates, g.op_templates, g.recipes, g.blocks, g.sites, g.storages, g.ops,
            g.accesses, g.messages);
  return mixer.finish();
}

std::uint64_t fingerprint(const Schedule& s) {
  Mixer mixer;
  mixer.all(s.rank, s.tasks, s.waits, s.touches, s.residencies, s.compute_tasks);
  return mixer.finish();
}

std::uint64_t fingerprint(const Machine& m) {
  Mixer mixer;
  mixer.all(m.visible_bytes, m.context_bytes, m.workspace_bytes, m.collective_buffer_bytes, m.alignment_bytes, m.chip,
            m.copy_launch_ns, m.softmax_statistics_width, m.d2h, m.h2d, m.host_bytes_per_device, m.host_bytes_per_node);
  return mixer.finish();
}

}  // namespace tidemark

#include "core/fingerprint.h"

#include <bit>
#include <string_view>
#include <type_traits>

namespace tidemark {
namespace {

/// Multiply-and-fold over 64-bit words (constants: the 64-bit golden ratio and the SplitMix64 finaliser, Steele et al.
/// 2014).
class Fingerprint {
 public:
  template <class T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>) void add(T value) {
    state_ = (state_ ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15ULL;
    state_ ^= state_ >> 29;
  }
  void add(double value) { add(std::bit_cast<std::uint64_t>(value)); }
  void add(float value) { add(static_cast<double>(value)); }
  void add(std::string_view text) {
    add(text.size());
    for (const char c : text) add(static_cast<unsigned char>(c));
  }
  void add(const Link& link) {
    add(link.bytes_per_s);
    add(link.latency_ns);
  }
  template <class T>
  void add_each(const std::vector<T>& values) {
    add(values.size());
    for (const T& value : values) add(value);
  }
  [[nodiscard]] std::uint64_t value() const {
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_ = 0x243f6a8885a308d3ULL;
};

void add_templates(Fingerprint& f, const Graph& graph) {
  for (const StorageTemplate& s : graph.storage_templates) {
    f.add(std::string_view(s.name));
    f.add(std::string_view(s.module_path));
    f.add(s.role);
    f.add(s.fixed_bytes);
    f.add(s.routed_rows);
    f.add(s.routed_row_bytes);
    f.add(s.saved_for_backward);
    f.add(s.swappable);
  }
  for (const OpTemplate& o : graph.op_templates) {
    f.add(std::string_view(o.name));
    f.add(o.lane);
    f.add(o.phase);
    f.add(o.cost.kind);
    f.add(o.cost.flops);
    f.add(o.cost.memory_bytes);
    f.add(o.cost.link_bytes);
    f.add(o.cost.given);
    f.add(o.cost.given_unit);
    f.add(o.routed);
    f.add(o.collective);
  }
  for (const Recipe& r : graph.recipes) {
    f.add(std::string_view(r.name));
    f.add_each(r.outputs);
    f.add_each(r.sources);
    f.add_each(r.transients);
    for (const Recipe::Step& step : r.steps) {
      f.add(step.op);
      f.add_each(step.reads);
      f.add_each(step.writes);
    }
    f.add(r.pure);
    f.add(r.needs_random_state);
    f.add(r.replays_routing);
    f.add(r.collective);
  }
  for (const Block& b : graph.blocks) {
    f.add(std::string_view(b.name));
    f.add(b.first_storage_template);
    f.add(b.storage_count);
    f.add(b.first_recipe);
    f.add(b.recipe_count);
  }
}

}  // namespace

std::uint64_t fingerprint(const Graph& graph) {
  Fingerprint f;
  f.add(graph.rank);
  add_templates(f, graph);
  for (const Site& s : graph.sites) {
    f.add(s.block);
    f.add(s.chunk);
    f.add(s.layer);
    f.add(s.micro_batch);
    f.add(s.load);
    f.add(s.first_storage);
  }
  for (const Storage& s : graph.storages) {
    f.add(s.storage_template);
    f.add(s.site);
    f.add(s.expected_bytes);
    f.add(s.bytes);
  }
  for (const Op& o : graph.ops) {
    f.add(o.op_template);
    f.add(o.site);
    f.add(o.first_access);
  }
  for (const Access& a : graph.accesses) {
    f.add(a.storage);
    f.add(a.version);
    f.add(a.kind);
  }
  for (const Message& m : graph.messages) {
    f.add(m.op);
    f.add(m.peer_rank);
    f.add(m.tag);
    f.add(m.is_send);
    f.add(m.bytes);
  }
  return f.value();
}

std::uint64_t fingerprint(const Machine& m) {
  Fingerprint f;
  f.add(std::string_view(m.name));
  for (const Bytes bytes : {m.visible_bytes, m.context_bytes, m.workspace_bytes, m.collective_buffer_bytes,
                            m.alignment_bytes, m.host_bytes_per_device, m.host_bytes_per_node})
    f.add(bytes);
  for (const double rate :
       {m.peak_flops_per_s, m.matmul_efficiency, m.grouped_matmul_efficiency, m.attention_efficiency,
        m.memory_bytes_per_s, m.vector_efficiency, m.launch_ns, m.copy_launch_ns})
    f.add(rate);
  f.add(m.softmax_statistics_width);
  for (const Link& link : {m.d2h, m.h2d, m.intra_node, m.inter_node}) f.add(link);
  f.add(m.devices_per_node);
  return f.value();
}

}  // namespace tidemark

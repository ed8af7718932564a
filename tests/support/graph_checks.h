#pragma once
// Rules every Graph obeys, checked the plain way. Each returns the first broken rule in words, or an empty string.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/graph.h"

namespace tidemark::testing {

[[nodiscard]] inline bool lives_all_step(StorageRole role) {
  return role == StorageRole::parameter || role == StorageRole::gradient || role == StorageRole::optimizer_state;
}

/// "op 12 moe.fc1 (chunk 0, layer 3, micro-batch 5)"
[[nodiscard]] inline std::string describe(const Graph& graph, std::size_t op) {
  const Site& site = graph.sites[row(graph.ops[op].site)];
  return fmt::format("op {} {} (chunk {}, layer {}, micro-batch {})", op, graph.template_of(id_of<OpId>(op)).name,
                     site.chunk, site.layer, site.micro_batch);
}

/// Sites, storages and templates refer to one another as graph.h says.
[[nodiscard]] inline std::string check_shape(const Graph& graph) {
  std::int32_t next_storage = 0;
  for (std::size_t s = 0; s < graph.sites.size(); ++s) {
    const Site& site = graph.sites[s];
    const Block& block = graph.blocks[row(site.block)];
    if (static_cast<std::int32_t>(site.first_storage) != next_storage) return fmt::format("site {} leaves a hole", s);
    for (std::int32_t local = 0; local < block.storage_count; ++local) {
      const Storage& storage = graph.storages[static_cast<std::size_t>(next_storage++)];
      const auto expected = static_cast<std::int32_t>(block.first_storage_template) + local;
      if (static_cast<std::int32_t>(storage.storage_template) != expected) return fmt::format("site {} template", s);
      if (row(storage.site) != s) return fmt::format("a storage of site {} names another site", s);
      const StorageTemplate& t = graph.storage_templates[row(storage.storage_template)];
      if (storage.bytes != storage_bytes(t, site.loads()) || storage.expected_bytes != storage_bytes(t, 1.0)) {
        return fmt::format("{} of site {} has the wrong size", t.name, s);
      }
    }
  }
  if (static_cast<std::size_t>(next_storage) != graph.storages.size()) return "storages outside every site";
  return {};
}

/// Version 0 is what a storage holds when the step begins, its n-th write makes version n; a read names a version that
/// exists, the newest one, and only static storages hold something before their first write.
[[nodiscard]] inline std::string check_versions(const Graph& graph) {
  std::vector<std::int32_t> version(graph.storages.size(), 0);
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    const auto accesses = graph.accesses_of(id_of<OpId>(op));
    for (const Access& access : accesses) {
      if (static_cast<std::size_t>(access.storage) >= graph.storages.size())
        return describe(graph, op) + ": no storage";
      const StorageTemplate& t = graph.template_of(access.storage);
      std::int32_t& current = version[row(access.storage)];
      if (access.kind == AccessKind::write) {
        if (access.version != ++current) return describe(graph, op) + " skips a version of " + t.name;
      } else if (access.version != current || (current == 0 && !lives_all_step(t.role))) {
        return describe(graph, op) +
               fmt::format(" reads version {} of {}, which is at {}", access.version, t.name, current);
      }
    }
    const auto is_write = [](const Access& access) { return access.kind == AccessKind::write; };
    if (std::ranges::is_partitioned(accesses, [&](const Access& a) { return !is_write(a); })) continue;
    return describe(graph, op) + " lists a read after a write";
  }
  return {};
}

/// A storage that an op writes is read later, unless it is static, scratch of one op, or the end of a chain.
[[nodiscard]] inline std::string check_nothing_is_idle(const Graph& graph) {
  std::vector<std::int32_t> reads(graph.storages.size(), 0), writes(graph.storages.size(), 0);
  for (const Access& access : graph.accesses) {
    ++(access.kind == AccessKind::read ? reads : writes)[row(access.storage)];
  }
  for (std::size_t s = 0; s < graph.storages.size(); ++s) {
    const StorageTemplate& t = graph.template_of(id_of<StorageId>(s));
    if (lives_all_step(t.role) || t.name == "update_scratch") continue;
    if (writes[s] == 0) return fmt::format("{} (storage {}) is never written", t.name, s);
    if (reads[s] == 0) return fmt::format("{} (storage {}) is never read", t.name, s);
  }
  return {};
}

/// All sites of one block run the same op templates in the same order, forward and backward.
[[nodiscard]] inline std::string check_site_order(const Graph& graph) {
  std::vector<std::vector<OpTemplateId>> order(graph.sites.size());
  for (const Op& op : graph.ops) {
    const OpPhase phase = graph.op_templates[row(op.op_template)].phase;
    if (phase == OpPhase::receive) continue;  // not every layer is the first of its chunk
    order[row(op.site)].push_back(op.op_template);
  }
  std::map<BlockId, std::size_t> first_site;
  for (std::size_t s = 0; s < graph.sites.size(); ++s) {
    const auto [entry, is_new] = first_site.try_emplace(graph.sites[s].block, s);
    if (!is_new && order[s] != order[entry->second]) {
      return fmt::format("site {} of block {} runs in another order", s, graph.blocks[row(graph.sites[s].block)].name);
    }
  }
  return {};
}

/// Op and storage names are unique within a block, so that reports and diffs can name them; a storage of one part of
/// the exchange goes by its module's part as well.
[[nodiscard]] inline std::string check_names(const Graph& graph) {
  std::map<BlockId, std::map<std::string, OpTemplateId>> ops;
  for (const Op& op : graph.ops) {
    const std::string& name = graph.op_templates[row(op.op_template)].name;
    const auto [entry, is_new] = ops[graph.sites[row(op.site)].block].try_emplace(name, op.op_template);
    if (!is_new && entry->second != op.op_template) return "two ops are called " + name;
  }
  for (const Block& block : graph.blocks) {
    std::vector<std::string> names;
    for (std::int32_t local = 0; local < block.storage_count; ++local) {
      const auto t = row(block.first_storage_template) + static_cast<std::size_t>(local);
      const StorageTemplate& storage = graph.storage_templates[t];
      const auto part = std::min(storage.module_path.find(".part"), storage.module_path.size());
      names.push_back(storage.name + storage.module_path.substr(part));
    }
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice != names.end()) return "two storages of " + block.name + " are called " + *twice;
  }
  return {};
}

/// A recipe step reads only sources, earlier outputs and transients; every output and transient is written; sources are
/// not outputs; one storage has one recipe; flags say what the steps do.
[[nodiscard]] inline std::string check_recipe(const Graph& graph, const Block& block, const Recipe& recipe) {
  const auto has = [](const std::vector<std::int32_t>& list, std::int32_t local) {
    return std::ranges::find(list, local) != list.end();
  };
  const auto name_of = [&](std::int32_t local) {
    return graph.storage_templates[row(block.first_storage_template) + static_cast<std::size_t>(local)].name;
  };
  const std::string where = block.name + "." + recipe.name + ": ";
  if (recipe.steps.empty() || recipe.outputs.empty()) return where + "empty";
  std::vector<std::int32_t> known = recipe.sources;
  bool collective = false;
  for (const Recipe::Step& step : recipe.steps) {
    for (const std::int32_t local : step.reads) {
      if (!has(known, local)) return where + "reads " + name_of(local) + " before anything restores it";
    }
    for (const std::int32_t local : step.writes) {
      if (has(recipe.sources, local)) return where + "writes its source " + name_of(local);
      if (!has(recipe.outputs, local) && !has(recipe.transients, local)) return where + "loses " + name_of(local);
      known.push_back(local);
    }
    const OpTemplate& op = graph.op_templates[row(step.op)];
    if (op.phase != OpPhase::forward) return where + op.name + " is not a forward op";
    collective = collective || op.collective;
  }
  for (const auto* list : {&recipe.outputs, &recipe.transients}) {
    for (const std::int32_t local : *list) {
      if (local < 0 || local >= block.storage_count) return where + "a storage outside the block";
      if (has(recipe.sources, local) || !has(known, local)) return where + "does not write " + name_of(local);
    }
  }
  if (collective != recipe.collective) return where + "hides its communication";
  return {};
}

[[nodiscard]] inline std::string check_recipes(const Graph& graph) {
  for (std::size_t b = 0; b < graph.blocks.size(); ++b) {
    const Block& block = graph.blocks[b];
    std::vector<std::int32_t> restored;
    for (const Recipe& recipe : graph.recipes_of(id_of<BlockId>(b))) {
      if (std::string problem = check_recipe(graph, block, recipe); !problem.empty()) return problem;
      restored.insert(restored.end(), recipe.outputs.begin(), recipe.outputs.end());
    }
    std::ranges::sort(restored);
    if (std::ranges::adjacent_find(restored) != restored.end()) return block.name + ": two recipes for one storage";
  }
  return {};
}

/// Every send on one rank has its receive on the peer: same tag, same size, each tag once in each direction.
[[nodiscard]] inline std::string check_messages(const std::vector<Graph>& ranks) {
  using Key = std::tuple<std::int32_t, std::int32_t, std::int64_t>;  // from, to, tag
  std::map<Key, std::array<Bytes, 2>> seen;
  for (const Graph& graph : ranks) {
    for (const Message& message : graph.messages) {
      const OpPhase phase = graph.template_of(message.op).phase;
      if (phase != (message.is_send ? OpPhase::send : OpPhase::receive)) return "a message on an op that is none";
      if (message.bytes <= 0) return "an empty message";
      const Key key = message.is_send ? Key{graph.rank, message.peer_rank, message.tag}
                                      : Key{message.peer_rank, graph.rank, message.tag};
      Bytes& bytes = seen[key][message.is_send ? 1 : 0];
      if (bytes != 0) return fmt::format("tag {} is used twice", message.tag);
      bytes = message.bytes;
    }
  }
  for (const auto& [key, bytes] : seen) {
    if (bytes[0] == bytes[1]) continue;
    return fmt::format("rank {} to {}, tag {}: {} bytes sent, {} received", std::get<0>(key), std::get<1>(key),
                       std::get<2>(key), bytes[1], bytes[0]);
  }
  return {};
}

/// All single-graph rules.
[[nodiscard]] inline std::string check_graph(const Graph& graph) {
  for (const auto check :
       {check_shape, check_versions, check_nothing_is_idle, check_site_order, check_names, check_recipes}) {
    if (std::string problem = check(graph); !problem.empty()) return problem;
  }
  return {};
}

}  // namespace tidemark::testing
